from __future__ import annotations

import pytest
from support.logs import batch
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.message_set import exchange, wire
from tidelog.protocol.message_set.wire import MalformedAnswer, MessageSetError
from tidelog.protocol.records.exceptions import CorruptRecordError

GOOD = bytes(batch("a", "b"))
BROKEN = GOOD[:-1] + b"?"


def test_limits_are_the_largest_answers() -> None:
    assert exchange.produce("t", 0, GOOD).limit == len(wire.produce_answer(0, 0)) - 4
    assert exchange.multi_produce([("t", 0, GOOD)] * 3).limit == len(wire.multi_produce_answer([(0, 0)] * 3)) - 4
    assert exchange.offsets("t", 0, -1, 5).limit == len(wire.offsets_answer(0, [0] * 5)) - 4
    assert exchange.fetch("t", 0, 0, 1000).limit == 2 + 1000
    sends = wire.message_set_header(2 * 6 + 300) + (wire.message_set_header(100) + bytes(100)) * 3
    assert exchange.multi_fetch([("t", 0, 0, 100)] * 3).limit == len(sends) - 4
    assert exchange.check_total(2, 2) == 2
    for total in (-1, 1, 3):
        with pytest.raises(MalformedAnswer, match=f"an answer of {total} bytes; 2 to 2"):
            exchange.check_total(total, 2)


def test_one_set_is_read_or_raises() -> None:
    fetch = exchange.fetch("t", 0, 1, 100)
    assert fetch.request == wire.fetch_request("t", 0, 1, 100)
    assert [record.offset for record in fetch.read(b"\0\0" + GOOD).records] == [1]
    with pytest.raises(MessageSetError, match="FETCH of t-0 at offset 1: OFFSET_OUT_OF_RANGE"):
        fetch.read(b"\0\1")
    with pytest.raises(CorruptRecordError):
        fetch.read(b"\0\0" + BROKEN)


def test_of_many_sets_each_has_its_own_outcome() -> None:
    fetches = [("t", partition, 0, 100) for partition in range(4)]
    sets = [(0, GOOD), (0, BROKEN), (3, b""), (0, b"")]
    answer = b"\0\0" + b"".join(wire.message_set_header(len(data), error) + data for error, data in sets)
    good, broken, unknown, empty = exchange.multi_fetch(fetches).read(answer)
    assert not isinstance(good, Exception)
    assert (len(good.records), good.next_offset) == (2, 2)
    assert isinstance(broken, CorruptRecordError)
    assert isinstance(unknown, MessageSetError)
    assert (unknown.code, str(unknown).partition(":")[0]) == (ErrorCode(3), "FETCH of t-2 at offset 0")
    assert not isinstance(empty, Exception)
    assert empty.is_empty


def test_appends_tell_offsets_or_errors() -> None:
    assert exchange.produce("t", 0, GOOD).read(wire.produce_answer(0, 9)[4:]) == 9
    with pytest.raises(MessageSetError, match="PRODUCE to t-0: CORRUPT_MESSAGE"):
        exchange.produce("t", 0, BROKEN).read(wire.produce_answer(2, -1)[4:])
    first, second = exchange.multi_produce([("t", 0, GOOD), ("u", 7, GOOD)]).read(
        wire.multi_produce_answer([(0, 9), (3, -1)])[4:]
    )
    assert first == 9
    assert str(second).startswith("PRODUCE to u-7: UNKNOWN_TOPIC_OR_PARTITION")
    assert exchange.offsets("t", 0, -1, 5).read(wire.offsets_answer(0, [3, 0])[4:]) == [3, 0]
