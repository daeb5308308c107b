"""An event loop on virtual time and virtual sockets: asyncio's own loop, with a selector that asks the simulation.

Transports, servers, futures and tasks are asyncio's own. uvloop, which the daemon runs on as shipped, is not simulated:
`event.loop=asyncio` is a setting of the daemon's, and the loop is handed to the `Node`.
"""

from __future__ import annotations

import asyncio
import selectors
from asyncio.selector_events import BaseSelectorEventLoop
from collections import Counter
from collections.abc import Callable
from typing import Any

from simulation.network import End, Network, SimSocket
from simulation.scheduler import MONOTONIC_START_NS, SECOND, SimTask, simulation
from tidelog.storage.io.filesystem import Buffer

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class SimSelector(selectors._BaseSelectorImpl):  # type: ignore[misc, name-defined]
    """Which sockets are ready. One thread selects; others signal it."""

    def __init__(self) -> None:
        super().__init__()
        self._network = Network.of(simulation())
        self._network.waiting.append(self)
        self._sleeper: SimTask | None = None
        self._signalled = False
        self._watched: Counter[object] = Counter()
        self._readers: dict[End, asyncio.Future[None]] = {}
        self._writers: dict[End, asyncio.Future[None]] = {}

    def _source(self, fd: int) -> object:
        """What the readiness of a descriptor hangs on."""
        sock = self._network.descriptors.get(fd)
        return sock.end or sock if isinstance(sock, SimSocket) else sock

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key: selectors.SelectorKey = super().register(fileobj, events, data)
        self._watched[self._source(key.fd)] += 1
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key: selectors.SelectorKey = super().unregister(fileobj)
        source = self._source(key.fd)
        self._watched[source] -= 1
        if not self._watched[source]:
            del self._watched[source]
        return key

    def changed(self, what: object) -> None:
        """A stream has changed: who sleeps here looks again, if it is one of its own. No switch point."""
        if self._sleeper is not None and (what in self._watched or what in self._readers or what in self._writers):
            simulation().wake(self._sleeper)

    def signal(self) -> None:
        """Ends the select under way, or the next one. No switch point."""
        self._signalled = True
        if self._sleeper is not None:
            simulation().wake(self._sleeper)

    async def until_ready(self, end: End, *, writable: bool = False) -> None:
        """Waits until a `select` finds that the end may be read, or written; one of each kind at a time."""
        waiting = self._writers if writable else self._readers
        assert end not in waiting, "two wait for the same end"
        future = waiting[end] = asyncio.get_running_loop().create_future()
        try:
            await future
        finally:
            del waiting[end]

    def close(self) -> None:
        if self in self._network.waiting:
            self._network.waiting.remove(self)
        super().close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        sim = simulation()
        sim.switch("select")
        deadline = None if timeout is None else sim.now_ns + int(max(timeout, 0) * SECOND)
        while True:
            ready, has_called = self._ready()
            if ready or has_called or self._signalled or (deadline is not None and deadline <= sim.now_ns):
                self._signalled = False
                return ready
            self._sleeper = sim.current
            try:
                sim.block("wait for sockets", None if deadline is None else deadline - sim.now_ns)
            finally:
                self._sleeper = None

    def _ready(self) -> tuple[list[tuple[selectors.SelectorKey, int]], bool]:
        """Sockets that are ready; and whether one was that `until_ready` waits for."""
        found: list[tuple[selectors.SelectorKey, int]] = []
        descriptors = self._network.descriptors
        for fd, key in self._fd_to_key.items():
            sock = descriptors.get(fd)
            if sock.__class__ is not SimSocket:
                continue
            wanted, events, end = key[2], 0, sock.end
            if end is None:
                if wanted & _READ and sock.backlog:
                    events = _READ
            else:
                # As `End.readable` and `End.writable`, of which a run asks some hundred thousand times.
                if wanted & _READ and (end.inbox or end.ended or end.is_reset):
                    events = _READ
                if wanted & _WRITE and end.writable:
                    events |= _WRITE
            if events:
                found.append((key, events))
        if len(found) > 1:  # epoll promises no order
            simulation().rng.shuffle(found)
        waits = [future for end, future in self._readers.items() if (end.inbox or end.ended or end.is_reset)]
        waits += [future for end, future in self._writers.items() if end.writable]
        if len(waits) > 1:
            simulation().rng.shuffle(waits)
        for future in waits:
            if not future.done():
                future.set_result(None)
        return found, bool(waits)


class _NumberedTask(asyncio.Task):  # type: ignore[type-arg]
    """Tasks stand in sets, and are cancelled in their order, which is to be the same in each run."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(simulation().object_numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number


class SimLoop(BaseSelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._sim_selector = SimSelector()
        super().__init__(self._sim_selector)
        self._clock_resolution = 1e-9
        self.set_task_factory(lambda loop, coroutine, **how: _NumberedTask(coroutine, loop=loop, **how))  # type: ignore[misc]

    def time(self) -> float:
        # As `time.monotonic` is here, of which loops ask more often than of anything else.
        return (MONOTONIC_START_NS + simulation().tick()) / 1e9

    def _make_self_pipe(self) -> None:
        self._ssock = self._csock = None
        self._internal_fds = 0

    def _close_self_pipe(self) -> None:
        """There is none."""

    def _write_to_self(self) -> None:
        self._sim_selector.signal()
        sim = simulation()
        if not sim.current.killed:
            sim.switch("wake the loop")

    def tell(self, callback: Callable[[], object]) -> None:
        """`call_soon_threadsafe` without a switch point: for who has the baton, and may not give it away."""
        self.call_soon(callback)
        self._sim_selector.signal()

    async def sock_recv(self, sock: SimSocket, count: int) -> bytes:  # type: ignore[override]
        """Without a callback that is registered and removed for each piece, as asyncio does it: clients read this way."""
        while True:
            try:
                return sock.recv(count)
            except BlockingIOError:
                assert sock.end is not None
                await self._sim_selector.until_ready(sock.end)

    async def sock_sendall(self, sock: SimSocket, data: Buffer) -> None:  # type: ignore[override]
        """As `sock_recv`."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[sock.send(rest) :]
            except BlockingIOError:
                assert sock.end is not None
                await self._sim_selector.until_ready(sock.end, writable=True)
