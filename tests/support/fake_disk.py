"""What a fake disk knows of its files and directories, and what it may forget when the power goes.

Files here are bytes plus the changes since the last sync; directories names plus the changes since theirs. A
`Chooser` says which of the changes survive. `fake_filesystem.py` puts a file system on top.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

SECTOR = 512  # what a disk writes whole or not at all
BLOCK = 4096  # what a file system gives to a file whole


@dataclass(slots=True)
class Change:
    """A write at `offset`, or with `data` None a change of size to `offset`."""

    offset: int
    data: bytes | None


@dataclass(slots=True)
class Inode:
    number: int
    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    changes: list[Change] = field(default_factory=list)
    modified_ms: int = 0
    changed_ms: int = 0
    mapped: bool = False
    clean: bytes | None = None
    """What readers saw when a sync failed: pages that count as written since, and are not on the disk."""
    reserved: int = 0
    """Bytes from the start that have disk blocks whether the file reaches there or not."""

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the disk blocks that the file takes. No file is sparse here."""
        size = max(len(self.data), self.reserved)
        return size + -size % BLOCK

    def resize(self, size: int) -> None:
        self.reserved = 0  # as ext4 and XFS do it, also where the size stays what it was
        self.changes.append(Change(size, None))
        # A new array, since a mapped one can't change its size under its views.
        self.data = bytearray(self.data[:size].ljust(size, b"\0"))

    def write(self, offset: int, data: bytes) -> None:
        if offset + len(data) > len(self.data):
            self.data.extend(bytes(offset + len(data) - len(self.data)))
        self.data[offset : offset + len(data)] = data
        self.changes.append(Change(offset, data))

    def note_mapped_writes(self) -> None:
        """Turns what was written through a map into changes, sector by sector."""
        if not self.mapped:
            return
        known = self.replay(lambda _change: True, self.clean)
        for start in range(0, len(self.data), SECTOR):
            sector = bytes(self.data[start : start + SECTOR])
            if known[start : start + SECTOR] != sector:
                self.changes.append(Change(start, sector))

    def replay(self, keep: Callable[[Change], bool], before: bytes | None = None) -> bytearray:
        """The bytes that were there before (by default: the durable ones) with those changes that `keep` chooses."""
        data = bytearray(self.durable if before is None else before)
        for change in self.changes:
            if not keep(change):
                continue
            if change.data is None:
                del data[change.offset :]
                data.extend(bytes(change.offset - len(data)))
            else:
                if change.offset > len(data):
                    data.extend(bytes(change.offset - len(data)))
                data[change.offset : change.offset + len(change.data)] = change.data
        return data

    def sync(self) -> None:
        if self.clean is None:
            self.durable = bytes(self.data)
        else:
            self.note_mapped_writes()
            self.durable = bytes(self.replay(lambda _change: True))
            self.clean = None if self.durable == self.data else bytes(self.data)
        self.changes.clear()

    def fail_sync(self) -> None:
        """Linux marks pages clean when writing them back fails: a later sync succeeds and does not bring them to disk."""
        self.changes = [Change(len(self.data), None)]
        self.clean = bytes(self.data)

    def pieces(self) -> list[Change]:
        """The changes, writes cut at sector borders: what a disk may keep or lose one by one."""
        out: list[Change] = []
        for change in self.changes:
            if change.data is None:
                out.append(change)
                continue
            offset, data = change.offset, change.data
            while data:
                step = SECTOR - offset % SECTOR
                out.append(Change(offset, data[:step]))
                offset, data = offset + step, data[step:]
        return out


@dataclass(slots=True)
class NameChange:
    """Names removed and set together (a rename does both)."""

    removed: str | None
    added: str | None
    node: Inode | Directory | None


@dataclass(slots=True)
class Directory:
    names: dict[str, Inode | Directory] = field(default_factory=dict)
    durable: dict[str, Inode | Directory] = field(default_factory=dict)
    changes: list[NameChange] = field(default_factory=list)

    def change(self, removed: str | None, added: str | None, node: Inode | Directory | None) -> None:
        if removed is not None:
            self.names.pop(removed, None)
        if added is not None and node is not None:
            self.names[added] = node
        self.changes.append(NameChange(removed, added, node))

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.changes.clear()

    def replay(self, keep: Callable[[NameChange], bool]) -> dict[str, Inode | Directory]:
        names = dict(self.durable)
        for change in self.changes:
            if not keep(change):
                continue
            if change.removed is not None:
                names.pop(change.removed, None)
            if change.added is not None and change.node is not None:
                names[change.added] = change.node
        return names


