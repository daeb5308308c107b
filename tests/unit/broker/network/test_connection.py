"""A connection cuts the stream into frames however it arrives, answers in order, waits while one is pending."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from support.connections import Server, Transport, frame
from tidelog.broker.network.connection import Connection
from tidelog.broker.network.fair_queue import Ticket
from tidelog.broker.network.pending_response import PendingResponse
from tidelog.broker.network.request_memory import RequestMemoryBudget
from tidelog.broker.network.socket_server import Endpoint
from tidelog.broker.runtime.exceptions import ConnectionAborted, RequestDeferred
from tidelog.storage.io.platform import open_descriptors


class Rig:
    """A connection whose dispatcher is `answer`, with the client's end of its socket."""

    def __init__(
        self,
        answer: Callable[[bytes], Any],
        max_request_bytes: int = 1 << 20,
        sockets: tuple[socket.socket, socket.socket] | None = None,
    ) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.server = Server(self.pool, max_request_bytes)
        self.seen: list[bytes] = []
        self.waited: list[tuple[int, int]] = []
        self._answer = answer
        self.near, self.far = sockets or socket.socketpair()
        self.near.setblocking(False)
        self.far.setblocking(False)
        self.transport = Transport(self.near)
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)
        self.connection = Connection(self.server, endpoint, self)  # type: ignore[arg-type]
        self.connection.connection_made(self.transport)

    quick = None

    def dispatch(self, buffer: bytearray, start: int, end: int, connection: Connection) -> Any:
        frame = bytes(buffer[start:end])
        self.seen.append(frame)
        answer = self._answer(frame)
        if not isinstance(answer, bytes | None):
            connection.pending_key, connection.pending_since = frame[0], connection.last_active
        return answer

    def answered(self, key: int, since: int) -> None:
        self.waited.append((key, since))

    def name_of(self, key: int) -> str:
        return str(key)

    def feed(self, data: bytes) -> None:
        """As a loop does: ask for the buffer, fill it as far as it goes, hand over; again while it reads."""
        while data and self.transport.reading and not self.transport.aborted:
            view = self.connection.get_buffer(-1)
            count = min(len(view), len(data))
            assert count > 0, "an empty buffer ends the connection"
            view[:count] = data[:count]
            self.connection.buffer_updated(count)
            # The scratch buffer is another connection's now.
            self.server.scratch[:] = b"\xee" * len(self.server.scratch)
            data = data[count:]
        self.unread = data

    def received(self) -> bytes:
        got = b""
        while True:
            try:
                chunk = self.far.recv(1 << 20)
            except BlockingIOError:
                return got
            if not chunk:
                return got
            got += chunk

    def end(self) -> None:
        self.connection.connection_lost(None)
        self.near.close()
        self.far.close()
        self.pool.shutdown()


@pytest.mark.parametrize("seed", range(20))
async def test_frames_come_out_the_same_however_the_stream_is_cut(seed: int) -> None:
    rng = random.Random(seed)
    bodies = [rng.randbytes(rng.choice([0, 1, 7, 100, 4090, 5000, 70_000, 200_000])) for _ in range(30)]
    rig = Rig(lambda body: body[:3])
    stream = b"".join(map(frame, bodies))
    while stream:
        count = rng.choice([1, 3, 100, 4096, 50_000, 10**6])
        rig.feed(stream[:count])
        stream = stream[count:]
    assert rig.seen == bodies
    assert rig.received() == b"".join(body[:3] for body in bodies)
    assert rig.server.receiving.buffers.lent == 0, "nothing is owned between requests"
    rig.end()


@pytest.mark.parametrize("seed", range(10))
async def test_a_pending_answer_stops_the_requests_behind_it(seed: int) -> None:
    rng = random.Random(seed)
    pending: list[asyncio.Future[bytes]] = []

    def answer(body: bytes) -> bytes | Awaitable[bytes]:
        if body[0] % 3:
            return body
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        pending.append(future)
        return future

    rig = Rig(answer)
    bodies = [bytes([index]) * rng.choice([1, 10, 3000, 90_000]) for index in range(12)]
    stream = b"".join(map(frame, bodies))
    got = b""
    while len(got) < sum(map(len, bodies)):
        rig.feed(stream)
        stream = rig.unread
        count = len(rig.seen)
        if pending:
            assert count == len(rig.seen), "nothing is handled while an answer is pending"
            pending.pop().set_result(rig.seen[-1])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        got += rig.received()
    assert got == b"".join(bodies)
    expected = [body[0] for body in bodies if not body[0] % 3]
    assert [key for key, _ in rig.waited] == expected, "each answer that had to wait is counted once"
    rig.end()


