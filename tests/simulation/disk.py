"""The disk of a simulation: `support.fake_filesystem`, with a switch point before each call, latency and power cuts.

A call may take time (`Weather`), in which other threads run; it then happens as a whole. None fails: failing disks are the crash
rings'. After a power cut (`SimDisk.after_power_cut`) the old object refuses everything, and a
new one has one of the states that a disk may be in, as the fake file system draws it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from simulation.network import Network
from simulation.scheduler import MILLISECOND, Killed, Simulation, simulation
from support.fake_filesystem import FakeFile, FakeFileSystem, FakeMappedFile
from tidelog.storage.io.filesystem import Buffer, FileStat, StrPath


@dataclass
class Weather:
    """How the disk is today. Chances are of each call; latencies in ns.

    Attributes:
        slow_chance: of a call that takes up to `slow_most`.
        cold_chance: of bytes that are not in the page cache.
    """

    slow_chance: float = 0.02
    slow_most: int = 20 * MILLISECOND
    sync_least: int = MILLISECOND // 4
    sync_most: int = 4 * MILLISECOND
    cold_chance: float = 0.05


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
        return super().pread(length, offset)

    def pread_into(self, view: memoryview | bytearray, offset: int) -> int:
        self._disk.point("pread", self.path, len(view))
        return super().pread_into(view, offset)

    def truncate(self, size: int) -> None:
        self._disk.point("truncate", self.path, size)
        super().truncate(size)

    def sync(self) -> None:
        self._disk.sync_point(self.path)
        super().sync()

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
    """See the module. Any thread of the simulation; a call happens as a whole after its switch point."""

    file_type = SimFile
    mapped_type = SimMappedFile

    def __init__(self, *, time: Any = None, base: str = "") -> None:
        """`base`: what the paths of all files begin with, which no digest is to know."""
        super().__init__(time=time)
        self.base = base
        self.weather = Weather()
        self.is_off = False
        self.is_quiet = False
        """True while a test looks: no switch points, no time."""

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
        self.is_off = True
        return new

    def draw(self, chance: float) -> bool:
        """True with that chance, as the seed decides."""
        return chance > 0 and simulation().rng.random() < chance

    def point(self, kind: str, path: str, detail: object = "") -> None:
        """Others may run, and time may pass, before the call happens."""
        sim = simulation()
        if self.is_off:
            raise Killed
        if self.is_quiet:
            return
        sim.note(f"disk {kind} {path.removeprefix(self.base)} {detail}")
        if self.draw(self.weather.slow_chance):
            sim.block(f"disk: {kind}", sim.rng.randrange(self.weather.slow_most))
        else:
            sim.switch(f"disk: {kind}")
        if self.is_off:
            raise Killed

    def sync_point(self, path: str) -> None:
        weather, sim = self.weather, simulation()
        if self.is_off:
            raise Killed
        sim.note(f"disk sync {path.removeprefix(self.base)}")
        sim.block("disk: sync", sim.rng.randrange(weather.sync_least, weather.sync_most))
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
        self.sync_point(os.fspath(path))
        super().sync_directory(path)

    def list_directory(self, path: StrPath) -> list[str]:
        self.point("list", os.fspath(path))
        return super().list_directory(path)

    def stat(self, path: StrPath) -> FileStat:
        self.point("stat", os.fspath(path))
        return super().stat(path)
