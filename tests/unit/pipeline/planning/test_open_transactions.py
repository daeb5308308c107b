"""Where committed data ends, asked again and again as a stream does, against what the batches say."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.segment_dirs import write_log, write_segment, write_segment_into
from tidelog.pipeline.planning.open_transactions import TransactionScan
from tidelog.pipeline.reading.segment_files import list_segments
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

#: (producer, is_marker) of each batch of one record; producer −1 writes without a transaction.
BATCHES = st.lists(st.tuples(st.integers(-1, 2), st.booleans()), min_size=1, max_size=24)


def batch(offset: int, producer: int, is_marker: bool) -> bytes:
    if producer < 0:
        return build_batch([Record(0, 1, None, b"v")], base_offset=offset)
    return build_batch(
        [Record(0, 1, b"\0\0\0\1", b"v")], base_offset=offset, producer_id=producer, producer_epoch=0, base_sequence=0,
        is_transactional=True, is_control=is_marker,
    )  # fmt: skip


def first_open(said: list[tuple[int, bool]], end: int) -> int:
    """By definition: the first record of a producer since its last marker below `end`."""
    firsts = []
    for producer in {producer for producer, _ in said[:end] if producer >= 0}:
        own = [(offset, marks) for offset, (who, marks) in enumerate(said[:end]) if who == producer]
        behind = max((offset for offset, marks in own if marks), default=-1)
        firsts += [offset for offset, _ in own if offset > behind][:1]
    return min(firsts, default=end)


def segments_of(said: list[tuple[int, bool]], roll: int) -> list[list[bytes]]:
    batches = [batch(offset, *each) for offset, each in enumerate(said)]
    return [batches[at : at + roll] for at in range(0, len(batches), roll)]


@given(BATCHES, st.integers(1, 10), st.lists(st.integers(0, 24), min_size=1, max_size=6))
def test_each_look_is_as_if_it_were_the_first(said: list[tuple[int, bool]], roll: int, ends: list[int]) -> None:
    """Ends that rise and, after a daemon's crash, fall."""
    with tempfile.TemporaryDirectory() as home:
        write_log(Path(home), segments_of(said, roll))
        segments, scan = list_segments(home), TransactionScan()
        for end in (min(end, len(said)) for end in ends):
            assert scan.first_open(segments, end) == first_open(said, end)


def test_a_header_is_read_once_however_often_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [(1, False)] + [(-1, False)] * 3000
    write_log(tmp_path, segments_of(said, 5000))
    segments, scan = list_segments(tmp_path), TransactionScan()
    assert scan.first_open(segments, 3000) == 0
    read: list[int] = []
    real = os.pread

    def pread(file: int, length: int, offset: int) -> bytes:
        data = real(file, length, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", pread)
    assert scan.first_open(segments, 3001) == 0
    assert sum(read) < 1000, "of 3,001 batches the last"


def test_a_segment_that_cleaning_replaced_is_read_from_its_start(tmp_path: Path) -> None:
    said = [(-1, False)] * 10 + [(1, False), (-1, False), (1, True), (2, False), (-1, False)]
    write_log(tmp_path, segments_of(said, 12))
    scan = TransactionScan()
    assert scan.first_open(list_segments(tmp_path), 11) == 10
    write_segment(tmp_path, 0, [batch(10, 1, False), batch(11, -1, False)])
    assert scan.first_open(list_segments(tmp_path), 15) == 13


def test_a_segment_with_the_inode_of_the_one_that_was_read_is_another_one(tmp_path: Path) -> None:
    """Between two looks the segment that was read last is rolled, cleaned and deleted, and a newer one gets its inode."""
    said = [(-1, False)] * 10 + [(1, False)] * 10 + [(-1, False)] * 10
    segments, scan = segments_of(said, 10), TransactionScan()
    write_log(tmp_path, segments[:1])
    assert scan.first_open(list_segments(tmp_path), 10) == 10
    write_segment(tmp_path, 10, segments[1])
    write_segment_into(tmp_path / f"{0:020d}.log", 20, segments[2])
    assert scan.first_open(list_segments(tmp_path), 30) == 10


def test_a_segment_with_the_name_and_the_inode_of_the_one_that_was_read_is_another_one(tmp_path: Path) -> None:
    """Two passes of the cleaner between two looks: the second one gets the inode that the first one has set free."""
    said = [(2, False), (2, True)] * 5 + [(1, False), (1, False)]
    write_log(tmp_path, segments_of(said, 12))
    scan = TransactionScan()
    assert scan.first_open(list_segments(tmp_path), 2) == 2
    write_segment_into(tmp_path / f"{0:020d}.log", 0, [batch(at, *said[at]) for at in (10, 11)])  # of the same size
    assert scan.first_open(list_segments(tmp_path), 12) == 10
