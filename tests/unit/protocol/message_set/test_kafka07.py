"""Requests of Kafka 0.7, byte by byte: what is told as one, and what is not."""

from __future__ import annotations

import struct

import pytest
from support import kafka07 as old
from support import message_sets as by_hand
from tidelog.protocol.message_set.kafka07 import (
    CHECKED_BYTES,
    MAX_TOPIC_BYTES,
    MOST_BODIES,
    is_message_set,
    recognise,
)
from tidelog.protocol.message_set.wire import RequestType

HELLO = old.message(b"hello")


def found(frame: bytes) -> tuple[str, str, bytes] | None:
    """(kind, topic, answer) of a frame that stands amid other bytes."""
    request = recognise(bytearray(b"--" + frame + b"--"), 2, 2 + len(frame))
    return None if request is None else (request.kind.name, request.topic, request.answer)


def is_set(data: bytes) -> bool:
    return is_message_set(bytearray(b"--" + data + b"--"), 2, 2 + len(data))


def test_the_encoder_writes_the_bytes_of_the_ruler() -> None:
    assert HELLO.hex(" ") == "00 00 00 0b 01 00 36 10 a6 86 68 65 6c 6c 6f"
    assert old.message(b"hello", magic=0).hex(" ") == "00 00 00 0a 00 36 10 a6 86 68 65 6c 6c 6f"
    assert old.request(old.PRODUCE, old.produce("t", -1, [HELLO]))[:15].hex() == "0000000174ffffffff0000000f0000"


def test_each_request_with_the_error_in_its_own_framing() -> None:
    one, unknown = bytes.fromhex("00000002 ffff"), b"\xff\xff"
    assert found(old.request(0, old.produce("test", -1, [HELLO]))) == ("PRODUCE", "test", b"")
    assert found(old.request(1, old.fetch("test", 0, 4096, 1 << 20))) == ("FETCH", "test", one)
    multi = old.many([old.fetch("test", 0, 0, 300), old.fetch("u", 7, 1 << 40, 300)])
    assert found(old.request(2, multi)) == ("MULTIFETCH", "test", struct.pack(">i", 14) + unknown + 2 * one)
    bodies = old.many([old.produce("test", 0, [HELLO]), old.produce("u", 0, [])])
    assert found(old.request(3, bodies)) == ("MULTIPRODUCE", "test", b"")
    for time in (-1, -2, 1_300_000_000_000):
        answer = bytes.fromhex("00000006 ffff 00000000")
        assert found(old.request(4, old.fetch("test", 0, time, 1))) == ("OFFSETS", "test", answer)


@pytest.mark.parametrize(
    "frame",
    [
        b"", b"\0", b"\0\1",
        old.request(1, old.fetch("test", 0, 0, 1)) + b"!",
        old.request(1, old.fetch("test", 0, 0, 1))[:-1],
        old.request(1, old.fetch("", 0, 0, 1)),
        old.request(1, old.fetch("x" * (MAX_TOPIC_BYTES + 1), 0, 0, 1)),
        old.request(1, old.fetch("a\nb", 0, 0, 1)),
        old.request(1, old.fetch("test", -1, 0, 1)),
        old.request(1, old.fetch("test", 0, -3, 1)),
        old.request(1, old.fetch("test", 0, 0, -1)),
        old.request(2, old.many([])),
        old.request(2, old.many([old.fetch("t", 0, 0, 1)] * (MOST_BODIES + 1))),
        old.request(0, old.produce("test", -2, [HELLO])),
        old.request(0, old.produce("test", 0, [])),
        old.request(0, by_hand.produce("test", 0, struct.pack(">qi", 0, 14) + bytes(14))),
        old.request(3, old.many([])),
        old.request(5, old.fetch("test", 0, 0, 1)),
        old.request(-1, old.fetch("test", 0, 0, 1)),
        struct.pack(">hh", 1, -1) + bytes(16),
        struct.pack(">hh", 1, 1) + b"\xff" + bytes(16),
    ],
)  # fmt: skip
def test_what_is_none(frame: bytes) -> None:
    assert found(frame) is None


def test_the_last_topic_is_looked_at_as_the_first() -> None:
    assert found(old.request(2, old.many([old.fetch("t", 0, 0, 1), old.fetch("\0", 0, 0, 1)]))) is None


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_of_0_7_whose_crc_is_wrong_is_none(magic: int) -> None:
    good = old.message(b"payload of a message", magic)
    assert is_set(good)
    assert is_set(good + b"whatever follows")
    for at in range(4, len(good)):
        if magic == 1 and at == 5:
            continue  # attributes are not covered
        assert not is_set(good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :]), at


def test_of_a_long_message_the_header_has_to_do() -> None:
    data = bytearray(old.message(b"\x20" * (CHECKED_BYTES + 1)))
    data[-1] ^= 1
    assert is_set(data)
    data = bytearray(old.message(b"\x20" * CHECKED_BYTES))
    data[-1] ^= 1
    assert not is_set(data)


def test_sizes_magic_and_codec_have_bounds() -> None:
    assert is_set(old.message(b""))
    assert is_set(old.message(b"", magic=0))
    assert is_set(old.message(b"snappy", codec=2))
    assert not is_set(old.message(b"no codec", codec=3))
    assert not is_set(HELLO[:-1]), "cut off"
    assert not is_set(struct.pack(">i", 0) + HELLO[4:])
    assert not is_set(struct.pack(">i", -1) + HELLO[4:])
    assert not is_set(struct.pack(">i", 4) + bytes(4)), "less than a header"
    assert not is_set(struct.pack(">i", 5) + bytes([1]) + bytes(4)), "less than a header of magic 1"
    assert not is_set(struct.pack(">i", 6) + bytes([2]) + bytes(5))
    assert not any(is_set(bytes(length)) for length in range(30))


def test_what_can_be_an_entry_of_today_is_one() -> None:
    """The first 26 bytes of a message of magic 0 whose payload reads as the rest of an entry: a client of ours is not refused."""
    payload = bytes([0, 0, 14]) + bytes(4) + bytes([1]) + bytes(9)
    for last in range(1 << 16):  # until the lowest byte of the crc is 0, as the highest of the entry's size
        data = old.message(payload + struct.pack(">H", last), magic=0)
        if data[8] == 0:
            break
    assert struct.unpack_from(">i", data, 8) == (14,)
    assert not is_set(data)
    assert is_set(data[:16] + b"") is False


def test_every_kind_knows_whether_it_produces() -> None:
    produces = {
        kind
        for kind, body in (
            (0, old.produce("t", 0, [HELLO])), (1, old.fetch("t", 0, 0, 1)), (2, old.many([old.fetch("t", 0, 0, 1)])),
            (3, old.many([old.produce("t", 0, [HELLO])])), (4, old.fetch("t", 0, 0, 1)),
        )
        if (request := recognise(old.request(kind, body), 0, 2 + len(body))) is not None and request.is_produce
    }  # fmt: skip
    assert produces == {RequestType.PRODUCE, RequestType.MULTIPRODUCE}
