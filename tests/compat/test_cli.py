"""`tidelog produce`, `consume` and `completion` as programs, with pipes: through librdkafka, and by our own client."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.kafka_broker import kafka
from support.patience import PATIENCE_S, until
from tidelog.testing import Broker

TIDELOG = [sys.executable, "-m", "tidelog.broker"]
LIMIT_S = PATIENCE_S
Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def run(tidelog_broker: Broker) -> Run:
    environment = {**os.environ, "TIDELOG_LISTENERS": f"PLAINTEXT://{tidelog_broker.bootstrap_servers}"}

    def call(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*TIDELOG, *arguments], input=stdin, capture_output=True, env=environment, timeout=LIMIT_S, check=False
        )

    return call


CLIENTS = pytest.mark.parametrize("client", ["own", "librdkafka"])


@CLIENTS
def test_lines_go_in_and_come_out(tidelog_broker: Broker, run: Run, client: str) -> None:
    tidelog_broker.create_topic("orders")
    chosen = ("--client", client)
    lines = b"".join(b"%d %s\n" % (number, b"." * (number % 50)) for number in range(20_000))
    done = run("produce", "orders", "--compression", "lz4", "--json", *chosen, stdin=lines)
    assert json.loads(done.stdout) == {"topic": "orders", "records": 20_000, "bytes": len(lines), "failed": 0}
    assert [done.returncode, done.stderr] == [0, b""]
    assert run("consume", "orders", "--from-beginning", "--max-messages", "20000", *chosen).stdout == lines
    assert run("consume", "orders", "--from-beginning", "--until-end", *chosen).stdout == lines
    empty = run("consume", "orders", "--until-end", *chosen)
    assert [empty.returncode, empty.stdout, empty.stderr] == [0, b"", b"tidelog: orders has no records there\n"]


def test_both_clients_put_keys_into_the_same_partitions_and_carry_the_same_records(
    tidelog_broker: Broker, run: Run
) -> None:
    lines = "".join(
        json.dumps({"key": f"k{n}", "value": str(n), "headers": [["h", str(n)]], "timestamp": 1000 + n}) + "\n"
        for n in range(60)
    )
    found = []
    for client in ("own", "librdkafka"):
        tidelog_broker.create_topic(client, 5)
        done = run("produce", client, "--input", "json", "--client", client, stdin=lines.encode())
        assert done.returncode == 0, done.stderr
        for reader in ("own", "librdkafka"):
            read = run("consume", client, "--from-beginning", "--until-end", "--json", "--client", reader)
            found.append(sorted(read.stdout.splitlines()))
    assert len(found[0]) == 60
    assert found[1:] == found[:1] * 3


def test_the_library_tells_which_record_was_refused(tidelog_broker: Broker, run: Run) -> None:
    tidelog_broker.create_topic("small", config={"max.message.bytes": 1000})
    lines = b"x\n" * 40 + b"y" * 2000 + b"\nz\n"
    done = run("produce", "small", "--client", "librdkafka", stdin=lines)
    assert done.returncode == 1
    assert b"1 of the records were not written: record 41 was refused: " in done.stderr
    assert run("consume", "small", "--from-beginning", "--until-end").stdout == b"x\n" * 40 + b"z\n"


@CLIENTS
def test_a_reader_that_goes_away_ends_it(tidelog_broker: Broker, run: Run, client: str) -> None:
    """Before there is anything more to print."""
    tidelog_broker.create_topic("orders")
    run("produce", "orders", stdin=b"1\n")
    command = [*TIDELOG, "consume", "orders", "--from-beginning", "--client", client]
    command += ["--bootstrap-server", tidelog_broker.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        assert tail.stdout.readline() == b"1\n"
        tail.stdout.close()
        assert tail.wait(LIMIT_S) == 141
        assert tail.stderr.read() == b""


def test_lines_are_written_while_the_input_is_still_open(tidelog_broker: Broker, run: Run) -> None:
    tidelog_broker.create_topic("orders")
    command = [*TIDELOG, "produce", "orders", "--client", "own", "--bootstrap-server", tidelog_broker.bootstrap_servers]
    listens = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=listens) as producer:
        assert producer.stdin is not None
        assert producer.stderr is not None
        for number in range(3):
            producer.stdin.write(b"%d\n" % number)
            producer.stdin.flush()
            read = run("consume", "orders", "--offset", "0", "--max-messages", str(number + 1))
            assert read.stdout == b"".join(b"%d\n" % before for before in range(number + 1))
        producer.send_signal(signal.SIGINT)
        assert producer.wait(LIMIT_S) == 130
        assert producer.stderr.read() == b"tidelog: interrupted; at least 3 records are written\n"


@CLIENTS
def test_keys_tombstones_and_groups(tidelog_broker: Broker, run: Run, client: str) -> None:
    tidelog_broker.create_topic("accounts", 3)
    done = run("produce", "accounts", "--key-separator", "\\t", "--null-value", "-", stdin=b"ann\t1\nbob\t2\nann\t-\n")
    assert done.returncode == 0, done.stderr
    read = run("consume", "accounts", "--from-beginning", "--until-end", "--json")
    rows = [json.loads(line) for line in read.stdout.splitlines()]
    assert sorted((row["key"], row["value"] or "") for row in rows) == [("ann", ""), ("ann", "1"), ("bob", "2")]
    group = ("consume", "accounts", "--from-beginning", "--group", "g", "--key-separator", ":", "--client", client)
    first = run(*group, "--max-messages", "2").stdout.splitlines()
    rest = run(*group, "--max-messages", "1").stdout.splitlines()
    assert sorted(first + rest) == [b"ann:1", b"ann:null", b"bob:2"]
    described = json.loads(run("groups", "describe", "g", "--json").stdout)
    assert sum(part["lag"] or 0 for part in described[0]["partitions"]) == 0


@pytest.mark.parametrize("clients", [("own", "librdkafka"), ("librdkafka", "own"), ("librdkafka", "librdkafka")])
def test_a_group_is_shared_by_both_clients(tidelog_broker: Broker, run: Run, clients: tuple[str, str]) -> None:
    """What the first one has printed is not printed by the second, which takes half of the partitions over."""
    tidelog_broker.create_topic("t", 4)

    def produce(first: int) -> None:
        records = [json.dumps({"value": str(first + n), "partition": n % 4}) for n in range(40)]
        assert run("produce", "t", "--input", "json", stdin="\n".join(records).encode()).returncode == 0

    def members() -> int:
        (described,) = json.loads(run("groups", "describe", "g", "--json").stdout)
        return sum(1 for member in described["members"] if member["partitions"])

    def reader(client: str) -> subprocess.Popen[bytes]:
        command = [*TIDELOG, "consume", "t", "--group", "g", "--from-beginning", "--client", client]
        command += ["--bootstrap-server", tidelog_broker.bootstrap_servers]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    produce(0)
    with reader(clients[0]) as first:
        assert first.stdout is not None
        printed = [int(first.stdout.readline()) for _ in range(40)]
        with reader(clients[1]) as second:
            until(lambda: members() == 2, "both have partitions")
            produce(40)
            assert second.stdout is not None
            printed += [int(second.stdout.readline()) for _ in range(20)]
            printed += [int(first.stdout.readline()) for _ in range(20)]
            for each in (second, first):
                each.terminate()
                rest, told = each.communicate(timeout=LIMIT_S)
                assert (each.returncode, rest, told) == (0, b"", b"")
    assert sorted(printed) == list(range(80))


@pytest.mark.parametrize("clients", [("own", "librdkafka"), ("librdkafka", "own"), ("librdkafka", "librdkafka")])
def test_members_of_a_group_end_when_all_of_them_are_at_the_end(
    tidelog_broker: Broker, run: Run, clients: tuple[str, str]
) -> None:
    """One that has no end commits what it prints all the time, so that one with --until-end need not wait for its own end."""
    tidelog_broker.create_topic("t", 4)
    records = [json.dumps({"value": str(n), "partition": n % 4}) for n in range(400)]
    assert run("produce", "t", "--input", "json", stdin="\n".join(records).encode()).returncode == 0

    def reader(client: str, *more: str) -> subprocess.Popen[bytes]:
        command = [*TIDELOG, "consume", "t", "--group", "g", "--from-beginning", "--client", client, *more]
        command += ["--bootstrap-server", tidelog_broker.bootstrap_servers]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    with reader(clients[0]) as goes_on, reader(clients[1], "--until-end") as ends:
        printed, told = ends.communicate(timeout=LIMIT_S)
        # On a slow machine it says after two seconds what it waits for.
        told = re.sub(
            rb"tidelog: (t has no records there|waiting since \d+ s: other members of the group, .*)\n", b"", told
        )
        assert (ends.returncode, told) == (0, b"")
        goes_on.terminate()
        rest, told = goes_on.communicate(timeout=LIMIT_S)
        assert (goes_on.returncode, told) == (0, b"")
    assert sorted(map(int, (printed + rest).split())) == list(range(400))
    empty = run("consume", "t", "--group", "g", "--until-end", "--client", clients[1])
    assert (empty.returncode, empty.stdout) == (0, b"")


def test_what_is_wrong_is_one_line(tidelog_broker: Broker, run: Run) -> None:
    tidelog_broker.create_topic("small", config={"max.message.bytes": 1000})
    for arguments, word in (
        (("consume", "nothing"), b"topic nothing"),
        (("consume", "small:7"), b"there is no partition small-7"),
        (("consume", "small:0", "--group", "g"), b"--group"),
        (("consume", "small", "--max-messages", "0"), b"--max-messages"),
        (("consume", "small", "--property", "no.such.thing=1"), b"no.such.thing"),
        (("produce", "small", "--property", "no.such.thing=1"), b"no.such.thing"),
        (("produce", "small", "--bootstrap-server", "127.0.0.1:1"), b"tidelog serve"),
    ):
        done = run(*arguments, stdin=b"1\n")
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1), done.stderr
        assert word in done.stderr


@CLIENTS
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_tail_prints_what_comes_and_ends_when_told(
    tidelog_broker: Broker, run: Run, number: signal.Signals, client: str
) -> None:
    tidelog_broker.create_topic("orders")
    command = [
        *TIDELOG,
        "consume",
        "orders",
        "--from-beginning",
        "--client",
        client,
        "--bootstrap-server",
        tidelog_broker.bootstrap_servers,
    ]
    # A shell starts its background jobs, and what they start, with SIGINT ignored.
    listens = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=listens) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        for line in (b"first\n", b"second\n"):
            run("produce", "orders", stdin=line)
            assert tail.stdout.readline() == line
        tail.send_signal(number)
        assert tail.wait(LIMIT_S) == 0
        assert tail.stderr.read() == b""


def test_apache_kafka_is_administered_as_well(tmp_path: Path) -> None:
    """The same commands, versions negotiated: what a user of both needs no second tool for."""

    def call(*arguments: str, stdin: bytes = b"") -> str:
        command = [*TIDELOG, *arguments, "--bootstrap-server", bootstrap]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def lags() -> list[int]:
        ((group),) = json.loads(call("groups", "describe", "g", "--json"))
        return [part["lag"] for part in group["partitions"]]

    with kafka(tmp_path, is_new=True) as bootstrap:
        config = ("--config", "cleanup.policy=compact", "--config", "segment.ms=60000")
        assert call("topics", "create", "orders", "--partitions", "2", *config) == "created orders with 2 partitions\n"
        call("topics", "alter", "orders", "--delete-config", "segment.ms", "--partitions", "3")
        assert call("topics", "list") == "orders\n"
        call("produce", "orders", "--key-separator", ":", "--partition", "0", "--client", "own", stdin=b"a:1\nb:2\n")
        own = ("--from-beginning", "--until-end", "--client", "own")
        assert call("consume", "orders", *own, "--key-separator", "=") == "a=1\nb=2\n"
        (topic,) = json.loads(call("topics", "describe", "orders", "--json"))
        assert topic["config"] == {"cleanup.policy": "compact"}
        assert [part["endOffset"] for part in topic["partitions"]] == [2, 0, 0]
        assert topic["partitions"][0]["bytes"] > 0
        assert call("consume", "orders", "--from-beginning", "--group", "g", "--max-messages", "2") == "1\n2\n"
        assert lags()[0] == 0
        call("groups", "reset", "g", "--shift-by", "-1", "--topic", "orders:0")
        assert lags()[0] == 1
        assert call("groups", "list") == "g\n"
        call("groups", "delete", "g")
        call("configs", "alter", "--broker", "1", "--config", "log.cleaner.threads=2")
        assert json.loads(call("configs", "describe", "--broker", "1", "log.cleaner.threads", "--json")) == {
            "log.cleaner.threads": {
                "value": "2",
                "source": "broker, while running",
                "readOnly": False,
                "sensitive": False,
            }
        }
        assert call("transactions", "list", "--json") == "[]\n"
        assert call("transactions", "producers", "orders", "--json").startswith("[")
        call("topics", "delete", "orders")
        assert call("topics", "list") == ""


def test_completion_knows_commands_and_options(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "tidelog.bash"
    script.write_bytes(run("completion", "bash").stdout)
    bash = shutil.which("bash")
    assert bash is not None

    def complete(*words: str) -> set[str]:
        program = f"""
            complete() {{ :; }}; compopt() {{ :; }}
            source {script}
            unset -f complete compopt
            COMP_WORDS=({" ".join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}; COMP_TYPE=9
            {{ _shtab_tidelog; }} 2>/dev/null
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        done = subprocess.run([bash, "-c", program], capture_output=True, text=True, check=False)
        return {word.strip() for word in done.stdout.split()}

    assert {"topics", "groups", "produce"} <= complete("tidelog", "")
    assert complete("tidelog", "topics", "cr") == {"create"}
    assert "--partitions" in complete("tidelog", "topics", "create", "--")
