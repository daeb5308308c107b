"""Transactions in a log that is being written: markers, the last stable offset, the transaction index, and disks that fail."""

from __future__ import annotations

import errno

import pytest
from support.fake_disk import KeepNone
from support.fake_filesystem import Operation
from support.logs import ROOT, World, append, read_records, values_of
from support.mock_time import START_MS
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.exceptions import CorruptRecordError, InvalidRecordError
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.exceptions import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaStorageError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from tidelog.storage.index.transaction_index import AbortedTxn, TransactionIndex
from tidelog.storage.inspect.verify import verify
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.producers.transaction_marker import MARKER_BATCH_SIZE, TransactionMarker, marker_batch
from tidelog.storage.segment.names import file_name
from tidelog.storage.values import AppendOrigin


def put(log: UnifiedLog, producer: int, *values: str, epoch: int = 0, sequence: int = 0) -> int:
    return append(
        log, *values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
    )


def end(log: UnifiedLog, producer: int, *, commit: bool, epoch: int = 0, coordinator: int = 0) -> int:
    data = marker_batch(producer, epoch, TransactionMarker(commit, coordinator), START_MS)
    return log.append_as_leader(data, 0, len(data), origin=AppendOrigin.COORDINATOR).first_offset


def aborted(log: UnifiedLog, offset: int = 0) -> list[AbortedTxn]:
    """What a read_committed fetch from `offset` on is told."""
    info = log.read(offset, 1 << 20, limit_offset=log.last_stable_offset)
    try:
        return log.aborted_transactions(offset, info)
    finally:
        info.release()


def faults(world: World) -> list[str]:
    return [str(finding) for finding in verify(world.file_system, ROOT) if finding.is_fault]


@pytest.mark.parametrize("stopped", [False, True])
def test_after_a_flush_or_a_stop_a_power_cut_does_not_take_a_new_transaction_index(world: World, stopped: bool) -> None:
    """A flush promises every name. A clean start makes no index anew: without this one aborted records would be read."""
    log = world.log()
    put(log, 1, "a")
    log.flush()
    end(log, 1, commit=False)
    log.flush()
    if stopped:
        world.stop()
    left = world.fake.rebuilt(KeepNone())
    path = f"{ROOT}/t-0/{file_name(0, '.txnindex')}"
    assert left.exists(path)
    if stopped:  # until then recovery would make the entries anew
        assert TransactionIndex(left, path, 0).all() == [AbortedTxn(1, 0, 1, 2)]


def test_a_segment_with_aborted_records_goes_once_the_new_start_of_the_log_is_on_disk() -> None:
    """A power cut may bring its records back without their transaction index: below the start nobody reads them."""
    world = World()
    world.start(segment_bytes=200, retention_ms=-1)
    log = world.log()
    put(log, 1, "a")
    end(log, 1, commit=False)
    append(log, "b" * 100)
    log.flush()
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    log.increment_log_start_offset(2)
    world.fake.trace.clear()
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0]
    details = [str(operation.detail) for operation in world.fake.trace]
    checkpoint = f"{ROOT}/log-start-offset-checkpoint"
    assert details.index(checkpoint) < min(at for at, detail in enumerate(details) if detail.endswith(".deleted"))
    world.stop()


def test_the_last_stable_offset_waits_for_the_oldest_transaction(world: World) -> None:
    log = world.log()
    append(log, "plain")
    put(log, 1, "a")
    put(log, 2, "b")
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    assert end(log, 2, commit=True) == 3
    assert log.last_stable_offset == 1
    assert end(log, 1, commit=True) == 4
    assert (log.last_stable_offset, log.high_watermark) == (5, 5)
    assert aborted(log) == []
    assert log.oldest_transaction() is None


def test_an_abort_is_in_the_index_before_anybody_can_read_past_it(world: World) -> None:
    log = world.log()
    put(log, 1, "a", "b")
    put(log, 2, "c")
    end(log, 1, commit=False)
    assert (log.last_stable_offset, aborted(log)) == (2, [AbortedTxn(1, 0, 3, 2)])
    end(log, 2, commit=False)
    assert (log.last_stable_offset, aborted(log)) == (5, [AbortedTxn(1, 0, 3, 2), AbortedTxn(2, 2, 4, 5)])
    assert aborted(log, 4) == [AbortedTxn(2, 2, 4, 5)]
    assert faults(world) == []
    before = aborted(log)
    world.kill()
    world.start()
    log = world.log()
    assert (log.last_stable_offset, aborted(log)) == (5, before), "as recovery finds it in the log"


def test_a_marker_is_a_control_batch_that_no_consumer_sees_as_data(world: World) -> None:
    log = world.log()
    put(log, 1, "a")
    end(log, 1, commit=True, coordinator=7)
    records = read_records(log, 0)
    assert (records[1].key, records[1].value) == (b"\0\0\0\1", b"\0\0\0\0\0\7")
    assert log.producer_summaries() == [(1, 0, 0, START_MS, 7, -1)]


def test_a_marker_without_records_still_fences(world: World) -> None:
    log = world.log()
    assert end(log, 1, commit=False, epoch=3) == 0
    assert (log.last_stable_offset, aborted(log)) == (1, [])
    with pytest.raises(InvalidProducerEpochError):
        put(log, 1, "late", epoch=2)