class Chooser(Protocol):
    """Decides what survives a power cut."""

    def names(self, directory: Directory) -> dict[str, Inode | Directory]: ...

    def data(self, inode: Inode) -> bytearray: ...


class KeepNone:
    def names(self, directory: Directory) -> dict[str, Inode | Directory]:
        return directory.durable

    def data(self, inode: Inode) -> bytearray:
        return bytearray(inode.durable)


class KeepAll:
    def names(self, directory: Directory) -> dict[str, Inode | Directory]:
        return directory.names

    def data(self, inode: Inode) -> bytearray:
        return bytearray(inode.data)


class KeepData:
    def names(self, directory: Directory) -> dict[str, Inode | Directory]:
        return directory.durable

    def data(self, inode: Inode) -> bytearray:
        return bytearray(inode.data)


class KeepSomeNames:
    """All data; of each directory's name changes since its last sync the n-th where bit n of `mask` is set.

    With all masks these are all the states in which a disk that reorders its writes may leave few changes.
    """

    def __init__(self, mask: int) -> None:
        self._mask = mask

    def names(self, directory: Directory) -> dict[str, Inode | Directory]:
        kept = {id(change) for number, change in enumerate(directory.changes) if self._mask >> number & 1}
        return directory.replay(lambda change: id(change) in kept)

    def data(self, inode: Inode) -> bytearray:
        return bytearray(inode.data)


class KeepNames:
    """Names and sizes as they are, contents as they were synced: what delayed allocation leaves."""

    def __init__(self, *, garbage: bool) -> None:
        self._garbage = garbage

    def names(self, directory: Directory) -> dict[str, Inode | Directory]:
        return directory.names

    def data(self, inode: Inode) -> bytearray:
        size = len(inode.data)
        kept = inode.durable[:size]
        rest = size - len(kept)
        return bytearray(kept + (_garbage(random.Random(inode.number), rest) if self._garbage else bytes(rest)))


class TearLast:
    """All but the second half of each file's last write, cut at a sector border: there is what was durable before, or zeros."""

    def names(self, directory: Directory) -> dict[str, Inode | Directory]:
        return directory.names

    def data(self, inode: Inode) -> bytearray:
        data = bytearray(inode.data)
        writes = [change for change in inode.changes if change.data]
        if writes and writes[-1].data is not None:
            last = writes[-1]
            assert last.data is not None
            middle = last.offset + len(last.data) // 2
            middle -= middle % SECTOR
            start, end = max(middle, last.offset), min(last.offset + len(last.data), len(data))
            if start < end:
                data[start:end] = inode.durable[start:end].ljust(end - start, b"\0")
        return data


class KeepRandom:
    """Each change by chance.

    Half of the seeds keep a journal's order for names: a prefix of the changes, as ext4 does.
    """

    def __init__(self, seed: int) -> None:
        self._rng = rng = random.Random(seed)
        self._ordered_names = rng.random() < 0.5
        self._survival = rng.choice((0.1, 0.5, 0.9))

    def names(self, directory: Directory) -> dict[str, Inode | Directory]:
        if self._ordered_names:
            kept = self._rng.randint(0, len(directory.changes))
            chosen = {id(change) for change in directory.changes[:kept]}
        else:
            chosen = {id(change) for change in directory.changes if self._rng.random() < self._survival}
        return directory.replay(lambda change: id(change) in chosen)

    def data(self, inode: Inode) -> bytearray:
        if not inode.changes:
            return bytearray(inode.durable)
        rng = self._rng
        pieces = inode.pieces()
        shadow = Inode(inode.number, durable=inode.durable, changes=pieces)
        kept = {id(piece) for piece in pieces if rng.random() < self._survival}
        data = shadow.replay(lambda piece: id(piece) in kept)
        if rng.random() < 0.5:
            # The size is metadata: it may have made it with none of the data.
            sizes = [piece.offset + len(piece.data or b"") for piece in pieces]
            size = rng.choice(sizes) if sizes else 0  # what was changed is an empty stretch
            if size > len(data):
                data.extend(bytes(size - len(data)))
        # Beyond what was durable, a lost sector holds zeros or whatever the blocks held before.
        for piece in pieces:
            if piece.data is None or id(piece) in kept or piece.offset < len(inode.durable):
                continue
            end = min(piece.offset + len(piece.data), len(data))
            if piece.offset < end and not any(data[piece.offset : end]) and rng.random() < 0.3:
                data[piece.offset : end] = _garbage(rng, end - piece.offset)
        return data


def _garbage(rng: random.Random, count: int) -> bytes:
    return rng.randbytes(count)
