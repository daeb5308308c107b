"""An index searched on disk, against one that is read as a list; and one of any bytes."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.segment_dirs import write_log
from tidelog.pipeline.planning.sparse_index import Entry, SegmentIndex, first_at
from tidelog.pipeline.reading.segment_files import SegmentFile, list_segments
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

BASE = 1000
SIZE = 1 << 20


def write(home: str, content: bytes) -> SegmentFile:
    (Path(home) / f"{BASE:020d}.index").write_bytes(content)
    return SegmentFile(home, BASE, 1, SIZE)


@given(
    st.sets(st.tuples(st.integers(1, 50), st.integers(1, 900)), max_size=40),
    st.integers(0, 3000),
    st.integers(0, 40_000),
    st.integers(0, 600),
)
def test_look_ups_are_those_of_a_list(steps: set[tuple[int, int]], by: int, position: int, reserved: int) -> None:
    entries, offset, at = [], BASE, 0
    for offset_step, position_step in sorted(steps):
        offset, at = offset + offset_step, at + position_step
        entries.append(Entry(offset, at))
    content = b"".join(struct.pack(">ii", entry.last_offset - BASE, entry.position) for entry in entries)
    with tempfile.TemporaryDirectory() as home:
        segment = write(home, content + bytes(8 * reserved))
        with SegmentIndex(segment) as index:
            wanted = BASE - 100 + by
            assert index.floor(wanted) == max((e for e in entries if e.last_offset <= wanted), default=None)
            assert index.ceiling(wanted) == min((e for e in entries if e.last_offset >= wanted), default=None)
            assert index.at_position(position) == min((e for e in entries if e.position >= position), default=None)


@given(st.binary(max_size=200), st.integers(-5, 1 << 40), st.integers(0, 1 << 40))
def test_an_index_of_any_bytes_gives_places_in_the_segment(content: bytes, offset: int, position: int) -> None:
    with tempfile.TemporaryDirectory() as home, SegmentIndex(write(home, content)) as index:
        for entry in (index.floor(offset), index.ceiling(offset), index.at_position(position)):
            assert entry is None or (0 < entry.position < SIZE and entry.last_offset >= BASE)


def test_an_index_that_is_not_there_has_no_entries(tmp_path: Path) -> None:
    with SegmentIndex(SegmentFile(str(tmp_path), BASE, 1, SIZE)) as index:
        assert index.floor(BASE + 5) is None


@pytest.mark.parametrize(
    "entries",
    [[(500, 90)], [(1, 90)], [(2**40, 5), (2**41, 6)], [(-5, -7), (3, 99)]],
    ids=["late", "old", "young", "odd"],
)
def test_a_time_index_of_another_file_hides_no_record(tmp_path: Path, entries: list[tuple[int, int]]) -> None:
    """A filter by time leaves out what lies before; an index is a hint, whatever it says."""
    batches = [build_batch([Record(0, 100 + at, b"k", b"v")], base_offset=at) for at in range(100)]
    write_log(tmp_path / "t-0", [batches])
    (tmp_path / "t-0" / f"{0:020d}.timeindex").write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))
    segments = list_segments(tmp_path / "t-0")
    assert [first_at(segments, time, 0, 100) for time in (1, 100, 101, 150, 199, 200)] == [0, 0, 1, 50, 99, None]
