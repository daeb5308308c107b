from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.framing import (
    EXACT_FRAME_BYTES,
    INCOMPLETE,
    READ_AHEAD_BYTES,
    UNPROVEN_FRAME_BYTES,
    FrameTooLargeError,
    frame_end,
    room_for_answer,
    room_for_frame,
)

LIMIT = 1000


def framed(*payloads: bytes) -> bytes:
    return b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)


def test_a_whole_frame() -> None:
    data = b"??" + framed(b"hello") + b"next"
    assert frame_end(data, 2, len(data), LIMIT) == 2 + 4 + 5
    assert frame_end(framed(b""), 0, 4, LIMIT) == 4
    assert frame_end(framed(b"x" * LIMIT), 0, LIMIT + 4, LIMIT) == LIMIT + 4, "the limit itself is allowed"


def test_a_frame_is_incomplete_until_its_last_byte() -> None:
    data = framed(b"hello") + b"beyond what was received"
    assert [frame_end(data, 0, end, LIMIT) for end in range(10)] == [INCOMPLETE] * 9 + [9]


@pytest.mark.parametrize("size", [b"\0\0\x03\xe9", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"GET "])
def test_a_size_out_of_range_is_refused_when_it_is_there(size: bytes) -> None:
    assert frame_end(size, 0, 3, LIMIT) == INCOMPLETE
    with pytest.raises(FrameTooLargeError, match=r"socket\.request\.max\.bytes allows 1000") as caught:
        frame_end(size, 0, 4, LIMIT)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@given(payloads=st.lists(st.binary(max_size=40), max_size=8), cuts=st.lists(st.integers(1, 30), min_size=1))
def test_any_cut_of_the_stream_gives_the_same_frames(payloads: list[bytes], cuts: list[int]) -> None:
    """Cut by cut, taking each frame as soon as it is whole; the buffer is as large as `room_for_frame` says."""
    stream, held, frames = framed(*payloads), bytearray(), []
    index = 0
    while stream:
        piece = cuts[index % len(cuts)]
        index += 1
        held += stream[:piece]
        stream = stream[piece:]
        position = 0
        while (following := frame_end(held, position, len(held), LIMIT)) != INCOMPLETE:
            frames.append(bytes(held[position + 4 : following]))
            position = following
        del held[:position]
        assert room_for_frame(held, 0, len(held), LIMIT) > len(held)
    assert frames == payloads
    assert not held


@pytest.mark.parametrize(
    ("size", "have", "room"),
    [
        (None, 3, READ_AHEAD_BYTES),
        (10, 4, 2 * READ_AHEAD_BYTES),
        (READ_AHEAD_BYTES, 100, 2 * READ_AHEAD_BYTES + 4),
        (EXACT_FRAME_BYTES, 4, EXACT_FRAME_BYTES + 4),
        (90 << 20, 4, UNPROVEN_FRAME_BYTES),
        (90 << 20, 3 << 20, 4 << 20),
        (90 << 20, 80 << 20, (90 << 20) + 4),
        (101 << 20, 4, READ_AHEAD_BYTES),
        (-1, 4, 2 * READ_AHEAD_BYTES),
    ],
)
def test_room(size: int | None, have: int, room: int) -> None:
    head = b"" if size is None else size.to_bytes(4, "big", signed=True)
    assert room_for_frame(head + bytes(have - len(head)), 0, have, 100 << 20) == room


def test_memory_follows_the_bytes_that_came_and_copies_are_few() -> None:
    """A frame that comes in steps is moved to a larger buffer as often as its size doubles, and no more."""
    rng, limit = random.Random(7), 100 << 20
    head, whole = (limit).to_bytes(4, "big"), limit + 4
    have = capacity = moves = 0
    buffer = bytearray(head)
    while have < whole:
        have = min(have + rng.randrange(1, 300_000), whole)
        needed = room_for_frame(buffer, 0, have, limit)
        if needed > capacity:
            capacity, moves = needed, moves + 1
        assert have <= capacity <= max(UNPROVEN_FRAME_BYTES, 2 * have)
    assert capacity == whole
    assert moves <= 8


@given(have=st.integers(0, 1 << 20), size=st.integers(0, 100 << 20))
def test_while_memory_is_scarce_room_is_at_most_twice_what_has_come(have: int, size: int) -> None:
    data = size.to_bytes(4, "big")
    have = min(have, size + 3)
    room = room_for_frame(data[:have], 0, have, 100 << 20, scarce=True)
    assert have < room <= max(4096, 2 * have)


@given(size=st.integers(0, 1 << 31), pieces=st.lists(st.integers(1, 1 << 28)))
def test_a_clients_room_for_an_answer_follows_what_came_and_ends_with_it(size: int, pieces: list[int]) -> None:
    have, room = 0, room_for_answer(0, size)
    for piece in pieces:
        have = min(have + piece, room)
        if have == room and have < size:
            room = room_for_answer(have, size)
            assert have < room <= min(size, max(1 << 20, 2 * have))
    assert room <= size
