from __future__ import annotations

import struct

import pytest
from tidelog.protocol.records._kernel import BatchScanner
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch, seal
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record


def batch(base_offset: int, count: int = 1, timestamp: int = 1000, size: int = 100, **fields: int) -> bytes:
    """A batch of `count` records at `base_offset` that is exactly `size` bytes longer than its header."""
    records = [Record(0, timestamp, None, b"") for _ in range(count)]
    bare = len(build_batch(records))
    padding = size + 61 - bare
    for value_size in range(padding, padding - 5, -1):
        records[-1] = Record(0, timestamp, None, bytes(value_size))
        data = build_batch(records, base_offset=base_offset, **fields)  # type: ignore[arg-type]
        if len(data) == size + 61:
            return data
    raise AssertionError(f"no batch of {size + 61} bytes")


def scan(log: bytes, interval: int = 1 << 20, base_offset: int = 0, *, check_crc: bool = True) -> BatchScanner:
    scanner = BatchScanner(interval, base_offset, check_crc)
    assert scanner.feed(log, 0, len(log), 0) == scanner.valid_bytes
    return scanner


def test_before_the_first_batch() -> None:
    scanner = scan(b"", base_offset=70)
    assert (scanner.valid_bytes, scanner.next_offset, scanner.needed, scanner.stopped) == (0, 70, 0, None)
    assert (scanner.max_timestamp, scanner.offset_of_max_timestamp, scanner.first_timestamp) == (-1, -1, -1)
    assert scanner.leader_epoch == -1


def test_counts_and_timestamps() -> None:
    log = batch(10, 3, 500) + batch(13, 2, 700) + batch(20, 4, 700) + batch(24, 1, 600)
    scanner = scan(log, base_offset=10)
    assert scanner.valid_bytes == len(log)
    assert (scanner.batch_count, scanner.record_count, scanner.next_offset) == (4, 10, 25)
    # The last offset of the first batch that has the largest timestamp.
    assert (scanner.max_timestamp, scanner.offset_of_max_timestamp, scanner.first_timestamp) == (700, 14, 500)


def test_index_entries_as_kafka_makes_them() -> None:
    """An entry when more than 300 bytes lie between this batch's start and that of the one indexed last."""
    sizes = [100, 139, 100, 39, 300, 39, 200]
    log, offset, starts = b"", 1000, []
    times = [5, 9, 7, 9, 11, 11, 12]
    for size, timestamp in zip(sizes, times, strict=True):
        starts.append(len(log))
        log += batch(offset, 2, timestamp, size)
        offset += 2
    assert starts == [0, 161, 361, 522, 622, 983, 1083]
    scanner = scan(log, 300, 1000)
    # 361 > 300 after 0; 622 is 261 after 361; 983 is 622 after 361; 1083 is 100 after 983.
    assert scanner.offset_index_entries == struct.pack(">iiii", 5, 361, 11, 983)
    # The largest timestamp so far and the last offset of its batch.
    assert scanner.time_index_entries == struct.pack(">qiqi", 9, 3, 11, 9)


def test_exactly_the_interval_is_not_yet_an_entry() -> None:
    log = batch(0, size=239) + batch(1, size=100)
    assert scan(log, 300).offset_index_entries == b""
    assert scan(log, 299).offset_index_entries == struct.pack(">ii", 1, 300)


def test_no_time_entry_without_a_new_timestamp() -> None:
    log = batch(0, timestamp=9) + batch(1, timestamp=9) + batch(2, timestamp=3)
    scanner = scan(log, 0)
    assert scanner.offset_index_entries == struct.pack(">iiii", 1, 161, 2, 322)
    assert scanner.time_index_entries == struct.pack(">qi", 9, 0)
    assert scan(batch(0, timestamp=-1) + batch(1, timestamp=-1), 0).time_index_entries == b""


def test_who_wants_no_stateful_batches_gets_none_and_the_rest_all_the_same() -> None:
    log = batch(0) + batch(1, producer_id=5, producer_epoch=0, base_sequence=0)
    scanner = BatchScanner(0, 0, find_stateful=False)
    assert scanner.feed(log, 0, len(log), 0) == len(log)
    assert scanner.stateful_batches == []
    everything = scan(log, 0)
    assert len(everything.stateful_batches) == 1
    assert scanner.offset_index_entries == everything.offset_index_entries
    assert scanner.next_offset == everything.next_offset == 2


