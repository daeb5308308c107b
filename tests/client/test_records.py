"""`tidelog produce` and `consume` by our own client. As programs, and by librdkafka: tests/compat/test_cli.py."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from support.patience import PATIENCE_S, until
from tidelog.cli.main import main
from tidelog.config.page import pointer
from tidelog.testing import Broker


class Done(NamedTuple):
    code: int
    out: bytes
    err: str

    @property
    def rows(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Done]


@pytest.fixture
def run(tidelog_broker: Broker, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    monkeypatch.setenv("TIDELOG_LISTENERS", f"PLAINTEXT://{tidelog_broker.bootstrap_servers}")
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)  # a plain install

    def call(*arguments: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main(arguments)
        out, err = capsysbinary.readouterr()
        return Done(code, out, err.decode())

    return call


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_go_in_and_come_out(tidelog_broker: Broker, run: Run, codec: str) -> None:
    tidelog_broker.create_topic("orders", 1)
    lines = b"".join(b"%d %s\n" % (number, b"." * (number % 50)) for number in range(20_000))
    done = run("produce", "orders", "--compression", codec, "--json", stdin=lines)
    assert (done.code, done.err) == (0, "")
    assert done.rows == [{"topic": "orders", "records": 20_000, "bytes": len(lines), "failed": 0}]
    assert run("consume", "orders", "--from-beginning", "--max-messages", "20000") == Done(0, lines, "")
    assert run("consume", "orders", "--from-beginning", "--until-end").out == lines
    assert run("consume", "orders", "--until-end") == Done(0, b"", "tidelog: orders has no records there\n")


def test_keys_go_where_kafkas_clients_put_them(tidelog_broker: Broker, run: Run) -> None:
    """Java's producer, asked for partitions of these keys: murmur2, and nothing else keeps a compacted topic whole."""
    tidelog_broker.create_topic("accounts", 3)
    lines = b"".join(b"key-%d:%d\n" % (number % 50, number) for number in range(500))
    assert run("produce", "accounts", "--key-separator", ":", stdin=lines).code == 0
    rows = run("consume", "accounts", "--from-beginning", "--until-end", "--output", "json").rows
    assert sorted((row["key"], row["value"]) for row in rows) == sorted(
        tuple(line.decode().split(":")) for line in lines.splitlines()
    )
    from aiokafka.partitioner import DefaultPartitioner

    partitioner = DefaultPartitioner()
    assert {row["partition"] for row in rows} == {0, 1, 2}
    for row in rows:
        assert row["partition"] == partitioner(row["key"].encode(), [0, 1, 2], [0, 1, 2])
    for partition in range(3):
        numbers = [int(row["value"]) for row in rows if row["partition"] == partition]
        assert numbers == sorted(numbers), "in the order of the input"


def test_what_is_printed_as_json_goes_in_again(tidelog_broker: Broker, run: Run) -> None:
    tidelog_broker.create_topic("a", 3)
    tidelog_broker.create_topic("b", 3)
    given = [
        {"key": "k", "value": "é", "headers": [["h", "1"], ["h", None]], "partition": 2, "timestamp": 5000},
        {"key": {"base64": "/w=="}, "value": None, "headers": [], "partition": 0, "timestamp": 6000},
        {"key": None, "value": "", "headers": [["x", {"base64": "gA=="}]], "partition": 2, "timestamp": 7000},
    ]
    lines = "".join(json.dumps(record) + "\n" for record in given).encode()
    assert run("produce", "a", "--input", "json", stdin=lines).code == 0
    first = run("consume", "a", "--from-beginning", "--until-end", "--json")
    assert sorted(first.rows, key=lambda row: row["timestamp"]) == [
        {"partition": 2, "offset": 0, **given[0]},
        {"partition": 0, "offset": 0, **given[1]},
        {"partition": 2, "offset": 1, **given[2]},
    ]
    assert run("produce", "b", "--input", "json", "--header", "copied=yes", stdin=first.out).code == 0
    again = run("consume", "b", "--from-beginning", "--until-end", "--json").rows
    for row in again:
        assert row["headers"].pop() == ["copied", "yes"]
    assert sorted(again, key=str) == sorted(first.rows, key=str)


