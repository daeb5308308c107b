from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.framing import TRUSTED_BYTES, FrameDecoder, FrameTooLargeError

LIMIT = 1000


def framed(*payloads: bytes) -> bytes:
    return b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)


def drain(decoder: FrameDecoder) -> list[bytes]:
    frames = []
    while (frame := decoder.next_frame()) is not None:
        frames.append(bytes(frame))
    return frames


def receive(decoder: FrameDecoder, data: bytes) -> None:
    decoder.receive(data)


def read_into_buffer(decoder: FrameDecoder, data: bytes) -> None:
    """What an event loop does: as much as fits into the buffer, again and again."""
    while data:
        buffer = decoder.get_buffer(-1)
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        decoder.buffer_updated(count)
        data = data[count:]


both_ways = pytest.mark.parametrize("feed", [receive, read_into_buffer])
Feed = Callable[[FrameDecoder, bytes], None]


@both_ways
def test_a_frame_fed_whole(feed: Feed) -> None:
    decoder = FrameDecoder(LIMIT)
    feed(decoder, b"\0\0\0\x05hello")
    assert drain(decoder) == [b"hello"]
    assert not decoder.in_frame


@both_ways
def test_frames_fed_byte_by_byte(feed: Feed) -> None:
    decoder = FrameDecoder(LIMIT)
    seen = []
    for byte in framed(b"hello", b"", b"x" * 300):
        feed(decoder, bytes((byte,)))
        seen += drain(decoder)
    assert seen == [b"hello", b"", b"x" * 300]


@both_ways
def test_trailing_bytes_belong_to_the_next_frame(feed: Feed) -> None:
    decoder = FrameDecoder(LIMIT)
    feed(decoder, framed(b"one", b"two") + b"\0\0\0\x05thr")
    assert drain(decoder) == [b"one", b"two"]
    assert decoder.in_frame
    feed(decoder, b"ee\0\0")
    assert drain(decoder) == [b"three"]
    assert decoder.in_frame


@both_ways
@pytest.mark.parametrize("size", [b"\0\0\x03\xe9", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"GET "])
def test_a_size_out_of_range_ends_the_stream_after_the_good_frames(feed: Feed, size: bytes) -> None:
    decoder = FrameDecoder(LIMIT)
    feed(decoder, framed(b"good") + size + b"whatever")
    assert decoder.next_frame() == b"good"
    for _ in range(2):
        with pytest.raises(FrameTooLargeError, match="allowed are 0 to 1000") as caught:
            decoder.next_frame()
        assert caught.value.code is ErrorCode.INVALID_REQUEST
    feed(decoder, framed(b"later"))
    with pytest.raises(FrameTooLargeError):
        decoder.next_frame()


@both_ways
def test_the_limit_itself_is_allowed(feed: Feed) -> None:
    decoder = FrameDecoder(LIMIT)
    feed(decoder, framed(b"x" * LIMIT))
    assert drain(decoder) == [b"x" * LIMIT]


@both_ways
def test_frames_are_writable_and_independent(feed: Feed) -> None:
    decoder = FrameDecoder(LIMIT)
    feed(decoder, framed(b"aaa", b"bbb"))
    first = decoder.next_frame()
    assert first is not None
    first[:] = b"zzz"
    assert drain(decoder) == [b"bbb"]


def test_decoders_of_one_thread_share_a_scratch_buffer() -> None:
    scratch = bytearray(16)
    one, two = FrameDecoder(LIMIT, scratch), FrameDecoder(LIMIT, scratch)
    messages = framed(b"a" * 40, b"b"), framed(b"c" * 7, b"d" * 20)
    for start in range(0, max(map(len, messages)), 3):
        read_into_buffer(one, messages[0][start : start + 3])
        read_into_buffer(two, messages[1][start : start + 3])
    assert drain(one) == [b"a" * 40, b"b"]
    assert drain(two) == [b"c" * 7, b"d" * 20]


@both_ways
def test_memory_follows_the_bytes_that_came_not_the_size_announced(feed: Feed) -> None:
    decoder = FrameDecoder(100 * 2**20)
    feed(decoder, (100 * 2**20).to_bytes(4, "big") + b"x")
    assert len(decoder.get_buffer(-1)) == TRUSTED_BYTES - 1
    payload = random.Random(7).randbytes(5 * TRUSTED_BYTES + 3)
    decoder = FrameDecoder(100 * 2**20)
    feed(decoder, framed(payload))
    assert drain(decoder) == [payload]


@given(payloads=st.lists(st.binary(max_size=40), max_size=8), cuts=st.lists(st.integers(1, 30), min_size=1))
def test_any_cut_of_the_stream_gives_the_same_frames(payloads: list[bytes], cuts: list[int]) -> None:
    stream = framed(*payloads)
    one, two = FrameDecoder(LIMIT), FrameDecoder(LIMIT, bytearray(13))
    position = index = 0
    while position < len(stream):
        piece = stream[position : position + cuts[index % len(cuts)]]
        one.receive(piece)
        read_into_buffer(two, piece)
        position += len(piece)
        index += 1
    assert drain(one) == drain(two) == payloads
    assert not one.in_frame
    assert not two.in_frame
