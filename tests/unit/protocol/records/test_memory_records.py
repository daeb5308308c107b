from __future__ import annotations

import pytest
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.exceptions import CorruptRecordError
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.memory_records import (
    is_intact,
    iterate_batches,
    iterate_records,
    read_header,
)
from tidelog.protocol.records.record_batch import Record

RECORDS = [Record(offset, 1000 + offset, b"k%d" % offset, b"v") for offset in range(6)]
MIXED = (
    build_legacy_set(RECORDS[:2], magic=0)
    + build_legacy_set(RECORDS[2:4], magic=1, base_offset=2, compression=Compression.GZIP)
    + build_batch(RECORDS[4:], base_offset=4, compression=Compression.LZ4)
)


def test_one_buffer_with_every_format() -> None:
    headers = list(iterate_batches(MIXED))
    assert [(h.magic, h.last_offset, h.record_count) for h in headers] == [(0, 0, 1), (0, 1, 1), (1, 3, -1), (2, 5, 2)]
    assert [h.max_timestamp for h in headers] == [-1, -1, 1003, 1005]
    assert all(is_intact(MIXED, h) for h in headers)
    records = [record for h in headers for record in iterate_records(MIXED, h.position)]
    assert records == [record._replace(timestamp=-1) for record in RECORDS[:2]] + RECORDS[2:]


def test_what_is_cut_off_is_left_out() -> None:
    ends = [h.position + h.size for h in iterate_batches(MIXED)]
    for length in range(len(MIXED) + 1):
        assert len(list(iterate_batches(MIXED[:length]))) == sum(end <= length for end in ends)
        assert len(list(iterate_batches(MIXED, 0, length))) == sum(end <= length for end in ends)


def test_damage_is_seen() -> None:
    for header in iterate_batches(MIXED):
        data = bytearray(MIXED)
        data[header.position + header.size - 1] ^= 1
        assert not is_intact(data, header)
    for at, value in ((8, 0xFF), (16, 3)):
        data = bytearray(MIXED)
        data[at] = value
        with pytest.raises(CorruptRecordError):
            list(iterate_batches(data))
    with pytest.raises(CorruptRecordError):
        read_header(MIXED, len(MIXED) - 5)
