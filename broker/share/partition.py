"""SharePartition: which member of a share group has which records of one partition, and what became of those that were had
before.

                 acquire                        ACCEPT
    AVAILABLE ─────────────► ACQUIRED ────────────────────► ACKNOWLEDGED
        ▲                       │ REJECT, GAP, or RELEASE
        │ RELEASE, time over,   │ at the delivery limit
        └─ member gone ◄────────┴─────────────────────────► ARCHIVED

                 start_offset                            next_offset
    ── done ──────────┤ in flight: batches of runs, `in_flight` ├────── never delivered ──

The start offset follows the first record that is not ACKNOWLEDGED or ARCHIVED; the log's start pushes it too. A record is
delivered `delivery_count_limit` times at most. In flight are `max_record_locks` records, and what is left of the last log
batch that they begin in.

Pure: time comes as an argument, what the log has as spans, and what is to be kept is returned: `acknowledge`, `release` and
`expire` give `Changes`, which alter nothing until `commit`. The caller writes them in between. Kafka's names and rules
(KIP-932, KIP-1206, KIP-1222). One thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from ...protocol.errors import ErrorCode, ProtocolError
from .in_flight import InFlight, InFlightBatch, Run
from .records import RecordState, StateBatch

AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED

#: From half of the delivery limit on, but never from less than this, records come back in ever smaller lots.
LEAST_THROTTLED_DELIVERIES = 2


class AcknowledgeType(IntEnum):
    """Acknowledgement of a record by a member. GAP: the log does not have it."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_OUTCOME = {
    AcknowledgeType.GAP: ARCHIVED,
    AcknowledgeType.ACCEPT: ACKNOWLEDGED,
    AcknowledgeType.RELEASE: AVAILABLE,
    AcknowledgeType.REJECT: ARCHIVED,
}


class ShareLimits(NamedTuple):
    """A group's settings, as they are now."""

    max_record_locks: int = 2000
    delivery_count_limit: int = 5
    lock_ms: int = 30_000
    renew_enabled: bool = True


class Span(NamedTuple):
    """One batch of the log: its offsets, both included."""

    base: int
    last: int


class Acquired(NamedTuple):
    """Offsets that a member has now, and how often they were delivered, this time included."""

    first: int
    last: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """Offsets, both included, with one type for all or one for each."""

    first: int
    last: int
    types: Sequence[int]


class Change(NamedTuple):
    """New state of acquired offsets; `deadline_ms` is for those that stay acquired."""

    first: int
    last: int
    state: RecordState
    delivery_count: int
    deadline_ms: float = 0


class Changes(NamedTuple):
    """Changes to be written, and then applied by `commit`."""

    edits: Sequence[Change]
    batches: Sequence[StateBatch]
    """In order; empty: nothing need be written."""
    delivery_complete_count: int
    """Offsets from the start offset on that nobody gets any more, these included."""


