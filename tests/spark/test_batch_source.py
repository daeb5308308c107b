"""`spark.read.format("tidelog")` over log directories: the rows that the records say, columns and filters as wished."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.segment_dirs import write_checkpoint, write_log
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = 1_700_000_000_000


class Row(NamedTuple):
    """A row of the source, with the key of its place first."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: datetime
    timestamp_type: int
    headers: list[tuple[str, bytes | None]] | None


def headers_of(chance: random.Random) -> tuple[tuple[bytes, bytes | None], ...]:
    return tuple((f"h{i}".encode(), chance.choice([None, b"", b"x"])) for i in range(chance.choice([0, 0, 1, 3])))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    """Two topics, three partitions, every codec, formats 1 and 2, gaps, tombstones; and all rows."""
    chance, home = random.Random(5), tmp_path_factory.mktemp("logs")
    rows: list[Row] = []
    ends = {}
    for topic, partition in (("orders", 0), ("orders", 1), ("old", 0)):
        offset, segments = chance.randrange(50), [[]]
        for number in range(60):
            magic = 1 if topic == "old" and number < 30 else 2
            kind = chance.choice(list(TimestampType))
            codec = chance.choice(list(Compression)[: 4 if magic == 1 else 5])
            count, time = chance.randrange(1, 40), START + chance.randrange(100_000)
            records = [
                Record(
                    offset + i,
                    time + i,
                    chance.choice([None, b"", f"key {chance.randrange(20)}".encode()]),
                    chance.choice([None, b"", chance.randbytes(chance.randrange(300))]),
                    headers_of(chance) if magic == 2 else (),
                )
                for i in range(count)
            ]
            build: Any = build_batch if magic == 2 else lambda *a, **k: build_legacy_set(*a, magic=1, **k)
            append_time = time if kind is TimestampType.LOG_APPEND_TIME else -1
            segments[-1].append(
                build(records, base_offset=offset, compression=codec, timestamp_type=kind, append_time=append_time)
            )
            for one in records:
                ms = append_time if append_time >= 0 else one.timestamp
                pairs = [(name.decode(), content) for name, content in one.headers] or None
                when = EPOCH + timedelta(milliseconds=ms)
                rows.append(Row(topic, partition, one.offset, one.key, one.value, when, int(kind), pairs))
            offset += count + chance.choice([0, 0, 5])
            if chance.random() < 0.1:
                segments.append([])
        write_log(home / f"{topic}-{partition}", [one for one in segments if one], index_interval=1000)
        ends[topic, partition] = records[-1].offset + 1
    write_checkpoint(home / "replication-offset-checkpoint", ends)
    return home, sorted(rows)


def load(spark: Any, home: Path, **options: str) -> Any:
    reader = spark.read.format("tidelog").option("path", str(home))
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def rows_of(frame: Any) -> list[Row]:
    found = []
    for one in frame.collect():
        headers = None
        if one.headers is not None:
            headers = [(pair.key, None if pair.value is None else bytes(pair.value)) for pair in one.headers]
        key, value = (None if part is None else bytes(part) for part in (one.key, one.value))
        when = one.timestamp.astimezone(UTC)  # collect gives local time
        found.append(Row(one.topic, one.partition, one.offset, key, value, when, one.timestampType, headers))
    return sorted(found)


