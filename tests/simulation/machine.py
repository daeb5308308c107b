"""One machine with a daemon on it: a disk, the real `Node` on a thread of the simulation, starts, stops, kills and power cuts.

The daemon is the shipped code, from `Node` down. What is real beside it: SQLite, in a directory of its own on the
machine that tests; its commits take virtual time, and are durable when they have returned, as SQLite promises (the crash ring
tries its files). What is not there: docs/adr/0088-simulation.md has the list.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import pkgutil
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from simulation.disk import SimDisk
from simulation.loop import SimLoop
from simulation.network import Network
from simulation.primitives import Clocks
from simulation.scheduler import MILLISECOND, SECOND, SimTask, Simulation, simulation
from simulation.watch import Watch
from tidelog.broker.network import socket_server
from tidelog.broker.network.connection import Connection
from tidelog.broker.partitions import purgatory
from tidelog.broker.server.node import Node
from tidelog.config.loader import load_config

ADDRESS = ("127.0.0.1", 9092)

SETTINGS = {
    "listeners": f"PLAINTEXT://{ADDRESS[0]}:{ADDRESS[1]}",
    "http.listener": "",
    "event.loop": "asyncio",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": str(2 << 20),
    "log.cleaner.io.buffer.size": str(64 << 10),
}


def _nothing() -> None:
    pass


class DiedError(Exception):
    """The daemon was killed, at a call of its disk, while somebody waited for it."""


class SimTime:
    """`Time` of the daemon: the simulation's clocks. The wall clock may be moved (`Simulation.wall_offset_ns`)."""

    def milliseconds(self) -> int:
        return Clocks.time_ns() // MILLISECOND

    def monotonic_ms(self) -> float:
        return Clocks.monotonic_ns() / 1e6

    def monotonic(self) -> float:
        return Clocks.monotonic()


class _NumberedFetch(purgatory.DelayedFetch[Any]):
    """Waiting fetches stand in sets, whose order is to be the same in each run."""

    __slots__ = ("_number",)

    def __init__(self, *args: Any) -> None:
        self._number = next(simulation().object_numbers)
        super().__init__(*args)

    def __hash__(self) -> int:
        return self._number


class _SlowSqlite(sqlite3.Connection):
    """SQLite whose commits take time, in which others run. Who is killed meanwhile has not committed."""

    opened: ClassVar[list[_SlowSqlite]] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = simulation().current.group
        self.opened.append(self)

    def __exit__(self, *args: Any) -> Any:
        sim = simulation()
        if not sim.current.killed:
            sim.block("SQLite", sim.rng.randrange(4 * MILLISECOND))
        return super().__exit__(*args)


def arrange() -> None:
    """Gives this process's daemon what `installed` can't: SQLite with switch points, orders that do not hang on addresses, and a
    network of no container.

    For a process of its own, once.
    """
    purgatory.DelayedFetch = _NumberedFetch  # type: ignore[misc]
    # Whether the machine that tests is a container, and which routes it has, is nothing of the simulated one.
    socket_server.container_network = lambda environment: None  # type: ignore[assignment,misc]
    Connection.__hash__ = lambda connection: connection.peer_port  # type: ignore[method-assign,assignment]
    connect = sqlite3.connect
    sqlite3.connect = lambda path: connect(path, factory=_SlowSqlite, check_same_thread=False)  # type: ignore[assignment,misc]