class SharePartition:
    """One partition of one group.

    Attributes:
        start_offset: all below is done with. Moves up only. Never passes `next_offset`.
        next_offset: what nobody was given yet begins here.
    """

    __slots__ = ("_first_available", "in_flight", "next_offset", "start_offset")

    def __init__(self, start_offset: int, kept: Iterable[StateBatch] = ()) -> None:
        """`kept`: sorted, none overlapping, all from `start_offset` on. Records between them may be delivered."""
        self.start_offset = self.next_offset = start_offset
        self.in_flight = InFlight()
        for batch in kept:
            assert self.next_offset <= batch.first <= batch.last
            if batch.first > self.next_offset:
                self.in_flight.add(InFlightBatch(Run(self.next_offset, batch.first - 1, AVAILABLE, 0)))
            state = batch.state if batch.state.is_terminal else AVAILABLE
            self.in_flight.add(InFlightBatch(Run(batch.first, batch.last, state, batch.delivery_count)))
            self.next_offset = batch.last + 1
        #: No AVAILABLE record lies below.
        self._first_available = start_offset
        self._advance()

    # -- what can be asked

    @property
    def in_flight_records(self) -> int:
        return self.next_offset - self.start_offset

    @property
    def delivery_complete_count(self) -> int:
        return sum(run.last - run.first + 1 for run in self.in_flight.runs() if run.state.is_terminal)

    @property
    def fetch_offset(self) -> int:
        """Offset of the next records for a member: returned ones first, else those that were never delivered."""
        for batch in self.in_flight.between(self._first_available, self.next_offset):
            for run in batch.between(self._first_available, self.next_offset):
                if run.state is AVAILABLE:
                    self._first_available = run.first
                    return run.first
        self._first_available = self.next_offset
        return self.next_offset

    def can_acquire(self, limits: ShareLimits) -> bool:
        """True if a fetch may find records: a returned one, or room for new ones."""
        return self.fetch_offset < self.next_offset or self.in_flight_records < limits.max_record_locks

    @property
    def next_deadline_ms(self) -> float | None:
        """End of the first lock; None while there is none."""
        return min((run.deadline_ms for run in self.in_flight.runs() if run.state is ACQUIRED), default=None)

    # -- acquiring

    def acquire(
        self,
        member: str,
        spans: Sequence[Span],
        fetch_offset: int,
        limits: ShareLimits,
        now_ms: float,
        *,
        max_records: int,
        batch_size: int,
        is_strict: bool = False,
    ) -> list[Acquired]:
        """Gives the member records out of `spans`, which were read from the log at `fetch_offset`; in order of offset.

        `max_records` is exceeded to the end of a log batch, unless `is_strict`. New records are given in lots of about
        `batch_size`, a whole number of log batches each; a lot is acknowledged most cheaply as a whole.
        """
        if max_records <= 0 or not spans or spans[-1].last < self.start_offset:
            return []
        self._archive_missing(fetch_offset, spans[0].base)
        giving = _Giving(self, member, spans, limits, now_ms + limits.lock_ms, max_records, batch_size, is_strict)
        base, last = max(spans[0].base, self.start_offset), spans[-1].last
        for batch in self.in_flight.between(base, last):
            if giving.left <= 0:
                break
            giving.again(batch, base, last)
        if giving.left > 0 and last >= self.next_offset:
            giving.new(max(base, self.next_offset), last)
        self._advance()
        return giving.acquired

    def archive_acquired(self, spans: Sequence[Span], acquired: Sequence[Acquired]) -> list[Acquired]:
        """Takes back what was just acquired of records that were aborted; returns what is left. Both in order of offset."""
        left, lost = _divided(acquired, spans)
        for first, last in lost:
            for batch in self.in_flight.between(first, last):
                for run in batch.carve(first, last):
                    _set(run, ARCHIVED)
        if lost:
            for batch in self.in_flight.between(lost[0].base, lost[-1].last):
                batch.join()
            self._advance()
        return left

    def _archive_missing(self, first: int, end: int) -> None:
        """The log has nothing in [first, end): nobody shall wait for what was to be delivered again there."""
        if end <= first:
            return
        for batch in self.in_flight.between(first, end - 1):
            for run in batch.carve(first, end - 1):
                if run.state is AVAILABLE:
                    _set(run, ARCHIVED)
            batch.join()
        self._advance()

    # -- acknowledging

    def acknowledge(
        self, member: str, acknowledgements: Iterable[Acknowledgement], limits: ShareLimits, now_ms: float
    ) -> Changes:
        """Apply a member's acknowledgements of records that it has. All of them, or none.

        Raises ProtocolError: INVALID_RECORD_STATE for a record that the member does not have, INVALID_REQUEST.
        """
        edits: list[Change] = []
        behind = -1
        for first, last, types in acknowledgements:
            if not types or not all(0 <= kind <= AcknowledgeType.RENEW for kind in types):
                raise ProtocolError(ErrorCode.INVALID_REQUEST, f"there are no such acknowledgements: {list(types)}")
            if last < self.start_offset:
                continue
            self._check_range(first, last)
            if first <= behind:
                raise ProtocolError(ErrorCode.INVALID_RECORD_STATE, f"offset {first} is acknowledged twice")
            behind = last
            for begin, end, kind in _same_types(first, last, types):
                for run in self._runs(begin, end):
                    _check_holder(run, member)
                    edits.append(_acknowledged(run, begin, end, AcknowledgeType(kind), limits, now_ms))
        return self._changes(edits)

    def release(self, member: str, limits: ShareLimits) -> Changes:
        """The member has gone: others may have what it had."""
        return self._changes(
            [
                _given_back(run, limits)
                for run in self.in_flight.runs()
                if run.state is ACQUIRED and run.member == member
            ]
        )

    def holders(self) -> set[str]:
        """Members that have records."""
        return {run.member for run in self.in_flight.runs() if run.state is ACQUIRED and run.member is not None}

    def expire(self, limits: ShareLimits, now_ms: float) -> Changes:
        """The time of records is over: others may have them."""
        return self._changes(
            [
                _given_back(run, limits)
                for run in self.in_flight.runs()
                if run.state is ACQUIRED and run.deadline_ms <= now_ms
            ]
        )

    def commit(self, changes: Changes) -> None:
        """The changes are written (or need not be): they are so from now on. Nothing else may have changed since."""
        for first, last, state, _, deadline_ms in changes.edits:
            for batch in self.in_flight.between(first, last):
                for run in batch.carve(first, last):
                    assert run.state is ACQUIRED
                    if state is ACQUIRED:
                        run.deadline_ms = deadline_ms
                    else:
                        _set(run, state)
            if state is AVAILABLE:
                self._first_available = min(self._first_available, first)
        if changes.edits:
            for batch in self.in_flight.between(changes.edits[0].first, max(edit.last for edit in changes.edits)):
                batch.join()
            self._advance()

    def _changes(self, edits: Sequence[Change]) -> Changes:
        kept = [StateBatch(*edit[:4]) for edit in edits if edit.state is not ACQUIRED]
        done = sum(batch.last - batch.first + 1 for batch in kept if batch.state.is_terminal)
        return Changes(edits, kept, self.delivery_complete_count + done)

    def _check_range(self, first: int, last: int) -> None:
        """Raises ProtocolError unless both ends are, or were, in flight."""
        begin, end = self.in_flight.reach(self.start_offset, last)
        if begin is None or begin > max(first, self.start_offset):
            raise ProtocolError(ErrorCode.INVALID_RECORD_STATE, f"offset {first} is with nobody")
        if end < last:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, f"offset {last} was never delivered")

    def _runs(self, first: int, last: int) -> Iterator[Run]:
        first = max(first, self.start_offset)
        for batch in self.in_flight.between(first, last):
            yield from batch.between(first, last)

    # -- the start

    def move_start(self, offset: int) -> None:
        """The log begins at `offset` now: what is below is gone, whoever had it."""
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        self.next_offset = max(self.next_offset, offset)
        self.in_flight.drop_before(offset)
        self._advance()

    def _advance(self) -> None:
        """Moves the start over what is done with, and over what the log does not have."""
        start = self.next_offset
        for run in self.in_flight.runs():
            if not run.state.is_terminal:
                start = run.first
                break
        if start > self.start_offset:
            self.start_offset = start
            self.in_flight.drop_before(start)
            self._first_available = max(self._first_available, start)


