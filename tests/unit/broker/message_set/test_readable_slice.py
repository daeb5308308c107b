from __future__ import annotations

import pytest
from support.logs import World, append
from support.mock_time import START_MS
from tidelog.broker.message_set.readable_slice import read_for_magic
from tidelog.broker.partitions.conversion_thread import CONVERTED_SLICE_BYTES
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.memory_records import iterate_batches
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.exceptions import OffsetOutOfRangeError
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.values import AppendOrigin


@pytest.fixture
def log(machine: World) -> UnifiedLog:
    """Offsets 0 to 2 in format 1 (in this topic's format), 3 and 4 in format 2, a marker at 5, 6 in zstd."""
    made = machine.log()
    made.update_config(type(machine.log_config)(message_format_version="0.10.0", segment_index_bytes=4096))
    old = build_legacy_set([Record(0, START_MS, b"k", b"v")] * 3, magic=1)
    made.append_message_set(old, 0, len(old))
    made.update_config(machine.log_config)
    append(made, "a", "b")
    marker = bytearray(
        build_batch(
            [Record(0, START_MS, b"\0\0\0\1", b"\0\0\0\0\0\0")],
            is_control=True,
            is_transactional=True,
            producer_id=7,
            producer_epoch=0,
        )
    )
    made.append_as_leader(marker, 0, len(marker), origin=AppendOrigin.COORDINATOR)
    append(made, "z", compression=Compression.ZSTD)
    return made


def leases(log: UnifiedLog) -> int:
    info = log.read(0, 1)
    assert info.file is not None
    count = info.file.leases  # type: ignore[attr-defined]
    info.release()
    return int(count)


def test_a_slice_that_is_fit_is_left_in_its_file(log: UnifiedLog) -> None:
    found = read_for_magic(log, 1, 40, 1)
    assert found.data is None
    assert found.info.file is not None
    assert found.info.size == 40
    found.info.release()
    found = read_for_magic(log, 3, 1 << 20, 2)
    assert found.data is None, "format 2 for a client of today"
    found.info.release()


def test_one_with_newer_entries_is_read_and_its_file_given_back(log: UnifiedLog) -> None:
    before = leases(log)
    found = read_for_magic(log, 0, 1 << 20, 1)
    assert found.data is not None
    assert [header.magic for header in iterate_batches(found.data)] == [1, 1, 1, 2, 2, 2]
    assert (found.info.file, found.info.size) == (None, 0)
    found = read_for_magic(log, 4, 1, 1)
    assert found.data is not None
    assert [header.last_offset for header in iterate_batches(found.data)] == [4], "one whole entry at least"
    assert leases(log) == before


def test_the_end_and_beyond(log: UnifiedLog) -> None:
    found = read_for_magic(log, 7, 100, 1)
    assert (found.data, found.info.file) == (None, None)
    with pytest.raises(OffsetOutOfRangeError):
        read_for_magic(log, 8, 100, 1)


def test_what_is_looked_at_is_bounded(machine: World) -> None:
    log = machine.log("big")
    for _ in range(4):
        append(log, bytes(400_000))
    found = read_for_magic(log, 0, 1 << 30, 1)
    assert found.data is not None
    assert len(found.data) == CONVERTED_SLICE_BYTES
