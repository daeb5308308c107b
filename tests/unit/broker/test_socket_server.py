"""Parts of the socket server that need no socket."""

from __future__ import annotations

from tidelog.broker.socket_server import POOLED_BUFFER_BYTES, BufferPool, Endpoint


def test_pooled_buffers_fit_are_reused_and_bounded() -> None:
    pool = BufferPool()
    first = pool.take(100_000)
    assert len(first) >= 100_000
    pool.give(first)
    assert pool.take(70_000) is first, "131,072 serves both"
    assert pool.take(70_000) is not first
    for _ in range(10):
        pool.give(bytearray(4 << 20))
    kept = sum(len(buffer) for buffers in pool._free.values() for buffer in buffers)
    assert kept == POOLED_BUFFER_BYTES
    pool.give(None)


def test_a_client_is_told_the_address_that_it_dialled_unless_another_is_set() -> None:
    bound = Endpoint("PLAINTEXT", "PLAINTEXT", "0.0.0.0", 9092)
    assert bound.address_for(("10.1.2.3", 9092)) == ("10.1.2.3", 9092)
    assert Endpoint("A", "PLAINTEXT", "::", 1, ("kafka.example", 2)).address_for(("::1", 1)) == ("kafka.example", 2)
    assert str(Endpoint("A", "PLAINTEXT", "::1", 1)) == "A://[::1]:1"
