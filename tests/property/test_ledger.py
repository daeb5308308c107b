"""A partition's ledger balances after every step of any history, by cause, with a kill before or after each write of its file and
each change of the log, with truncations, and with Apache Kafka cleaning the log in between.

The oracle is a set of offsets for each segment, and what was taken from them. Of the file system there is one file.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tidelog.storage.io.filesystem import write_atomically
from tidelog.storage.ledger.keeper import LedgerKeeper
from tidelog.storage.ledger.ledger import ELSEWHERE, SegmentExtent, decode, encode

CAUSES = ("superseded", "tombstone", "aborted", "marker")


class Killed(Exception):
    """The process ends here."""


class Temporary:
    """What takes the file's place with the rename."""

    def __init__(self) -> None:
        self.data = b""

    def truncate(self, size: int) -> None:
        self.data = self.data[:size]

    def append(self, data: bytes) -> None:
        self.data += data

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass


class Disk:
    """One file, replaced atomically; that may be the last thing that a process does, or not come about."""

    def __init__(self, chance: Callable[[float], bool]) -> None:
        self.data: bytes | None = None
        self.chance = chance
        self.writes = 0

    def read_bytes(self, path: str) -> bytes:
        if self.data is None:
            raise FileNotFoundError(path)
        return self.data

    def sync_directory(self, path: str) -> None:
        pass

    def open(self, path: str, *, create: bool) -> Temporary:
        self.temporary = Temporary()
        return self.temporary

    def rename(self, source: str, target: str) -> None:
        self.writes += 1
        if self.chance(0.1):
            raise Killed
        self.data = self.temporary.data
        if self.chance(0.1):
            raise Killed

    def write_atomically(self, path: str, data: bytes) -> None:
        write_atomically(self, path, data)  # type: ignore[arg-type]


