from __future__ import annotations

import errno
from collections import Counter
from dataclasses import dataclass

import pytest
from support.fake_disk import KeepNone
from support.fake_filesystem import FakeFileSystem, Operation
from support.logs import snapshots_in
from support.mock_time import MockTime
from tidelog.storage.exceptions import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    StorageError,
    TransactionCoordinatorFencedError,
)
from tidelog.storage.producers.state import CompletedTxn, DuplicateBatch, ProducerStateManager
from tidelog.storage.producers.transaction_marker import TransactionMarker
from tidelog.storage.values import AppendOrigin

LAST_SEQUENCE = 2**31 - 1
DAY = 86_400_000
COMMIT = TransactionMarker(is_commit=True, coordinator_epoch=0)
ABORT = TransactionMarker(is_commit=False, coordinator_epoch=0)


@dataclass
class Batch:
    """A batch of `count` records."""

    base_sequence: int
    count: int = 1
    base_offset: int = 0
    producer_id: int = 1
    producer_epoch: int = 0
    is_transactional: bool = False
    max_timestamp: int = 1000

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.count - 1

    @property
    def last_sequence(self) -> int:
        return -1 if self.base_sequence < 0 else (self.base_sequence + self.count - 1) % 2**31


class Log:
    """Appends like a log does: check, assign an offset, update."""

    def __init__(self) -> None:
        self.time = MockTime()
        self.system = FakeFileSystem(time=self.time)
        self.system.make_directory("/t-0")
        self.state = ProducerStateManager("/t-0", self.system, self.time)
        self.end = 0

    def append(self, batch: Batch, origin: AppendOrigin = AppendOrigin.CLIENT) -> DuplicateBatch | None:
        duplicate = self.state.check(batch, origin)
        if duplicate is None:
            batch.base_offset = self.end
            self.end += batch.count
            self.state.update(batch)
            self.state.update_map_end_offset(self.end)
        return duplicate

    def end_transaction(self, marker: TransactionMarker, producer_id: int = 1, epoch: int = 0) -> CompletedTxn | None:
        self.state.check_marker(producer_id, epoch, marker)
        completed = self.state.update_marker(producer_id, epoch, marker, self.end, 5000)
        self.end += 1
        self.state.update_map_end_offset(self.end)
        if completed is not None:
            self.state.complete_txn(completed)
        return completed


@pytest.fixture
def log() -> Log:
    return Log()


# --- sequences ---


def test_batches_in_sequence_are_taken(log: Log) -> None:
    for start in range(0, 50, 5):
        assert log.append(Batch(start, 5)) is None
    entry = log.state.entry(1)
    assert entry is not None
    assert (entry.last_sequence, entry.last_offset, entry.last_timestamp) == (49, 49, 1000)
    assert len(log.state) == 1


@pytest.mark.parametrize("sequence", [4, 6, 0, LAST_SEQUENCE])
def test_a_gap_or_a_step_back_is_refused(log: Log, sequence: int) -> None:
    log.append(Batch(0, 5))
    with pytest.raises(OutOfOrderSequenceError, match=f"sequence {sequence} does not follow 4"):
        log.append(Batch(sequence, 3))
    assert log.append(Batch(5, 3)) is None


def test_each_of_the_last_five_batches_is_known_again(log: Log) -> None:
    for start in range(0, 70, 10):
        log.append(Batch(start, 10, max_timestamp=start))
    assert log.end == 70
    for start in range(20, 70, 10):
        assert log.append(Batch(start, 10)) == DuplicateBatch(start, start + 9, start)
    with pytest.raises(OutOfOrderSequenceError):
        log.append(Batch(10, 10))
    assert log.end == 70


def test_a_batch_that_only_overlaps_is_no_duplicate(log: Log) -> None:
    log.append(Batch(0, 10))
    with pytest.raises(OutOfOrderSequenceError):
        log.append(Batch(0, 5))


def test_sequences_wrap(log: Log) -> None:
    """KAFKA-9144 and its kin: after 2^31 - 1 comes 0, within a batch and between two."""
    log.append(Batch(LAST_SEQUENCE - 14, 10))
    log.append(Batch(LAST_SEQUENCE - 4, 10))
    entry = log.state.entry(1)
    assert entry is not None
    assert entry.last_sequence == 4
    assert log.append(Batch(LAST_SEQUENCE - 4, 10)) == DuplicateBatch(10, 19, 1000)
    assert log.append(Batch(5, 2)) is None
    log.append(Batch(LAST_SEQUENCE - 1, 2, producer_id=2))
    assert log.append(Batch(0, 1, producer_id=2)) is None
    with pytest.raises(OutOfOrderSequenceError):
        log.append(Batch(LAST_SEQUENCE, 1, producer_id=2))


