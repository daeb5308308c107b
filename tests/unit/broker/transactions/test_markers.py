"""Markers go where they belong, in order, and a decided transaction is completed whatever stands in the way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from support.groups import MemoryCoordinatorLog, make_runtime, run_callbacks
from support.logs import batch
from support.mock_time import MockTime, MockTimer
from support.transactions import Node
from tidelog.broker.groups.store.offsets import TopicPartition
from tidelog.broker.metadata.features import Features
from tidelog.broker.partitions.conversion_thread import LoopBudget
from tidelog.broker.transactions.log import TransactionEntry, TransactionLog, TransactionShard
from tidelog.broker.transactions.markers import LAST_RETRY_MS, MARKERS_PER_TURN, Completions, MarkerWriter
from tidelog.broker.transactions.states import Producer, TransactionMetadata, TransactionState
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.storage.exceptions import (
    InvalidProducerEpochError,
    KafkaStorageError,
    TransactionCoordinatorFencedError,
)
from tidelog.storage.producers.transaction_marker import TransactionMarker


def write(
    node: Node, producer: Producer, topic: str = "t", *, commit: bool = True, version: int = 2, epoch: int = 0
) -> Any:
    writer = MarkerWriter(node.partitions, node.groups, node.time, node.loop)
    return writer.write(TopicPartition(topic, 0), producer, TransactionMarker(commit, epoch), version)


# -- one marker


def test_a_marker_of_version_2_is_written_once(node: Node) -> None:
    producer = node.init()
    node.produce("tx", producer, "t", 0, "a")
    following = Producer(producer.producer_id, producer.producer_epoch + 1)
    assert write(node, following) is None
    assert write(node, following) is None
    assert node.log("t").log_end_offset == 2
    assert node.committed("t") == [b"a"]


def test_a_late_marker_of_version_2_does_not_end_a_later_transaction(node: Node) -> None:
    first = node.init()
    node.produce("tx", first, "t", 0, "a")
    second = node.end("tx", first, commit=True)
    node.produce("tx", second, "t", 0, "b")
    with pytest.raises(InvalidProducerEpochError):
        write(node, second, commit=False)
    assert node.committed("t") == [b"a"]
    node.end("tx", second, commit=True)
    assert node.committed("t") == [b"a", b"b"]


def test_version_1_writes_as_often_as_it_is_told(node: Node) -> None:
    producer = node.init()
    write(node, producer, version=0)
    write(node, producer, version=0)
    assert node.log("t").log_end_offset == 2


def test_what_is_not_there(node: Node) -> None:
    with pytest.raises(ProtocolError) as caught:
        write(node, Producer(1, 0), "no-such-topic")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_offsets_wait_until_their_partition_is_loaded(node: Node) -> None:
    node.groups.shards()[0].loaded = False
    with pytest.raises(ProtocolError) as caught:
        write(node, Producer(1, 0), "__consumer_offsets")
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert node.log("__consumer_offsets").log_end_offset == 0


def test_a_marker_stands_behind_the_batches_that_wait_for_a_slow_disk(node: Node) -> None:
    producer = node.init()
    node.add("tx", producer, ("t", 0))
    node.syncer.at_once = False
    partition = node.partitions.get("t", 0)
    partition.offload.active = True
    late = batch("a", producer_id=producer.producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    appended = partition.append(late, 0, len(late), LoopBudget("", 0))
    ended = node.begin(node.transactions.end("tx", producer, True, 2))
    assert node.log("t").log_end_offset == 0
    node.settle()
    assert appended.result().first_offset == 0
    assert ended.result() == Producer(producer.producer_id, 1)
    assert (node.state(), node.committed("t")) == ("CompleteCommit", [b"a"])


# -- all of a transaction


class Markers:
    """Takes notes; fails as it is told, one answer for each time that a partition is tried."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.answers: dict[str, list[Any]] = {}

    def write(self, partition: TopicPartition, producer: Producer, marker: TransactionMarker, version: int) -> Any:
        topic = partition.topic
        answer = self.answers[topic].pop(0) if self.answers.get(topic) else None
        if isinstance(answer, Exception):
            raise answer
        self.written.append(f"{topic} {'commit' if marker.is_commit else 'abort'} {producer.producer_epoch} v{version}")
        return answer


class Completing:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.time = MockTime()
        self.memory = MemoryCoordinatorLog(self.loop)
        runtime = make_runtime(self.memory, TransactionShard, self.time)
        runtime.open(loaded=True)
        self.log = TransactionLog(runtime, Features({"transaction.version": 2}))
        self.markers = Markers()
        self.completions = Completions(self.log, self.markers, self.time, MockTimer(self.time))

    def decided(self, *topics: str, commit: bool = True) -> TransactionEntry:
        state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        places = frozenset(TopicPartition(topic, 0) for topic in topics)
        entry = TransactionEntry(TransactionMetadata("tx", 5, 3, 100, state, 7, 6, places, 5, client_version=2))
        self.log.write(entry, entry.metadata)
        return entry


@pytest.fixture
def completing() -> Iterator[Completing]:
    completing = Completing()
    yield completing
    completing.loop.close()


