from __future__ import annotations

import struct

import pytest
from support import message_sets as by_hand
from tidelog.protocol.errors import ErrorCode, MalformedRequest
from tidelog.protocol.message_set import wire
from tidelog.protocol.message_set.wire import FetchBody, MalformedAnswer, MessageSetError, OffsetsBody, ProduceBody


def test_requests_are_the_bytes_of_the_ruler() -> None:
    assert wire.fetch_request("t", 1, 5, 100) == bytes.fromhex(
        "00000015 0001 0001 74 00000001 0000000000000005 00000064"
    )
    assert wire.offsets_request("t", 1, -1, 2) == bytes.fromhex(
        "00000015 0004 0001 74 00000001 ffffffffffffffff 00000002"
    )
    assert wire.produce_request("t", 1, b"abc") == bytes.fromhex("00000010 0000 0001 74 00000001 00000003 616263")
    assert wire.multi_fetch_request([("t", 1, 5, 100)]) == bytes.fromhex(
        "00000017 0002 0001 0001 74 00000001 0000000000000005 00000064"
    )
    assert wire.multi_produce_request([("t", 1, b"abc"), ("ü", 0, b"")]) == bytes.fromhex(
        "0000001e 0003 0002 0001 74 00000001 00000003 616263 0002 c3bc 00000000 00000000"
    )


def test_answers_are_the_bytes_of_the_ruler() -> None:
    assert wire.message_set_header(7) == bytes.fromhex("00000009 0000")
    assert wire.message_set_header(0, 1) == bytes.fromhex("00000002 0001")
    assert wire.produce_answer(0, 5) == bytes.fromhex("0000000a 0000 0000000000000005")
    assert wire.produce_answer(3, -1) == bytes.fromhex("0000000a 0003 ffffffffffffffff")
    assert wire.multi_produce_answer([(0, 5), (3, -1)]) == bytes.fromhex(
        "00000016 0000 0000 0000000000000005 0003 ffffffffffffffff"
    )
    assert wire.offsets_answer(0, [9, 0]) == bytes.fromhex("00000016 0000 00000002 0000000000000009 0000000000000000")
    assert wire.offsets_answer(3, []) == bytes.fromhex("00000006 0003 00000000")


def test_what_a_client_packs_the_broker_reads() -> None:
    around = 9  # requests are read where they were received

    def placed(frame: bytes) -> tuple[bytearray, int, int]:
        assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
        buffer = bytearray(around) + frame + bytes(around)
        return buffer, around + 6, len(buffer) - around

    buffer, start, end = placed(wire.fetch_request("täglich", 3, 1 << 40, 99))
    assert wire.parse_fetch(buffer, start, end) == FetchBody("täglich", 3, 1 << 40, 99)
    buffer, start, end = placed(wire.offsets_request("", -1, -2, 1))
    assert wire.parse_offsets(buffer, start, end) == OffsetsBody("", -1, -2, 1)
    buffer, start, end = placed(wire.produce_request("t", 3, b"the set"))
    assert wire.parse_produce(buffer, start, end) == ProduceBody("t", 3, end - 7, end)
    bodies = [("t", 0, 1, 2), ("u", 5, 6, 7)]
    buffer, start, end = placed(wire.multi_fetch_request(bodies))
    assert wire.parse_multi_fetch(buffer, start, end, 2) == bodies
    buffer, start, end = placed(wire.multi_produce_request([("t", 0, b"one"), ("u", 1, b""), ("t", 1, b"three")]))
    found = wire.parse_multi_produce(buffer, start, end, 3)
    assert [(one.topic, one.partition, bytes(buffer[one.start : one.end])) for one in found] == [
        ("t", 0, b"one"), ("u", 1, b""), ("t", 1, b"three"),
    ]  # fmt: skip


FETCH = by_hand.fetch("t", 0, 1, 2)
PRODUCE = by_hand.produce("t", 0, b"abc")


