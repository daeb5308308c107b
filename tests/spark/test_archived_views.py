"""`latest` and `changes` of an archive, with no topic and no broker: by their definition; and their refusals."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tidelog.cli.pipeline import spark_failure
from tidelog.pipeline import changes, latest
from tidelog.pipeline.exceptions import OptionError
from tidelog.pipeline.jobs.latest import latest as write_latest
from tidelog.pipeline.jobs.manifest import ArchiveError, ArchiveFile, add_manifest

ORDER = {"decode": "json", "decodeSchema": json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
START = datetime.datetime(2024, 5, 6, tzinfo=datetime.UTC)


class Row(NamedTuple):
    """One of an archive; its headers and time follow from its offset."""

    key: bytes | None
    value: bytes | None
    partition: int
    offset: int

    @property
    def time(self) -> datetime.datetime:
        return START + datetime.timedelta(milliseconds=self.offset, microseconds=1)

    @property
    def headers(self) -> list[dict[str, Any]] | None:
        return [{"key": "n", "value": b"%d" % self.offset}] if self.offset % 2 else None


def keep(folder: Path, *runs: Sequence[Row]) -> str:
    """An archive of the topic `orders` as runs of the job have left it: each its files, each day's rows in one."""
    ends: dict[int, int] = {}
    for version, rows in enumerate(runs, 1):
        path = f"data/{version:08}-made/date=2024-05-06/part.parquet"
        (folder / path).parent.mkdir(parents=True)
        columns = {
            "key": pa.array([row.key for row in rows], pa.binary()),
            "value": pa.array([row.value for row in rows], pa.binary()),
            "topic": pa.array(["orders"] * len(rows)),
            "_partition": pa.array([row.partition for row in rows], pa.int32()),
            "_offset": pa.array([row.offset for row in rows], pa.int64()),
            "timestamp": pa.array([row.time for row in rows], pa.timestamp("us", "UTC")),
            "timestampType": pa.array([0] * len(rows), pa.int32()),
            "headers": pa.array([row.headers for row in rows], HEADERS),
        }
        pq.write_table(pa.table(columns), folder / path)
        ends |= {row.partition: row.offset + 1 for row in rows}
        add_manifest(str(folder), version, "orders", None, ends, [ArchiveFile(path, len(rows), 1)])
    return str(folder)