def test_reading_begins_where_it_is_told_to(tidelog_broker: Broker, run: Run) -> None:
    tidelog_broker.create_topic("t", 2)
    records = [{"value": str(n), "partition": n % 2, "timestamp": 1_700_000_000_000 + 1000 * n} for n in range(20)]
    assert run("produce", "t", "--input", "json", stdin="\n".join(map(json.dumps, records)).encode()).code == 0

    def values(*options: str) -> list[int]:
        done = run("consume", "t", *options, "--until-end")
        assert done.code == 0, done.err
        return sorted(int(line) for line in done.out.split())

    assert values("--from-beginning", "--partition", "1") == list(range(1, 20, 2))
    assert values("--from-beginning", "--partition", "1", "--partition", "0") == list(range(20))
    assert values("--offset", "8", "--partition", "0") == [16, 18]
    assert values("--offset=-2") == [16, 17, 18, 19]
    assert values("--offset=-99") == list(range(20))
    assert values("--from-time", "1700000017000") == [17, 18, 19]
    assert values("--from-time", "2023-11-14T22:13:37") == [17, 18, 19]
    assert values("--from-time", "2100-01-01") == []
    assert run("consume", "t:1", "--offset", "3", "--max-messages", "2").out == b"7\n9\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("consume", "ordres"), "topic ordres: there is no such topic or partition here; did you mean orders?"),
        (("produce", "ordres"), "did you mean orders? If not: `tidelog topics create ordres` makes it"),
        (("consume", "orders:7"), "there is no partition orders-7; the topic has 0 to 1"),
        (("consume", "orders", "--partition=-1"), "there is no partition orders--1; the topic has 0 to 1"),
        (("produce", "orders", "--partition", "2"), "there is no partition orders-2; the topic has 0 to 1"),
        (("produce", "orders", "--partition=-3"), "--partition is 0 or more, not -3"),
        (("consume", "orders:0", "--partition", "1"), "by --partition or by orders:0, not by both"),
        (("consume", "orders", "--offset", "0"), "--offset 0 is of one partition: say which with --partition N"),
        (("consume", "orders:0", "--offset", "5"), "orders-0 has no offset 5: it is empty, and the next is 0"),
        (("consume", "orders", "--from-time", "noon"), "'noon' is no time"),
        (("consume", "orders", "--max-messages", "0"), "--max-messages is at least 1, not 0"),
        (("consume", "orders", "--key-separator", ""), "--key-separator is empty"),
        (("consume", "orders:0", "--group", "g"), "--group shares out whole topics: name the topic without partitions"),
        (("consume", "orders", "--group", "g", "--offset=-1"), "a group begins where it has committed: `tidelog groups reset`"),
        (("consume", "orders", "--client", "librdkafka"), "--client librdkafka needs librdkafka, which is not installed"),
        (("produce", "orders", "--property", "a=b"), "--property needs librdkafka, which is not installed"),
        (("produce", "orders", "--client", "own", "--property", "a=b"), "--property needs librdkafka: leave out --client own"),
        (("produce", "orders", "--input", "json", "--key-separator", ":"), "leave out --key-separator and --null-value"),
        (("produce", "orders", "--header", "x"), "--header takes NAME=VALUE, not 'x'"),
        (("produce", "orders", "--bootstrap-server", "127.0.0.1:1"), "no daemon answers at 127.0.0.1:1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(tidelog_broker: Broker, run: Run, arguments: tuple[str, ...], said: str) -> None:
    tidelog_broker.create_topic("orders", 2)
    done = run(*arguments, stdin=b"1\n")
    assert (done.code, done.out, done.err.count("\n")) == (1, b"", 1), done.err
    assert said in done.err


@pytest.mark.parametrize(
    ("config", "lines", "said", "written"),
    [
        (
            {"cleanup.policy": "compact"}, [f"k{n}:v" for n in range(700)] + ["no key"] + ["k:v"] * 9,
            "record 701 was refused: a compacted topic takes no record without a key; "
            "709 good ones were in its batch and not written either; 0 records are written", 0,
        ),
        (
            {"max.message.bytes": 1000}, ["x" * 100] * 50 + ["y" * 2000, "z"],
            "record 51 is not written: it has 2,000 bytes, and max.message.bytes of t is 1,000; 50 records are written", 50,
        ),
    ],
)  # fmt: skip
def test_a_refused_record_is_told_with_its_index_and_cause(
    tidelog_broker: Broker, run: Run, config: dict[str, Any], lines: list[str], said: str, written: int
) -> None:
    tidelog_broker.create_topic("t", 1, config)
    separator = ("--key-separator", ":") if "cleanup.policy" in config else ()
    done = run("produce", "t", *separator, stdin="\n".join(lines).encode())
    first, *rest = done.err.splitlines()
    assert (done.code, done.out, first) == (1, b"", f"tidelog: {said}")
    assert rest == (["tidelog: " + (pointer(said) or "")] if "max.message.bytes" in said else [])
    assert len(run("consume", "t", "--from-beginning", "--until-end").out.splitlines()) == written


def test_a_compressed_batch_that_is_too_large_is_told_with_its_record(tidelog_broker: Broker, run: Run) -> None:
    """It may be small enough once compressed, so the daemon is asked."""
    tidelog_broker.create_topic("t", 1, {"max.message.bytes": 1000})
    good, noise = b"a" * 5000, os.urandom(5000).replace(b"\n", b"")
    done = run("produce", "t", "--compression", "zstd", stdin=good + b"\n" + noise + b"\n")
    assert done.code == 1
    assert done.err.startswith("tidelog: record 2 was refused: "), done.err
    assert "; 1 record is written\n" in done.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            b'{"value":"3","partition":2}',
            "record 3: there is no partition t-2; the topic has 0 to 1; 2 records are written",
        ),
        (b"{", "line 3: it is no JSON"),
    ],
)
def test_what_came_before_a_bad_line_is_written(tidelog_broker: Broker, run: Run, line: bytes, said: str) -> None:
    tidelog_broker.create_topic("t", 2)
    done = run("produce", "t", "--input", "json", stdin=b'{"value":"1"}\n{"value":"2"}\n' + line + b'\n{"value":"4"}\n')
    assert done.code == 1
    assert said in done.err
    assert "2 records" in done.err
    assert sorted(run("consume", "t", "--from-beginning", "--until-end").out.split()) == [b"1", b"2"]


