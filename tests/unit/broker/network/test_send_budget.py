"""Answers that are not taken: bounded in time and in memory, at the cost of those who do not read."""

from __future__ import annotations

from tidelog.broker.network.send_budget import SendRoom


class Client:
    def __init__(self, unsent_bytes: int) -> None:
        self.unsent_bytes = unsent_bytes
        self.send_turns = 0
        self.reason = ""

    def time_is_up(self, reason: str) -> None:
        self.reason = reason


def test_who_takes_nothing_for_so_long_is_closed() -> None:
    room = SendRoom(-1, 3000)
    stalled, slow = Client(10), Client(10)
    room.begins(stalled)
    room.begins(slow)
    for _ in range(10):
        slow.send_turns += 1
        room.tick(1000)
    assert stalled.reason.startswith("the client took nothing of its answer for 4000 ms (response.send.timeout.ms=3000")
    assert not slow.reason
    room.ends(stalled)
    room.ends(slow)
    room.ends(slow)
    assert (room.held, len(room), room.timed_out) == (0, 0, 1)


def test_above_the_limit_those_go_that_stand_still_for_longest_and_never_the_newest() -> None:
    room = SendRoom(100, 60_000)
    still, moving, files = Client(40), Client(40), Client(0)
    room.begins(moving)
    room.begins(still)
    room.begins(files)
    room.tick(1000)
    moving.send_turns += 1
    room.tick(1000)
    newest = Client(50)
    room.begins(newest)
    assert still.reason == (
        "the client does not take its answer, and 130 bytes of answers wait (queued.max.response.bytes=100)"
    )
    assert not moving.reason
    assert not files.reason, "nothing is gained by closing it"
    assert (room.held, room.shed) == (90, 1)
    large = Client(500)
    room.begins(large)
    assert moving.reason
    assert newest.reason
    assert not large.reason
    assert room.held == 500


def test_with_many_that_do_not_read_the_kernel_is_to_have_little_of_each() -> None:
    room = SendRoom(100 * 200 * 1024, 60_000)
    clients = [Client(0) for _ in range(101)]
    for client in clients[:-1]:
        room.begins(client)
        assert not room.is_crowded(False)
    room.begins(clients[-1])
    assert room.is_crowded(False)
    for client in clients[:50]:
        assert room.is_crowded(True)
        room.ends(client)
    assert room.is_crowded(True)
    room.ends(clients[50])
    assert not room.is_crowded(True), "half as many"
    unbounded = SendRoom(-1, 60_000)
    unbounded.begins(clients[0])
    assert not unbounded.is_crowded(False)