class Machine:
    """See the module. Called by the world's threads, not by the daemon's.

    Attributes:
        disk: the present one; each power cut makes a new one.
        lives: starts so far.
        node: the daemon that runs, None while none does.
    """

    def __init__(self, sim: Simulation, settings: Mapping[str, str]) -> None:
        self.sim = sim
        self.time = SimTime()
        self.settings = {**SETTINGS, **settings}
        base = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.directory = Path(tempfile.mkdtemp(prefix="tidelog-simulation-", dir=base))
        self.disk = SimDisk(time=self.time, base=str(self.directory))
        self.network = Network.of(sim)
        self.lives = 0
        self.has_lost_power = False
        self.node: Node | None = None
        self.watch: Watch | None = None
        self.start_error: BaseException | None = None
        self._loop: SimLoop | None = None
        self._stop: asyncio.Event | None = None
        self._task: SimTask | None = None
        self._told: Callable[[], object] = _nothing
        self.was_struck = False
        self.left_to_do: list[str] = []
        """Timers that the last daemon that has stopped has left in its loop."""

    @property
    def group(self) -> str:
        """Name of the daemon's process."""
        return f"daemon {self.lives}"

    @property
    def is_up(self) -> bool:
        return self._task is not None and not self._task.done

    def remove(self) -> None:
        """Deletes what is left on the machine that tests."""
        shutil.rmtree(self.directory, ignore_errors=True)

    async def start(self) -> None:
        """Starts a daemon; returns when it listens. Raises what its start raised, or DiedError."""
        assert not self.is_up
        if self.disk.open_files or self.disk.maps:  # of a process that could not start, or stop
            self.disk = self.disk.after_kill()
        self.lives += 1
        self.start_error = None
        self.was_struck = False
        ready, world = asyncio.Event(), asyncio.get_running_loop()
        self._told = lambda: world.call_soon_threadsafe(ready.set)
        self._task = self.sim.spawn("loop", lambda: self._run(self._told), group=self.group)
        await ready.wait()
        if self.start_error is not None:
            raise self.start_error
        if self.was_struck:
            raise DiedError

    async def stop(self) -> None:
        """Stops it as SIGTERM does; returns when the process has ended. DiedError: it was killed meanwhile."""
        loop, stop = self._loop, self._stop
        assert loop is not None
        assert stop is not None
        assert self._task is not None
        self.sim.watch = _nothing
        loop.call_soon_threadsafe(stop.set)
        await self.ended()
        if self.was_struck:
            raise DiedError
        if self.start_error is not None:
            raise self.start_error

    async def ended(self) -> None:
        """Returns when the daemon's main thread has come to its end, or none was started."""
        task, world = self._task, asyncio.get_running_loop()
        if task is None or task.done:
            return
        assert isinstance(world, SimLoop)
        ended = asyncio.Event()
        task.at_end.append(lambda: world.tell(ended.set))
        await ended.wait()

    def left_open(self) -> list[str]:
        """Files and maps that a daemon has not given back, though it has stopped."""
        # What was deleted, or replaced, is given back with the process: a start removes it.
        files = [f"file {file.path}" for file in self.disk.open_files if self.disk.has(file.path, file._inode)]
        maps = [f"map {mapped.path}" for mapped in self.disk.maps if self.disk.has(mapped.path, mapped._inode)]
        return sorted(files + maps)

    def kill(self) -> None:
        """`kill -9`: the process is gone at this moment; what it wrote stays."""
        self._end()
        self.disk = self.disk.after_kill()

    def cut_power(self, seed: int) -> None:
        """The machine stops: of what was not synced any part may be there when it starts again."""
        self._end()
        self.has_lost_power = True
        self.disk = self.disk.after_power_cut(seed)

    def strike_in(
        self, calls: int, end: Callable[[], None], before: Callable[[], object], after: Callable[[], object] = _nothing,
        among: str = "",
    ) -> None:  # fmt: skip
        """Has `end` (`kill`, `cut_power`) happen at the so-manieth changing call of the disk (of a class, `among`); `before` and
        `after` it are told, in its thread."""

        self.disk.strike_in(calls, lambda: self.strike(end, before, after), among)

    def hang_in(self, calls: int, seconds: float, before: Callable[[], object], among: str = "") -> None:
        """Has the so-manieth changing call of the disk (of a class, `among`) take so long; `before`: as of `strike_in`."""

        def hang() -> None:
            before()
            self.sim.block("disk: hangs", int(seconds * SECOND))

        self.disk.strike_in(calls, hang, among)

    def strike(
        self, end: Callable[[], None], before: Callable[[], object], after: Callable[[], object] = _nothing
    ) -> None:
        """Has `end` happen in this thread, which is the daemon's, and must come to no other line of it."""
        self.was_struck = True
        before()
        end()
        self._told()
        after()

    def _end(self) -> None:
        """Ends all threads of the daemon; where this is one of them, it ends when it comes to a switch point."""
        self.disk.is_off = True
        group = self.group
        self.sim.watch = _nothing
        self.sim.kill(group)
        if self.sim.current.group == group:
            self.sim.current.killed = True
        self.network.kill(lambda sock: sock.group == group)
        self.node = None
        for connection in [each for each in _SlowSqlite.opened if each.group == group]:
            # As the system does for a process that is gone: what was not committed is not there, and nothing is locked.
            _SlowSqlite.opened.remove(connection)
            with contextlib.suppress(sqlite3.ProgrammingError):  # it was closed
                connection.rollback()
            connection.close()

    def _run(self, told: Callable[[], object]) -> None:
        """The daemon's main thread."""
        try:
            with asyncio.Runner(loop_factory=SimLoop) as runner:
                runner.run(self._serve(told))
        except Exception as error:
            self.start_error = error
            told()

    async def _serve(self, told: Callable[[], object]) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        self._loop, self._stop = loop, asyncio.Event()
        settings = {"log.dirs": str(self.directory), **self.settings}
        config = load_config(None, {}, [f"{name}={text}" for name, text in settings.items()])
        disk = self.disk
        randomness = random.Random(f"daemon {self.sim.seed} {self.lives}")
        self.node = node = Node(config, loop, time=self.time, file_system=disk, randomness=randomness)
        try:
            await node.start()
            logs = node.services.logs
            self.watch = Watch(disk, logs.logs)
            self.sim.watch = self.watch.look
            told()
            await self._stop.wait()
        finally:
            self.sim.watch = _nothing
            await node.stop()
            self.node = None
            self.left_to_do = timers_of(loop)


def timers_of(loop: asyncio.AbstractEventLoop) -> list[str]:
    """What the loop would still do: of a daemon that has stopped, nothing. A program that runs one in its own loop goes on.

    Tasks that wait for what was given up are not told of: nothing wakes them.
    """
    calls = [handle._callback for handle in loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
    return sorted(str(getattr(call, "__qualname__", call.__class__.__name__)) for call in calls)


def import_everything() -> None:
    """Imports all modules of the daemon: an import lock is no lock of the simulation's."""
    for package in ("backup", "broker", "cleaner", "config", "protocol", "storage"):
        found = importlib.import_module(f"tidelog.{package}")
        for module in pkgutil.walk_packages(found.__path__, f"tidelog.{package}."):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(ImportError):  # of an extra
                    importlib.import_module(module.name)
