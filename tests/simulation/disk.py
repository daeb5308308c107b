"""The disk of a simulation: `support.fake_filesystem`, with switch points, latency, failures, and power cuts at any call.

A call may take time (`Weather`), in which other threads run; it then happens as a whole, or fails (`Trouble`: EIO at some
kinds of
calls; ENOSPC is `free`; a sync that fails loses what it should have written, as on Linux). Nothing is answered while it is
stuck. `strike_in(n, strike)` has something happen at the n-th changing call from now on, in the midst of a sync too: `strike`
kills the
daemon, whose thread does not come back from that call, or has it take long.

After a power cut (`SimDisk.after_power_cut`) the old object refuses everything, and a new one has one of the states that a
disk may be in, as the fake file system draws it: of what was not synced, sectors and names in any order, torn or not.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from simulation.network import Network
from simulation.scheduler import MILLISECOND, Killed, Simulation, simulation
from support.fake_disk import Inode
from support.fake_filesystem import FakeFile, FakeFileSystem, FakeMappedFile, Operation
from tidelog.storage.io.filesystem import Buffer, FileStat, StrPath

ROOM = 1 << 40
"""Bytes that are free on a disk that nobody fills."""
LOOKS = frozenset({"pread", "read", "list", "stat", "open", "map", "prefetch"})
"""Kinds of calls that change nothing, nearly always."""


@dataclass
class Trouble:
    """What a disk does wrong. `kinds`: of operations, as `fake_filesystem` names them; `chance`: of each; at most `most`
    times."""

    kinds: frozenset[str]
    chance: float
    most: int


@dataclass
class Weather:
    """How the disk is today. Chances are of each call; latencies in ns.

    Attributes:
        slow_chance: of a call that takes up to `slow_most`.
        cold_chance: of bytes that are not in the page cache.
        stuck_until_ns: virtual time before which no call comes back.
    """

    slow_chance: float = 0.02
    slow_most: int = 20 * MILLISECOND
    sync_least: int = MILLISECOND // 4
    sync_most: int = 4 * MILLISECOND
    cold_chance: float = 0.05
    stuck_until_ns: int = 0
    trouble: Trouble | None = None


@lru_cache(maxsize=1 << 14)
def _change(kind: str, path: str) -> str:
    """The class of a changing call: its kind, and the suffix of the file's name."""
    # Of `t-0.5f2c-delete` the end alone: the middle is another one each time.
    suffix = path.rpartition("/")[2].partition(".")[2].rpartition(".")[2].rpartition("-")[2]
    return f"{kind} {suffix or 'without suffix'}"


class SimFile(FakeFile):
    """`File`, with switch points, and with a number for `sendfile`."""

    _fd = -1

    def fileno(self) -> int:
        if self._fd < 0:
            self._fd = Network.of(simulation()).descriptor(self)
        return self._fd

    def append(self, buffer: Buffer) -> None:
        self._disk.point("append", self.path, len(buffer))
        super().append(buffer)

    def rewrite(self, buffer: Buffer, offset: int) -> None:
        self._disk.point("rewrite", self.path, len(buffer))
        super().rewrite(buffer, offset)

    def pread(self, length: int, offset: int) -> bytes:
        self._disk.point("pread", self.path, length)
        self._disk.check_read(self.path)
        return super().pread(length, offset)

    def pread_into(self, view: memoryview | bytearray, offset: int) -> int:
        self._disk.point("pread", self.path, len(view))
        self._disk.check_read(self.path)
        return super().pread_into(view, offset)

    def truncate(self, size: int) -> None:
        self._disk.point("truncate", self.path, size)
        super().truncate(size)

    def sync(self) -> None:
        """What was written before it began is durable then; what came meanwhile is with the next one."""
        inode = self._inode
        last = inode.changes[-1] if inode.changes else None
        self._disk.sync_point(self.path)
        changes = inode.changes
        earlier = next((number for number, change in enumerate(changes, 1) if change is last), 0)
        if earlier == len(changes) or inode.clean is not None or inode.mapped:
            super().sync()
            return
        later = changes[earlier:]
        durable = (
            bytes(inode.replay(lambda change: not any(change is each for each in later))) if earlier else inode.durable
        )
        super().sync()
        inode.durable, inode.changes = durable, later

    def is_cached(self, position: int, length: int) -> bool | None:
        self._check()
        return not self._disk.draw(self._disk.weather.cold_chance)

    def prefetch(self, position: int, length: int) -> None:
        self._disk.point("prefetch", self.path, length)
        super().prefetch(position, length)

    def release(self) -> None:
        super().release()
        if not self._leases and self._fd >= 0 and Simulation.active is not None:
            Network.of(simulation()).descriptors.pop(self._fd, None)

    @property
    def _disk(self) -> SimDisk:
        assert isinstance(self._system, SimDisk)
        return self._system