def test_an_unknown_producer_may_start_anywhere(log: Log) -> None:
    """Its earlier records may have gone with retention."""
    assert log.append(Batch(77, 3)) is None
    assert log.append(Batch(80)) is None


@pytest.mark.parametrize("is_restarted", [False, True])
def test_an_unknown_producer_may_go_on_anywhere_behind_the_marker_of_its_transaction(
    log: Log, is_restarted: bool
) -> None:
    """Found by the simulator (seed 19810): its records had gone, and the marker came later. Apache Kafka refuses the batch."""
    log.end_transaction(COMMIT, epoch=3)
    if is_restarted:
        log.state.take_snapshot()
        log.state = reloaded(log)
    with pytest.raises(InvalidProducerEpochError):
        log.append(Batch(16, producer_epoch=2))
    assert log.append(Batch(16, 3, producer_epoch=3)) is None
    with pytest.raises(OutOfOrderSequenceError):
        log.append(Batch(20, producer_epoch=3))
    assert log.append(Batch(19, producer_epoch=3)) is None


def test_an_epoch_that_a_marker_brings_starts_at_sequence_0_though_the_producer_was_unknown(log: Log) -> None:
    log.end_transaction(COMMIT, epoch=3)
    log.end_transaction(COMMIT, epoch=4)
    with pytest.raises(OutOfOrderSequenceError):
        log.append(Batch(16, producer_epoch=4))
    assert log.append(Batch(0, producer_epoch=4)) is None


# --- epochs ---


def test_a_new_epoch_starts_at_sequence_0(log: Log) -> None:
    log.append(Batch(0, 5))
    with pytest.raises(OutOfOrderSequenceError, match="starts epoch 1 with sequence 5 instead of 0"):
        log.append(Batch(5, producer_epoch=1))
    assert log.append(Batch(0, producer_epoch=1)) is None
    with pytest.raises(InvalidProducerEpochError):
        log.append(Batch(5))


