from __future__ import annotations

import pytest
from support.logs import batch
from tidelog.protocol.message_set.entries import NewRecord, build_message_set, read_message_set
from tidelog.protocol.message_set.wire import MalformedAnswer
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.exceptions import CorruptRecordError, RecordTooLargeError, UnsupportedCompressionError
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.memory_records import iterate_batches, iterate_records
from tidelog.protocol.records.record_batch import Record


def entries() -> list[bytes]:
    """Offsets 10 to 19: a batch, two messages, a wrapper with a gap before its last, a control batch, an empty batch."""
    made = [Record(0, 1, b"k", b"v%d" % index) for index in range(3)]
    return [
        build_batch(made, base_offset=10),
        build_legacy_set(made[:2], magic=0, base_offset=13),
        build_legacy_set(made[:2], magic=1, base_offset=15, offsets=[15, 17], compression=Compression.GZIP),
        build_batch([Record(0, 1, b"\0\0\0\0", b"")], base_offset=18, is_control=True, producer_id=1, producer_epoch=0),
        build_batch([], base_offset=19, last_offset=19),
    ]


OFFSETS = [10, 11, 12, 13, 14, 15, 17]


def test_records_come_from_the_offset_on_and_the_next_is_behind_the_entries() -> None:
    first = [0, 0, 0, 1, 1, 2, 2, 2, 3, 4]  # of the entries: which one holds offset 10, 11, …
    for offset, index in zip(range(10, 20), first, strict=True):
        parts = entries()
        data = parts[1][len(parts[1]) // 2 :] + b"".join(parts[2:]) if offset == 14 else b"".join(parts[index:])
        found = read_message_set(data, offset)
        assert [record.offset for record in found.records] == [o for o in OFFSETS if o >= offset]
        assert found.next_offset == 20
        assert not found.is_empty


def test_a_set_may_end_anywhere() -> None:
    data = b"".join(entries())
    ends = [header.position + header.size for header in iterate_batches(data)]
    nexts = [header.last_offset + 1 for header in iterate_batches(data)]
    for size in range(len(data) + 1):
        whole = sum(end <= size for end in ends)
        found = read_message_set(data[:size], 10)
        expected = nexts[whole - 1] if whole else 10
        assert found.next_offset == expected
        assert [record.offset for record in found.records] == [o for o in OFFSETS if o < expected]
        assert found.is_empty == (size == 0)
        assert found.needs_more_room(10) == (size > 0 and not whole)


def test_a_broken_entry_is_told_when_it_is_the_first() -> None:
    first, second, *_ = entries()
    broken = bytearray(second)
    broken[-1] ^= 1
    found = read_message_set(first + broken, 10)
    assert ([record.offset for record in found.records], found.next_offset) == ([10, 11, 12, 13], 14)
    with pytest.raises(CorruptRecordError, match="offset 14 has a wrong checksum"):
        read_message_set(broken[len(broken) // 2 :], 14)
    with pytest.raises(CorruptRecordError):
        read_message_set(b"\xff" * 40, 0)


def test_entries_below_what_was_asked_for_are_no_answer() -> None:
    with pytest.raises(MalformedAnswer, match="ends at 12 where 13"):
        read_message_set(entries()[0], 13)


def test_an_entry_that_holds_too_much_is_refused() -> None:
    data = bytes(batch(bytes(100_000), compression=Compression.GZIP))
    assert len(data) < 1000
    with pytest.raises(RecordTooLargeError):
        read_message_set(data, 0, max_decompressed=10_000)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", list(Compression))
def test_what_is_built_can_be_read(magic: int, codec: Compression) -> None:
    new = [NewRecord(b"a", key=b"k"), NewRecord(None, timestamp=5), NewRecord(b"c", timestamp=0)]
    if codec is Compression.ZSTD and magic < 2:
        with pytest.raises(UnsupportedCompressionError):
            build_message_set(new, now_ms=77, magic=magic, compression=codec)
        return
    data = build_message_set(new, now_ms=77, magic=magic, compression=codec)
    headers = list(iterate_batches(data))
    assert {header.magic for header in headers} == {magic}
    assert len(headers) == (3 if magic < 2 and codec is Compression.NONE else 1)
    records = [r for header in headers for r in iterate_records(data, header.position, header.position + header.size)]
    times = [77, 5, 0] if magic else [-1, -1, -1]
    assert records == [
        Record(0, times[0], b"k", b"a"), Record(1, times[1], None, None), Record(2, times[2], None, b"c"),
    ]  # fmt: skip


def test_headers_and_formats_are_not_lost_in_silence() -> None:
    new = [NewRecord(b"v", headers=((b"h", b"1"), (b"n", None)))]
    assert read_message_set(build_message_set(new, now_ms=1), 0).records[0].headers == ((b"h", b"1"), (b"n", None))
    with pytest.raises(ValueError, match="format 1 has no headers"):
        build_message_set(new, now_ms=1, magic=1)
    with pytest.raises(ValueError, match="no message format 3"):
        build_message_set([NewRecord(b"v")], now_ms=1, magic=3)
    with pytest.raises(ValueError, match="nothing"):
        build_message_set([], now_ms=1)