@pytest.mark.parametrize(("commit", "word"), [(True, "commit"), (False, "abort")])
def test_all_markers_then_complete(completing: Completing, commit: bool, word: str) -> None:
    entry = completing.decided("a", "b", commit=commit)
    completing.completions.begin(entry)
    assert completing.markers.written == [f"a {word} 3 v2", f"b {word} 3 v2"]
    assert entry.metadata.state.label == f"Complete{word.capitalize()}"
    assert len(completing.completions) == 0


def test_nothing_before_the_decision_is_durable(completing: Completing) -> None:
    entry = completing.decided("a")
    decided: asyncio.Future[None] = completing.loop.create_future()
    completing.completions.begin(entry, decided)
    assert completing.markers.written == []
    decided.set_result(None)
    run_callbacks(completing.loop)
    assert entry.metadata.state is TransactionState.COMPLETE_COMMIT


def test_nothing_after_a_decision_that_may_be_lost(completing: Completing) -> None:
    completing.memory.durable = False
    entry = completing.decided("a")
    completing.completions.begin(entry, entry.unsynced)
    for _ in range(3):
        completing.memory.sync(KafkaStorageError("no"))
        completing.time.advance(seconds=LAST_RETRY_MS // 1000)
    assert (completing.markers.written, entry.metadata.is_prepared) == ([], True)
    completing.completions.closed = True
    completing.memory.sync(KafkaStorageError("no"))
    completing.time.advance(seconds=60)
    assert completing.memory.unsynced == []


def test_a_decision_is_carried_out_once_another_sync_has_it(completing: Completing) -> None:
    completing.memory.durable = False
    entry = completing.decided("a")
    completing.completions.begin(entry, entry.unsynced)
    completing.memory.sync(KafkaStorageError("no room"))
    completing.time.advance(seconds=LAST_RETRY_MS // 1000 - 1)
    assert completing.memory.unsynced == []
    completing.time.advance(seconds=1)
    assert completing.markers.written == []
    completing.memory.sync()
    assert (completing.markers.written, entry.metadata.is_prepared) == (["a commit 3 v2"], False)
    assert len(completing.memory.records) == 2  # the decision is not written again


def test_complete_only_when_all_markers_are_durable(completing: Completing) -> None:
    entry = completing.decided("a", "b", "c")
    synced: list[asyncio.Future[None]] = [completing.loop.create_future() for _ in range(3)]
    completing.markers.answers = {"a": [synced[0]], "b": [synced[1], synced[2]]}
    completing.completions.begin(entry)
    synced[0].set_result(None)
    run_callbacks(completing.loop)
    assert entry.metadata.is_prepared
    synced[1].set_exception(KafkaStorageError("no"))
    run_callbacks(completing.loop)
    assert entry.metadata.is_prepared
    completing.time.advance(seconds=1)
    assert completing.markers.written == ["a commit 3 v2", "b commit 3 v2", "c commit 3 v2", "b commit 3 v2"]
    synced[2].set_result(None)
    run_callbacks(completing.loop)
    assert entry.metadata.state is TransactionState.COMPLETE_COMMIT


def test_what_fails_is_tried_again_for_as_long_as_it_takes(
    completing: Completing, caplog: pytest.LogCaptureFixture
) -> None:
    entry = completing.decided("a", "b")
    completing.markers.answers = {"a": [KafkaStorageError("no")] * 20}
    with caplog.at_level(logging.WARNING):
        completing.completions.begin(entry)
        assert completing.markers.written == ["b commit 3 v2"]
        completing.time.advance(seconds=40)
        assert entry.metadata.is_prepared
        completing.time.advance(seconds=100)
    assert entry.metadata.state is TransactionState.COMPLETE_COMMIT
    assert completing.markers.written == ["b commit 3 v2", "a commit 3 v2"]
    assert completing.markers.answers["a"] == []


@pytest.mark.parametrize(
    "error",
    [
        ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        InvalidProducerEpochError("later"),
        TransactionCoordinatorFencedError("later"),
    ],
)
def test_what_is_over_is_done(completing: Completing, error: Exception) -> None:
    entry = completing.decided("a", "b")
    completing.markers.answers = {"a": [error]}
    completing.completions.begin(entry)
    assert (completing.markers.written, entry.metadata.is_prepared) == (["b commit 3 v2"], False)


def test_that_it_is_complete_is_written_again_too(completing: Completing) -> None:
    entry = completing.decided("a")
    completing.memory.failure = KafkaStorageError("no")
    completing.completions.begin(entry)
    assert entry.metadata.is_prepared
    completing.memory.failure = None
    completing.time.advance(seconds=1)
    assert (entry.metadata.is_prepared, completing.markers.written) == (False, ["a commit 3 v2"])


def test_large_transactions_let_others_in(completing: Completing) -> None:
    entry = completing.decided(*(f"t{number}" for number in range(MARKERS_PER_TURN + 5)))
    completing.completions.begin(entry)
    assert (len(completing.markers.written), entry.metadata.is_prepared) == (MARKERS_PER_TURN, True)
    completing.completions.begin(entry)
    completing.time.advance(0)
    assert (len(completing.markers.written), entry.metadata.is_prepared) == (MARKERS_PER_TURN + 5, False)


def test_a_stop_ends_it(completing: Completing) -> None:
    entry = completing.decided("a")
    completing.markers.answers = {"a": [KafkaStorageError("no")]}
    completing.completions.begin(entry)
    completing.completions.closed = True
    completing.time.advance(seconds=60)
    assert (completing.markers.written, entry.metadata.is_prepared) == ([], True)
