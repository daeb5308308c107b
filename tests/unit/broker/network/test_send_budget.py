"""Answers that are not taken: bounded in time and in memory, at the cost of those who do not read."""

from __future__ import annotations

from tidelog.broker.network.response_memory import ResponseMemoryBudget


class Client:
    def __init__(self, unsent_bytes: int) -> None:
        self.unsent_bytes = unsent_bytes
        self.send_progress = 0
        self.reason = ""

    def time_is_up(self, reason: str) -> None:
        self.reason = reason


def test_who_takes_nothing_for_so_long_is_closed() -> None:
    room = ResponseMemoryBudget(-1, 3000)
    stalled, slow = Client(10), Client(10)
    room.track(stalled)
    room.track(slow)
    for _ in range(10):
        slow.send_progress += 1
        room.tick(1000)
    assert stalled.reason.startswith("the client took nothing of its answer for 4000 ms (response.send.timeout.ms=3000")
    assert not slow.reason
    room.untrack(stalled)
    room.untrack(slow)
    room.untrack(slow)
    assert (room.held, len(room), room.timed_out) == (0, 0, 1)


def test_above_the_limit_those_go_that_stand_still_for_longest_and_never_the_newest() -> None:
    room = ResponseMemoryBudget(100, 60_000)
    still, moving, files = Client(40), Client(40), Client(0)
    room.track(moving)
    room.track(still)
    room.track(files)
    room.tick(1000)
    moving.send_progress += 1
    room.tick(1000)
    newest = Client(50)
    room.track(newest)
    assert still.reason == (
        "the client does not take its answer, and 130 bytes of answers wait (queued.max.response.bytes=100)"
    )
    assert not moving.reason
    assert not files.reason, "nothing is gained by closing it"
    assert (room.held, room.shed) == (90, 1)
    large = Client(500)
    room.track(large)
    assert moving.reason
    assert newest.reason
    assert not large.reason
    assert room.held == 500


def test_with_many_that_do_not_read_the_kernel_is_to_have_little_of_each() -> None:
    room = ResponseMemoryBudget(100 * 200 * 1024, 60_000)
    clients = [Client(0) for _ in range(101)]
    for client in clients[:-1]:
        room.track(client)
        assert not room.is_crowded(False)
    room.track(clients[-1])
    assert room.is_crowded(False)
    for client in clients[:50]:
        assert room.is_crowded(True)
        room.untrack(client)
    assert room.is_crowded(True)
    room.untrack(clients[50])
    assert not room.is_crowded(True), "half as many"
    unbounded = ResponseMemoryBudget(-1, 60_000)
    unbounded.track(clients[0])
    assert not unbounded.is_crowded(False)
