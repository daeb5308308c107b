"""A share partition against a dictionary of offsets, and what is kept of it against what members were told.

The oracle knows each offset's state, deliveries, holder and lock; it does not know which records a fetch should give, only
which it may. So it holds for whatever `acquire` chooses:

- a record is with one member at a time, and never with any again once it was acknowledged or archived;
- it is delivered no more often than the limit;
- a crash at any point gives back only what nobody was told is done with;
- with members that go on reading, each record ends acknowledged or archived, and the start reaches the log's end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tidelog.broker.share.partition import (
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    Changes,
    ShareLimits,
    SharePartition,
    Span,
)
from tidelog.broker.share.records import RecordState, StateBatch, combined
from tidelog.protocol.errors import ProtocolError

MEMBERS = ("ann", "bob", "cat")
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = RecordState
LARGEST_BATCH = 9
LIMITS = ShareLimits(max_record_locks=40, delivery_count_limit=3, lock_ms=100)


class Known:
    """One offset, as the oracle sees it."""

    def __init__(self) -> None:
        self.state = AVAILABLE
        self.count = 0
        self.member = ""
        self.deadline = 0.0
        self.was_told = False
        """That it is archived, by or to a member: then it stays so."""


class Model(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.log: list[Span] = []
        self.log_start = 0
        self.known: dict[int, Known] = {}
        self.kept: tuple[StateBatch, ...] = ()
        self.kept_start = 0
        self.share = SharePartition(0)

    @initialize(gaps=st.lists(st.integers(0, 3), min_size=4, max_size=12), data=st.data())
    def fill(self, gaps: list[int], data: st.DataObject) -> None:
        for gap in gaps:
            self.append(data.draw(st.integers(1, 9)), gap)

    @property
    def log_end(self) -> int:
        return self.log[-1].last + 1 if self.log else self.log_start

    # -- the log

    @rule(size=st.integers(1, LARGEST_BATCH), gap=st.sampled_from((0, 0, 0, 2)))
    def append(self, size: int, gap: int) -> None:
        base = self.log_end + gap
        self.log.append(Span(base, base + size - 1))

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        """A batch in the middle goes; its offsets stay unused."""
        if len(self.log) > 2:
            del self.log[data.draw(st.integers(1, len(self.log) - 2))]

    @rule(step=st.integers(1, 12))
    def delete_records(self, step: int) -> None:
        self.log_start = min(self.log_start + step, self.log_end)
        self.log = [span for span in self.log if span.last >= self.log_start] or self.log[-1:]

    # -- members

    def read(self, batches: int) -> tuple[int, Sequence[Span]]:
        self.share.move_start(self.log_start)
        offset = self.share.fetch_offset
        return offset, [span for span in self.log if span.last >= offset][:batches]

    @rule(
        member=st.sampled_from(MEMBERS),
        batches=st.integers(1, 6),
        most=st.integers(1, 30),
        lot=st.integers(1, 20),
        is_strict=st.booleans(),
        aborted=st.booleans(),
    )
    def acquire(self, member: str, batches: int, most: int, lot: int, is_strict: bool, aborted: bool) -> None:
        offset, spans = self.read(batches)
        can = self.share.can_acquire(LIMITS)
        before = self.share.next_offset
        got = self.share.acquire(
            member, spans, offset, LIMITS, self.now, max_records=most, batch_size=lot, is_strict=is_strict
        )
        assert can or not got
        self.check_size(got, spans, most, is_strict)
        if self.share.next_offset > before:  # the end of a log batch may go beyond the limit
            in_flight = sum(run.last - run.first + 1 for run in self.share.in_flight.runs())
            assert in_flight < LIMITS.max_record_locks + LARGEST_BATCH
        if aborted and got and spans:
            lost = spans[: len(spans) // 2]
            left = self.share.archive_acquired(lost, got)
            for at in offsets(got):
                if at not in set(offsets(left)):
                    assert any(span.base <= at <= span.last for span in lost)
                    self.of(at).state = ARCHIVED
            got = left
        assert offsets(got) == sorted(set(offsets(got)))
        for first, last, count in got:
            for at in range(first, last + 1):
                known = self.of(at)
                assert known.state is AVAILABLE, f"{at} is {known.state} of {known.member}"
                assert count == known.count + 1 <= LIMITS.delivery_count_limit
                known.state, known.count, known.member = ACQUIRED, count, member
                known.deadline = self.now + LIMITS.lock_ms

    @staticmethod
    def check_size(got: Sequence[Acquired], spans: Sequence[Span], most: int, is_strict: bool) -> None:
        size = len(offsets(got))
        if is_strict:
            assert size <= most
        elif got:  # what is exceeded is a batch of the log, or one that was acquired together before
            assert size < most + LARGEST_BATCH + max(
                LIMITS.max_record_locks, max(span.last - span.base + 1 for span in spans)
            )

    def of(self, at: int) -> Known:
        return self.known.setdefault(at, Known())

    @precondition(lambda self: any(known.state is ACQUIRED for known in self.known.values()))
    @rule(data=st.data(), is_right=st.booleans())
    def acknowledge(self, data: st.DataObject, is_right: bool) -> None:
        held = [at for at, known in sorted(self.known.items()) if known.state is ACQUIRED]
        first = data.draw(st.sampled_from(held))
        member = self.known[first].member if is_right else data.draw(st.sampled_from(MEMBERS))
        last = first
        while data.draw(st.integers(0, 3)) and self.of(last + 1).state is ACQUIRED:
            last += 1
        each = data.draw(st.booleans())
        kinds = data.draw(st.lists(st.sampled_from(AcknowledgeType), min_size=1, max_size=1)) * (last - first + 1)
        if each:
            kinds = [data.draw(st.sampled_from(AcknowledgeType)) for _ in kinds]
        types = kinds if each else kinds[:1]
        may = all(self.of(at).member == member for at in range(max(first, self.share.start_offset), last + 1))
        try:
            changes = self.share.acknowledge(member, [Acknowledgement(first, last, types)], LIMITS, self.now)
        except ProtocolError:
            assert not may
            return
        assert may or last < self.share.start_offset
        self.keep(changes)
        for at, kind in zip(range(first, last + 1), kinds, strict=True):
            if at >= self.kept_start:
                self.said(self.of(at), kind)

    def said(self, known: Known, kind: AcknowledgeType) -> None:
        if kind is AcknowledgeType.RENEW:
            known.deadline = self.now + LIMITS.lock_ms
        elif kind is AcknowledgeType.ACCEPT:
            known.state, known.member = ACKNOWLEDGED, ""
        elif kind is AcknowledgeType.RELEASE:
            self.given_back(known)
        else:
            known.state, known.was_told = ARCHIVED, True

    @staticmethod
    def given_back(known: Known) -> None:
        known.was_told = known.count >= LIMITS.delivery_count_limit
        known.state = ARCHIVED if known.was_told else AVAILABLE
        known.member = ""

    @rule(member=st.sampled_from(MEMBERS))
    def leave(self, member: str) -> None:
        self.keep(self.share.release(member, LIMITS))
        self.back_from(lambda known: known.member == member)

    @rule(step=st.integers(1, 150))
    def wait(self, step: int) -> None:
        self.now += step
        self.keep(self.share.expire(LIMITS, self.now))
        self.back_from(lambda known: known.deadline <= self.now)

    def back_from(self, is_meant: Callable[[Known], bool]) -> None:
        for known in self.known.values():
            if known.state is ACQUIRED and is_meant(known):
                self.given_back(known)

    # -- what is kept

    def keep(self, changes: Changes) -> None:
        if changes.batches:
            self.kept_start = self.share.start_offset
            self.kept = combined(self.kept, changes.batches, self.kept_start)
            in_flight = {at for at in self.known if at >= self.kept_start}
            assert changes.delivery_complete_count <= self.share.next_offset - self.kept_start
            assert all(batch.last in in_flight or batch.state is ARCHIVED for batch in self.kept)
        self.share.commit(changes)

    @rule()
    def crash(self) -> None:
        """Only what was written is known; who had something has it no more."""
        self.share = SharePartition(self.kept_start, self.kept)
        kept = {at: batch for batch in self.kept for at in range(batch.first, batch.last + 1)}
        for at, known in self.known.items():
            if at < self.kept_start:
                continue
            before = known.state
            batch = kept.get(at, StateBatch(at, at, AVAILABLE, 0))
            known.state, known.count, known.member = batch.state, batch.delivery_count, ""
            if at < self.log_start:
                continue  # nobody can have it any more
            if before is ACKNOWLEDGED:
                assert known.state is ACKNOWLEDGED, f"{at} was acknowledged, and would be delivered again"
            elif known.was_told:
                assert known.state is ARCHIVED, f"{at} was given up, and would be delivered again"

    # -- what is always so

    @invariant()
    def agrees(self) -> None:
        assert self.log_start <= self.log_end
        assert self.share.start_offset <= self.share.fetch_offset <= self.share.next_offset
        behind = self.share.start_offset
        for run in self.share.in_flight.runs():
            assert behind <= run.first <= run.last < self.share.next_offset
            behind = run.last + 1
            for at in range(run.first, run.last + 1):
                known = self.known.get(at)
                if known is None or run.state is ARCHIVED:
                    assert run.state in (AVAILABLE, ARCHIVED)
                    continue
                assert (run.state, run.delivery_count, run.member) == (known.state, known.count, known.member), (
                    f"{at}: {run} where {known.state.name} of {known.member!r}, {known.count}"
                )
                assert run.state is not ACQUIRED or run.deadline_ms == known.deadline
        first = next(self.share.in_flight.runs(), None)
        assert first is None or not first.state.is_terminal

    def teardown(self) -> None:
        """Whatever happened: members that go on reading come to the log's end."""
        for _ in range(400):
            self.wait(1000)
            offset, spans = self.read(100)
            if self.share.start_offset >= self.log_end or not spans:
                break
            got = self.share.acquire("ann", spans, offset, LIMITS, self.now, max_records=50, batch_size=50)
            lots = [Acknowledgement(lot.first, lot.last, (AcknowledgeType.ACCEPT,)) for lot in got]
            self.share.commit(self.share.acknowledge("ann", lots, LIMITS, self.now))
        assert self.share.fetch_offset >= self.log_end or not self.read(1)[1]
        assert not any(run.state is ACQUIRED for run in self.share.in_flight.runs())
        super().teardown()


