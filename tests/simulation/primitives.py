"""Python's own threads, locks, queues and clocks, of the simulation: `installed` puts them in the place of the real ones.

Code that is simulated is imported, or made, while they are installed, and is the code that is shipped: it asks `threading`,
`queue`, `time` and `os` for what it needs, and gets these. Conditions, events, semaphores, futures and executors are
Python's own, made of the locks and threads here. Where no simulation runs (an import, a teardown), locks do
without switch points, and only one thread is there.
"""

from __future__ import annotations

import _thread
import contextlib
import itertools
import os
import queue
import random
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import thread as pool_threads
from typing import Any

from simulation.scheduler import (
    MONOTONIC_START_NS,
    SECOND,
    WALL_START_NS,
    SimTask,
    Simulation,
    simulation,
)

#: What there is to a test's own process, before anything is replaced.
REAL_DUP, REAL_SENDFILE, REAL_POLL, REAL_SOCKET = os.dup, os.sendfile, select.poll, socket.socket


class SimLock:
    """`threading.Lock`. Who wants it is woken when it is released, and may find that another was faster."""

    __slots__ = ("_locked", "_waiters")

    def __init__(self) -> None:
        self._locked = False
        self._waiters: list[SimTask] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        sim = Simulation.active
        if sim is None:
            assert not self._locked or not blocking, "a lock that nobody can release is waited for"
            taken, self._locked = not self._locked, True
            return taken
        if sim.current.killed and not self._locked:
            self._locked = True  # what is unwound may go through locks that are free
            return True
        sim.switch("lock")
        if not self._locked:
            self._locked = True
            return True
        return self._wait(sim, blocking, timeout)

    __enter__ = acquire

    def _wait(self, sim: Simulation, blocking: bool, timeout: float) -> bool:
        if not blocking or timeout == 0:
            return False
        deadline = None if timeout < 0 else sim.now_ns + int(timeout * SECOND)
        while self._locked:
            me = sim.current
            self._waiters.append(me)
            try:
                woken = sim.block("wait for a lock", None if deadline is None else deadline - sim.now_ns)
            finally:
                if me in self._waiters:
                    self._waiters.remove(me)
            if not woken and self._locked:
                return False
        self._locked = True
        return True

    def release(self, *_: object) -> None:
        sim = Simulation.active
        if not self._locked:
            if sim is not None and sim.current.killed:
                return
            raise RuntimeError("release unlocked lock")
        self._locked = False
        if sim is None:
            return
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for task in waiters:
                sim.wake(task)
        if not sim.current.killed:
            sim.switch("unlock")

    __exit__ = release

    def locked(self) -> bool:
        return self._locked

    def _at_fork_reinit(self) -> None:
        self._locked, self._waiters = False, []


class SimThread:
    """`threading.Thread`, as far as the daemon uses it."""

    _counter = itertools.count(1)

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self._target, self._args, self._kwargs = target, args, dict(kwargs or {})
        self.name = name or f"Thread-{next(self._counter)}"
        self.daemon = bool(daemon)
        self._task: SimTask | None = None
        sim = Simulation.active
        self._hash = 0 if sim is None else next(sim.object_numbers)

    def __hash__(self) -> int:
        # A pool has its threads in a set, and joins them in its order, which is to be the same in each run.
        return self._hash

    def run(self) -> None:
        try:
            if self._target is not None:
                self._target(*self._args, **self._kwargs)
        finally:
            # What ends with them ends here, and not in a thread that has given its baton away.
            del self._target, self._args, self._kwargs

    def start(self) -> None:
        if self._task is not None:
            raise RuntimeError("threads can only be started once")
        sim = simulation()
        self._task = sim.spawn(self.name, self.run, self)
        sim.switch("start a thread")

    def join(self, timeout: float | None = None) -> None:
        sim, task = Simulation.active, self._task
        if task is None:
            raise RuntimeError("cannot join thread before it is started")
        if sim is None or task.done:
            return
        task.joiners.append(sim.current)
        deadline = None if timeout is None else sim.now_ns + int(timeout * SECOND)
        while not task.done:
            if not sim.block("join", None if deadline is None else deadline - sim.now_ns) and deadline is not None:
                return

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.done

    @property
    def ident(self) -> int | None:
        return None if self._task is None else self._task.number + 1

    native_id = ident


