"""What waits in a connection's buffer is the same bytes wherever it is moved, and the memory comes back to the pool."""

from __future__ import annotations

import random

import pytest
from support.connections import frame
from tidelog.broker.network.request_memory import BufferPool, ReceiveBuffer


@pytest.mark.parametrize("seed", range(20))
def test_what_waits_stays_the_same_while_the_buffer_is_filled_handled_and_moved(seed: int) -> None:
    rng, pool = random.Random(seed), BufferPool()
    buffer, expected = ReceiveBuffer(pool, 100), b""
    for _ in range(300):
        free = buffer.free
        assert buffer.is_full == (len(free) == 0)
        some = rng.randbytes(rng.randint(0, len(free)))
        free[: len(some)] = some
        buffer.end += len(some)
        expected += some
        handled = rng.randint(0, len(expected))
        buffer.start += handled
        expected = expected[handled:]
        if rng.random() < 0.5:
            buffer.make_room(rng.choice([0, buffer.capacity, min(2 * buffer.capacity, 50_000)]))
            assert buffer.start == 0
        assert buffer.data[buffer.start : buffer.end] == expected
        assert len(buffer) == len(expected)
    buffer.give_back()
    assert pool.lent == 0


def test_the_end_of_a_request_is_known_as_soon_as_its_size_has_come() -> None:
    source = bytearray(b"--" + frame(b"request"))
    buffer = ReceiveBuffer(BufferPool(), 100)
    buffer.fill(source, 2, 5)
    assert (buffer.frame_end, len(buffer)) == (0, 3)
    buffer.free[:8] = source[5:]
    buffer.end += 8
    buffer.make_room(100)
    assert buffer.frame_end == 11 == buffer.end