def offsets(lots: Sequence[Acquired]) -> list[int]:
    return [at for lot in lots for at in range(lot.first, lot.last + 1)]


TestSharePartition = Model.TestCase
TestSharePartition.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)

BATCH = st.builds(
    lambda first, size, state, count: StateBatch(first, first + size, state, count),
    st.integers(0, 40),
    st.integers(0, 12),
    st.sampled_from((AVAILABLE, ACKNOWLEDGED, ARCHIVED)),
    st.integers(1, 3),
)


@given(st.lists(BATCH, max_size=12), st.integers(-1, 45))
def test_what_is_kept_is_the_last_word_on_each_offset(changes: list[StateBatch], start: int) -> None:
    oracle: dict[int, tuple[RecordState, int]] = {}
    kept: tuple[StateBatch, ...] = ()
    for change in changes:
        oracle.update(dict.fromkeys(range(change.first, change.last + 1), (change.state, change.delivery_count)))
        kept = combined(kept, [change], -1)
    assert combined((), changes, -1) == kept
    kept = combined(kept, [], start)
    found = {at: (state, count) for first, last, state, count in kept for at in range(first, last + 1)}
    assert found == {at: value for at, value in oracle.items() if at >= start}
    assert all(left.last < right.first for left, right in itertools.pairwise(kept))
    assert all(left.last + 1 < right.first or left[2:] != right[2:] for left, right in itertools.pairwise(kept))
