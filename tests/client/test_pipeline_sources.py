"""The pipeline's readers against the daemon, without Spark: files and TCP give the rows that were produced."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from support.columns import Row, rows_of
from support.daemon import Daemon
from support.patience import PATIENCE_S
from tidelog.pipeline.options import parse_options
from tidelog.pipeline.planning.batch_plan import batch_ranges, plan_batch
from tidelog.pipeline.planning.places import open_place
from tidelog.pipeline.reading.columns import Wish
from tidelog.pipeline.reading.split_reader import read

START = 1_700_000_000_000
COUNT = 4000


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    # The records are of 2023: retention must not take them.
    settings = {"log.segment.bytes": 100_000, "log.retention.ms": -1}
    with Daemon(tmp_path_factory.mktemp("daemon") / "data", settings) as one:
        yield one


@pytest.fixture(scope="module")
def rows(daemon: Daemon) -> list[tuple[int, Row]]:
    """Two partitions, several segments, gzip and none, with headers; (partition, row) of each."""
    chance, found = random.Random(4), []
    with KafkaAdminClient(bootstrap_servers=daemon.bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 2, 1), NewTopic("empty", 1, 1)])
    for codec in ("gzip", None):
        producer = KafkaProducer(bootstrap_servers=daemon.bootstrap, compression_type=codec, linger_ms=5)
        sent = []
        for number in range(COUNT // 2):
            key = chance.choice([None, b"k%d" % chance.randrange(50)])
            value, headers = chance.choice([None, chance.randbytes(chance.randrange(200))]), []
            value = b"" if key is None and value is None else value  # this client refuses such records
            if chance.random() < 0.3:
                headers = [("h", b"x")]
            time, partition = START + number, chance.randrange(2)
            kept = (key, value, time, tuple((name.encode(), content) for name, content in headers))
            sent.append((partition, kept, producer.send("orders", value, key, headers, partition, time)))
        producer.flush()
        for partition, (key, value, time, headers), future in sent:
            found.append((partition, Row(future.get(PATIENCE_S).offset, time * 1000, 0, key, value, headers)))
        producer.close()
    return sorted(found)


def read_all(options: dict[str, str]) -> list[tuple[int, Row]]:
    parsed = parse_options(options)
    return sorted(
        (split.partition, row)
        for split in plan_batch(parsed)
        for columns in read(split, parsed, Wish(headers=True))
        for row in rows_of(columns)
    )


def ways(daemon: Daemon) -> list[dict[str, str]]:
    return [
        {"bootstrap.servers": daemon.bootstrap},
        {"kafka.bootstrap.servers": daemon.bootstrap, "kafka.fetch.max.bytes": "5000", "minPartitions": "7"},
        {"path": str(daemon.directory), "bootstrap.servers": daemon.bootstrap},
        {"path": str(daemon.directory), "bootstrap.servers": daemon.bootstrap, "maxRecordsPerPartition": "300"},
        {"bootstrap.servers": daemon.bootstrap, "splitBytes": "20000"},
    ]


def test_every_way_gives_the_rows_that_were_produced(daemon: Daemon, rows: list[tuple[int, Row]]) -> None:
    for way in ways(daemon):
        assert read_all({**way, "subscribe": "orders,empty"}) == rows, way
    assert len(plan_batch(parse_options({**ways(daemon)[4], "subscribe": "orders"}))) > 4
    assert len(plan_batch(parse_options({**ways(daemon)[3], "subscribe": "orders"}))) >= COUNT // 300


def test_timestamps_choose_the_same_offsets(daemon: Daemon, rows: list[tuple[int, Row]]) -> None:
    chosen = {"assign": '{"orders":[1]}', "startingTimestamp": str(START + 500), "endingTimestamp": str(START + 900)}
    found = [read_all({**way, **chosen}) for way in ways(daemon)]
    first = min(row.offset for partition, row in rows if partition == 1 and row.timestamp >= (START + 500) * 1000)
    end = min(row.offset for partition, row in rows if partition == 1 and row.timestamp >= (START + 900) * 1000)
    assert found == [[(1, row) for p, row in rows if p == 1 and first <= row.offset < end]] * len(found)


def test_the_broker_bounds_what_files_have_not_told_yet(daemon: Daemon, rows: list[tuple[int, Row]]) -> None:
    """A checkpoint is some seconds old; nothing is lost where the broker is asked, and the same vector holds for both."""
    options = parse_options(
        {"path": str(daemon.directory), "bootstrap.servers": daemon.bootstrap, "subscribe": "orders"}
    )
    with open_place(options) as place:
        assert sum(one.end - one.first for one in batch_ranges(options, place)) == len(rows)


def test_what_is_not_there_is_told(daemon: Daemon, rows: list[tuple[int, Row]], tmp_path: Path) -> None:
    from tidelog.pipeline.exceptions import BrokerUnreachableError, TopicError

    for way in ways(daemon):
        with pytest.raises(TopicError, match=r"no topic nobody here; there are empty, orders"):
            read_all({**way, "subscribe": "nobody"})
    nowhere = {"bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "300", "subscribe": "orders"}
    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1: no connection"):
        read_all(nowhere)
    (tmp_path / "orders-0").mkdir()
    with pytest.raises(TopicError, match=r"name all of the daemon's log\.dirs"):
        read_all({"path": str(tmp_path), "bootstrap.servers": daemon.bootstrap, "subscribe": "orders"})


def test_reading_files_that_the_daemon_rolls_and_cleans_meanwhile(tmp_path: Path) -> None:
    """Whatever the moment: offsets rise, and of each key the last record that is in range is there, as it was sent."""
    settings = {
        "log.segment.bytes": 20_000, "log.cleaner.backoff.ms": 20, "log.cleaner.min.cleanable.ratio": 0.01,
        "log.cleanup.policy": "compact", "log.segment.delete.delay.ms": 0,
    }  # fmt: skip
    chance = random.Random(12)
    sent: list[tuple[int, bytes, bytes]] = []
    with Daemon(tmp_path / "data", settings) as daemon:
        with KafkaAdminClient(bootstrap_servers=daemon.bootstrap) as admin:
            admin.create_topics([NewTopic("table", 1, 1)])
        producer = KafkaProducer(bootstrap_servers=daemon.bootstrap, linger_ms=2)
        way = {"path": str(daemon.directory), "bootstrap.servers": daemon.bootstrap, "subscribe": "table"}
        options = parse_options({**way, "splitBytes": "5000"})
        removed = rounds = 0
        deadline = time.monotonic() + 3 * PATIENCE_S
        while rounds < 12 or not removed:
            assert rounds < 12 or time.monotonic() < deadline, "nothing was cleaned"
            rounds += 1
            values = [(b"k%d" % chance.randrange(40), chance.randbytes(100)) for _ in range(400)]
            futures = [producer.send("table", value, key, partition=0) for key, value in values]
            producer.flush()
            sent += [(future.get(PATIENCE_S).offset, *pair) for future, pair in zip(futures, values, strict=True)]
            splits = plan_batch(options)
            found = [row for one in splits for part in read(one, options, Wish()) for row in rows_of(part)]
            offsets = [row.offset for row in found]
            assert offsets == sorted(set(offsets))
            last = {key: (offset, value) for offset, key, value in sent}
            assert set(last.values()) <= {(row.offset, row.value) for row in found}
            assert {(row.offset, row.key, row.value) for row in found} <= set(sent)
            removed = len(sent) - len(found)
        producer.close()


def test_committed_reads_leave_out_what_was_aborted_or_is_open(daemon: Daemon) -> None:
    """By files and over TCP, with transactions that reach over segments."""
    with KafkaAdminClient(bootstrap_servers=daemon.bootstrap) as admin:
        admin.create_topics([NewTopic("paid", 1, 1)])
    kept: list[bytes] = []
    everything: list[bytes] = []
    producer = KafkaProducer(bootstrap_servers=daemon.bootstrap, transactional_id="payer", linger_ms=2)
    producer.init_transactions()
    for number, ending in enumerate(["commit", "abort", "commit", "abort", "abort", "commit", "open"]):
        producer.begin_transaction()
        values = [b"%d-%d " % (number, one) + bytes(600) for one in range(100)]
        for value in values:
            producer.send("paid", value, partition=0)
        producer.flush()
        everything += values
        if ending == "commit":
            producer.commit_transaction()
            kept += values
        elif ending == "abort":
            producer.abort_transaction()
    for way in ways(daemon):
        rows = read_all({**way, "subscribe": "paid", "isolation": "read_committed"})
        assert [row.value for _, row in rows] == kept, way
        rows = read_all({**way, "subscribe": "paid"})
        assert [row.value for _, row in rows] == everything, way
    producer.abort_transaction()
    producer.close()