async def test_a_request_that_comes_in_its_own_read_waits_too() -> None:
    """The pending request left nothing behind in a buffer; the next one must still not overtake it."""
    future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    rig = Rig(lambda body: future if body == b"slow" else body)
    rig.feed(frame(b"slow"))
    rig.feed(frame(b"fast"))
    rig.feed(frame(b"last"))
    await asyncio.sleep(0)
    assert rig.seen == [b"slow"]
    assert rig.received() == b""
    future.set_result(b"slow")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rig.received() == b"slowfastlast"
    rig.end()


async def test_memory_follows_what_has_come_not_what_is_announced() -> None:
    rig = Rig(lambda body: body[-3:], max_request_bytes=100 << 20)
    body = random.Random(5).randbytes(9_000_000)
    stream = frame(body)
    for start in range(0, len(stream), 300_000):
        rig.feed(stream[start : start + 300_000])
        assert rig.server.receiving.buffers.lent <= max(1 << 20, 2 * (start + 300_000))
    assert rig.seen == [body]
    assert rig.received() == body[-3:]
    rig.end()


@pytest.mark.parametrize("seed", range(10))
async def test_requests_that_come_while_an_answer_is_pending_wait_their_turn(seed: int) -> None:
    rng = random.Random(seed)
    first: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    rig = Rig(lambda body: first if body == b"first" else body)
    rig.feed(frame(b"first"))
    bodies = [rng.randbytes(rng.choice([1, 50, 5000])) for _ in range(10)]
    stream = b"".join(map(frame, bodies))
    while stream:
        count = rng.choice([3, 60, 4096])
        rig.feed(stream[:count])
        stream = stream[count:]
    assert rig.seen == [b"first"], "nothing is handled before its turn"
    assert rig.received() == b""
    first.set_result(b"answer")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rig.received() == b"answer" + b"".join(bodies)
    rig.end()


@pytest.mark.parametrize("size", [-1, 1001, 0x7FFFFFFF, int.from_bytes(b"GET ", "big")])
async def test_an_announced_size_out_of_bounds_closes_before_anything_is_allocated(size: int) -> None:
    rig = Rig(lambda body: body, max_request_bytes=1000)
    rig.feed(frame(b"good") + size.to_bytes(4, "big", signed=size < 0) + b"rest")
    assert rig.transport.aborted
    assert rig.received() == b"good"
    assert rig.server.receiving.buffers.lent == 0
    rig.end()