def test_a_topic_that_is_like_no_other_is_made_and_told(tidelog_broker: Broker, run: Run) -> None:
    tidelog_broker.create_topic("orders", 1)
    done = run("produce", "zebra", stdin=b"1\n")
    assert done == Done(0, b"", "tidelog: made topic zebra, with 1 partition\n")
    assert run("consume", "zebra", "--from-beginning", "--until-end").out == b"1\n"


async def test_only_what_is_committed_is_read_and_an_open_transaction_is_no_endless_wait(
    tidelog_broker: Broker, run: Run
) -> None:
    tidelog_broker.create_topic("t", 1)
    async with AIOKafkaProducer(bootstrap_servers=tidelog_broker.bootstrap_servers, transactional_id="x") as producer:
        async with producer.transaction():
            await producer.send_and_wait("t", b"committed")
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"aborted")
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"open")
        everything = run("consume", "t", "--from-beginning", "--until-end")
        assert everything.out == b"committed\naborted\nopen\n", "markers are no records"
        assert run("consume", "t", "--from-beginning", "--until-end", "--committed").out == b"committed\n"
        await producer.abort_transaction()


def test_many_partitions_are_all_read(tidelog_broker: Broker, run: Run) -> None:
    tidelog_broker.create_topic("t", 40)
    records = [{"value": str(number), "partition": number % 40} for number in range(2000)]
    assert run("produce", "t", "--input", "json", stdin="\n".join(map(json.dumps, records)).encode()).code == 0
    done = run("consume", "t", "--from-beginning", "--until-end")
    assert sorted(map(int, done.out.split())) == list(range(2000))


def lines_of(values: Iterable[int]) -> bytes:
    return b"".join(b"%d\n" % value for value in values)


def group_of(run: Run, group: str) -> tuple[list[int | None], int]:
    """Committed offsets, and the number of members."""
    (described,) = json.loads(run("groups", "describe", group, "--json").out)
    return [part["committed"] for part in described["partitions"]], len(described["members"])


