"""State of a share partition's records in flight: from its start offset to the next record that was never delivered.

    batch   [ 100 ........................ 149 ]   acquired together, as the log's batches lie
    runs    [100 .. 109][110][111 ...... 149  ]    alike: same state, deliveries, member and lock

A batch begins as one run and is cut where its records part ways; runs that become alike again are made one. Between two
batches may be offsets that the log does not have. Pure: no clock, no log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from .records import RecordState


class Run:
    """Offsets `first` to `last`, both included. `member` and `deadline_ms` (the lock's end) are those of ACQUIRED ones."""

    __slots__ = ("deadline_ms", "delivery_count", "first", "last", "member", "state")

    def __init__(
        self, first: int, last: int, state: RecordState, delivery_count: int, member: str = "", deadline_ms: float = 0
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member = member
        self.deadline_ms = deadline_ms

    def __repr__(self) -> str:
        owner = f" of {self.member}" if self.member else ""
        return f"Run({self.first}..{self.last} {self.state.name}{owner}, delivered {self.delivery_count})"

    def is_like(self, other: Run) -> bool:
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member == other.member
            and self.deadline_ms == other.deadline_ms
        )

    def cut(self, first: int) -> Run:
        """Ends before `first`; returns the rest."""
        rest = Run(first, self.last, self.state, self.delivery_count, self.member, self.deadline_ms)
        self.last = first - 1
        return rest


class InFlightBatch:
    """Runs without a gap between them."""

    __slots__ = ("runs",)

    def __init__(self, *runs: Run) -> None:
        self.runs = list(runs)

    @property
    def first(self) -> int:
        return self.runs[0].first

    @property
    def last(self) -> int:
        return self.runs[-1].last

    def between(self, first: int, last: int) -> Iterator[Run]:
        """The runs that have an offset there, as they are."""
        index = bisect_left(self.runs, first, key=lambda run: run.last)
        while index < len(self.runs) and self.runs[index].first <= last:
            yield self.runs[index]
            index += 1

    def carve(self, first: int, last: int) -> list[Run]:
        """The runs that are these offsets of this batch and no others: what reaches over them is cut."""
        runs = self.runs
        begin = bisect_left(runs, first, key=lambda run: run.last)
        if begin < len(runs) and runs[begin].first < first:
            runs.insert(begin + 1, runs[begin].cut(first))
            begin += 1
        end = begin
        while end < len(runs) and runs[end].last <= last:
            end += 1
        if end < len(runs) and runs[end].first <= last:
            runs.insert(end + 1, runs[end].cut(last + 1))
            end += 1
        return runs[begin:end]

    def drop_before(self, offset: int) -> None:
        """Forgets the offsets below; some must be left."""
        runs = self.runs
        index = bisect_left(runs, offset, key=lambda run: run.last)
        del runs[:index]
        runs[0].first = max(runs[0].first, offset)

    def join(self) -> None:
        """Makes one of neighbours that are alike."""
        joined = self.runs[:1]
        for run in self.runs[1:]:
            if joined[-1].is_like(run):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self.runs = joined


class InFlight:
    """All batches of a share partition, sorted."""

    __slots__ = ("batches",)

    def __init__(self) -> None:
        self.batches: list[InFlightBatch] = []

    def __bool__(self) -> bool:
        return bool(self.batches)

    def runs(self) -> Iterator[Run]:
        for batch in self.batches:
            yield from batch.runs

    def between(self, first: int, last: int) -> list[InFlightBatch]:
        """The batches that have an offset there."""
        begin = bisect_left(self.batches, first, key=lambda batch: batch.last)
        end = begin
        while end < len(self.batches) and self.batches[end].first <= last:
            end += 1
        return self.batches[begin:end]

    def reach(self, first: int, last: int) -> tuple[int | None, int]:
        """Where the batches begin and end that have an offset there; (None, 0): there are none."""
        begin = bisect_left(self.batches, first, key=lambda batch: batch.last)
        end = bisect_right(self.batches, last, key=lambda batch: batch.first)
        return (self.batches[begin].first, self.batches[end - 1].last) if begin < end else (None, 0)

    def add(self, batch: InFlightBatch) -> None:
        """Append a batch behind all others."""
        assert not self.batches or self.batches[-1].last < batch.first
        self.batches.append(batch)

    def drop_before(self, offset: int) -> None:
        index = bisect_left(self.batches, offset, key=lambda batch: batch.last)
        del self.batches[:index]
        if self.batches and self.batches[0].first < offset:
            self.batches[0].drop_before(offset)
