"""What must hold at every step, looked at from outside: watermarks, and the bytes that stand behind them.

Looked at between two steps, wherever the threads stand, since readers take no lock (docs/ARCHITECTURE.md): log start ≤ high
watermark ≤
log end, recovery point ≤ log end, the high watermark goes back only with the end, and the batches below the high watermark
stand in
the files of the simulated disk, which is read past the daemon. What is said of a log: its three numbers, and the path of its
directory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from support.fake_disk import Directory, Inode
from support.fake_filesystem import FakeFileSystem

_SIZE, _LAST = struct.Struct(">i"), struct.Struct(">i")
_OVERHEAD, _LAST_AT, _MAGIC_AT, _SMALLEST = 12, 23, 16, 61


class WatchedLog(Protocol):
    """Facts of a log that any thread may read."""

    log_start_offset: int
    high_watermark: int

    @property
    def log_end_offset(self) -> int: ...
    @property
    def recovery_point(self) -> int: ...
    @property
    def directory(self) -> str: ...


class _Seen(NamedTuple):
    """The newest file of a log, as far as it was read: up to `position`, where `end` is the next offset."""

    high: int
    inode: int
    position: int
    end: int


class Watch:
    """Remembers what it saw of each log of one life of the daemon. `looks`: how often."""

    def __init__(self, disk: FakeFileSystem, logs: Callable[[], Iterable[WatchedLog]]) -> None:
        self._disk = disk
        self._logs = logs
        self._seen: dict[str, _Seen] = {}
        self.looks = 0

    def look(self) -> None:
        """AssertionError that tells what does not hold. No switch point."""
        self.looks += 1
        for log in self._logs():
            start, high, end = log.log_start_offset, log.high_watermark, log.log_end_offset
            assert start <= high <= end, f"{log.directory}: log start {start}, high watermark {high}, log end {end}"
            assert log.recovery_point <= end, f"{log.directory}: recovery point {log.recovery_point}, log end {end}"
            seen = self._seen.get(log.directory)
            if seen is None or seen.high != high:
                self._look_at_bytes(log, high, seen)

    def _look_at_bytes(self, log: WatchedLog, high: int, seen: _Seen | None) -> None:
        found = self._newest(log.directory)
        if found is None:  # being made, moved or deleted
            return
        base, inode = found
        if seen is None or seen.inode != inode.number or seen.position > len(inode.data):
            seen = _Seen(high, inode.number, 0, base)
        position, end = read_on(inode.data, seen.position, seen.end)
        assert high <= end, f"{log.directory}: the high watermark is {high}, and its file ends at {end}"
        self._seen[log.directory] = _Seen(high, inode.number, position, end)

    def _newest(self, path: str) -> tuple[int, Inode] | None:
        """The newest file of a log, and its base offset."""
        node = self._disk._find(path)
        if not isinstance(node, Directory):
            return None
        names = [name for name in node.names if name.endswith(".log")]
        if not names:
            return None
        inode = node.names[max(names)]
        assert isinstance(inode, Inode)
        return int(max(names)[:-4]), inode


def read_on(data: bytes | bytearray, position: int, end: int) -> tuple[int, int]:
    """Reads batches of format 2 from `position` on; where the last whole one ends, and the offset behind it. Old formats end
    it at 2⁶³."""
    while position + _SMALLEST <= len(data):
        (size,) = _SIZE.unpack_from(data, position + 8)
        if size <= 0 or position + _OVERHEAD + size > len(data):
            break
        if data[position + _MAGIC_AT] < 2:
            return position, 1 << 63
        base = int.from_bytes(data[position : position + 8], "big")
        end = base + _LAST.unpack_from(data, position + _LAST_AT)[0] + 1
        position += _OVERHEAD + size
    return position, end
