"""The views of random logs against their definition by a dict, over rows in parts of any size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="of the extra `pipeline`")

from tidelog.pipeline.reading import views
from tidelog.pipeline.reading.columns import Columns, Keeping
from tidelog.pipeline.reading.spill import SpillError
from tidelog.protocol.records._batches import murmur2
from tidelog.protocol.records._columns import ColumnBuilder

KEYS = st.none() | st.integers(0, 6).map(lambda number: b"%d" % number)
NAMES = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


class Record(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    offset, found = 0, []
    for key in draw(st.lists(KEYS, max_size=60)):
        offset += draw(st.integers(1, 3))
        found.append(Record(offset, key, draw(st.none() | st.binary(max_size=4))))
    return found


def parts(log: list[Record], size: int) -> Iterator[Columns]:
    for first in range(0, len(log), size):
        builder = ColumnBuilder(keys=True, values=True)
        for one in log[first : first + size]:
            builder.add_record(one.offset, one.offset, 0, one.key, one.value)
        yield Columns(*builder.take())


def rows(batches: Iterator[Any]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@given(logs(), st.integers(1, 20), st.booleans(), st.integers(0, 20))
def test_the_latest_row_of_each_key(log: list[Record], size: int, tombstones: bool, spare: int) -> None:
    newest = {one.key: one for one in log if one.key is not None}
    wanted = sorted(one for one in newest.values() if tombstones or one.value is not None)
    before, views.SPARE_ROWS = views.SPARE_ROWS, spare  # rows are dropped at many moments
    try:
        found = rows(views.latest(parts(log, size), NAMES, "t", 3, Keeping(tombstones=tombstones)))
    finally:
        views.SPARE_ROWS = before
    assert [Record(row["offset"], row["key"], row["value"]) for row in found] == wanted
    assert all((row["topic"], row["partition"]) == ("t", 3) for row in found)


@given(logs(), st.integers(1, 20), st.booleans(), st.integers(1, 40_000))
def test_the_latest_rows_are_the_same_by_way_of_a_disk(
    log: list[Record], size: int, tombstones: bool, memory: int
) -> None:
    """From no memory at all, where every key is alone in its file in the end, up to where some parts stay in memory."""
    newest = {one.key: one for one in log if one.key is not None}
    wanted = sorted(one for one in newest.values() if tombstones or one.value is not None)
    for names in (NAMES, ["offset"]):
        found = rows(views.latest(parts(log, size), names, "t", 3, Keeping(tombstones=tombstones), memory))
        assert sorted(row["offset"] for row in found) == [one.offset for one in wanted]
        assert all(list(row) == names for row in found)
        if names == NAMES:
            assert sorted(Record(row["offset"], row["key"], row["value"]) for row in found) == wanted


@given(logs(), st.integers(1, 20))
def test_each_change_and_what_it_changes(log: list[Record], size: int) -> None:
    last: dict[bytes, Record] = {}
    wanted = []
    for one in log:
        before = None if one.key is None else last.get(one.key)
        if one.key is not None and one.value is None:
            operation = "delete"
        else:
            operation = "insert" if before is None or before.value is None else "update"
        wanted.append((one.offset, operation, None if before is None else before.offset))
        if one.key is not None:
            last[one.key] = one
    found = rows(views.changelog(parts(log, size), ["_previous_offset", "offset", "_op"], "t", 3))
    assert [(row["offset"], row["_op"], row["_previous_offset"]) for row in found] == wanted
    assert all(list(row) == ["_previous_offset", "offset", "_op"] for row in found)


@given(logs(), st.integers(1, 20), st.integers(2, 3), st.integers(0, 1))
def test_a_key_that_may_be_in_two_partitions_ends_the_read(
    log: list[Record], size: int, count: int, number: int
) -> None:
    strange = [one for one in log if one.key is not None and (murmur2(one.key) & 0x7FFFFFFF) % count != number]
    reading = views.latest(parts(log, size), NAMES, "t", number, Keeping(count))
    if not strange:
        assert len(rows(reading)) <= len(log)
        return
    with pytest.raises(views.KeysMoveError, match=f"t-{number}: the key .* at offset {strange[0].offset} is not where"):
        rows(reading)


def test_memory_follows_the_keys_and_not_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "SPARE_ROWS", 100)
    sizes = []
    kept = views._kept

    def spy(blocks: Any, is_last: Any) -> Any:
        sizes.append(sum(block.rows.num_rows for block in blocks))
        return kept(blocks, is_last)

    monkeypatch.setattr(views, "_kept", spy)
    log = [Record(offset, b"%d" % (offset % 10), b"v") for offset in range(20_000)]
    assert len(rows(views.latest(parts(log, 50), NAMES, "t", 0, Keeping()))) == 10
    assert max(sizes) <= 2 * (10 + 100) + 100


def test_more_keys_than_memory_has_room_for_go_by_way_of_a_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Rows and keys that are held stay below the limit and a part; nothing is left on the disk, not even by who stops reading."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")
    limit, held, spilled = 1 << 20, [], []
    kept, put_away = views._kept, views._put_away

    def held_by(blocks: Any, is_last: Any) -> Any:
        held.append(sum(block.rows.nbytes for block in blocks))
        return kept(blocks, is_last)

    def seen(blocks: Any, table: Any, spill: Any) -> None:
        put_away(blocks, table, spill)
        spilled.append(spill.bytes)
        assert len(list(tmp_path.iterdir())) == 1

    monkeypatch.setattr(views, "_kept", held_by)
    monkeypatch.setattr(views, "_put_away", seen)
    # Each key three times, far from one another; the last time every third is a tombstone.
    count = 20_000
    log = [
        Record(turn * count + number, b"key %d" % number, None if turn == 2 and number % 3 == 0 else bytes(100))
        for turn in range(3)
        for number in range(count)
    ]
    found = rows(views.latest(parts(log, 1000), ["offset", "value"], "t", 0, Keeping(), limit))
    assert sorted(row["offset"] for row in found) == [2 * count + number for number in range(count) if number % 3]
    assert len(spilled) > 3
    assert max(held) < limit + 200_000, "a part has 150 kB"
    assert not list(tmp_path.iterdir())
    reading = views.latest(parts(log, 1000), ["offset"], "t", 0, Keeping(), limit)
    next(reading)
    assert list(tmp_path.iterdir())
    reading.close()
    assert not list(tmp_path.iterdir())


def test_a_disk_that_takes_no_rows_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "gone"))
    log = [Record(offset, b"%d" % offset, b"v") for offset in range(100)]
    with pytest.raises(
        SpillError, match=r"cannot put them into .*gone \(No such file or directory\); give spark.local.dir"
    ):
        rows(views.latest(parts(log, 50), NAMES, "t", 0, Keeping(), 1))