@pytest.mark.parametrize(
    ("parse", "body"),
    [
        *((wire.parse_fetch, FETCH[:cut]) for cut in range(len(FETCH))),
        (wire.parse_fetch, FETCH + b"!"),
        (wire.parse_fetch, struct.pack(">h", -1) + FETCH[2:]),
        (wire.parse_fetch, struct.pack(">h", 0x7FFF) + FETCH[2:]),
        (wire.parse_fetch, b"\0\1\xff" + FETCH[3:]),
        *((wire.parse_produce, PRODUCE[:cut]) for cut in range(len(PRODUCE))),
        (wire.parse_produce, PRODUCE + b"!"),
        (wire.parse_produce, by_hand.place("t", 0) + struct.pack(">i", -1)),
        (wire.parse_produce, by_hand.place("t", 0) + struct.pack(">i", (1 << 31) - 1) + b"abc"),
        (wire.parse_offsets, FETCH[:-1]),
        (lambda *place: wire.parse_multi_fetch(*place, 10), b"\0"),
        (lambda *place: wire.parse_multi_fetch(*place, 10), struct.pack(">h", -1)),
        (lambda *place: wire.parse_multi_fetch(*place, 10), struct.pack(">h", 11) + FETCH * 11),
        (lambda *place: wire.parse_multi_fetch(*place, 0x7FFF), struct.pack(">h", 0x7FFF) + FETCH * 3),
        (lambda *place: wire.parse_multi_fetch(*place, 10), by_hand.many(FETCH) + b"!"),
        (lambda *place: wire.parse_multi_produce(*place, 10), struct.pack(">h", 3) + PRODUCE * 2),
        (lambda *place: wire.parse_multi_produce(*place, 10), by_hand.many(PRODUCE) + b"!"),
    ],
)
def test_what_is_not_as_the_ruler_says_is_malformed(parse: object, body: bytes) -> None:
    # Behind the request stands another: it must not be read as part of this one.
    buffer = bytearray(body + FETCH + PRODUCE)
    with pytest.raises(MalformedRequest):
        parse(buffer, 0, len(body))  # type: ignore[operator]


def test_requests_without_a_form_are_refused_before_they_are_sent() -> None:
    with pytest.raises(ValueError, match="15 bits"):
        wire.fetch_request("t" * 40_000, 0, 0, 1)
    with pytest.raises(ValueError, match="15 bits"):
        wire.multi_fetch_request([("t", 0, 0, 1)] * 40_000)


def test_answers_come_back() -> None:
    assert wire.parse_fetch_answer(b"\0\0abc") == (0, b"abc")
    assert wire.parse_fetch_answer(b"\0\1") == (1, b"")
    answer = b"\0\0" + wire.message_set_header(3) + b"abc" + wire.message_set_header(0, 1) + wire.message_set_header(0)
    assert wire.parse_multi_fetch_answer(answer, 3) == [(0, b"abc"), (1, b""), (0, b"")]
    assert wire.parse_produce_answer(wire.produce_answer(0, 7)[4:], "x") == 7
    assert wire.parse_multi_produce_answer(wire.multi_produce_answer([(0, 1), (2, -1)])[4:], 2) == [(0, 1), (2, -1)]
    assert wire.parse_offsets_answer(wire.offsets_answer(0, [3, 2, 1])[4:], "x") == [3, 2, 1]


def test_errors_have_their_code_and_say_what_failed() -> None:
    with pytest.raises(MessageSetError, match=r"^PRODUCE to t-0: MESSAGE_TOO_LARGE \(10\): ") as caught:
        wire.parse_produce_answer(wire.produce_answer(10, -1)[4:], "PRODUCE to t-0")
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(MessageSetError, match="OFFSETS of t-0: unknown error 9999") as caught:
        wire.parse_offsets_answer(struct.pack(">hi", 9999, 0), "OFFSETS of t-0")
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    for parse in (wire.parse_multi_fetch_answer, wire.parse_multi_produce_answer):
        with pytest.raises(MessageSetError, match="INVALID_REQUEST"):
            parse(struct.pack(">h", 42), 1)


@pytest.mark.parametrize("cut", range(9))
def test_answers_that_are_none_are_told(cut: int) -> None:
    sets = (b"\0\0" + wire.message_set_header(3) + b"abc")[: cut + 2]
    for answer, parse in (
        (wire.produce_answer(0, 7)[4 : 4 + cut], lambda answer: wire.parse_produce_answer(answer, "x")),
        (wire.offsets_answer(0, [1])[4 : 4 + cut], lambda answer: wire.parse_offsets_answer(answer, "x")),
        (wire.multi_produce_answer([(0, 1)])[4 : 4 + cut], lambda answer: wire.parse_multi_produce_answer(answer, 1)),
        (sets, lambda answer: wire.parse_multi_fetch_answer(answer, 1)),
        (b"\0\0" + wire.message_set_header(3) + b"abc!", lambda answer: wire.parse_multi_fetch_answer(answer, 1)),
        (struct.pack(">hi", 0, -1), lambda answer: wire.parse_offsets_answer(answer, "x")),
    ):
        with pytest.raises(MalformedAnswer):
            parse(answer)
    with pytest.raises(MalformedAnswer):
        wire.parse_fetch_answer(b"\0")