@pytest.mark.parametrize("split_bytes", ["2000", "67108864"])
def test_every_record_is_a_row(spark: Any, logs: tuple[Path, list[Row]], split_bytes: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("TZ", "UTC")
    home, rows = logs
    frame = load(spark, home, subscribePattern=".*", includeHeaders="true", splitBytes=split_bytes)
    assert [field.name for field in frame.schema] == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip
    assert rows_of(frame) == rows


def test_some_columns_are_enough(spark: Any, logs: tuple[Path, list[Row]]) -> None:
    home, rows = logs
    frame = load(spark, home, subscribe="orders")
    wanted = sorted((row.offset, row.topic) for row in rows if row.topic == "orders")
    assert sorted((row[0], row[1]) for row in frame.select("offset", "topic").collect()) == wanted
    pruned = spark.read.format("tidelog").schema("offset long").option("path", str(home)).option("subscribe", "orders")
    assert sorted(row[0] for row in pruned.load().collect()) == [offset for offset, _ in wanted]
    assert frame.count() == len(wanted)


@pytest.mark.parametrize(
    "where",
    [
        "offset >= 100 and offset < 220",
        "partition = 1",
        "partition > 0 and offset <= 300",
        "timestamp >= timestamp'2023-11-14 22:13:50Z' and timestamp < timestamp'2023-11-14 22:14:20.5Z'",
        "key = cast('key 3' as binary) or offset < 60",
        "timestamp > timestamp'2023-11-14 22:14:40Z'",
        "timestamp = timestamp'2023-11-14 22:14:00.005Z' or timestamp > timestamp'2023-11-14 22:14:50Z'",
        "offset in (100, 101, 250) and partition in (0, 1)",
    ],
)
def test_filters_leave_what_they_say(spark: Any, logs: tuple[Path, list[Row]], where: str) -> None:
    """Held to Spark's own filter over all rows."""
    home, _ = logs
    everything = load(spark, home, subscribe="orders").cache()
    everything.count()
    wanted = sorted((row.partition, row.offset) for row in everything.where(where).collect())
    everything.unpersist()
    found = sorted((row.partition, row.offset) for row in load(spark, home, subscribe="orders").where(where).collect())
    assert found == wanted
    assert found


def test_the_columns_that_an_option_names_are_read(spark: Any, logs: tuple[Path, list[Row]]) -> None:
    home, rows = logs
    ours = [row for row in rows if row.topic == "orders"]
    frame = load(spark, home, subscribe="orders", columns="offset, key")
    assert frame.columns == ["offset", "key"]
    found = [(row.offset, None if row.key is None else bytes(row.key)) for row in frame.collect()]
    assert sorted(found, key=repr) == sorted([(row.offset, row.key) for row in ours], key=repr)
    for columns in ("offset", "partition", "offset,timestamp", "timestampType,topic"):
        assert load(spark, home, subscribe="orders", columns=columns).count() == len(ours)
    some = load(spark, home, subscribe="orders", columns="partition,offset").where("offset between 100 and 219")
    wanted = sorted((row.partition, row.offset) for row in ours if 100 <= row.offset < 220)
    assert sorted((row.partition, row.offset) for row in some.collect()) == wanted
    assert [field.name for field in load(spark, home, subscribe="orders", columns="headers").schema] == ["headers"]


def test_bounds_by_offset_and_by_time(spark: Any, logs: tuple[Path, list[Row]]) -> None:
    home, rows = logs
    ours = [row for row in rows if (row.topic, row.partition) == ("orders", 1)]
    by_offset = load(
        spark, home, assign='{"orders":[1]}', startingOffsets='{"orders":{"1":300}}', endingOffsets='{"orders":{"1":500}}'
    )  # fmt: skip
    assert sorted(row.offset for row in by_offset.collect()) == [row.offset for row in ours if 300 <= row.offset < 500]
    rising = [row for at, row in enumerate(ours) if all(row.timestamp > one.timestamp for one in ours[:at])]
    first, end = rising[1], rising[-1]
    assert ours[0].offset < first.offset < end.offset
    low, high = (str((row.timestamp - EPOCH) // timedelta(milliseconds=1)) for row in (first, end))
    by_time = load(spark, home, assign='{"orders":[1]}', startingTimestamp=low, endingTimestamp=high)
    between = [row.offset for row in ours if first.offset <= row.offset < end.offset]
    assert sorted(row.offset for row in by_time.collect()) == between


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "nobody"}, "no topic nobody here; there are old, orders"),
        ({"subscribe": "orders", "startingoffset": "earliest"}, "unknown option startingoffset"),
        ({"subscribe": "orders", "columns": "key,valeu"}, "columns names valeu.* did you mean value"),
        ({"subscribe": "orders", "columns": ","}, "columns names no column"),
        ({"subscribe": "orders", "columns": "key,key"}, "columns names key more than once"),
        ({"assign": '{"orders":[0]}', "startingOffsets": '{"orders":{"0":0}}'}, "the log starts at"),
    ],
)
def test_mistakes_are_told(spark: Any, logs: tuple[Path, list[Row]], options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        load(spark, logs[0], **options).count()


def test_columns_and_a_schema_that_differ_are_told(spark: Any, logs: tuple[Path, list[Row]]) -> None:
    reader = (
        spark.read.format("tidelog").schema("offset long").option("path", str(logs[0])).option("subscribe", "orders")
    )
    with pytest.raises(Exception, match="columns says key and the schema offset: leave one of them out"):
        reader.option("columns", "key").load().count()
    assert reader.option("columns", "offset").load().count()


def test_damage_is_told_with_its_place(spark: Any, tmp_path: Path) -> None:
    batches = [build_batch([Record(0, 1, b"k", bytes(50))], base_offset=offset) for offset in range(20)]
    write_log(tmp_path / "t-0", [batches])
    path = next((tmp_path / "t-0").glob("*.log"))
    data = bytearray(path.read_bytes())
    data[7 * len(batches[0]) + 70] ^= 1
    path.write_bytes(data)
    with pytest.raises(Exception, match=f"{path}: damaged at byte {7 * len(batches[0])}"):
        load(spark, tmp_path, subscribe="t").collect()
    left = load(spark, tmp_path, subscribe="t", corruptBatches="skip").collect()
    assert sorted(row.offset for row in left) == [offset for offset in range(20) if offset != 7]
