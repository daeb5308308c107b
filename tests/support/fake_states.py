"""Every state that a fake disk may be in after a power cut at this moment, in a fixed order, up to a stated bound.

What is undecided when the power goes is a list of *units*: each 512-byte sector of each write since its file's last sync,
each change of a file's size, each change of a name since its directory's last sync. A disk may keep or lose any of them. A
lost sector behind the durable end of its file may leave the file short, zeros, or what the blocks held before.

The bound: with up to EXHAUSTIVE units all combinations, with more those that differ from "all lost" or from "all kept" in at
most two units. Each with the three fillings, where there is something to fill.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from support.fake_disk import Change, Directory, Inode, NameChange
from support.fake_filesystem import FakeFileSystem

EXHAUSTIVE = 7
"""Units; 128 combinations."""
_SHORT, _ZEROS, _GARBAGE = range(3)


class Choice(NamedTuple):
    """One state: numbers of the units that are lost, and what stands where lost sectors were."""

    lost: frozenset[int]
    filling: int


class Moment:
    """The undecided units of a file system as it is now. Good until the next change of it."""

    def __init__(self, system: FakeFileSystem) -> None:
        self._system = system
        self.units: list[Change | NameChange] = []
        self._pieces: dict[int, list[Change]] = {}
        self._fillable: set[int] = set()
        seen: set[int] = set()
        self._visit(system.root, seen)

    def _visit(self, node: Inode | Directory, seen: set[int]) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, Directory):
            self.units += node.changes
            for child in [*node.names.values(), *node.durable.values(), *(change.node for change in node.changes)]:
                if child is not None:
                    self._visit(child, seen)
            return
        node.note_mapped_writes()
        pieces = node.pieces()
        self._pieces[node.number] = pieces
        for piece in pieces:
            if piece.data is not None and piece.offset >= len(node.durable):
                self._fillable.add(len(self.units))
            self.units.append(piece)

    def count(self) -> int:
        """How many sets of lost units there are; each is up to three choices."""
        units = len(self.units)
        return 1 << units if units <= EXHAUSTIVE else 2 * (1 + units + units * (units - 1) // 2)

    def choices(self) -> Iterator[Choice]:
        """All within the bound, the plain extremes first. No two are the same choice; two may come to the same bytes."""
        for lost in self._sets():
            yield Choice(lost, _SHORT)
            if lost & self._fillable:
                yield Choice(lost, _ZEROS)
                yield Choice(lost, _GARBAGE)

    def _sets(self) -> Iterator[frozenset[int]]:
        everything = frozenset(range(len(self.units)))
        if len(everything) <= EXHAUSTIVE:
            for size in range(len(everything) + 1):
                yield from map(frozenset, combinations(sorted(everything), size))
            return
        for size in range(3):
            for few in combinations(sorted(everything), size):
                yield frozenset(few)
                yield everything - frozenset(few)

    def state(self, choice: Choice) -> FakeFileSystem:
        """A new file system in that state."""
        kept = {id(unit) for number, unit in enumerate(self.units) if number not in choice.lost}
        return self._system.rebuilt(_Chosen(kept, self._pieces, choice.filling))

    def describe(self, choice: Choice) -> str:
        """For the report of a failure."""
        lost = [self.units[number] for number in sorted(choice.lost)]
        filling = ("short", "zeros", "garbage")[choice.filling]
        return f"{len(lost)} of {len(self.units)} units lost, {filling}:\n" + "\n".join(
            f"    {unit.removed or ''} -> {unit.added or ''}"
            if isinstance(unit, NameChange)
            else f"    {'size' if unit.data is None else f'{len(unit.data)} bytes'} at {unit.offset}"
            for unit in lost
        )


class _Chosen:
    """A `Chooser` that keeps what it is told."""

    def __init__(self, kept: set[int], pieces: dict[int, list[Change]], filling: int) -> None:
        self._kept = kept
        self._pieces = pieces
        self._filling = filling

    def names(self, directory: Directory) -> dict[str, Inode | Directory]:
        return directory.replay(lambda change: id(change) in self._kept)

    def data(self, inode: Inode) -> bytearray:
        pieces = self._pieces.get(inode.number, [])
        if not pieces:
            return bytearray(inode.durable)
        kept = self._kept
        shadow = Inode(inode.number, durable=inode.durable, changes=pieces)
        data = shadow.replay(lambda piece: id(piece) in kept)
        if self._filling != _SHORT:
            data.extend(bytes(max(0, len(inode.data) - len(data))))
            if self._filling == _GARBAGE:
                for piece in pieces:
                    if piece.data is None or id(piece) in kept or piece.offset < len(inode.durable):
                        continue
                    end = min(piece.offset + len(piece.data), len(data))
                    if piece.offset < end and not any(data[piece.offset : end]):
                        data[piece.offset : end] = random.Random(piece.offset).randbytes(end - piece.offset)
        return data
