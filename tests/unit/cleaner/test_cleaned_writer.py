from __future__ import annotations

import errno

import pytest
from support.cleaning import CleaningWorld
from support.fake_filesystem import FakeFile
from support.mock_time import START_MS
from tidelog.cleaner.aborted_transactions import AbortedTransactions
from tidelog.cleaner.cleaned_writer import CleanedWriter
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.exceptions import StorageError
from tidelog.storage.segment.files import LogDirectory


@pytest.fixture
def directory() -> LogDirectory:
    made = CleaningWorld()
    made.start(index_interval_bytes=0)
    return made.log().log_directory


def batches(*offsets: int) -> memoryview:
    return memoryview(
        b"".join(
            build_batch([Record(0, START_MS + o % 1000, b"k", b"v")], base_offset=o, partition_leader_epoch=0)
            for o in offsets
        )
    )


def test_one_segment_with_its_indexes_and_its_file_time(directory: LogDirectory) -> None:
    data = batches(3, 5, 9)
    writer = CleanedWriter(directory, 0, 10, index_interval_bytes=0)
    writer.append(data)
    (cleaned,) = writer.finish(123_000, AbortedTransactions(), [], 3)
    assert (cleaned.base_offset, cleaned.size, cleaned.largest.offset, cleaned.live) == (0, len(data), 9, 3)
    fs = directory.file_system
    assert fs.read_bytes(directory.file(0, ".log", ".cleaned")) == data
    assert fs.stat(directory.file(0, ".log", ".cleaned")).modified_ms == 123_000
    assert len(fs.read_bytes(directory.file(0, ".index", ".cleaned"))) % 8 == 0
    assert fs.read_bytes(directory.file(0, ".timeindex", ".cleaned"))[-12:-4] == (START_MS + 9).to_bytes(8, "big")


def test_a_file_that_is_full_and_an_offset_too_far_begin_a_new_segment(directory: LogDirectory) -> None:
    one = len(batches(1))
    writer = CleanedWriter(directory, 0, 10, index_interval_bytes=0, max_bytes=2 * one)
    writer.append(batches(1, 2, 3, 4, 5))
    assert [(c.base_offset, c.size, c.live) for c in writer.finish(0, AbortedTransactions(), [], 5)] == [
        (0, 2 * one, 2), (3, 2 * one, 2), (5, one, 1),
    ]  # fmt: skip
    far = 2**31 + 5
    writer = CleanedWriter(directory, 0, far + 1, index_interval_bytes=0)
    writer.append(batches(0, far))
    assert [c.base_offset for c in writer.finish(0, AbortedTransactions(), [], 2)] == [0, far]


def test_a_new_segment_that_begins_with_a_wrapper_begins_below_all_offsets_in_it(directory: LogDirectory) -> None:
    """A wrapper of the old formats has its last record's offset."""
    records = [Record(number, START_MS, b"k%d" % number, b"v") for number in range(3)]
    wrappers = [
        build_legacy_set(records, magic=1, base_offset=base, compression=Compression.GZIP) for base in (0, 3, 6)
    ]
    writer = CleanedWriter(directory, 0, 9, index_interval_bytes=0, max_bytes=len(wrappers[0]) + 1)
    writer.append(memoryview(b"".join(wrappers)))
    done = writer.finish(0, AbortedTransactions(), [], 9)
    assert [(cleaned.base_offset, cleaned.live) for cleaned in done] == [(0, 3), (3, 3), (6, 3)]


def test_unsound_batches_are_refused(directory: LogDirectory) -> None:
    damaged = bytearray(batches(1, 2))
    damaged[-1] ^= 1
    writer = CleanedWriter(directory, 0, 10, index_interval_bytes=0)
    with pytest.raises(StorageError, match="sound"):
        writer.append(memoryview(damaged))
    writer.discard()
    assert not directory.file_system.exists(directory.file(0, ".log", ".cleaned"))


def test_a_writer_that_can_not_begin_leaves_no_file(directory: LogDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start after a power cut would take it for a group that was not complete, and drop the swaps of later passes."""

    def full(_file: object, _size: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(FakeFile, "truncate", full)
    with pytest.raises(OSError, match="full"):
        CleanedWriter(directory, 0, 10, index_interval_bytes=0)
    assert not directory.file_system.exists(directory.file(0, ".log", ".cleaned"))


def test_leftovers_of_a_failed_pass_are_overwritten(directory: LogDirectory) -> None:
    directory.file_system.write_new(directory.file(0, ".log", ".cleaned"), b"x" * 1000)
    writer = CleanedWriter(directory, 0, 10, index_interval_bytes=0)
    (cleaned,) = writer.finish(0, AbortedTransactions(), [], 0)
    assert cleaned.size == 0
    assert directory.file_system.stat(directory.file(0, ".log", ".cleaned")).size == 0