def test_stateful_batches_carry_their_file_position() -> None:
    plain, idempotent = batch(0), batch(1, producer_id=5, producer_epoch=0, base_sequence=0)
    control = batch(2, producer_id=5, producer_epoch=0, is_control=True, is_transactional=True)
    log = plain + idempotent + control + batch(3)
    scanner = BatchScanner(100, 0)
    assert scanner.feed(b"....." + log, 5, 5 + len(log), 4000) == len(log)
    assert [(info.position, info.base_offset) for info in scanner.stateful_batches] == [(4161, 1), (4322, 2)]
    assert scanner.valid_bytes == 4000 + len(log)
    # Nothing was indexed before 4000 as far as this scan knows.
    assert scanner.offset_index_entries == struct.pack(">iiiiii", 1, 4161, 2, 4322, 3, 4483)


def test_leader_epochs() -> None:
    epochs = [-1, 0, 0, 3, 2, 3, 9]
    log = b"".join(batch(offset, partition_leader_epoch=epoch) for offset, epoch in enumerate(epochs))
    scanner = scan(log)
    assert scanner.leader_epochs == [(0, 1), (3, 3), (9, 6)]
    assert scanner.leader_epoch == 9


def test_many_events_in_one_chunk() -> None:
    count = 5000
    log = b"".join(
        batch(n, timestamp=n, producer_id=n, producer_epoch=0, base_sequence=0, partition_leader_epoch=n)
        for n in range(count)
    )
    scanner = scan(log, 0)
    assert [info.base_offset for info in scanner.stateful_batches] == list(range(count))
    assert scanner.leader_epochs == [(n, n) for n in range(count)]
    assert list(struct.iter_unpack(">ii", scanner.offset_index_entries)) == [(n, n * 161) for n in range(1, count)]
    assert list(struct.iter_unpack(">qi", scanner.time_index_entries)) == [(n, n) for n in range(1, count)]


def test_lists_may_be_drained_between_chunks() -> None:
    one = batch(0, producer_id=5, producer_epoch=0, base_sequence=0)
    two = batch(1, producer_id=5, producer_epoch=0, base_sequence=1)
    scanner = BatchScanner(0, 0)
    scanner.feed(one, 0, len(one), 0)
    scanner.stateful_batches.clear()
    scanner.offset_index_entries.clear()
    scanner.feed(two, 0, len(two), len(one))
    assert [info.base_offset for info in scanner.stateful_batches] == [1]
    assert scanner.offset_index_entries == struct.pack(">ii", 1, 161)


def test_cut_off_batch_is_asked_for() -> None:
    log = batch(0) + batch(1, size=5000)
    for end, needed in ((161, 0), (162, 17), (177, 17), (178, 5061), (len(log) - 1, 5061), (len(log), 0)):
        scanner = BatchScanner(100, 0)
        assert scanner.feed(log, 0, end, 0) == (len(log) if end == len(log) else 161)
        assert (scanner.needed, scanner.stopped) == (needed, None)


def legacy(magic: int, offset: int, timestamp: int = 1000, value: bytes = b"value") -> bytes:
    return build_legacy_set([Record(0, timestamp, None, value)], magic=magic, base_offset=offset)


def test_messages_of_the_old_formats() -> None:
    log = legacy(0, 3) + legacy(1, 4, 70) + legacy(1, 6, 90) + legacy(1, 7, 80)
    scanner = scan(log, base_offset=3, interval=30)
    assert (scanner.valid_bytes, scanner.stopped) == (len(log), None)
    assert (scanner.batch_count, scanner.record_count, scanner.next_offset) == (4, 4, 8)
    assert (scanner.max_timestamp, scanner.offset_of_max_timestamp, scanner.first_timestamp) == (90, 6, -1)
    assert (scanner.leader_epochs, scanner.stateful_batches) == ([], [])
    assert scanner.offset_index_entries == struct.pack(">iiiiii", 1, 31, 3, 70, 4, 109)
    assert scanner.time_index_entries == struct.pack(">qiqi", 70, 1, 90, 3)