def test_a_group_goes_on_where_it_was(tidelog_broker: Broker, run: Run) -> None:
    tidelog_broker.create_topic("t", 3)
    keyed = b"".join(b"k%d:%d\n" % (number, number) for number in range(300))
    assert run("produce", "t", "--key-separator", ":", stdin=keyed).code == 0
    group = ("consume", "t", "--group", "g", "--from-beginning")
    first = run(*group, "--max-messages", "100")
    assert (first.code, first.err, len(first.out.splitlines())) == (0, "", 100)
    committed, members = group_of(run, "g")
    assert (sum(offset or 0 for offset in committed), members) == (100, 0)
    rest = run(*group, "--until-end")
    assert sorted(map(int, (first.out + rest.out).split())) == list(range(300))
    assert run(*group, "--until-end") == Done(0, b"", "tidelog: t has no records there\n")
    assert run("consume", "t", "--group", "late", "--until-end").out == b"", "a group without a place begins at the end"
    assert run("produce", "t", stdin=b"new\n").code == 0
    assert run("consume", "t", "--group", "late", "--until-end").out == b"new\n", "and has a place from then on"


class Other:
    """A member by kafka-python, in a thread of its own; it commits all the time."""

    def __init__(self, broker: Broker, assignor: Any = RangePartitionAssignor) -> None:
        self.values: list[int] = []
        self.is_member = False
        self._over = threading.Event()
        self._consumer = KafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest",
            auto_commit_interval_ms=50, heartbeat_interval_ms=100, partition_assignment_strategy=[assignor],
            metadata_max_age_ms=500,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Other:
        self._thread.start()
        try:
            until(lambda: self.is_member, "the other client is a member")
        except AssertionError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        # A leader that shares out a topic whose partitions it does not know gives none, and may never do so again.
        while not self._consumer.partitions_for_topic("t") and not self._over.is_set():
            self._over.wait(0.05)
        self._consumer.subscribe(["t"])
        while not self._over.is_set():
            for records in self._consumer.poll(timeout_ms=50).values():
                self.values += [int(record.value) for record in records]
            self.is_member = self.is_member or bool(self._consumer.assignment())
        self._consumer.close()


def test_a_group_is_shared_with_another_client(tidelog_broker: Broker, run: Run) -> None:
    """That one leads the group, then ours does; it goes on alone when ours has gone."""
    tidelog_broker.create_topic("t", 4)
    mine: list[int] = []

    def produce(first: int) -> None:
        records = [json.dumps({"value": str(first + n), "partition": n % 4}) for n in range(400)]
        assert run("produce", "t", "--input", "json", stdin="\n".join(records).encode()).code == 0

    produce(0)
    with Other(tidelog_broker) as other:
        done = run("consume", "t", "--group", "g", "--from-beginning", "--until-end")
        assert done.code == 0, done.err
        mine += [int(line) for line in done.out.split()]
        assert sorted({*mine, *other.values}) == list(range(400)), "the end is that of the group"
        produce(400)
        until(lambda: len({*mine, *other.values}) == 800, "it reads all four partitions again")
    assert run("consume", "t", "--group", "g", "--until-end").out == b"", "all is committed"


def test_our_own_client_leads_a_group(tidelog_broker: Broker, run: Run) -> None:
    tidelog_broker.create_topic("t", 4)
    command = [sys.executable, "-m", "tidelog.broker", "consume", "t", "--group", "g", "--from-beginning"]
    command += ["--client", "own", "--bootstrap-server", tidelog_broker.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        assert first.stdout is not None
        until(lambda: run("groups", "list").out == b"g\n", "it has joined")
        until(lambda: group_of(run, "g")[1] == 1, "it is a member")
        with Other(tidelog_broker) as other:
            records = [json.dumps({"value": str(n), "partition": n % 4}) for n in range(400)]
            assert run("produce", "t", "--input", "json", stdin="\n".join(records).encode()).code == 0
            until(lambda: len(other.values) >= 200, "the other one has its half")
            mine = {int(first.stdout.readline()) for _ in range(200)}
            assert len({*mine, *other.values}) == 400
        first.terminate()
        rest, err = first.communicate(timeout=PATIENCE_S)
    assert (first.returncode, err) == (0, b"")
    assert (rest, group_of(run, "g")) == (b"", ([100] * 4, 0))


def test_a_group_that_shares_out_in_another_way_is_told(tidelog_broker: Broker, run: Run) -> None:
    tidelog_broker.create_topic("t", 2)
    with Other(tidelog_broker, RoundRobinPartitionAssignor):
        done = run("consume", "t", "--group", "g")
    assert (done.code, done.out) == (1, b"")
    assert done.err.startswith("tidelog: group g has members that share out partitions by something else than range")