class SimSimpleQueue:
    """`queue.SimpleQueue`."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiters: list[SimTask] = []

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self._items.append(item)
        sim = Simulation.active
        if sim is not None:
            waiters, self._waiters = self._waiters, []
            for task in waiters:
                sim.wake(task)
            if not sim.current.killed:
                sim.switch("put")

    put_nowait = put

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        sim = Simulation.active
        if sim is not None:
            sim.switch("get")
            deadline = None if timeout is None else sim.now_ns + int(timeout * SECOND)
            while not self._items and block:
                me = sim.current
                self._waiters.append(me)
                try:
                    woken = sim.block("wait for an item", None if deadline is None else deadline - sim.now_ns)
                finally:
                    if me in self._waiters:
                        self._waiters.remove(me)
                if not woken and deadline is not None:
                    break
        if not self._items:
            raise queue.Empty
        return self._items.popleft()

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def empty(self) -> bool:
        return not self._items

    def qsize(self) -> int:
        return len(self._items)


class Clocks:
    """The functions of `time`. Where no simulation runs, the clocks stand where it began."""

    @staticmethod
    def monotonic_ns() -> int:
        sim = Simulation.active
        return MONOTONIC_START_NS + (0 if sim is None else sim.tick())

    @staticmethod
    def monotonic() -> float:
        return Clocks.monotonic_ns() / 1e9

    @staticmethod
    def time_ns() -> int:
        sim = Simulation.active
        return WALL_START_NS + (0 if sim is None else sim.tick() + sim.wall_offset_ns)

    @staticmethod
    def time() -> float:
        return Clocks.time_ns() / 1e9

    @staticmethod
    def sleep(seconds: float) -> None:
        simulation().sleep(seconds)


def _urandom(count: int) -> bytes:
    sim = Simulation.active
    return bytes(count) if sim is None else sim.rng.randbytes(count)


_REAL_CURRENT_THREAD = threading.current_thread


def _current_thread() -> Any:
    sim = Simulation.active
    if sim is None or sim.current.number == 0 or _thread.get_ident() != sim.current.ident:
        return _REAL_CURRENT_THREAD()
    return sim.current.thread or sim.current


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Replaces threads, locks, queues, clocks, sockets and random bytes in this process, and puts the real ones back."""
    from simulation import network  # it has a socket of its own, made of what is here

    kept: list[tuple[Any, str, Any]] = []

    def put(module: Any, **names: Any) -> None:
        for name, value in names.items():
            kept.append((module, name, getattr(module, name)))
            setattr(module, name, value)

    reentrant = threading._PyRLock  # type: ignore[attr-defined]
    put(threading, _allocate_lock=SimLock, Lock=SimLock, RLock=reentrant, Thread=SimThread, _time=Clocks.monotonic)
    put(threading, current_thread=_current_thread)
    put(queue, SimpleQueue=SimSimpleQueue, time=Clocks.monotonic)
    put(pool_threads, _global_shutdown_lock=SimLock(), _shutdown=False)
    put(
        time,
        monotonic=Clocks.monotonic, monotonic_ns=Clocks.monotonic_ns, perf_counter=Clocks.monotonic,
        perf_counter_ns=Clocks.monotonic_ns, thread_time=Clocks.monotonic, thread_time_ns=Clocks.monotonic_ns,
        time=Clocks.time, time_ns=Clocks.time_ns, sleep=Clocks.sleep,
    )  # fmt: skip
    put(os, urandom=_urandom, dup=network.dup, sendfile=network.sendfile, fstat=network.fstat)
    put(random, _urandom=_urandom)
    put(select, poll=network.SimPoll)
    put(socket, socket=network.SimSocket)
    try:
        yield
    finally:
        for module, name, value in reversed(kept):
            setattr(module, name, value)
