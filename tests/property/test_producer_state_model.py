"""ProducerStateManager against a model that keeps every batch ever sent and decides by rereading them."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.fake_filesystem import FakeFileSystem
from support.logs import snapshots_in
from support.mock_time import MockTime
from tidelog.storage.exceptions import InvalidProducerEpochError, InvalidTxnStateError, OutOfOrderSequenceError
from tidelog.storage.producers.state import DuplicateBatch, ProducerStateManager
from tidelog.storage.producers.transaction_marker import TransactionMarker

WRAP = 2**31
PRODUCERS = st.integers(1, 3)


@dataclass
class Sent:
    """A batch as the model and the code under test both see it."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    is_transactional: bool
    base_offset: int = -1
    max_timestamp: int = 0

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.count - 1

    @property
    def last_sequence(self) -> int:
        return (self.base_sequence + self.count - 1) % WRAP


@dataclass
class Known:
    """What the model knows of a producer: all it ever appended in its present epoch. `by_marker`: only that a transaction of
    it ended in that epoch; nobody knows what it had appended before."""

    epoch: int
    last_timestamp: int = -1
    batches: list[Sent] = field(default_factory=list)
    transaction: int | None = None
    by_marker: bool = False


class ProducerStateMachine(RuleBasedStateMachine):
    @initialize(near_wrap=st.booleans())
    def start(self, near_wrap: bool) -> None:
        self.first_sequence = WRAP - 7 if near_wrap else 0
        self.time = MockTime()
        self.system = FakeFileSystem(time=self.time)
        self.system.make_directory("/t")
        self.state = ProducerStateManager("/t", self.system, self.time)
        self.model: dict[int, Known] = {}
        self.end = 0
        self.high_watermark = 0
        self.ended: list[tuple[int, int]] = []  # (first offset, marker) of ended transactions

    # --- the model's verdict ---

    def verdict(self, batch: Sent) -> object:
        known = self.model.get(batch.producer_id)
        if known is None:
            return None
        if batch.producer_epoch == known.epoch:
            for old in known.batches[-5:]:
                if (old.base_sequence, old.count) == (batch.base_sequence, batch.count):
                    return DuplicateBatch(old.base_offset, old.last_offset, old.max_timestamp)
        if batch.producer_epoch < known.epoch:
            return InvalidProducerEpochError
        if batch.producer_epoch > known.epoch:
            expected = 0
        else:
            expected = (known.batches[-1].last_sequence + 1) % WRAP if known.batches else 0
        goes_on = batch.producer_epoch == known.epoch and known.by_marker
        if batch.base_sequence != expected and not goes_on:
            return OutOfOrderSequenceError
        if known.transaction is not None and not batch.is_transactional:
            return InvalidTxnStateError
        return None

    def send(self, batch: Sent) -> None:
        expected = self.verdict(batch)
        try:
            found: object = self.state.check(batch)
        except (InvalidProducerEpochError, OutOfOrderSequenceError, InvalidTxnStateError) as error:
            found = type(error)
        assert found == expected, batch
        if found is not None:
            return
        batch.base_offset = self.end
        batch.max_timestamp = self.time.milliseconds() + self.end
        self.end += batch.count
        self.state.update(batch)
        self.state.update_map_end_offset(self.end)
        known = self.model.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            transaction = known.transaction if known is not None else None
            known = self.model[batch.producer_id] = Known(batch.producer_epoch, transaction=transaction)
        known.batches.append(batch)
        known.by_marker = False
        known.last_timestamp = batch.max_timestamp
        if batch.is_transactional and known.transaction is None:
            known.transaction = batch.base_offset

    # --- rules ---

    @rule(producer=PRODUCERS, count=st.integers(1, 4), transactional=st.booleans())
    def next_batch(self, producer: int, count: int, transactional: bool) -> None:
        known = self.model.get(producer)
        if known is None:
            self.send(Sent(producer, 0, self.first_sequence, count, transactional))
        else:
            sequence = (known.batches[-1].last_sequence + 1) % WRAP if known.batches else 0
            self.send(Sent(producer, known.epoch, sequence, count, transactional))

    @rule(producer=PRODUCERS, back=st.integers(1, 7))
    def resend(self, producer: int, back: int) -> None:
        known = self.model.get(producer)
        if known is not None and len(known.batches) >= back:
            old = known.batches[-back]
            self.send(Sent(producer, known.epoch, old.base_sequence, old.count, old.is_transactional))

    @rule(
        producer=PRODUCERS,
        epoch=st.integers(0, 3),
        sequence=st.integers(0, 12) | st.integers(WRAP - 9, WRAP - 1),
        count=st.integers(1, 4),
        transactional=st.booleans(),
    )
    def anything(self, producer: int, epoch: int, sequence: int, count: int, transactional: bool) -> None:
        self.send(Sent(producer, epoch, sequence, count, transactional))

    @rule(producer=PRODUCERS, bump=st.integers(0, 1), commit=st.booleans())
    def end_transaction(self, producer: int, bump: int, commit: bool) -> None:
        is_new = producer not in self.model
        known = self.model.setdefault(producer, Known(0))
        epoch = known.epoch + bump
        marker = TransactionMarker(commit, 0)
        self.state.check_marker(producer, epoch, marker)
        completed = self.state.update_marker(producer, epoch, marker, self.end, self.time.milliseconds())
        assert (completed is None) == (known.transaction is None)
        if completed is not None:
            others = [k.transaction for p, k in self.model.items() if p != producer and k.transaction is not None]
            assert completed.first_offset == known.transaction
            assert self.state.last_stable_offset(completed) == min(others, default=self.end + 1)
            self.state.complete_txn(completed)
            self.ended.append((completed.first_offset, self.end))
        self.end += 1
        self.state.update_map_end_offset(self.end)
        if bump:
            known.batches = []
        known.by_marker = is_new or (known.by_marker and not bump)
        known.epoch, known.transaction, known.last_timestamp = epoch, None, self.time.milliseconds()

    @rule(part=st.floats(0, 1))
    def move_high_watermark(self, part: float) -> None:
        self.high_watermark += int((self.end - self.high_watermark) * part)
        self.state.on_high_watermark_updated(self.high_watermark)

    @rule()
    def stop_and_start(self) -> None:
        """A snapshot keeps the last batch of each producer; what was ended is below the high watermark then."""
        self.state.take_snapshot()
        self.state = ProducerStateManager("/t", self.system, self.time)
        self.state.found_snapshots(snapshots_in(self.system, "/t"))
        self.state.truncate_and_reload(-1, self.end, self.time.milliseconds())
        assert self.state.map_end_offset == self.end
        self.high_watermark = self.end
        for known in self.model.values():
            known.batches = known.batches[-1:]
            for batch in known.batches:
                batch.max_timestamp = known.last_timestamp  # the file has one timestamp a producer

    # --- what always holds ---

    @invariant()
    def the_same_is_known(self) -> None:
        for producer, known in self.model.items():
            entry = self.state.entry(producer)
            assert entry is not None
            assert (entry.producer_epoch, entry.current_txn_first_offset) == (known.epoch, known.transaction)
            kept = [(b.first_sequence, b.last_sequence, b.first_offset, b.last_offset) for b in entry.batches]
            assert kept == [
                (b.base_sequence, b.last_sequence, b.base_offset, b.last_offset) for b in known.batches[-5:]
            ]

    @invariant()
    def the_first_unstable_offset_is_right(self) -> None:
        unstable = [known.transaction for known in self.model.values() if known.transaction is not None]
        assert self.state.first_undecided_offset == min(unstable, default=None)
        unstable += [first for first, marker in self.ended if marker >= self.high_watermark]
        assert self.state.first_unstable_offset == min(unstable, default=None)


ProducerStateMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestProducerState = ProducerStateMachine.TestCase