class SimMappedFile(FakeMappedFile):
    """`MappedFile`, with switch points where it is a system call."""

    def reserve(self, offset: int, length: int) -> None:
        self._disk.point("reserve", self.path, length)
        super().reserve(offset, length)

    def resize(self, size: int) -> None:
        self._disk.point("resize", self.path, size)
        super().resize(size)

    def sync(self) -> None:
        self._disk.sync_point(self.path)
        super().sync()

    @property
    def _disk(self) -> SimDisk:
        assert isinstance(self._system, SimDisk)
        return self._system


class SimDisk(FakeFileSystem):
    """See the module. Any thread of the simulation; a call happens as a whole after its switch point.

    Attributes:
        is_off: the machine, or the process, is gone: every call raises `Killed`.
        is_quiet: True while a test looks: no switch points, no time, no failures.
        failures: calls that have failed so far.
        changes: how often each class of changing calls was made: the kind, and the suffix of the file's name.
    """

    file_type = SimFile
    mapped_type = SimMappedFile

    def __init__(self, *, time: Any = None, base: str = "") -> None:
        """`base`: what the paths of all files begin with, which no digest is to know."""
        super().__init__(time=time, capacity=ROOM)
        self.base = base
        self.weather = Weather()
        self.is_off = False
        self.is_quiet = False
        self.failures = 0
        self._strike: Callable[[], None] | None = None
        self._calls_left = 0
        self._striking = ""
        self.changes: Counter[str] = Counter()
        self.fail_when(self._failure_of)

    def after_power_cut(self, seed: int) -> SimDisk:
        """What is found when the power is back. This object refuses everything from now on."""
        return self._next(self.power_cut(seed))

    def after_kill(self) -> SimDisk:
        """What the next process finds after `kill -9`: all that was written."""
        return self._next(self.kill())

    def _next(self, left: FakeFileSystem) -> SimDisk:
        new = SimDisk(time=self.time, base=self.base)
        new._root, new._inodes, new._ticks, new.free = left._root, left._inodes, left._ticks, left.free
        new.weather = self.weather
        new.changes = self.changes
        self.is_off = True
        return new

    @property
    def is_sound(self) -> bool:
        """True if it has room, and lets no call fail."""
        return self.weather.trouble is None and self.free > ROOM // 2

    def mend(self) -> None:
        """It is sound from now on, and answers."""
        self.weather.trouble, self.weather.stuck_until_ns, self.free = None, 0, ROOM

    def strike_in(self, calls: int, strike: Callable[[], None] | None, among: str = "") -> None:
        """Calls `strike` at the so-manieth changing call from now, in its thread, which may be at its end then; None: nothing.

        `among`: one of `changes`; only such calls count then.
        """
        self._calls_left, self._strike, self._striking = calls, strike, among

    def has(self, path: str, inode: Inode) -> bool:
        """True if that file has that name now. No switch point."""
        return self._find(path) is inode

    def draw(self, chance: float) -> bool:
        """True with that chance, as the seed decides."""
        return chance > 0 and simulation().rng.random() < chance

    def _failure_of(self, operation: Operation) -> OSError | None:
        trouble = self.weather.trouble
        if trouble is None or self.is_quiet or operation.kind not in trouble.kinds or not self.draw(trouble.chance):
            return None
        trouble.most -= 1
        if trouble.most <= 0:
            self.weather.trouble = None
        self.failures += 1
        sim = simulation()
        sim.counts[f"disk fails: {operation.kind}"] += 1
        sim.note(f"disk fails {operation.kind} {operation.path.removeprefix(self.base)}")
        return OSError(errno.EIO, os.strerror(errno.EIO), operation.path)

    def check_read(self, path: str) -> None:
        """Raises where this read fails."""
        if (error := self._failure_of(Operation("pread", path))) is not None:
            raise error

    def point(self, kind: str, path: str, detail: object = "") -> None:
        """Others may run, and time may pass, before the call happens."""
        sim = simulation()
        if self.is_off:
            raise Killed
        if self.is_quiet:
            return
        sim.note(f"disk {kind} {path.removeprefix(self.base)} {detail}")
        weather, chance = self.weather, self.weather.slow_chance
        if weather.stuck_until_ns > sim.now_ns:
            sim.block(f"disk: {kind}, stuck", weather.stuck_until_ns - sim.now_ns)
        elif chance > 0 and sim.rng.random() < chance:
            sim.block(f"disk: {kind}", sim.rng.randrange(weather.slow_most))
        else:
            sim.switch(f"disk: {kind}")
        if self.is_off:
            raise Killed
        if kind not in LOOKS:
            self._count_down(kind, str(detail) if kind == "rename" else path)

    def sync_point(self, path: str) -> None:
        weather, sim = self.weather, simulation()
        if self.is_off:
            raise Killed
        if self.is_quiet:
            return
        sim.note(f"disk sync {path.removeprefix(self.base)}")
        least = max(weather.stuck_until_ns - sim.now_ns, weather.sync_least)
        sim.block("disk: sync", least + sim.rng.randrange(weather.sync_most))
        if self.is_off:
            raise Killed
        self._count_down("sync", path)

    def _count_down(self, kind: str, path: str) -> None:
        """Strikes when it is time, before what the call does: of a sync anything may have been done, as of all before it."""
        change = _change(kind, path)
        self.changes[change] += 1
        if self._strike is None or (self._striking and change != self._striking):
            return
        self._calls_left -= 1
        if self._calls_left <= 0:
            strike, self._strike = self._strike, None
            strike()
            if self.is_off:
                raise Killed

    def open(self, path: StrPath, **how: Any) -> FakeFile:
        self.point("open", os.fspath(path))
        return super().open(path, **how)

    def map(self, path: StrPath, size: int | None = None, *, writable: bool) -> FakeMappedFile:
        self.point("map", os.fspath(path))
        return super().map(path, size, writable=writable)

    def read_bytes(self, path: StrPath, limit: int = 64 << 20) -> bytes:
        self.point("read", os.fspath(path))
        return super().read_bytes(path, limit)

    def rename(self, source: StrPath, target: StrPath) -> None:
        self.point("rename", os.fspath(source), os.fspath(target).removeprefix(self.base))
        if (suffix := os.fspath(target).rpartition(".")[2]) in ("swap", "deleted"):
            simulation().counts[f"file renamed to .{suffix}"] += 1
        super().rename(source, target)

    def unlink(self, path: StrPath, *, missing_ok: bool = False) -> None:
        self.point("unlink", os.fspath(path))
        super().unlink(path, missing_ok=missing_ok)

    def make_directory(self, path: StrPath) -> None:
        self.point("mkdir", os.fspath(path))
        super().make_directory(path)

    def sync_directory(self, path: StrPath) -> None:
        directory = self.directory(path)
        last = directory.changes[-1] if directory.changes else None
        self.sync_point(os.fspath(path))
        changes = directory.changes
        earlier = next((number for number, change in enumerate(changes, 1) if change is last), 0)
        later = changes[earlier:]
        durable = directory.replay(lambda change: not any(change is each for each in later))
        super().sync_directory(path)
        directory.durable, directory.changes = durable, later

    def list_directory(self, path: StrPath) -> list[str]:
        self.point("list", os.fspath(path))
        return super().list_directory(path)

    def stat(self, path: StrPath) -> FileStat:
        self.point("stat", os.fspath(path))
        return super().stat(path)
