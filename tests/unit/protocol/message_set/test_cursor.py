"""The cursor against a broker of three lines: a list of entries, cut where the request says."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from support.logs import batch
from tidelog.protocol.message_set import wire
from tidelog.protocol.message_set.cursor import FetchCursor, OnOutOfRange
from tidelog.protocol.message_set.wire import EARLIEST, LATEST, MessageSetError
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.exceptions import CorruptRecordError, RecordTooLargeError
from tidelog.protocol.records.record_batch import Record

END = 40
START = 10


def entry(offset: int) -> bytes:
    """One record, growing with its offset."""
    data = batch(bytes(offset * 10))
    struct.pack_into(">q", data, 0, offset)
    return bytes(data)


def answer(request: bytes) -> bytes:
    """What follows `total`: offsets 10 to 39, each an entry of its own."""
    size, kind = struct.unpack_from(">ih", request)
    assert size == len(request) - 4
    topic, partition, position, number = struct.unpack_from(">1siqi", request, 8)
    assert (topic, partition) == (b"t", 0)
    if kind == 4:
        assert number == 1
        return wire.offsets_answer(0, [{LATEST: END, EARLIEST: START}[position]])[4:]
    if not START <= position <= END:
        return b"\0\1"
    return b"\0\0" + b"".join(entry(offset) for offset in range(position, END))[:number]


def read(cursor: FetchCursor, respond: Callable[[bytes], bytes] = answer, rounds: int = 200) -> list[int]:
    """Offsets up to the end of the log."""
    offsets: list[int] = []
    for _ in range(rounds):
        request = cursor.request()
        assert request == cursor.request()
        received = respond(request)
        assert len(received) <= cursor.answer_limit
        offsets += [record.offset for record in cursor.receive(received)]
        if cursor.at_end:
            return offsets
    raise AssertionError("no end")


@pytest.mark.parametrize("fetch_size", [1, 16, 17, 100, 300, 1000, 100_000])
@pytest.mark.parametrize("offset", [START, START + 7, END - 1, END])
def test_a_partition_is_read_whole_whatever_the_size(offset: int, fetch_size: int) -> None:
    cursor = FetchCursor("t", 0, offset, fetch_size=fetch_size)
    assert read(cursor) == list(range(offset, END))
    assert cursor.offset == END


def test_the_size_is_doubled_up_to_its_limit_and_stays() -> None:
    largest = len(entry(END - 1))
    cursor = FetchCursor("t", 0, START, fetch_size=100, max_fetch_size=largest)
    sizes: list[int] = []

    def respond(request: bytes) -> bytes:
        sizes.append(cursor.fetch_size)
        return answer(request)

    assert read(cursor, respond) == list(range(START, END))
    assert sorted(set(sizes)) == [100, 200, 400, largest]
    assert sizes == sorted(sizes)
    short = FetchCursor("t", 0, START, fetch_size=100, max_fetch_size=largest - 1)
    with pytest.raises(
        RecordTooLargeError, match=rf"offset {END - 1} of t-0 is larger than max_fetch_size, {largest - 1}"
    ):
        read(short)
    assert short.offset == END - 1


def test_both_ends_are_asked_for() -> None:
    assert read(FetchCursor("t", 0)) == list(range(START, END))
    assert read(FetchCursor("t", 0, LATEST)) == []


@pytest.mark.parametrize("offset", [0, END + 1])
def test_out_of_range_goes_by_the_policy(offset: int) -> None:
    assert read(FetchCursor("t", 0, offset, on_out_of_range="earliest")) == list(range(START, END))
    assert read(FetchCursor("t", 0, offset, on_out_of_range=OnOutOfRange.LATEST)) == []
    with pytest.raises(MessageSetError, match=f"FETCH of t-0 at offset {offset}: OFFSET_OUT_OF_RANGE"):
        read(FetchCursor("t", 0, offset))
    with pytest.raises(ValueError, match="newest"):
        FetchCursor("t", 0, on_out_of_range="newest")


def test_the_end_is_not_for_ever() -> None:
    cursor = FetchCursor("t", 0, END)
    assert cursor.receive(b"\0\0") == []
    assert cursor.at_end
    assert [record.offset for record in cursor.receive(b"\0\0" + entry(END))] == [END]
    assert not cursor.at_end
    assert cursor.offset == END + 1


def test_gaps_are_walked_over() -> None:
    """An entry without records from the offset on: compaction left its last offset alone."""
    cursor = FetchCursor("t", 0, 1)
    data = build_batch([Record(0, 1, b"k", b"v")], base_offset=0, last_offset=5)
    assert cursor.receive(b"\0\0" + data) == []
    assert (cursor.offset, cursor.at_end) == (6, False)


def test_errors_leave_the_cursor_where_it_is() -> None:
    cursor = FetchCursor("t", 0, START)
    with pytest.raises(CorruptRecordError):
        cursor.receive(b"\0\0" + entry(START)[:-1] + b"?")
    with pytest.raises(MessageSetError, match="KAFKA_STORAGE_ERROR"):
        cursor.receive(struct.pack(">h", 56))
    assert cursor.offset == START
    assert read(cursor) == list(range(START, END))


@pytest.mark.parametrize(
    "arguments",
    [{"fetch_size": 0}, {"fetch_size": 2, "max_fetch_size": 1}, {"max_fetch_size": 1 << 31}, {"offset": -3}],
)
def test_arguments_that_make_no_sense(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"fetch_size|offset -3"):
        FetchCursor("t", 0, **arguments)
