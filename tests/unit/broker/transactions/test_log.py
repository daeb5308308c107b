"""Ids in their partitions: who is asked to come again, what is written when, and what a failed write changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from support.groups import MemoryCoordinatorLog, make_runtime
from support.mock_time import MockTime
from tidelog.broker.coordinator.runtime import CoordinatorRuntime
from tidelog.broker.metadata.features import Features
from tidelog.broker.transactions.log import TransactionEntry, TransactionLog, TransactionShard, read_transaction_value
from tidelog.broker.transactions.states import TransactionMetadata, TransactionState
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.storage.exceptions import KafkaStorageError

EMPTY = TransactionMetadata("a", 5, 1, 100, TransactionState.EMPTY, 7, previous_producer_id=5)
ONGOING = TransactionMetadata("a", 5, 1, 100, TransactionState.ONGOING, 8, 8, previous_producer_id=5)


@pytest.fixture
def memory() -> Iterator[MemoryCoordinatorLog]:
    loop = asyncio.new_event_loop()
    yield MemoryCoordinatorLog(loop)
    loop.close()


@pytest.fixture
def runtime(memory: MemoryCoordinatorLog) -> CoordinatorRuntime[TransactionShard]:
    return make_runtime(memory, TransactionShard, MockTime())


@pytest.fixture
def log(runtime: CoordinatorRuntime[TransactionShard]) -> TransactionLog:
    runtime.open(loaded=True)
    return TransactionLog(runtime, Features({"transaction.version": 2}))


def refusal(log: TransactionLog, name: str = "a") -> ErrorCode:
    with pytest.raises(ProtocolError) as caught:
        log.find(name)
    return caught.value.code


def test_who_is_asked_to_come_again(runtime: CoordinatorRuntime[TransactionShard]) -> None:
    log = TransactionLog(runtime, Features())
    assert refusal(log) is ErrorCode.NOT_COORDINATOR
    runtime.open(loaded=True)
    assert refusal(log) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(log, "") is ErrorCode.INVALID_REQUEST
    log.shard_of("a").loaded = False
    assert refusal(log) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    runtime.close()
    assert refusal(log) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_what_is_written_is_known(memory: MemoryCoordinatorLog, log: TransactionLog) -> None:
    entry = TransactionEntry(EMPTY)
    assert log.write(entry, EMPTY) is None
    assert log.write(entry, ONGOING) is None
    assert log.find("a") is entry
    assert log.shard_of("a").ongoing == {"a"}
    assert [read_transaction_value("a", value or b"") for _, value in memory.records] == [EMPTY, ONGOING]
    log.forget(log.shard_of("a"), ["a"])
    assert memory.records[-1][1] is None
    assert refusal(log) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_write_that_fails_changes_nothing(memory: MemoryCoordinatorLog, log: TransactionLog) -> None:
    memory.failure = KafkaStorageError("no")
    entry = TransactionEntry(EMPTY)
    with pytest.raises(ProtocolError) as caught:
        log.write(entry, ONGOING)
    assert caught.value.code is ErrorCode.NOT_COORDINATOR
    assert entry.metadata is EMPTY
    assert refusal(log) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("error", [None, KafkaStorageError("no")])
def test_what_is_not_durable_is_remembered(
    memory: MemoryCoordinatorLog, log: TransactionLog, error: Exception | None
) -> None:
    memory.durable = False
    entry = TransactionEntry(EMPTY)
    unsynced = log.write(entry, ONGOING)
    assert unsynced is not None
    assert entry.unsynced is unsynced
    memory.sync(error)
    assert entry.unsynced is (None if error is None else unsynced)