def test_a_wrapper_is_one_batch_with_its_last_offset() -> None:
    records = [Record(0, timestamp, b"k", b"v" * 50) for timestamp in (50, 99, 60)]
    log = b"".join(
        build_legacy_set(records, magic=1, base_offset=base, compression=Compression.GZIP) for base in (0, 10)
    )
    scanner = scan(log, interval=0)
    assert (scanner.batch_count, scanner.record_count, scanner.next_offset) == (2, 2, 13)
    assert (scanner.max_timestamp, scanner.offset_of_max_timestamp) == (99, 2)
    assert scanner.offset_index_entries == struct.pack(">ii", 12, len(log) // 2)


def damaged(at: int, data: bytes, *, sealed: bool = True) -> bytes:
    out = bytearray(batch(1))
    out[at : at + len(data)] = data
    if sealed:
        seal(out)
    return bytes(out)


INT32 = struct.Struct(">i").pack
INT64 = struct.Struct(">q").pack


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (damaged(8, INT32(13)), "size"),
        (damaged(8, INT32(40)), "size"),
        (damaged(8, INT32(-5)), "size"),
        (bytes(161), "size"),  # a preallocated or zero-filled tail
        (b"\xff" * 161, "size"),
        (damaged(16, b"\x03"), "magic"),
        (damaged(16, b"\x80"), "magic"),
        (damaged(16, b"\x01"), "checksum"),
        (damaged(16, b"\x00"), "checksum"),
        (legacy(1, 0)[:8] + INT32(21) + legacy(1, 0)[12:], "size"),
        (legacy(0, 1)[:-1] + b"x", "checksum"),
        (legacy(1, 1)[:-1] + b"x", "checksum"),
        (legacy(0, 0), "order"),
        (legacy(1, 2**31), "too far"),
        (damaged(150, b"x", sealed=False), "checksum"),
        (damaged(17, bytes(4), sealed=False), "checksum"),
        (damaged(57, INT32(-1)), "count"),
        (damaged(57, INT32(2)), "count"),
        (damaged(23, INT32(-1)), "count"),
        (damaged(0, INT64(0)), "order"),
        (damaged(0, INT64(-1)), "order"),
        (damaged(0, INT64(2**31)), "too far"),
        (damaged(0, INT64(2**63 - 1)), "order"),
    ],
)
def test_stops_at_the_first_bad_batch(bad: bytes, reason: str) -> None:
    log = batch(0) + bad + batch(2)
    scanner = scan(log)
    assert scanner.stopped is not None
    assert reason in scanner.stopped
    assert (scanner.valid_bytes, scanner.next_offset, scanner.batch_count, scanner.needed) == (161, 1, 1, 0)
    assert scanner.feed(log, 0, len(log), 161) == 0, "once stopped, always stopped"


def test_offsets_up_to_the_range_of_an_index() -> None:
    log = batch(5) + batch(5 + 2**31 - 1)
    assert scan(log, base_offset=5).stopped is None
    assert scan(log, base_offset=4).stopped is not None


def test_positions_up_to_two_gibibytes() -> None:
    one = batch(0)
    scanner = BatchScanner(100, 0)
    assert scanner.feed(one, 0, len(one), 2**31 - 1 - len(one)) == len(one)
    assert scanner.stopped is None
    scanner = BatchScanner(100, 0)
    assert scanner.feed(one, 0, len(one), 2**31 - len(one)) == 0
    assert scanner.stopped == "segment beyond 2 GiB"


def test_without_checksums() -> None:
    log = damaged(150, b"x", sealed=False)
    assert scan(log).stopped == "wrong checksum"
    assert scan(log, check_crc=False).valid_bytes == len(log)


def test_compacted_batches() -> None:
    empty = build_batch([], base_offset=4, last_offset=9)
    sparse = build_batch([Record(0, 1, b"", b"")] * 2, base_offset=10, offsets=[12, 15], last_offset=19)
    scanner = scan(empty + sparse)
    assert (scanner.next_offset, scanner.record_count, scanner.batch_count) == (20, 2, 2)


def test_chunks_must_follow_one_another() -> None:
    log = batch(0)
    scanner = BatchScanner(100, 0)
    scanner.feed(log, 0, len(log), 0)
    with pytest.raises(ValueError, match="next byte wanted is at 161"):
        scanner.feed(log, 0, len(log), 0)
    for arguments in ((-1, 0), (100, -1)):
        with pytest.raises(ValueError, match="can be negative"):
            BatchScanner(*arguments)
    with pytest.raises(ValueError, match="file_position"):
        BatchScanner(100, 0).feed(log, 0, len(log), -1)
