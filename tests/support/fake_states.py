"""Every state that a fake disk may be in after a power cut at this moment, in a fixed order.

What is undecided when the power goes is a list of *units*: each 512-byte sector of each write since its file's last sync,
each change of a file's size, each change of a name since its directory's last sync. A disk may keep or lose any of them. A
lost sector behind the durable end of its file may leave the file short, zeros, or what the blocks held before.

`choices` has a bound: with up to EXHAUSTIVE units all combinations, with more those that differ from "all lost" or from "all
kept" in at most two units. `all_choices` goes on, to all combinations where they can be counted out, else to random ones.
Each with the three fillings, where there is something to fill.

Two states are *equivalent* when no start can tell them apart: the same names, the same bytes in all files but those that a
start removes or overwrites unread. `key` says which class a choice belongs to, without the state being made.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import NamedTuple

from support.fake_disk import Change, Directory, Inode, NameChange
from support.fake_filesystem import FakeFileSystem

EXHAUSTIVE = 7
"""Units; 128 combinations."""
COUNTED_OUT = 14
"""Units; 16,384 combinations: `all_choices` has all of them."""
UNREAD_FILES = (".tmp", ".cleaned", ".deleted")
UNREAD_DIRECTORIES = ("-delete",)
"""What a start removes, or overwrites from its beginning, without a look at the content."""
_SHORT, _ZEROS, _GARBAGE = range(3)
_UNREAD = b"unread"


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
        # By id of the node: numbers of its own units; of all below it too.
        self._own: dict[int, frozenset[int]] = {}
        self._below: dict[int, frozenset[int]] = {}
        self._keys: dict[tuple[int, bool, frozenset[int], int], bytes] = {}
        self._names: dict[tuple[int, frozenset[int]], list[tuple[bytes, bool, Inode | Directory]]] = {}
        seen: set[int] = set()
        self._visit(system.root, seen)

    def _visit(self, node: Inode | Directory, seen: set[int]) -> frozenset[int]:
        if id(node) in seen:
            return self._below.get(id(node), frozenset())
        seen.add(id(node))
        first = len(self.units)
        if isinstance(node, Directory):
            self.units += node.changes
            below = own = frozenset(range(first, len(self.units)))
            for child in [*node.names.values(), *node.durable.values(), *(change.node for change in node.changes)]:
                if child is not None:
                    below |= self._visit(child, seen)
        else:
            node.note_mapped_writes()
            pieces = node.pieces()
            self._pieces[node.number] = pieces
            for piece in pieces:
                if piece.data is not None and piece.offset >= len(node.durable):
                    self._fillable.add(len(self.units))
                self.units.append(piece)
            below = own = frozenset(range(first, len(self.units)))
        self._own[id(node)], self._below[id(node)] = own, below
        return below

    def count(self) -> int:
        """How many sets of lost units `choices` has; each is up to three choices."""
        units = len(self.units)
        return 1 << units if units <= EXHAUSTIVE else 2 * (1 + units + units * (units - 1) // 2)

    def choices(self) -> Iterator[Choice]:
        """All within the bound, the plain extremes first. No two are the same choice; two may come to the same bytes."""
        return self._filled(self._sets())

    def all_choices(self, seed: int) -> Iterator[Choice]:
        """All that there are, where they are few enough (`is_counted_out`); else those within the bound, then random ones for
        ever. The simple ones first.
        """
        if self.is_counted_out:
            return self._filled(self._sets(COUNTED_OUT))
        return self._filled(self._random_sets(seed))

    @property
    def is_counted_out(self) -> bool:
        return len(self.units) <= COUNTED_OUT

    def _filled(self, sets: Iterable[frozenset[int]]) -> Iterator[Choice]:
        for lost in sets:
            yield Choice(lost, _SHORT)
            if lost & self._fillable:
                yield Choice(lost, _ZEROS)
                yield Choice(lost, _GARBAGE)

    def _sets(self, exhaustive: int = EXHAUSTIVE) -> Iterator[frozenset[int]]:
        everything = frozenset(range(len(self.units)))
        if len(everything) <= exhaustive:
            for size in range(len(everything) + 1):
                yield from map(frozenset, combinations(sorted(everything), size))
            return
        for size in range(3):
            for few in combinations(sorted(everything), size):
                yield frozenset(few)
                yield everything - frozenset(few)

    def _random_sets(self, seed: int) -> Iterator[frozenset[int]]:
        yield from self._sets()
        rng, units = random.Random(seed), len(self.units)
        while True:
            survival = rng.choice((0.1, 0.3, 0.5, 0.7, 0.9))
            yield frozenset(number for number in range(units) if rng.random() >= survival)

    def state(self, choice: Choice) -> FakeFileSystem:
        """A new file system in that state."""
        return self._system.rebuilt(self._chooser(choice))

    def _chooser(self, choice: Choice) -> _Chosen:
        kept = {id(unit) for number, unit in enumerate(self.units) if number not in choice.lost}
        return _Chosen(kept, self._pieces, choice.filling)

    def key(self, choice: Choice) -> bytes:
        """The same for equivalent states, at whatever moment."""
        return self._key(self._system.root, choice, is_unread=False)

    def _key(self, node: Inode | Directory, choice: Choice, *, is_unread: bool) -> bytes:
        lost = choice.lost & self._below[id(node)]
        at = id(node), is_unread, lost, choice.filling if lost else _SHORT
        key = self._keys.get(at)
        if key is None:
            digest = hashlib.blake2b(digest_size=16)
            if isinstance(node, Directory):
                for name, unread, child in self._listed(node, lost):
                    digest.update(name)
                    digest.update(self._key(child, choice, is_unread=is_unread or unread))
            else:
                digest.update(_UNREAD if is_unread else self._chooser(choice).data(node))
            key = self._keys[at] = digest.digest()
        return key

    def _listed(self, directory: Directory, lost: frozenset[int]) -> list[tuple[bytes, bool, Inode | Directory]]:
        lost &= self._own[id(directory)]
        at = id(directory), lost
        listed = self._names.get(at)
        if listed is None:
            gone = {id(self.units[number]) for number in lost}
            names = directory.replay(lambda change: id(change) not in gone)
            listed = self._names[at] = [
                (
                    name.encode() + (b"/\0" if (is_directory := isinstance(node, Directory)) else b"\0"),
                    name.endswith(UNREAD_DIRECTORIES if is_directory else UNREAD_FILES),
                    node,
                )
                for name, node in sorted(names.items())
            ]
        return listed

    def describe(self, choice: Choice) -> str:
        """Words for the report of a failure: what was lost, and what stands in its place."""
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