def test_an_old_epoch_is_fenced_by_a_marker_too(log: Log) -> None:
    log.append(Batch(0, is_transactional=True))
    log.end_transaction(ABORT, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        log.append(Batch(1, is_transactional=True))
    with pytest.raises(OutOfOrderSequenceError):
        log.append(Batch(1, producer_epoch=1))
    assert log.append(Batch(0, producer_epoch=1)) is None


def test_coordinators_write_without_sequences(log: Log) -> None:
    for _ in range(3):
        assert log.append(Batch(-1, producer_epoch=2, is_transactional=True), AppendOrigin.COORDINATOR) is None
    with pytest.raises(InvalidProducerEpochError):
        log.append(Batch(-1, producer_epoch=1, is_transactional=True), AppendOrigin.COORDINATOR)


# --- transactions ---


def test_the_first_unstable_offset_is_asked_again_when_an_append_comes_between(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers take no lock, and the append may be in another thread."""
    log.append(Batch(0, 10, producer_id=9))
    log.append(Batch(0, is_transactional=True))
    real = ProducerStateManager.first_undecided_offset.fget
    answers = iter([RuntimeError("dictionary changed size during iteration"), ValueError("min() of nothing")])

    def undecided(state: ProducerStateManager) -> int | None:
        for error in answers:
            raise error
        assert real is not None
        found: int | None = real(state)
        return found

    monkeypatch.setattr(ProducerStateManager, "first_undecided_offset", property(undecided))
    assert log.state.first_unstable_offset == 10


def test_the_first_unstable_offset_follows_transactions_and_high_watermark(log: Log) -> None:
    log.append(Batch(0, 10, producer_id=9))
    assert log.state.first_unstable_offset is None
    log.append(Batch(0, 5, producer_id=1, is_transactional=True))  # 10..14
    log.append(Batch(0, 5, producer_id=2, is_transactional=True))  # 15..19
    log.append(Batch(5, 5, producer_id=1, is_transactional=True))  # 20..24
    assert log.state.first_unstable_offset == 10
    assert log.end_transaction(COMMIT, 1) == CompletedTxn(1, 10, 25, False)
    assert log.state.first_undecided_offset == 15
    assert log.state.first_unstable_offset == 10  # decided, but the marker is not below the high watermark
    log.state.on_high_watermark_updated(25)
    assert log.state.first_unstable_offset == 10
    log.state.on_high_watermark_updated(26)
    assert log.state.first_unstable_offset == 15
    assert log.end_transaction(ABORT, 2) == CompletedTxn(2, 15, 26, True)
    log.state.on_high_watermark_updated(27)
    assert log.state.first_unstable_offset is None


def test_the_last_stable_offset_of_a_transaction_is_the_next_open_one(log: Log) -> None:
    log.append(Batch(0, 5, producer_id=1, is_transactional=True))
    log.append(Batch(0, 5, producer_id=2, is_transactional=True))
    first = log.state.update_marker(1, 0, ABORT, 10, 0)
    assert first is not None
    assert log.state.last_stable_offset(first) == 5
    log.state.complete_txn(first)
    second = log.state.update_marker(2, 0, ABORT, 11, 0)
    assert second is not None
    assert log.state.last_stable_offset(second) == 12


def test_a_marker_without_records_completes_nothing(log: Log) -> None:
    assert log.end_transaction(COMMIT, producer_id=5, epoch=3) is None
    entry = log.state.entry(5)
    assert entry is not None
    assert (entry.producer_epoch, entry.coordinator_epoch) == (3, 0)
    with pytest.raises(StorageError, match="no open transaction"):
        log.state.complete_txn(CompletedTxn(5, 3, 4, False))


def test_plain_records_inside_a_transaction_are_refused(log: Log) -> None:
    log.append(Batch(0, is_transactional=True))
    with pytest.raises(InvalidTxnStateError, match="open since offset 0"):
        log.append(Batch(1))
    log.end_transaction(COMMIT)
    assert log.append(Batch(1)) is None


def test_an_old_coordinator_is_fenced(log: Log) -> None:
    log.append(Batch(0, is_transactional=True))
    log.end_transaction(TransactionMarker(True, 5))
    with pytest.raises(TransactionCoordinatorFencedError, match="coordinator epoch 4"):
        log.end_transaction(TransactionMarker(True, 4))
    log.state.check_marker(1, 0, TransactionMarker(True, 4), AppendOrigin.REPLICATION)
    log.end_transaction(TransactionMarker(True, 5))


def test_a_hanging_transaction_is_seen(log: Log) -> None:
    log.append(Batch(0, is_transactional=True, max_timestamp=10_000_000))
    oldest = log.state.oldest_transaction()
    assert oldest is not None
    assert (oldest.producer_id, oldest.first_offset, oldest.last_timestamp) == (1, 0, 10_000_000)
    log.end_transaction(COMMIT)
    assert log.state.oldest_transaction() is None


# --- expiration ---


def test_idle_producers_expire_and_open_transactions_do_not(log: Log) -> None:
    log.append(Batch(0, producer_id=1))
    log.append(Batch(0, producer_id=2, is_transactional=True))
    log.time.advance(days=1 / 2)
    log.append(Batch(0, producer_id=3))
    assert log.state.remove_expired_producers(log.time.milliseconds() + DAY // 2 - 1) == 0
    assert log.state.remove_expired_producers(log.time.milliseconds() + DAY // 2) == 1
    assert [entry.producer_id for entry in log.state.active_producers()] == [2, 3]
    assert log.append(Batch(55, producer_id=1)) is None


def test_a_producer_of_old_records_does_not_expire_while_it_is_active(log: Log) -> None:
    log.append(Batch(0, max_timestamp=1_357_000_000_000))
    log.time.advance(hours=23)
    assert log.state.remove_expired_producers(log.time.milliseconds()) == 0
    assert log.append(Batch(0, max_timestamp=1_357_000_000_000)) == DuplicateBatch(0, 0, 1_357_000_000_000)


# --- snapshots ---


def reloaded(log: Log, start: int = 0, end: int | None = None) -> ProducerStateManager:
    state = ProducerStateManager("/t-0", log.system, log.time)
    state.found_snapshots(snapshots_in(log.system, "/t-0"))
    state.truncate_and_reload(start, log.end if end is None else end, log.time.milliseconds())
    return state


def test_state_survives_in_a_snapshot(log: Log) -> None:
    log.append(Batch(0, 10))
    log.append(Batch(0, 10, producer_id=2, is_transactional=True))
    assert log.state.take_snapshot() == 20
    assert log.system.paths() == ["/t-0/00000000000000000020.snapshot"]
    state = reloaded(log)
    assert list(state.active_producers()) == list(log.state.active_producers())
    assert state.map_end_offset == 20
    assert state.first_unstable_offset == 10
    assert state.check(Batch(0, 10)) == DuplicateBatch(0, 9, 1000)


def test_a_resent_batch_of_old_records_is_known_after_a_restart(log: Log) -> None:
    log.append(Batch(0, max_timestamp=1_357_000_000_000))
    log.state.take_snapshot()
    log.system.set_modified_ms("/t-0/00000000000000000001.snapshot", log.time.milliseconds())
    log.time.advance(hours=1)
    assert reloaded(log).check(Batch(0)) is not None
    log.time.advance(hours=23)
    assert reloaded(log).check(Batch(0)) is None


def test_no_second_snapshot_of_one_offset(log: Log) -> None:
    assert log.state.take_snapshot() is None
    log.append(Batch(0))
    assert log.state.take_snapshot() == 1
    assert log.state.take_snapshot() is None
    assert log.state.snapshot_offsets == [1]


def test_a_stop_writes_the_snapshot_that_a_roll_left_to_the_pool() -> None:
    log = Log()
    log.append(Batch(0, is_transactional=True))
    assert log.state.prepare_snapshot() is not None  # a roll; the stop comes before the pool gets to write it
    log.state.take_snapshot()
    assert log.system.exists(log.state.snapshot_path(1))


def test_a_damaged_snapshot_is_deleted_and_the_one_before_is_taken(log: Log) -> None:
    """KAFKA-5747."""
    log.append(Batch(0, 5))
    log.state.take_snapshot()
    log.append(Batch(5, 5))
    log.state.take_snapshot()
    good = log.system.read_bytes("/t-0/00000000000000000010.snapshot")
    for length in range(len(good)):
        log.system.put("/t-0/00000000000000000010.snapshot", good[:length])
        state = reloaded(log)
        assert state.map_end_offset == 5
        assert state.snapshot_offsets == [5]
    assert log.system.paths() == ["/t-0/00000000000000000005.snapshot"]


def test_without_any_good_snapshot_everything_is_replayed(log: Log) -> None:
    log.system.put("/t-0/00000000000000000010.snapshot", b"garbage")
    log.end = 20
    state = reloaded(log, start=3)
    assert (state.map_end_offset, len(state), state.snapshot_offsets) == (3, 0, [])


def test_truncation_goes_back_to_a_snapshot_in_range(log: Log) -> None:
    for start in range(0, 40, 10):
        log.append(Batch(start, 10))
        log.state.take_snapshot()
    log.state.truncate_and_reload(20, 35, log.time.milliseconds())
    assert log.state.snapshot_offsets == [20, 30]
    assert log.system.paths() == [f"/t-0/{offset:020d}.snapshot" for offset in (20, 30)]
    assert log.state.map_end_offset == 30
    entry = log.state.entry(1)
    assert entry is not None
    assert entry.last_sequence == 29


def test_nothing_is_reloaded_when_the_end_is_where_the_state_is(log: Log) -> None:
    log.append(Batch(0, 10))
    log.append(Batch(0, 1, producer_id=2, is_transactional=True))
    log.state.truncate_and_reload(0, 11, log.time.milliseconds())
    assert len(log.state) == 2
    assert log.state.first_unstable_offset == 10


def test_a_raised_log_start_keeps_producers(log: Log) -> None:
    log.append(Batch(0, 10))
    log.state.take_snapshot()
    log.state.on_log_start_offset_incremented(15)
    assert log.state.map_end_offset == 15
    assert log.state.check(Batch(0, 10)) == DuplicateBatch(0, 9, 1000)


def test_a_snapshot_is_written_right_at_a_raised_log_start(log: Log) -> None:
    """Without one below it nothing else would tell of the producers; without producers there is nothing to tell."""
    log.state.on_log_start_offset_incremented(5)
    assert log.state.take_snapshot() is None
    log.end = 5
    log.append(Batch(0, 10))
    log.state.on_log_start_offset_incremented(15)
    assert log.state.take_snapshot() == 15


def test_truncate_fully(log: Log) -> None:
    log.append(Batch(0, 10, is_transactional=True))
    log.state.take_snapshot()
    log.state.truncate_fully_and_start_at(500)
    assert (log.state.map_end_offset, len(log.state), log.state.first_unstable_offset) == (500, 0, None)
    assert log.state.is_empty
    assert log.system.paths() == []


def test_stray_snapshots_go_but_the_one_of_a_clean_stop_stays(log: Log) -> None:
    for offset in (5, 10, 15, 20, 30):
        log.system.put(f"/t-0/{offset:020d}.snapshot", b"x")
    log.system.put("/t-0/00000000000000000007.snapshot.deleted", b"x")
    log.state.found_snapshots(snapshots_in(log.system, "/t-0"))
    log.state.remove_stray_snapshots([0, 10, 20])
    assert log.state.snapshot_offsets == [10, 20, 30]
    log.state.remove_stray_snapshots([0, 10, 40])
    assert log.state.snapshot_offsets == [10]


def test_a_snapshot_that_cannot_be_written_is_forgotten(log: Log) -> None:
    log.append(Batch(0, 10))
    log.state.take_snapshot()
    log.append(Batch(10, 10))
    log.system.fail_at(2, OSError(errno.ENOSPC, "No space left"))
    with pytest.raises(OSError, match="No space"):
        log.state.take_snapshot()
    assert log.state.snapshot_offsets == [10]
    assert log.state.take_snapshot() == 20


def test_a_snapshot_deleted_while_it_waits_is_not_written(log: Log) -> None:
    """Lesson of asynchronous deletion: what is written late must not come back."""
    log.append(Batch(0, 10))
    pending = log.state.prepare_snapshot()
    assert pending is not None
    assert log.state.forget_snapshot(10)
    log.state.write_snapshots([pending])
    assert log.system.paths() == []
    # … nor overwrite a newer one of the same offset.
    log.state.truncate_fully_and_start_at(0)
    log.end = 0
    log.append(Batch(0, 10, producer_id=2))
    newer = log.state.prepare_snapshot()
    assert newer is not None
    log.state.write_snapshots([newer])
    log.state.write_snapshots([pending])
    assert log.system.read_bytes("/t-0/00000000000000000010.snapshot") == newer.data


def test_a_snapshot_deleted_while_it_is_written_goes_too(log: Log) -> None:
    log.append(Batch(0, 10))

    def delete_meanwhile(operation: Operation) -> None:
        if operation.kind == "rename" and operation.path.endswith(".tmp"):
            log.state.forget_snapshot(10)
            log.state.delete_snapshot_file(10)

    log.system.fail_when(delete_meanwhile)
    assert log.state.take_snapshot() == 10
    assert log.system.paths() == []
    assert log.state.snapshot_offsets == []


def test_snapshots_of_many_rolls_share_one_sync_of_the_directory(log: Log) -> None:
    log.system.sync_all()
    pending = []
    for number in range(30):
        log.append(Batch(10 * number, 10))
        pending.append(log.state.prepare_snapshot())
    assert all(pending)
    log.state.forget_snapshot(50)
    log.system.trace.clear()
    log.state.write_snapshots([snapshot for snapshot in pending if snapshot is not None])
    kinds = Counter(operation.kind for operation in log.system.trace)
    assert (kinds["sync"], kinds["rename"], kinds["sync_directory"]) == (29, 29, 1)
    left = log.system.rebuilt(KeepNone())
    assert snapshots_in(left, "/t-0") == [offset for offset in range(10, 301, 10) if offset != 50]


def test_of_many_snapshots_that_cannot_be_written_none_is_kept(log: Log) -> None:
    pending = []
    for number in range(30):
        log.append(Batch(10 * number, 10))
        pending.append(log.state.prepare_snapshot())
    log.system.fail_at(40, OSError(errno.ENOSPC, "No space left"))
    with pytest.raises(OSError, match="No space"):
        log.state.write_snapshots([snapshot for snapshot in pending if snapshot is not None])
    assert log.state.snapshot_offsets == []
    log.append(Batch(300, 10))
    assert log.state.take_snapshot() == 310
