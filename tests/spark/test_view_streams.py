"""`latest` and `changes` as streams: over triggers and restarts they say what a batch says."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tidelog.pipeline import changes, latest
from tidelog.pipeline.sink.options import parse_sink_options
from tidelog.pipeline.sink.task import write_rows
from tidelog.testing import Broker

pytestmark = pytest.mark.timeout(1800)
#: PySpark 4.1 does not ask a source how far to go: there a run is one batch, also where that is one which it does again.
LIMITS = {"maxOffsetsPerTrigger": "200"} if find_spec("pyspark.sql.streaming.datasource") is not None else {}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"log.retention.ms": "-1"}) as one:
        yield one


class Topic:
    """In two partitions; by Kafka's partitioner, or wherever chance puts a record."""

    def __init__(self, broker: Broker, name: str, *, moves: bool = False) -> None:
        self.options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": name}
        self._target = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": name}
        self._moves, self._chance, self._count = moves, random.Random(name), 0
        self.newest: dict[bytes, bytes | None] = {}
        broker.create_topic(name, 2)

    def write(self, count: int) -> None:
        """Of 40 keys; every fourth record a tombstone, every ninth without a key. Timestamps grow, in µs."""
        numbers = range(self._count, self._count + count)
        self._count += count
        keys = [None if n % 9 == 0 else b"key %d" % self._chance.randrange(40) for n in numbers]
        values = [None if self._chance.random() < 0.25 else b"%d" % n for n in numbers]
        columns: dict[str, Any] = {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "timestamp": pa.array([1_700_000_000_000_000 + n * 1000 for n in numbers], pa.timestamp("us", tz="UTC")),
            "headers": pa.array(
                [None if n % 5 else [{"key": "n", "value": b"%d" % n}, {"key": "n", "value": None}] for n in numbers],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
        if self._moves:
            columns["partition"] = pa.array([self._chance.randrange(2) for _ in numbers], pa.int32())
        write_rows(parse_sink_options(self._target, streaming=False), [pa.record_batch(columns)], None)
        self.newest |= {key: value for key, value in zip(keys, values, strict=True) if key is not None}

    def table(self) -> dict[bytes, bytes]:
        return {key: value for key, value in self.newest.items() if value is not None}


def run(frame: Any, mode: str, checkpoint: Path, take: Callable[[list[Any], int], None]) -> None:
    """All that there is now; `take` has each batch's rows."""
    writer = frame.writeStream.foreachBatch(lambda rows, number: take(rows.collect(), number)).outputMode(mode)
    for _ in range(1 if LIMITS else 2):
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(600)


def forget_last_commit(checkpoint: Path) -> int:
    """As after a death behind a batch's work, before the checkpoint has it: Spark does that batch again."""
    notes = [note for note in (checkpoint / "commits").iterdir() if note.name.isdecimal()]
    last = max(notes, key=lambda note: int(note.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    return int(last.name)


@pytest.mark.parametrize("stay", ["check", "false"])
def test_a_table_by_key_that_a_stream_of_the_latest_fills_is_the_topics(
    spark: Any, broker: Broker, tmp_path: Path, stay: str
) -> None:
    topic = Topic(broker, f"latest-{stay}", moves=stay == "false")
    mode = "update" if stay == "false" else "append"
    table: dict[bytes, bytes] = {}
    seen: dict[int, list[Any]] = {}

    def take(rows: list[Any], number: int) -> None:
        keys = [bytes(row.key) for row in rows]
        assert len(set(keys)) == len(keys), "a key has two rows in one batch"
        found = sorted(tuple(row) for row in rows)
        assert seen.setdefault(number, found) == found, "a batch that comes again is the same"
        for row in rows:
            if row.value is None:
                table.pop(bytes(row.key), None)
            else:
                table[bytes(row.key)] = bytes(row.value)

    def go_on() -> None:
        frame = latest(spark, {**topic.options, **LIMITS, "keysStayInPartition": stay}, stream=True)
        run(frame.select("key", "value", "partition", "offset"), mode, tmp_path / "checkpoint", take)
        assert table == topic.table()

    topic.write(300)
    go_on()
    assert forget_last_commit(tmp_path / "checkpoint") == max(seen)
    topic.write(150)
    go_on()
    assert len(seen) > 1
    assert any(row[1] is None for rows in seen.values() for row in rows), "tombstones come"


def test_a_key_elsewhere_stops_a_stream_of_the_latest(spark: Any, broker: Broker, tmp_path: Path) -> None:
    topic = Topic(broker, "moved", moves=True)
    topic.write(100)
    with pytest.raises(Exception, match="is not where Kafka's default partitioner puts it in 2 partitions"):
        run(latest(spark, topic.options, stream=True), "append", tmp_path / "checkpoint", lambda rows, number: None)


def test_the_rows_of_a_stream_of_changes_are_those_of_a_batch(spark: Any, broker: Broker, tmp_path: Path) -> None:
    topic = Topic(broker, "changed")
    seen: dict[int, list[Any]] = {}
    names = ["key", "value", "partition", "offset", "timestamp", "timestampType", "headers", "_op", "_previous_offset"]

    def take(rows: list[Any], number: int) -> None:
        found = sorted(rows, key=lambda row: (row.partition, row.offset))
        assert seen.setdefault(number, found) == found, "a batch that comes again is the same"

    def go_on() -> None:
        frame = changes(spark, {**topic.options, **LIMITS, "columns": ",".join(names)}, stream=True)
        run(frame, "append", tmp_path / "checkpoint", take)
        batch = changes(spark, {**topic.options, "includeHeaders": "true"}).select(*names).collect()
        streamed = [row for rows in seen.values() for row in rows]
        assert sorted(streamed, key=place) == sorted(batch, key=place)

    def place(row: Any) -> tuple[int, int]:
        return row.partition, row.offset

    topic.write(300)
    go_on()
    assert forget_last_commit(tmp_path / "checkpoint") == max(seen)
    topic.write(150)
    go_on()
    assert {row._op for rows in seen.values() for row in rows} == {"insert", "update", "delete"}


def test_a_stream_of_changes_has_decoded_columns_and_bad_records_a_reason(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    """As a batch has them: over a restart, where a key's last value is a number, no JSON at all, or gone."""
    topic = Topic(broker, "decoded")
    schema = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}, "at": {"type": "string"}}}
    options = {**topic.options, "decode": "json", "decodeSchema": json.dumps(schema)}
    names = ["key", "offset", "_op", "_previous_offset", "record", "recordError"]
    values = [b'{"id": 1}', b"{", None, b'{"id": 2, "at": "x"}', b'{"at": "y"}', None, b'{"id": "no"}']
    seen: list[Any] = []

    def go_on() -> list[Any]:
        batch = pa.record_batch({"key": pa.array([b"k"] * len(values)), "value": pa.array(values, pa.binary())})
        target = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "decoded"}
        write_rows(parse_sink_options(target, streaming=False), [batch], None)
        frame = changes(spark, {**options, "columns": ",".join(names)}, stream=True)
        run(frame, "append", tmp_path / "checkpoint", lambda rows, _: seen.extend(rows))
        return sorted(changes(spark, options).select(*names).collect(), key=lambda row: row.offset)

    assert changes(spark, options, stream=True).columns[-4:] == ["_op", "_previous_offset", "record", "recordError"]
    for _ in range(2):
        batch = go_on()
        assert sorted(seen, key=lambda row: row.offset) == batch
    assert [row.record and row.record.id for row in batch[:7]] == [1, None, None, 2, None, None, None]
    assert [row._op for row in batch[:7]] == ["insert", "update", "delete", "insert", "update", "delete", "insert"]
    reasons = [row.recordError for row in batch[:7]]
    assert [reason is not None for reason in reasons] == [False, True, False, False, True, False, True]
    assert reasons[4] == "the object lacks id"


def test_a_stream_of_changes_refuses_what_it_cannot_have(spark: Any, broker: Broker) -> None:
    topic = Topic(broker, "refused")
    with pytest.raises(Exception, match="columns names record; a stream of changes has key, value"):
        changes(spark, {**topic.options, "columns": "record"}, stream=True)
    with pytest.raises(Exception, match="decode needs one of decodeSchema"):
        changes(spark, {**topic.options, "decode": "json"}, stream=True)
    with pytest.raises(Exception, match="columns names nothing; a stream of changes has key, value"):
        changes(spark, {**topic.options, "columns": "nothing"}, stream=True)
