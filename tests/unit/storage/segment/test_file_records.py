from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_filesystem import FakeFileSystem
from support.old_formats import old_logs
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.exceptions import CorruptRecordError
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.index.time_index import TimestampOffset
from tidelog.storage.io.filesystem import File
from tidelog.storage.segment import file_records

LOGS = old_logs()


def file_of(data: bytes) -> File:
    file = FakeFileSystem().open("/log", create=True)
    file.append(data)
    return file


@pytest.mark.parametrize("name", LOGS)
def test_headers_of_every_format(name: str) -> None:
    log = LOGS[name]
    file = file_of(log.data)
    headers = list(file_records.read_headers(file, 0, len(log.data)))
    assert [(h.position, h.size, h.magic, h.crc, h.last_offset, h.max_timestamp) for h in headers] == [
        (b.position, b.size, b.magic, b.crc, b.last_offset, b.max_timestamp) for b in log.batches
    ]
    for batch in log.batches:
        found = (batch.position, batch.size, batch.last_offset)
        assert file_records.batch_at(file, batch.position) == found
        for record in batch.records:
            assert file_records.find_batch(file, 0, len(log.data), record.offset) == found
    assert file_records.batch_at(file, len(log.data)) is None
    assert file_records.last_offset(file, 0, len(log.data)) == log.records[-1].offset
    assert file_records.find_batch(file, 0, len(log.data), log.records[-1].offset + 1) is None
    file.close()


def test_what_the_end_cuts_off_is_not_there() -> None:
    """The smallest message of format 0 is shorter than a batch's header."""
    data = build_legacy_set([Record(0, -1, None, None)] * 3, magic=0)
    file = file_of(data)
    for end in range(len(data) + 1):
        assert len(list(file_records.read_headers(file, 0, end))) == end // 26
    assert file_records.batch_at(file, 52) == (52, 26, 2)
    file.close()
    mixed = data + build_batch([Record(0, 1, b"k", b"v")], base_offset=3)
    file = file_of(mixed)
    for end in range(len(data), len(mixed)):
        assert len(list(file_records.read_headers(file, 0, end))) == 3
    file.close()


@pytest.mark.parametrize("at_and_byte", [(8, 0xFF), (11, 13), (16, 3)])
def test_impossible_headers(at_and_byte: tuple[int, int]) -> None:
    data = bytearray(build_legacy_set([Record(0, 5, b"key", b"value" * 20)], magic=1))
    data[at_and_byte[0]] = at_and_byte[1]
    file = file_of(bytes(data))
    with pytest.raises(CorruptRecordError):
        list(file_records.read_headers(file, 0, len(data)))
    file.close()


@pytest.mark.parametrize("name", LOGS)
def test_look_up_by_time_agrees_with_the_dump(name: str) -> None:
    log = LOGS[name]
    file, size, end = file_of(log.data), len(log.data), log.records[-1].offset + 1
    times = sorted({record.timestamp for record in log.records})
    for target in {0, *times, times[0] + 1, times[-1] + 1}:
        for start, limit in ((0, end), (log.records[20].offset, log.records[-20].offset)):
            wanted = next(
                ((r.timestamp, r.offset) for r in log.records if r.timestamp >= target and r.offset >= start), None
            )
            if wanted is not None and wanted[1] >= limit:
                wanted = None
            found = file_records.find_timestamp(file, 0, size, target, start, limit)
            assert (found and found[:2]) == wanted
    for start, limit in ((0, end), (log.records[20].offset, log.records[-20].offset)):
        inside = [record for record in log.records if start <= record.offset < limit]
        latest = max(inside, key=lambda record: (record.timestamp, -record.offset))
        found = file_records.find_largest_timestamp(file, 0, size, start, limit)
        assert found is not None
        assert found[:2] == (latest.timestamp, latest.offset)
    largest = file_records.largest_timestamp(file, 0, size)
    first = next((b for b in log.batches if b.max_timestamp == times[-1]), None)
    assert largest[:2] == ((first.max_timestamp, first.last_offset) if first and times[-1] >= 0 else (-1, -1))
    file.close()


def test_a_wrapper_across_the_limit() -> None:
    """Its header tells the last offset alone: what lies below the limit is found all the same."""
    records = [Record(0, 100 + index, b"k", b"v") for index in range(10)]
    for magic in (0, 1):
        data = build_legacy_set(records, magic=magic, base_offset=5, compression=Compression.GZIP)
        file = file_of(data)
        found = file_records.find_largest_timestamp(file, 0, len(data), 0, 9)
        assert found == (TimestampOffset(103, 8) if magic else TimestampOffset(-1, 5))
        assert file_records.find_timestamp(file, 0, len(data), 103, 0, 9) == (
            TimestampOffset(103, 8) if magic else None
        )
        assert file_records.find_timestamp(file, 0, len(data), 104, 0, 9) is None
        file.close()


@given(st.binary(min_size=34, max_size=80), st.sampled_from([0, 1]), st.integers(-(1 << 63), (1 << 63) - 1))
def test_an_index_entry_may_name_any_bytes(head: bytes, magic: int, other: int) -> None:
    data = head[:16] + bytes([magic]) + head[17:]
    offset, counted = int.from_bytes(data[:8], "big", signed=True), int.from_bytes(data[8:12], "big", signed=True)
    assert file_records.ends_at(data, offset) == (counted >= (14, 22)[magic])
    assert file_records.ends_at(data, other) in (False, other == offset)


@pytest.mark.parametrize("magic", [1, 2])
def test_a_batch_that_is_truncated_between_its_header_and_its_records(magic: int) -> None:
    """A look-up takes no lock: what it saw a moment ago may be gone, and is no damage."""
    records = [Record(0, 100, b"k", b"v" * 50)]
    data = build_batch(records) if magic == 2 else build_legacy_set(records, magic=magic)
    file = file_of(data)
    (header,) = file_records.read_headers(file, 0, len(data))
    for size in (len(data) - 1, 10, 0):
        file.truncate(size)
        assert list(file_records.read_records(file, header)) == []
        assert file_records.find_in_batch(file, header, 0, 0) is None
    file.close()