@pytest.mark.parametrize("cut", [1, 4, 5, 1000])
async def test_a_request_that_is_too_large_for_a_stranger_is_not_waited_for(
    cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Before authentication: its client could have as much memory as any other, and for as long."""
    rig = Rig(lambda body: body)
    rig.connection.limit_requests(1000)
    rig.feed(frame(b"good") + frame(bytes(1000)))
    assert not rig.transport.aborted
    request = (1001).to_bytes(4, "big") + bytes(1000)
    rig.feed(request[:cut])
    rig.feed(request[cut:4])
    assert rig.transport.aborted
    assert "a request of 1001 bytes before authentication; at most 1000 are read" in caplog.text
    assert rig.seen == [b"good", bytes(1000)]
    rig.end()
    assert rig.server.receiving.buffers.lent == 0


async def test_who_has_authenticated_sends_what_the_server_takes() -> None:
    rig = Rig(lambda body: b"")
    rig.connection.limit_requests(1000)
    rig.connection.hand_to(rig)  # type: ignore[arg-type]
    rig.feed(frame(bytes(50_000))[:30_000])
    assert not rig.transport.aborted
    rig.end()


async def test_what_a_handler_refuses_closes_after_the_answers_before_it() -> None:
    def answer(body: bytes) -> bytes:
        if body == b"bad":
            raise ConnectionAborted("bad")
        return body

    rig = Rig(answer)
    rig.feed(frame(b"one") + frame(b"bad") + frame(b"two"))
    assert rig.transport.aborted
    assert rig.received() == b"one"
    assert rig.seen == [b"one", b"bad"]
    assert rig.server.aborted_connections == 1
    rig.end()


async def test_a_refusal_may_have_a_last_answer() -> None:
    """After the answers before it, whether it is refused at once or later."""
    later: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def answer(body: bytes) -> Any:
        if body == b"bad":
            raise ConnectionAborted("bad", b"so it is")
        return later if body == b"later" else body

    rig = Rig(answer)
    rig.feed(frame(b"one") + frame(b"bad") + frame(b"two"))
    assert (rig.transport.aborted, rig.received(), rig.seen) == (True, b"oneso it is", [b"one", b"bad"])
    rig.end()
    rig = Rig(answer)
    rig.feed(frame(b"one") + frame(b"later") + frame(b"two"))
    later.set_exception(ConnectionAborted("bad", b"so it is"))
    await asyncio.sleep(0)
    assert (rig.transport.aborted, rig.received(), rig.seen) == (True, b"oneso it is", [b"one", b"later"])
    assert rig.server.aborted_connections == 1
    rig.end()


async def test_a_client_that_does_not_read_is_not_read_from() -> None:
    rig = Rig(lambda body: bytes(200_000))
    rig.feed(frame(b"x") * 400)
    assert not rig.transport.reading
    handled = len(rig.seen)
    assert handled < 400
    total = 0
    while total < 400 * 200_000:
        total += len(rig.received())
        await asyncio.sleep(0)
        if rig.transport.reading and rig.unread:
            rig.feed(rig.unread)
    assert len(rig.seen) == 400
    rig.end()


async def test_requests_behind_a_later_answer_are_handled_when_it_is_sent() -> None:
    waiting: list[PendingResponse] = []

    def handle(body: bytes) -> PendingResponse:
        waiting.append(PendingResponse(lambda failure: frame(body if failure is None else b"failed"), 1))
        return waiting[-1]

    rig = Rig(handle)
    rig.feed(frame(b"a") + frame(b"b") + frame(b"c"))
    assert rig.seen == [b"a"]
    waiting[0].one_done(None)
    assert rig.seen == [b"a", b"b"], "at once, not with the next turn of the loop"
    waiting[1].one_done(OSError("disk"))
    assert rig.far.recv(100) == frame(b"a") + frame(b"failed")
    rig.end()
    waiting[2].one_done(None)
    assert waiting[2].cancelled()


async def test_a_client_that_has_ended_its_side_is_closed_behind_its_last_answer() -> None:
    """The last one is that of the last request that has come whole: what is left of another is none."""
    later: list[asyncio.Future[bytes]] = []

    def answer(body: bytes) -> Any:
        later.append(asyncio.get_running_loop().create_future())
        return later[-1]

    rig = Rig(answer)
    rig.feed(frame(b"a") + frame(b"b") + frame(b"c")[:-1])
    assert rig.connection.eof_received(), "the answers still go out"
    for name in (b"a", b"b"):
        assert not rig.transport.aborted
        later.pop().set_result(frame(name))
        await asyncio.sleep(0)
    assert rig.received() == frame(b"a") + frame(b"b")
    assert rig.transport.aborted
    assert rig.seen == [b"a", b"b"]
    rig.end()


async def test_a_client_that_is_refused_is_closed_behind_its_last_answer() -> None:
    """What it sent behind the refused request is not handled."""
    later: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    rig = Rig(lambda body: later)
    rig.feed(frame(b"a") + frame(b"b"))
    rig.connection.close_after_sending()
    assert rig.connection.eof_received(), "it may end its side meanwhile"
    assert not rig.transport.aborted
    later.set_result(frame(b"refused"))
    await asyncio.sleep(0)
    assert rig.received() == frame(b"refused")
    assert rig.transport.aborted
    assert rig.seen == [b"a"]
    rig.end()


@pytest.mark.parametrize("why", ["time", "turn", "turns", "deferred"])
async def test_what_a_client_sent_before_it_left_is_handled_though_the_connection_is_muted(why: str) -> None:
    """A producer with acks=0 sends, closes its socket, and waits for nothing. Kafka reads all of it."""

    def answer(body: bytes) -> None:
        if why == "deferred" and deferred.pop(body, False):
            rig.connection.mute_in(partial(rig.server.fair_queue.join, "its own"))
            rig.seen.pop()
            raise RequestDeferred
        if why == "time" and not len(rig.seen) % 100:
            rig.connection.mute(60_000)
        if why == "turns":
            rig.server.now_ns += 3_000_000  # it is heavy: a request for each ticket

    rig = Rig(answer)
    bodies = [b"%03d" % number * 20 for number in range(250)]
    deferred = dict.fromkeys(bodies[::10], True)
    if why == "time":
        rig.connection.mute(60_000)
    elif why == "turn":
        rig.server.fair_queue.join("another", lambda: None)
    rig.feed(b"".join(map(frame, bodies)) + b"\0\0\0\x09not whole"[:-1])
    assert rig.connection.eof_received()
    assert not rig.transport.aborted
    for _ in range(260):
        for timer in rig.server.loop.waiting():
            rig.server.loop.fire(timer)
        await asyncio.sleep(0)
    assert rig.seen == bodies
    assert rig.transport.aborted, "nothing is left to wait for"
    rig.end()
    assert (rig.server.receiving.buffers.lent, len(rig.server.receiving)) == (0, 0)


@pytest.mark.parametrize("left", [b"", b"\0\0", b"\0\0\0\x05part", b"\xff\xff\xff\xffwrong"])
async def test_a_muted_client_that_leaves_nothing_whole_is_closed_at_once(left: bytes) -> None:
    """Else its place among the connections is taken until its quota allows it the next request."""
    rig = Rig(lambda body: None)
    rig.connection.mute(60_000)
    rig.feed(left)
    assert not rig.connection.eof_received()
    assert rig.transport.aborted
    rig.end()
    assert rig.server.loop.waiting() == []


async def test_a_client_that_has_ended_its_side_is_not_read_again() -> None:
    """The loop would find the same end with each look at the socket."""
    later: list[asyncio.Future[bytes]] = []

    def answer(body: bytes) -> Any:
        later.append(asyncio.get_running_loop().create_future())
        return later[-1]

    rig = Rig(answer)
    body = bytes(32_000)
    rig.feed(frame(b"first") + frame(body) + frame(body) + frame(b"last"))
    rig.transport.reading = False  # as a loop does
    assert rig.connection.eof_received()
    for _ in range(3):
        assert rig.connection.eof_received(), "heard twice, it means the same"
        later.pop().set_result(b"")
        await asyncio.sleep(0)
        assert not rig.transport.reading
    later.pop().set_result(b"")
    await asyncio.sleep(0)
    assert rig.seen == [b"first", body, body, b"last"]
    assert rig.transport.aborted
    rig.end()


async def test_a_lost_connection_cancels_what_it_waits_for() -> None:
    future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    rig = Rig(lambda body: future)
    rig.feed(frame(b"x"))
    rig.end()
    assert future.cancelled()


async def test_a_muted_connection_handles_nothing_until_the_time_has_passed() -> None:
    def answer(body: bytes) -> bytes:
        if body == b"mute":
            rig.connection.mute(60_000)
            rig.connection.mute(1)  # a shorter wait changes nothing
        return body

    rig = Rig(answer)
    now = asyncio.get_running_loop().time()
    rig.feed(frame(b"a") + frame(b"mute") + frame(b"b") + frame(b"c")[:3])
    assert rig.received() == b"amute"  # what was asked for before goes out
    rig.feed(frame(b"c")[3:])
    assert rig.seen == [b"a", b"mute"]
    (timer,) = rig.server.loop.timers
    assert 60 <= timer.when() - now < 70
    rig.server.loop.fire(timer)
    assert rig.seen == [b"a", b"mute", b"b", b"c"]
    rig.feed(frame(b"d"))
    assert rig.received() == b"bcd"
    rig.end()


async def test_a_muted_connection_that_is_lost_leaves_no_timer() -> None:
    rig = Rig(lambda body: body)
    rig.connection.mute(60_000)
    (timer,) = rig.server.loop.timers
    assert not timer.cancelled()
    rig.end()
    assert timer.cancelled()


@pytest.mark.parametrize("seed", range(10))
async def test_requests_of_many_share_bounded_memory_and_all_arrive(seed: int) -> None:
    rng = random.Random(seed)
    rigs = [Rig(lambda body: body[:3], 1 << 20) for _ in range(12)]
    room = RequestMemoryBudget(400_000, 30_000)
    for rig in rigs:
        rig.server.receiving = room
    bodies = {rig: [rng.randbytes(rng.choice([5, 3000, 20_000, 300_000])) for _ in range(4)] for rig in rigs}
    streams = {rig: b"".join(map(frame, bodies[rig])) for rig in rigs}
    while any(streams.values()):
        before = sum(map(len, streams.values()))
        for rig in rigs:
            count = rng.choice([1, 4096, 100_000])
            rig.feed(streams[rig][:count])
            streams[rig] = rig.unread + streams[rig][count:]
            assert room.buffers.lent <= 400_000 + (1 << 19) + 16_384 * len(rigs)
        room.wake_waiters()
        assert sum(map(len, streams.values())) < before, "somebody always goes on"
    for rig in rigs:
        assert rig.seen == bodies[rig]
        assert not rig.transport.aborted
        rig.end()
    assert (room.buffers.lent, len(room), room.waiting) == (0, 0, 0)
    assert room.waits > 0


async def test_a_request_that_comes_too_slowly_ends_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(lambda body: body)
    room = rig.server.receiving
    rig.feed(frame(b"whole") + b"\0\1")
    for _ in range(30):
        rig.feed(b"\0")
        room.tick(1000)
    assert not rig.transport.aborted
    room.tick(1000)
    assert rig.transport.aborted
    assert rig.server.aborted_connections == 1
    assert "request.receive.timeout.ms=30000" in caplog.text
    rig.end()
    assert len(room) == 0


async def test_what_waits_behind_an_answer_is_not_slow() -> None:
    pending: list[asyncio.Future[bytes]] = []

    def answer(body: bytes) -> asyncio.Future[bytes]:
        pending.append(asyncio.get_running_loop().create_future())
        return pending[-1]

    rig = Rig(answer)
    rig.feed(frame(b"first") + frame(b"second")[:6])
    for _ in range(100):
        rig.server.receiving.tick(1000)
    assert not rig.transport.aborted
    pending[0].set_result(b"answer")
    await asyncio.sleep(0)
    for _ in range(31):
        rig.server.receiving.tick(1000)
    assert rig.transport.aborted, "now it is the client that is waited for"
    rig.end()


async def test_a_client_that_takes_nothing_is_closed_and_one_that_reads_is_not() -> None:
    rig = Rig(lambda body: bytes(4 << 20))
    room = rig.server.sending
    rig.feed(frame(b"give"))
    assert room.held > 0
    for _ in range(300):
        room.tick(1000)
    assert not rig.transport.aborted
    taken = 0
    while len(room):
        taken += len(rig.received())
        for _ in range(5):  # the loop finds that there is room, and sends
            await asyncio.sleep(0)
        room.tick(299_000)
        assert not rig.transport.aborted
    assert taken + len(rig.received()) == 4 << 20
    assert room.held == 0
    rig.feed(frame(b"give"))
    room.tick(301_000)
    assert rig.transport.aborted
    rig.end()


@pytest.mark.parametrize("bound", ["time", "memory"])
async def test_a_client_that_has_ended_its_side_and_takes_nothing_is_closed_too(bound: str) -> None:
    """Else whoever ends their side first has unsent answers kept for ever, which no bound counts any more."""
    rig = Rig(lambda body: bytes(4 << 20))
    room = rig.server.sending
    rig.feed(frame(b"give"))
    assert room.held > 0
    assert rig.connection.eof_received(), "the answer still goes out"
    if bound == "time":
        room.tick(room.timeout_ms)
        assert not rig.transport.aborted
        room.tick(2)
    else:
        other = Rig(lambda body: bytes(4 << 20))
        room.limit = 5 << 20
        other.server.sending = room
        other.feed(frame(b"give"))
        assert not other.transport.aborted
        other.end()
    assert rig.transport.aborted
    assert rig.connection.unsent_bytes == 0
    rig.end()


async def test_a_client_that_asks_for_nothing_costs_one_descriptor() -> None:
    before = open_descriptors()
    rigs = [Rig(lambda body: body) for _ in range(5)]
    assert open_descriptors() - before == 10, "both ends of its socket"
    rigs[0].feed(frame(b"hello"))
    assert open_descriptors() - before == 11
    for rig in rigs:
        rig.end()
    assert open_descriptors() == before


async def test_a_client_whose_requests_take_long_lets_others_go_on_between_them() -> None:
    def answer(body: bytes) -> bytes:
        rig.server.now_ns += 3_000_000
        return body

    rig = Rig(answer)
    bodies = [bytes([n]) * 10 for n in range(7)]
    rig.feed(b"".join(map(frame, bodies)))
    assert rig.seen == bodies[:2], "so many fit into a turn"
    rig.feed(frame(b"more"))
    for count in range(3, 9):
        await asyncio.sleep(0)
        assert len(rig.seen) == count, "one in a millisecond from then on"
    assert rig.seen == [*bodies, b"more"]
    assert rig.received() == b"".join(rig.seen)
    rig.feed(frame(b"next"))
    assert len(rig.seen) == 8, "it was heavy: others first"
    await asyncio.sleep(0)
    assert rig.seen[-1] == b"next"
    await asyncio.sleep(0)
    rig.server.now_ns = 1
    rig.feed(frame(b"x"))
    rig.end()
    await asyncio.sleep(0)
    assert len(rig.server.fair_queue) == 0


async def test_a_request_that_waits_is_named_by_its_own_protocol() -> None:
    """Keys of one protocol mean something else in another, or nothing."""
    pending: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    rig = Rig(lambda _: pending)
    assert rig.connection.pending_request == ""
    rig.feed(frame(b"\x05"))
    assert rig.connection.pending_request == "5", "what the rig's protocol calls it"
    pending.set_result(b"answer")
    await asyncio.sleep(0)
    assert rig.connection.pending_request == ""
    rig.end()


async def test_a_client_is_heavy_by_what_its_requests_take_in_the_mean() -> None:
    """One that took long by chance does not send its client behind a thousand others; and nobody is heavy for ever."""
    takes = 3_000_000

    def answer(body: bytes) -> bytes:
        rig.server.now_ns += takes
        return body

    rig = Rig(answer)
    rig.feed(frame(b"heavy"))
    takes = 0
    for number in range(1, 6):
        rig.feed(frame(b"light"))
        waited = len(rig.seen) == number
        assert waited == (number < 5), "4 are enough for a mean of less than 2 ms"
        await asyncio.sleep(0)
        assert len(rig.seen) == number + 1
    for _ in range(10):
        rig.feed(frame(b"light"))
    takes = 9_000_000
    rig.feed(frame(b"heavy by chance"))
    takes = 0
    rig.feed(frame(b"at once"))
    assert rig.seen[-2:] == [b"heavy by chance", b"at once"]
    takes = 9_000_000
    rig.feed(frame(b"heavy again"))
    rig.feed(frame(b"in its turn"))
    assert rig.seen[-1] == b"heavy again"
    await asyncio.sleep(0)
    assert rig.seen[-1] == b"in its turn"
    rig.end()


async def test_on_a_busy_machine_nobody_is_heavy_by_what_others_take() -> None:
    """Each read lasts 9 ms by the wall's clock, of which the loop thread has a tenth: it was 15 system calls a request."""
    own = 900_000

    def answer(body: bytes) -> bytes:
        rig.server.now_ns += 9_000_000
        rig.server.others_ns += 9_000_000 - own
        return body

    rig = Rig(answer)
    for number in range(1, 200):  # from the first one on
        rig.feed(frame(b"light"))
        assert len(rig.seen) == number, "it waited for its turn"
    own = 8_000_000
    for _ in range(5):
        rig.feed(frame(b"heavy"))
        await asyncio.sleep(0)
    before = len(rig.seen)
    rig.feed(frame(b"heavy"))
    assert len(rig.seen) == before, "what it takes itself counts"
    await asyncio.sleep(0)
    assert len(rig.seen) == before + 1
    rig.end()


async def test_a_connection_that_is_heavy_takes_a_ticket_when_its_answer_has_gone_out() -> None:
    """Of requests that it had sent meanwhile, the next would be handled at once, before everybody else's."""

    def answer(body: bytes) -> bytes:
        rig.server.now_ns += 3_000_000
        return bytes(8 << 20) if body == b"large" else body

    rig = Rig(answer)
    rig.feed(frame(b"large") + frame(b"behind"))
    assert rig.seen == [b"large"]
    while not rig.connection._outbound.idle:  # type: ignore[union-attr]
        rig.received()
        rig.server.loop.writers[next(iter(rig.server.loop.writers))]()
    assert rig.seen == [b"large"]
    assert len(rig.server.fair_queue) == 1
    await asyncio.sleep(0)
    assert rig.seen == [b"large", b"behind"]
    rig.end()


async def test_many_small_requests_with_large_answers_cost_no_more_than_the_socket_takes_and_one_bound() -> None:
    answer = bytes(10_000)
    rig = Rig(lambda _: answer)
    rig.server.max_outbound_bytes = 65_536
    rig.feed(frame(b"more") * 400)
    kept = rig.connection.unsent_bytes
    assert 0 < kept <= 65_536 + len(answer)
    handled, taken = len(rig.seen), 0
    assert handled < 400
    taken += len(rig.received())
    assert handled * len(answer) == taken + kept
    for _ in range(100):
        for writer in list(rig.server.loop.writers.values()):
            writer()
        assert rig.connection.unsent_bytes <= 65_536 + len(answer)
        taken += len(rig.received())
    assert (len(rig.seen), taken) == (400, 400 * len(answer))
    rig.end()


async def test_new_connections_of_a_client_that_reads_nothing_wait_and_light_ones_do_not() -> None:
    light, other = Rig(lambda body: body), Rig(lambda body: body)
    new = Rig(lambda body: body)
    for rig in (light, other):
        rig.server = new.server
        rig.connection._server = new.server  # type: ignore[assignment]
    other.connection.principal = "User:other"
    light.feed(frame(b"first"))
    new.server.sending.held_back.add("127.0.0.9")
    light.feed(frame(b"second"))
    other.feed(frame(b"other"))
    new.feed(frame(b"new"))
    for _ in range(4):
        await asyncio.sleep(0)
    assert (light.seen, other.seen, new.seen) == ([b"first", b"second"], [b"other"], [])
    assert light.connection.hold_back(), "a request of many names"
    assert not other.connection.hold_back()
    new.server.sending.held_back.discard("127.0.0.9")
    new.server.sending.on_released("127.0.0.9")
    for _ in range(4):
        await asyncio.sleep(0)
    assert new.seen == [b"new"]
    for rig in (light, other, new):
        rig.end()


@pytest.mark.parametrize("how", ["reset", "half closed"])
async def test_a_client_that_has_gone_while_it_waited_is_answered_no_more(how: str) -> None:
    """Thousands that leave in the row would be worked for, one after the other; who only ended its side still reads."""
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    near, _ = listener.accept()
    listener.close()
    rig = Rig(lambda body: body, sockets=(near, client))
    rig.server.fair_queue.join("another", lambda: None)
    rig.feed(frame(b"waits"))
    if how == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    else:
        client.shutdown(socket.SHUT_WR)
    for _ in range(3):
        await asyncio.sleep(0)
    assert rig.seen == ([] if how == "reset" else [b"waits"])
    assert rig.connection.closing == (how == "reset")
    rig.end()


async def test_a_defect_met_by_a_request_that_has_waited_ends_its_connection_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As the event loop does where it hands over what has come: a client would wait for an answer for ever."""

    def answer(body: bytes) -> bytes:
        if body == b"bad":
            raise ZeroDivisionError("a defect")
        return body

    rig = Rig(answer)
    seen: list[str] = []
    rig.server.fair_queue.join("another", lambda: None)
    rig.feed(frame(b"bad"))
    rig.server.fair_queue.join("third", lambda: seen.append("third"))
    for _ in range(4):
        await asyncio.sleep(0)
    assert rig.seen == [b"bad"]
    assert rig.connection.closing
    assert seen == ["third"]
    assert "ZeroDivisionError" in caplog.text
    rig.end()


async def test_a_client_that_sends_its_requests_in_parts_is_as_heavy() -> None:
    def answer(body: bytes) -> bytes:
        rig.server.now_ns += 3_000_000
        return body

    rig = Rig(answer)
    whole = frame(b"in parts")
    for count in range(1, 4):
        for byte in whole[:-1]:
            rig.feed(bytes([byte]))
        rig.feed(whole[-1:])
        assert len(rig.seen) == (count if count == 1 else count - 1)
        for _ in range(2):
            await asyncio.sleep(0)
        assert len(rig.seen) == count
    rig.end()


async def test_a_new_client_waits_where_others_wait_and_one_that_is_known_does_not() -> None:
    rig, known = Rig(lambda body: body), Rig(lambda body: body)
    known.server.fair_queue = rig.server.fair_queue
    known.feed(frame(b"first"))
    rig.server.fair_queue.join("another", lambda: None)
    known.feed(frame(b"second"))
    rig.feed(frame(b"new"))
    assert (known.seen, rig.seen) == ([b"first", b"second"], [])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rig.seen == [b"new"]
    known.end()
    rig.end()


@pytest.mark.parametrize("size", [10, 20_000])
async def test_a_request_that_has_to_wait_comes_again_whole_and_in_order(size: int) -> None:
    """Small ones from the scratch buffer, large ones from the connection's own; it is no request that comes slowly."""
    waiting: list[Callable[[], None]] = []
    refused: list[bytes] = []

    def answer(data: bytes) -> bytes:
        if data.startswith(b"w") and len(refused) < 2:
            refused.append(data)

            def join(go_on: Callable[[], None]) -> Ticket:
                ticket = Ticket(go_on)
                waiting.append(ticket.resume)  # type: ignore[arg-type]
                return ticket

            rig.connection.mute_in(join)
            raise RequestDeferred
        return frame(data[:1] + b"!")

    rig = Rig(answer)
    wanted = b"w" * size
    rig.feed(frame(b"first") + frame(wanted) + frame(b"last"))
    assert rig.received() == frame(b"f!")
    assert len(rig.server.receiving) == 0
    waiting.pop()()
    assert rig.received() == b"", "it waits once more"
    waiting.pop()()
    rig.feed(rig.unread)
    assert rig.received() == frame(b"w!") + frame(b"l!")
    assert refused == [wanted, wanted]
    assert rig.seen == [b"first", wanted, wanted, wanted, b"last"]
    rig.end()


async def test_what_a_client_sent_that_was_gone_before_it_was_accepted_is_not_looked_at() -> None:
    """Its address can't be asked for any more: rules of addresses would not hold for it."""
    rig = Rig(lambda body: body)
    rig.transport._extra["peername"] = None  # as asyncio has it then
    connection = rig.connection = Connection(rig.server, rig.connection.listener, rig)  # type: ignore[arg-type]
    connection.connection_made(rig.transport)
    assert rig.transport.aborted
    rig.transport.aborted = False
    rig.feed(frame(b"abc"))
    assert (rig.seen, rig.server.aborted_connections) == ([], 0)
    rig.end()


@pytest.mark.parametrize(
    ("peer", "host"),
    [("::ffff:10.0.0.7", "10.0.0.7"), ("10.0.0.7", "10.0.0.7"), ("fe80::1%eth0", "fe80::1"), ("::1", "::1")],
)
async def test_a_client_has_one_address_also_where_a_listener_is_for_both_kinds(peer: str, host: str) -> None:
    """Limits and quotas of addresses go by it: at [::] a client by IPv4 had another, which none was set for."""
    rig = Rig(lambda body: body)
    transport = Transport(rig.near)
    transport._extra["peername"] = (peer, 1234, 0, 0)  # type: ignore[attr-defined]
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "::", 9092)
    connection = Connection(rig.server, endpoint, rig)  # type: ignore[arg-type]
    connection.connection_made(transport)
    assert (connection.peer_host, connection.client) == (host, host)
    connection.connection_lost(None)
    rig.end()
