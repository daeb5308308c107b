"""`view=latest` and `view=changelog` through Spark, with and without a shuffle, held to a plain dict."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.segment_dirs import write_log
from tidelog.pipeline import latest
from tidelog.protocol.records._batches import murmur2
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

pytestmark = pytest.mark.timeout(1800)


def by_kafka(key: bytes) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % 3


def write(home: Path, place: Callable[[bytes], int]) -> list[tuple[int, int, bytes, bytes | None, int]]:
    """3,000 records of 100 keys in 3 partitions: (partition, offset, key, value, timestamp) of each."""
    chance = random.Random(8)
    found: list[tuple[int, int, bytes, bytes | None, int]] = []
    ends = [0, 0, 0]
    batches: list[list[bytes]] = [[], [], []]
    for number in range(3000):
        key, value = b"key %d" % chance.randrange(100), chance.choice([None, b"%d" % number, b"%d" % number])
        partition = place(key)
        offset, ends[partition] = ends[partition], ends[partition] + 1
        batches[partition].append(build_batch([Record(0, number, key, value)], base_offset=offset))
        found.append((partition, offset, key, value, number))
    for partition in range(3):
        half = len(batches[partition]) // 2
        write_log(home / f"t-{partition}", [batches[partition][:half], batches[partition][half:]])
    return found


def newest(rows: list[tuple[int, int, bytes, bytes | None, int]]) -> list[tuple[bytes, bytes]]:
    table = {key: value for _, _, key, value, _ in rows}
    return sorted((key, value) for key, value in table.items() if value is not None)


def pairs(frame: Any) -> list[tuple[bytes, bytes]]:
    return sorted((bytes(row.key), bytes(row.value)) for row in frame.select("key", "value").collect())


def test_keys_that_stay_in_a_partition_need_no_shuffle(spark: Any, tmp_path: Path) -> None:
    rows = write(tmp_path, by_kafka)
    options = {"path": str(tmp_path), "subscribe": "t", "view": "latest", "splitBytes": "2000"}
    frame = spark.read.format("tidelog").options(**options).load()
    assert pairs(frame) == newest(rows)
    assert "Exchange" not in frame._jdf.queryExecution().toString()
    # Memory for a part of them: the others go by way of a disk.
    assert pairs(spark.read.format("tidelog").options(**options, latestMemoryBytes="2000").load()) == newest(rows)
    # What is shown does not choose what is the latest.
    everything = {(row.partition, row.offset) for row in frame.collect()}
    middle = sorted(offset for _, offset in everything)[len(everything) // 2]
    shown = {(row.partition, row.offset) for row in frame.where(f"offset < {middle}").collect()}
    assert shown == {one for one in everything if one[1] < middle}
    assert shown


def test_keys_that_move_are_noticed_and_compared_by_time(spark: Any, tmp_path: Path) -> None:
    chance = random.Random(9)
    rows = write(tmp_path, lambda key: chance.randrange(3))
    options = {"path": str(tmp_path), "subscribe": "t"}
    with pytest.raises(Exception, match="is not where Kafka's default partitioner puts it in 3 partitions"):
        latest(spark, options).collect()
    assert pairs(latest(spark, {**options, "keysStayInPartition": "false"})) == newest(rows)
    chosen = latest(spark, {**options, "keysStayInPartition": "false", "columns": "headers,offset"})
    assert (chosen.columns, chosen.count()) == (["headers", "offset"], len(newest(rows)))


def test_a_changelog_tells_what_each_row_changes(spark: Any, tmp_path: Path) -> None:
    rows = write(tmp_path, by_kafka)
    frame = spark.read.format("tidelog").options(path=str(tmp_path), subscribe="t", view="changelog").load()
    last: dict[bytes, tuple[int, bytes | None]] = {}
    wanted = []
    for partition, offset, key, value, _ in rows:
        before = last.get(key)
        operation = "delete" if value is None else "insert" if before is None or before[1] is None else "update"
        wanted.append((partition, offset, operation, None if before is None else before[0]))
        last[key] = (offset, value)
    found = frame.select("partition", "offset", "_op", "_previous_offset").collect()
    assert sorted(tuple(row) for row in found) == sorted(wanted)