def test_a_late_batch_does_not_join_the_next_transaction(world: World) -> None:
    """The epoch rises with each transaction (KIP-890): a batch of the one before is a stranger to the next."""
    log = world.log()
    put(log, 1, "a")
    end(log, 1, commit=True, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        put(log, 1, "late", sequence=1)
    put(log, 1, "b", epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        put(log, 1, "late", sequence=1)
    with pytest.raises(OutOfOrderSequenceError):
        put(log, 1, "gap", epoch=1, sequence=2)
    end(log, 1, commit=True, epoch=2)
    assert [value for value in values_of(read_records(log, 0)) if not value.startswith(b"\0")] == [b"a", b"b"]


def test_plain_records_inside_of_a_transaction_are_refused(world: World) -> None:
    log = world.log()
    put(log, 1, "a")
    with pytest.raises(InvalidTxnStateError):
        append(log, "b", producer_id=1, producer_epoch=0, base_sequence=1)


def test_old_coordinators_and_old_epochs_write_no_markers(world: World) -> None:
    log = world.log()
    put(log, 1, "a", epoch=5)
    with pytest.raises(InvalidProducerEpochError):
        end(log, 1, commit=True, epoch=4)
    end(log, 1, commit=True, epoch=5, coordinator=9)
    put(log, 1, "b", epoch=5, sequence=1)
    with pytest.raises(TransactionCoordinatorFencedError):
        end(log, 1, commit=True, epoch=5, coordinator=8)
    assert log.last_stable_offset == 2


def control(key: bytes | None, value: bytes | None) -> bytearray:
    record = Record(0, 0, key, value)
    return bytearray(build_batch([record], producer_id=1, producer_epoch=0, is_transactional=True, is_control=True))


@pytest.mark.parametrize(
    ("key", "value", "refusal"),
    [
        (b"\0\0\0\1", None, CorruptRecordError),
        (b"\0\0\0\7", b"\0\0\0\0\0\0", InvalidRecordError),
        (None, b"\0\0\0\0\0\0", CorruptRecordError),
    ],
)
def test_what_is_no_marker_is_refused(
    world: World, key: bytes | None, value: bytes | None, refusal: type[Exception]
) -> None:
    log, data = world.log(), control(key, value)
    with pytest.raises(refusal):
        log.append_as_leader(data, 0, len(data), origin=AppendOrigin.COORDINATOR)
    assert log.log_end_offset == 0


def test_clients_write_no_markers(world: World) -> None:
    log, data = world.log(), marker_batch(1, 0, TransactionMarker(True, 0), START_MS)
    with pytest.raises(InvalidRecordError):
        log.append_as_leader(data, 0, len(data))


def test_no_limit_on_sizes_keeps_a_marker_out() -> None:
    world = World()
    world.start(max_message_bytes=MARKER_BATCH_SIZE - 1, compression_type="gzip", cleanup_policy=frozenset({"compact"}))
    log = world.log()
    assert len(marker_batch(1, 0, TransactionMarker(False, 0), START_MS)) == MARKER_BATCH_SIZE
    assert end(log, 1, commit=False) == 0
    assert read_records(log, 0)[0].key == b"\0\0\0\0"


def test_a_marker_that_rolls_leaves_its_entry_in_its_own_segment() -> None:
    world = World()
    world.start(segment_bytes=200)
    log = world.log()
    put(log, 1, "x" * 100)
    end(log, 1, commit=False)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert aborted(log) == [AbortedTxn(1, 0, 1, 2)]
    log.flush()
    assert faults(world) == []
    world.stop()
    world.start(segment_bytes=200)
    assert aborted(world.log()) == [AbortedTxn(1, 0, 1, 2)]


def test_markers_wait_for_the_sync_like_everything_else() -> None:
    world = World()
    world.start(flush_messages=1)
    log = world.log()
    put(log, 1, "a")
    log.complete_sync(log.flush())
    end(log, 1, commit=False)
    assert (log.high_watermark, log.last_stable_offset) == (1, 0)
    log.complete_sync(log.flush())
    assert (log.high_watermark, log.last_stable_offset, aborted(log)) == (2, 2, [AbortedTxn(1, 0, 1, 2)])


@pytest.mark.parametrize("what", [".txnindex", ".log"])
def test_a_disk_that_refuses_leaves_the_transaction_open(world: World, what: str) -> None:
    log = world.log()
    put(log, 1, "a")

    def refuse(operation: Operation) -> None:
        if operation.path.endswith(what):
            raise OSError(errno.EIO, "no")

    world.fake.fail_when(refuse)
    with pytest.raises(KafkaStorageError):
        end(log, 1, commit=False)
    assert (log.log_end_offset, log.last_stable_offset, aborted(log)) == (1, 0, [])
    world.fake.fail_when(lambda _: None)
    append(log, "plain")
    assert end(log, 1, commit=False) == 2
    assert (log.last_stable_offset, aborted(log)) == (3, [AbortedTxn(1, 0, 2, 3)])
    assert faults(world) == []


def test_an_entry_that_could_not_be_taken_out_is_replaced(world: World) -> None:
    log = world.log()
    put(log, 1, "a")

    def refuse(operation: Operation) -> None:
        if operation.path.endswith(".log") or (operation.path.endswith(".txnindex") and operation.kind == "truncate"):
            raise OSError(errno.EIO, "no")

    world.fake.fail_when(refuse)
    with pytest.raises(KafkaStorageError):
        end(log, 1, commit=False)
    world.fake.fail_when(lambda _: None)
    assert end(log, 1, commit=False) == 1
    assert aborted(log) == [AbortedTxn(1, 0, 1, 2)]
    assert faults(world) == []