def changes_of(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """By the definition: each row's place, what it does, and the offset of its key's row before."""
    before: dict[tuple[int, bytes], Row] = {}
    found = []
    for row in sorted(rows, key=lambda row: (row.partition, row.offset)):
        last = before.get((row.partition, row.key)) if row.key is not None else None
        was_there = last is not None and last.value is not None
        operation = (
            "insert" if row.key is None else "delete" if row.value is None else "update" if was_there else "insert"
        )
        found.append((row.partition, row.offset, operation, None if last is None else last.offset))
        if row.key is not None:
            before[row.partition, row.key] = row
    return found


#: Keys that come again over two runs, are deleted twice, come back, or are deleted before they are there; and rows of none.
FIRST = [Row(b"key %d" % (n % 17), None if n % 7 == 0 else b"value %d" % n, n % 17 % 2, n) for n in range(60)]
SECOND = [
    Row(None, b"1", 0, 60), Row(None, None, 1, 61), Row(b"key 1", None, 1, 62), Row(b"key 1", None, 1, 63),
    Row(b"key 1", b"back", 1, 64), Row(b"new", None, 0, 65), Row(b"key 2", b"newer", 0, 66), Row(b"key 3", None, 1, 67),
]  # fmt: skip


def test_the_views_of_an_archive_are_by_their_definition(spark: Any, tmp_path: Path) -> None:
    folder, rows = keep(tmp_path / "archive", FIRST, SECOND), [*FIRST, *SECOND]
    told = changes(spark, {"includeHeaders": "true"}, archive=folder)
    plain = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert told.columns == [*plain, "_op", "_previous_offset"]
    found = sorted(told.collect(), key=lambda row: (row.partition, row.offset))
    assert [(row.partition, row.offset, row._op, row._previous_offset) for row in found] == changes_of(rows)
    by_offset = {row.offset: row for row in rows}
    for row in found:
        kept = by_offset[row.offset]
        assert (row.key, row.value, row.topic) == (kept.key, kept.value, "orders")
        assert row.timestamp.astimezone(datetime.UTC) == kept.time
        assert (row.headers and [each.asDict() for each in row.headers]) == kept.headers

    newest = {row.key: row for row in rows if row.key is not None}
    wanted = sorted((row.key, row.value, row.offset) for row in newest.values() if row.value is not None)
    for stays in ("check", "true", "false"):
        options = {"keysStayInPartition": stays, "columns": "key,value,offset", "subscribe": "orders"}
        assert sorted(tuple(row) for row in latest(spark, options, archive=folder).collect()) == wanted
    report = write_latest(spark, {}, str(tmp_path / "table"), archive=folder)
    assert (report["topic"], report["keys"], report["offsets"]) == ("orders", len(wanted), len(rows))
    assert report["ends"] == {"0": 67, "1": 68}
    table = spark.read.parquet(str(tmp_path / "table"))
    assert table.columns == plain
    assert sorted(tuple(row) for row in table.select("key", "value", "offset").collect()) == wanted


@pytest.mark.parametrize(("key", "shown"), [(b"a", "a"), (b"\xff\x00" + b"x" * 50, "\ufffd\x00" + "x" * 38)])
def test_a_key_in_two_partitions_is_told_unless_they_are_to_be_compared(
    spark: Any, tmp_path: Path, key: bytes, shown: str
) -> None:
    """Whatever bytes it has."""
    rows = [Row(key, b"1", 0, 0), Row(b"stays", b"1", 1, 1), Row(key, b"2", 1, 2), Row(key, b"3", 0, 3)]
    folder = keep(tmp_path / "archive", rows)
    with pytest.raises(Exception, match=f"orders: the key {shown} is in the partitions 0 and 1; say keysStay") as told:
        latest(spark, {}, archive=folder).collect()
    assert f"orders: the key {shown} is in the partitions 0 and 1" in spark_failure(str(told.value))
    compared = latest(spark, {"keysStayInPartition": "false", "columns": "key,value"}, archive=folder)
    assert {bytes(row.key): bytes(row.value) for row in compared.collect()} == {key: b"3", b"stays": b"1"}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_decoded_columns_of_an_archive(spark: Any, tmp_path: Path, zone: str) -> None:
    values = [(b"a", b'{"id": 1}'), (b"b", b"{"), (b"c", b"{}"), (b"c", None), (b"a", b'{"id": 2}')]
    folder = keep(tmp_path / "archive", [Row(key, value, 0, n) for n, (key, value) in enumerate(values)])
    try:
        spark.conf.set("spark.sql.session.timeZone", zone)
        told = changes(spark, ORDER, archive=folder).selectExpr("*", "unix_micros(timestamp) as micros").collect()
        found = latest(spark, {**ORDER, "columns": "key,record"}, archive=folder).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    by_offset = {row.offset: row for row in told}
    start = int(START.timestamp()) * 1_000_000 + 1
    assert {offset: row.micros for offset, row in by_offset.items()} == {n: start + 1000 * n for n in range(5)}
    assert [by_offset[n].record and by_offset[n].record.asDict() for n in range(5)] == [
        {"id": 1}, None, {"id": None}, None, {"id": 2},
    ]  # fmt: skip
    assert by_offset[1].recordError.startswith("no JSON")
    assert [by_offset[n].recordError for n in (0, 2, 3, 4)] == [None] * 4
    assert (by_offset[3]._op, by_offset[4]._op) == ("delete", "update")
    assert {bytes(row.key): row.record and row.record.id for row in found} == {b"a": 2, b"b": None}


def test_what_an_archive_cannot_be_asked_for_is_one_sentence(spark: Any, tmp_path: Path) -> None:
    folder = keep(tmp_path / "archive", FIRST)
    for given, said in (
        ({"startingOffsets": "earliest"}, "startingOffsets is for reading a topic; of an archive there are subscribe, columns"),
        ({"kafka.bootstrap.servers": "x:1"}, "kafka.bootstrap.servers is for reading a topic"),
        ({"keysStayInPartitions": "true"}, "unknown option keysStayInPartitions; did you mean keysStayInPartition"),
        ({"keysStayInPartition": "maybe"}, "keysStayInPartition is 'maybe'; it can be"),
        ({"columns": "key,nothing"}, "columns names nothing; this view of an archive has key, value"),
        ({"decode": "xml"}, "decode is 'xml'; it can be json"),
    ):  # fmt: skip
        for view in (latest, changes):
            with pytest.raises(OptionError, match=said) as told:
                view(spark, given, archive=folder)
            assert "\n" not in str(told.value)
    with pytest.raises(ArchiveError, match="is the archive of orders, not of other"):
        latest(spark, {"subscribe": "other"}, archive=folder)
    with pytest.raises(ArchiveError, match="nowhere: there is no archive here"):
        changes(spark, {}, archive=str(tmp_path / "nowhere"))
    for view in (latest, changes):
        with pytest.raises(OptionError, match="is read as a batch: leave stream out"):
            view(spark, {}, archive=folder, stream=True)