class _Giving:
    """One call of `acquire`. `left`: records that may still be given; negative when a batch was whole."""

    __slots__ = (
        "_batch_size",
        "_deadline_ms",
        "_is_strict",
        "_limits",
        "_member",
        "_partition",
        "_spans",
        "acquired",
        "left",
    )

    def __init__(
        self,
        partition: SharePartition,
        member: str,
        spans: Sequence[Span],
        limits: ShareLimits,
        deadline_ms: float,
        max_records: int,
        batch_size: int,
        is_strict: bool,
    ) -> None:
        self._partition = partition
        self._member = member
        self._spans = spans
        self._limits = limits
        self._deadline_ms = deadline_ms
        self._batch_size = max(batch_size, 1)
        self._is_strict = is_strict
        self.left = max_records
        self.acquired: list[Acquired] = []

    def again(self, batch: InFlightBatch, base: int, last: int) -> None:
        """Gives what is AVAILABLE of a batch in flight, within [base, last].

        A record that brings down its member again and again is found faster in a smaller lot: from half of the limit on, lots are
        halved with each delivery and come with nothing else, and in the end a record is delivered alone.
        """
        limit = self._limits.delivery_count_limit
        for run in list(batch.between(base, last)):
            if run.state is AVAILABLE and run.delivery_count >= limit:  # the limit was lowered meanwhile
                _archive(batch, run, base, last)
        throttled_from = max(LEAST_THROTTLED_DELIVERIES, -(-limit // 2))
        counts = [run.delivery_count for run in batch.between(base, last) if run.state is AVAILABLE]
        if not counts:
            return
        is_throttled = max(counts) >= throttled_from
        if is_throttled and self.acquired:
            self.left = 0
            return
        size = batch.last - batch.first + 1
        most = size
        taken = 0
        for run in list(batch.between(base, last)):
            if run.state is not AVAILABLE:
                continue
            count = run.delivery_count
            is_last_time = limit > LEAST_THROTTLED_DELIVERIES and count == limit - 1
            if is_last_time and taken:
                break
            if count >= throttled_from and most == size:
                most = max(1, size >> (count - throttled_from + 1))
            first = max(run.first, base)
            wanted = 1 if is_last_time else self._lot(first, min(run.last, last), count)
            wanted = min(wanted, most - taken)
            if wanted <= 0:
                break
            self._give(batch, first, first + wanted - 1, is_new=False)
            taken += wanted
            if is_last_time or taken >= most or (self.left <= 0 and self._is_strict):
                break
        batch.join()
        if is_throttled:  # nothing else comes with it
            self.left = 0

    def _lot(self, first: int, last: int, delivery_count: int) -> int:
        """Number of records to take of a run: all of them, unless the limit is strict or they were never delivered before."""
        count = last - first + 1
        if self._is_strict:
            return min(count, self.left)
        if delivery_count == 0:
            return min(count, max(self._to_batch_end(first, self.left) - first + 1, 0)) if self.left > 0 else 0
        return count

    def new(self, first: int, last: int) -> None:
        """Gives records that nobody had, as many as there is room for."""
        partition = self._partition
        if not partition.in_flight:
            partition.start_offset = first  # the log has nothing before it
        room = min(self.left, self._limits.max_record_locks - (partition.next_offset - partition.start_offset))
        if room <= 0:
            return
        end = min(last, self._to_batch_end(first, room))
        if self._is_strict:
            batch = InFlightBatch(Run(first, end, AVAILABLE, 0))
            partition.in_flight.add(batch)
            self._give(batch, first, min(end, first + room - 1), is_new=True)
            partition._first_available = min(partition._first_available, first)
        else:
            for begin, stop in self._lots(first, end):
                batch = InFlightBatch(Run(begin, stop, AVAILABLE, 0))
                partition.in_flight.add(batch)
                self._give(batch, begin, stop, is_new=True)
        partition.next_offset = end + 1

    def _to_batch_end(self, first: int, count: int) -> int:
        """The last offset of the log batch that has the count-th offset from `first` on."""
        wanted = first + count - 1
        for span in self._spans:
            if span.last >= wanted:
                return span.last if span.base <= wanted else wanted
        return wanted

    def _lots(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """[first, last] in parts of `batch_size` or somewhat more, which begin where log batches do."""
        begin = first
        for span in self._spans:
            if span.base > last:
                break
            if span.base - begin >= self._batch_size:
                yield begin, span.base - 1
                begin = span.base
        yield begin, last

    def _give(self, batch: InFlightBatch, first: int, last: int, *, is_new: bool) -> None:
        for run in batch.carve(first, last):
            run.state = ACQUIRED
            run.delivery_count += 1
            run.member = self._member
            run.deadline_ms = self._deadline_ms
            before = self.acquired[-1] if self.acquired and not is_new else None
            if before is not None and before.last + 1 == run.first and before.delivery_count == run.delivery_count:
                self.acquired[-1] = before._replace(last=run.last)  # neighbours that were delivered as often are one
            else:
                self.acquired.append(Acquired(run.first, run.last, run.delivery_count))
        self.left -= last - first + 1
        if is_new:
            batch.join()


def _set(run: Run, state: RecordState) -> None:
    run.state, run.member, run.deadline_ms = state, "", 0


def _archive(batch: InFlightBatch, run: Run, base: int, last: int) -> None:
    for part in batch.carve(max(run.first, base), min(run.last, last)):
        _set(part, ARCHIVED)


def _given_back(run: Run, limits: ShareLimits) -> Change:
    state = ARCHIVED if run.delivery_count >= limits.delivery_count_limit else AVAILABLE
    return Change(run.first, run.last, state, run.delivery_count)


def _acknowledged(run: Run, begin: int, end: int, kind: AcknowledgeType, limits: ShareLimits, now_ms: float) -> Change:
    first, last = max(run.first, begin), min(run.last, end)
    if kind is AcknowledgeType.RENEW:
        if not limits.renew_enabled:
            raise ProtocolError(ErrorCode.INVALID_RECORD_STATE, "share.renew.acknowledge.enable is false for the group")
        return Change(first, last, ACQUIRED, run.delivery_count, now_ms + limits.lock_ms)
    state = _OUTCOME[kind]
    if state is AVAILABLE and run.delivery_count >= limits.delivery_count_limit:
        state = ARCHIVED
    return Change(first, last, state, run.delivery_count)


def _check_holder(run: Run, member: str) -> None:
    if run.state is not ACQUIRED:
        raise ProtocolError(ErrorCode.INVALID_RECORD_STATE, f"offset {run.first} is {run.state.name}, not acquired")
    if run.member != member:
        raise ProtocolError(ErrorCode.INVALID_RECORD_STATE, f"offset {run.first} is with another member")


def _same_types(first: int, last: int, types: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(first, last, type) of neighbours of one type. INVALID_REQUEST unless there is one type, or one for each offset."""
    if len(types) == 1:
        yield first, last, types[0]
        return
    if last - first + 1 != len(types):
        raise ProtocolError(
            ErrorCode.INVALID_REQUEST, f"{len(types)} acknowledgements are not one for each of {first} to {last}"
        )
    begin = 0
    for index in range(1, len(types) + 1):
        if index == len(types) or types[index] != types[begin]:
            yield first + begin, first + index - 1, types[begin]
            begin = index


def _divided(acquired: Sequence[Acquired], spans: Sequence[Span]) -> tuple[list[Acquired], list[Span]]:
    """What of `acquired` is in none of the spans, and what is in one; all in order, and none overlapping."""
    left: list[Acquired] = []
    lost: list[Span] = []
    at = 0
    for lot in acquired:
        first = lot.first
        while at < len(spans) and spans[at].base <= lot.last:
            base, last = max(spans[at].base, first), min(spans[at].last, lot.last)
            if base <= last:
                if first < base:
                    left.append(lot._replace(first=first, last=base - 1))
                lost.append(Span(base, last))
                first = last + 1
            if spans[at].last > lot.last:
                break  # the next lot may begin within it
            at += 1
        if first <= lot.last:
            left.append(lot._replace(first=first))
    return left, lost