class Model:
    """One log's segments, as sets of offsets, and what the ledger has to say of them."""

    def __init__(self, seed: int, *, has_begun_elsewhere: bool = False) -> None:
        self.random = random.Random(seed)
        self.segments: dict[int, set[int]] = {0: set()}
        self.end = 0
        self.truth = Counter[str]()
        self.checkpoint: int | None = None
        self.disk = Disk(self._happens)
        self.start()
        if has_begun_elsewhere:
            for _ in range(20):
                self.append()
                self.roll()
            self.elsewhere()

    def _happens(self, share: float) -> bool:
        return self.random.random() < share

    def extents(self) -> list[SegmentExtent]:
        bases = sorted(self.segments)
        ends = [*bases[1:], self.end]
        # Few sizes, so that a group is as large before a pass as after it now and then.
        return [SegmentExtent(b, e, len(self.segments[b]) // 3) for b, e in zip(bases, ends, strict=True)]

    def count(self, segment: SegmentExtent) -> int:
        return len(self.segments[segment.base_offset])

    def start(self) -> None:
        directory: Any = SimpleNamespace(path="/t-0", file_system=self.disk)
        has_file = self.disk.data is not None
        self.keeper = LedgerKeeper(directory, min(self.segments), has_file=has_file, checkpoint=self.checkpoint)

    def step(self) -> None:
        names = ("append", "append", "append", "roll", "roll", "clean", "delete", "start", "cut", "elsewhere")
        try:
            getattr(self, self.random.choices(names, [6, 6, 6, 6, 6, 6, 4, 2, 1, 0.3])[0])()
        except Killed:
            self.start()

    def _may_be_killed(self) -> None:
        if self.random.random() < 0.1:
            raise Killed

    def append(self) -> None:
        count = self.random.randrange(1, 5)
        self.segments[max(self.segments)].update(range(self.end, self.end + count))
        self.end += count

    def roll(self) -> None:
        if self.segments[max(self.segments)]:
            self.segments[self.end] = set()

    def _take(self, group: list[int]) -> tuple[Counter[str], set[int]]:
        """What a pass would take of these segments, and what it would leave."""
        everything = set[int]().union(*(self.segments[base] for base in group))
        causes = {offset: self.random.choice(CAUSES) for offset in everything if self.random.random() < 0.3}
        return Counter(causes.values()), everything - causes.keys()

    def clean(self) -> None:
        closed = sorted(self.segments)[:-1]
        keeper = self.keeper
        while closed:
            count = self.random.randrange(1, 4)
            group, closed = closed[:count], closed[count:]
            removed, left = self._take(group)
            old = [extent for extent in self.extents() if extent.base_offset in group]
            parts = [left]
            if len(left) > 4 and self.random.random() < 0.2:
                middle = sorted(left)[len(left) // 2]
                parts = [{o for o in left if o < middle}, {o for o in left if o >= middle}]
            bases = [group[0], *(min(part) for part in parts[1:])]
            assert keeper.open(self.extents, self.count)
            keeper.begin_swap(old, [(b, len(p), len(p) // 3) for b, p in zip(bases, parts, strict=True)], removed)
            self._may_be_killed()
            if self.random.random() < 0.1:
                keeper.withdraw_swap()
                continue
            for base in group:
                del self.segments[base]
            self.segments |= dict(zip(bases, parts, strict=True))
            self.truth += removed
            self._may_be_killed()
            keeper.confirm_swap()
            if self.random.random() < 0.1:
                return  # aborted
        if keeper.open(self.extents, self.count):
            checkpoint = max(self.segments)
            keeper.save(checkpoint)
            self.checkpoint = checkpoint

    def delete(self) -> None:
        closed = self.extents()[:-1]
        gone = closed[: self.random.randrange(len(closed) + 1)]
        if not gone:
            return
        asked = gone[: self.random.choice([0, 0, 1, len(gone)])]
        border, first = (asked[-1].end_offset if asked else 0), gone[-1].end_offset
        assert self.keeper.open(self.extents, self.count)
        self.keeper.delete(border, first)
        self._may_be_killed()
        for segment in gone:
            cause = "delete-records" if segment in asked else "retention"
            self.truth[cause] += len(self.segments.pop(segment.base_offset))
            self._may_be_killed()

    def cut(self) -> None:
        """Truncation: what is cut off was never appended. The broker does it to nothing that was compacted: no kills here."""
        self.disk.chance = lambda share: False
        offset = self.random.randrange(min(self.segments), self.end + 1)
        assert self.keeper.open(self.extents, self.count)
        for base in [base for base in self.segments if base > offset]:
            del self.segments[base]
        last = max(self.segments)
        self.segments[last] = {o for o in self.segments[last] if o < offset}
        self.end = max(self.segments[last], default=last - 1) + 1
        self.keeper.cut(self.end, last, lambda: self.end - last - len(self.segments[last]))
        self.checkpoint = None if self.checkpoint is None else min(self.checkpoint, self.end)
        self.disk.chance = self._happens

    def elsewhere(self) -> None:
        """After a clean stop Apache Kafka opens the directory, cleans, and moves the checkpoint."""
        self.keeper.open(self.extents, self.count)
        self.keeper.close()
        closed = sorted(self.segments)[:-1]
        if not closed or (self.checkpoint or 0) >= max(self.segments):
            return
        for base in closed:
            removed, left = self._take([base])
            self.segments[base] = left
            self.truth[ELSEWHERE] += removed.total()
        self.checkpoint = max(self.segments)
        self.start()

    def check(self) -> None:
        if not self.keeper.open(self.extents):
            return  # to be counted by the next pass or deletion
        ledger = self.keeper.value
        assert ledger is not None
        assert ledger.is_balanced
        assert ledger.live(self.end) == sum(map(len, self.segments.values()))
        assert ledger.appended(self.end) == ledger.live(self.end) + sum(ledger.removed.values())
        assert ledger.removed == {cause: count for cause, count in self.truth.items() if count}
        for extent in self.extents():
            assert ledger.live_of(extent) == self.count(extent)
        assert decode(encode(ledger)) == ledger


@pytest.mark.parametrize("seed", range(300))
def test_the_ledger_balances_whatever_happens(seed: int) -> None:
    model = Model(seed, has_begun_elsewhere=seed % 3 == 0)
    for _ in range(60):
        model.step()
        model.check()
    while True:
        try:
            assert model.keeper.open(model.extents, model.count)
            break
        except Killed:
            model.start()
    model.check()


def test_retention_of_a_log_that_was_never_compacted_writes_nothing() -> None:
    model = Model(1)
    model.disk.chance = lambda share: False
    for _ in range(50):
        model.append()
        model.roll()
    gone = model.extents()[:20]
    model.keeper.delete(0, gone[-1].end_offset)
    for extent in gone:
        model.truth["retention"] += len(model.segments.pop(extent.base_offset))
    model.check()
    model.start()
    model.check()
    assert (model.disk.data, model.disk.writes) == (None, 0)
