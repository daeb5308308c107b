"""Whatever happens to a connection, in any order: its state goes where the table in `State` says, and each row is seen."""

from __future__ import annotations

import asyncio
import random
import re
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from support.connections import Server, Transport, frame
from tidelog.broker.network._frames import FrameReader
from tidelog.broker.network.connection import Connection
from tidelog.broker.network.connection_state import State
from tidelog.broker.network.request_memory import RequestMemoryBudget
from tidelog.broker.network.socket_server import Endpoint

EVENTS = ["feed"] * 5 + ["large"] + ["read", "answer", "unmute"] * 2 + ["memory", "mute", "end", "refuse"]
_ROW = re.compile(r"^ {8}([A-Z]+|any) +.* ([A-Z]+)$", re.MULTILINE)


def table() -> set[tuple[State, State]]:
    assert State.__doc__ is not None
    ways: set[tuple[State, State]] = set()
    for before, after in _ROW.findall(State.__doc__):
        befores = (
            [State[before]] if before in State.__members__ else [state for state in State if state is not State.CLOSED]
        )
        ways |= {(state, State[after]) for state in befores}
    return ways


#: Where the compiled part reads it.
_KEPT: Any = FrameReader.__dict__["_state"]


class Watched(Connection):
    """A connection that counts the ways its state goes."""

    __slots__ = ("seen",)

    @property
    def _state(self) -> State:  # type: ignore[override]
        return _KEPT.__get__(self)  # type: ignore[no-any-return]

    @_state.setter
    def _state(self, after: State) -> None:
        before = _KEPT.__get__(self)
        if after is not before and before is not None:
            self.seen[before, after] += 1
        _KEPT.__set__(self, after)


class BothEnds:
    """One connection, both ends of it, and requests that do what their first byte says."""

    def __init__(self, pool: ThreadPoolExecutor, seen: Counter[tuple[State, State]]) -> None:
        self.server = Server(pool)
        self.server.receiving = RequestMemoryBudget(60_000, 30_000)
        self.near, self.far = socket.socketpair()
        self.near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        for end in (self.near, self.far):
            end.setblocking(False)
        self.transport = Transport(self.near)
        self.pending: list[asyncio.Future[bytes]] = []
        self.connection = Watched.__new__(Watched)
        self.connection.seen = seen
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)
        self.connection.__init__(self.server, endpoint, self)  # type: ignore[misc, arg-type]
        self.connection.connection_made(self.transport)
        self.unread = b""
        self.ended = False

    quick = None

    def dispatch(self, buffer: bytearray, start: int, end: int, connection: Connection) -> Any:
        assert connection._state is State.READY
        kinds = chr(buffer[start])
        if kinds in "mM":
            connection.mute(60_000)
        if kinds in "pM":
            self.pending.append(asyncio.get_running_loop().create_future())
            return self.pending[-1]
        return bytes(300_000 if kinds == "b" else 10)  # less than what is sent at once, more than the socket takes

    def answered(self, key: int, since: int) -> None:
        pass

    def name_of(self, key: int) -> str:
        return str(key)

    def feed(self, data: bytes) -> None:
        data = self.unread + data
        while data and self.transport.reading and not self.transport.aborted and not self.ended:
            view = self.connection.get_buffer(-1)
            count = min(len(view), len(data))
            assert count > 0
            view[:count] = data[:count]
            self.connection.buffer_updated(count)
            data = data[count:]
        self.unread = data

    def read(self) -> None:
        try:
            while self.far.recv(1 << 20):
                pass
        except BlockingIOError:
            pass

    async def step(self, rng: random.Random) -> None:
        connection = self.connection
        match rng.choice(EVENTS):
            case "feed":
                self.feed(b"".join(frame(rng.choice("oooobpmM").encode() * 3) for _ in range(rng.randint(1, 4))))
            case "large":
                self.server.receiving.buffers.lent += (taken := rng.choice([0, 60_000]))
                self.server.receiving.track(other := self._other())
                self.feed(frame(b"o" * 100_000))
                self.server.receiving.buffers.lent -= taken
                self.server.receiving.untrack(other)
            case "read":
                self.read()
                for _ in range(5):
                    await asyncio.sleep(0)
            case "answer" if self.pending:
                future = self.pending.pop()
                if not future.cancelled():
                    future.set_result(bytes(rng.choice([10, 300_000])))
                await asyncio.sleep(0)
            case "unmute" if self.server.loop.waiting():
                self.server.loop.fire(self.server.loop.waiting()[0])
            case "memory":
                self.server.receiving.wake_waiters()
            case "mute" if connection._state in (State.READY, State.PENDING):
                connection.mute(60_000)
            case "end" if rng.random() < 0.1 and not self.ended:
                self.ended = True
                connection.eof_received()
            case "refuse" if rng.random() < 0.1 and connection._state is State.PENDING:
                connection.close_after_sending()
        if self.ended and connection._state <= State.MUTED:
            assert connection._has_whole_request(), "what is left is waited for"
        if connection._state is State.READY:
            assert not connection.busy, "no answer is awaited or unsent"
            assert (self.server.loop.waiting(), len(self.server.fair_queue)) == ([], 0), "it is not muted"
            assert self.transport.reading

    @staticmethod
    def _other() -> Any:
        """Whose request began first: it always gets its memory, and this connection does not."""

        class Other:
            request_bytes = 1

            def go_on_receiving(self) -> None:
                pass

        return Other()


async def test_a_connections_state_goes_where_the_table_says() -> None:
    seen: Counter[tuple[State, State]] = Counter()
    pool = ThreadPoolExecutor(1)
    for seed in range(150):
        rng, both = random.Random(seed), BothEnds(pool, seen)
        for _ in range(40):
            await both.step(rng)
        both.connection.connection_lost(None)
        both.near.close()
        both.far.close()
    pool.shutdown()
    ways = table()
    assert len(ways) > 15
    assert not {way for way in seen if way not in ways}, "not in the table"
    assert not {way for way in ways if way not in seen}, "in the table, and never gone"
