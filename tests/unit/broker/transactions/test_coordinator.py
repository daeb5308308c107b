"""The coordinator on real logs: what producers are answered, what readers see, and what a restart goes on with."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from support.logs import append
from support.transactions import Node
from tidelog.broker.groups.store.offsets import TopicPartition
from tidelog.broker.runtime.cooperative import run_at_once
from tidelog.broker.runtime.error_codes import error_code
from tidelog.broker.transactions.coordinator import TransactionFilter
from tidelog.broker.transactions.log import TransactionEntry
from tidelog.broker.transactions.markers import MARKERS_PER_TURN
from tidelog.broker.transactions.states import LAST_EPOCH, Producer, TransactionState, created
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.storage.exceptions import InvalidProducerEpochError, StorageError

E = ErrorCode


def refused(action: Callable[[], Any]) -> ErrorCode:
    """What the client is told."""
    with pytest.raises((ProtocolError, StorageError)) as caught:
        action()
    return error_code(caught.value)[0]


def names(node: Node, **wanted: Any) -> list[str]:
    found = run_at_once(node.transactions.list_transactions(TransactionFilter(**wanted)))
    return sorted(metadata.transactional_id for metadata in found)


def test_a_commit_shows_everywhere_at_once_and_an_abort_nowhere(node: Node) -> None:
    producer = node.init()
    for commit in (True, False):
        node.produce("tx", producer, "t", 0, "a")
        node.produce("tx", producer, "u", 0, "b")
        assert node.commit_offsets("tx", producer, "g", ("t", 0, 5 if commit else 9)) == [E.NONE]
        assert node.state() == "Ongoing"
        assert node.offset("g") is E.UNSTABLE_OFFSET_COMMIT
        producer = node.end("tx", producer, commit=commit)
        assert node.state() == ("CompleteCommit" if commit else "CompleteAbort")
        assert (node.committed("t"), node.committed("u"), node.offset("g")) == ([b"a"], [b"b"], 5)
    assert producer.producer_epoch == 2


def test_a_new_instance_fences_the_old_one_and_aborts_what_it_left(node: Node) -> None:
    old = node.init()
    node.produce("tx", old, "t", 0, "a")
    new = node.init()
    assert new == Producer(old.producer_id, 2)
    assert node.state() == "Empty"
    assert refused(lambda: node.produce("tx", old, "t", 0, "b", sequence=1)) is E.INVALID_PRODUCER_EPOCH
    assert refused(lambda: node.end("tx", old, commit=True)) is E.PRODUCER_FENCED
    assert refused(lambda: node.init(expected=old)) is E.PRODUCER_FENCED
    node.produce("tx", new, "t", 0, "c")
    node.end("tx", new, commit=True)
    assert node.committed("t") == [b"c"]


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_time_outs_out_of_range(node: Node, timeout_ms: int) -> None:
    assert refused(lambda: node.init(timeout_ms=timeout_ms)) is E.INVALID_TRANSACTION_TIMEOUT


def test_a_late_produce_does_not_join_the_next_transaction(node: Node) -> None:
    first = node.init()
    node.produce("tx", first, "t", 0, "a")
    second = node.end("tx", first, commit=True)

    def late(version: int) -> ErrorCode:
        return refused(lambda: node.produce("tx", first, "t", 0, "late", sequence=1, version=version))

    assert (late(11), late(12)) == (E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_EPOCH)
    node.produce("tx", second, "u", 0, "b")
    assert (late(11), late(12)) == (E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_EPOCH)
    node.end("tx", second, commit=True)
    assert (node.all_values("t"), node.committed("u")) == ([b"a"], [b"b"])


def test_a_late_produce_of_version_1_does_not_join_the_next_transaction(node: Node) -> None:
    producer = node.init()
    node.add("tx", producer, ("t", 0))
    node.produce("tx", producer, "t", 0, "a", version=10)
    node.end("tx", producer, commit=True, version=0)
    assert refused(lambda: node.produce("tx", producer, "t", 0, "late", sequence=1, version=10)) is E.INVALID_TXN_STATE
    assert (
        refused(lambda: node.produce("tx", producer, "t", 0, "late", sequence=1, version=11)) is E.TRANSACTION_ABORTABLE
    )
    node.add("tx", producer, ("u", 0))
    assert refused(lambda: node.produce("tx", producer, "t", 0, "late", sequence=1, version=10)) is E.INVALID_TXN_STATE
    node.end("tx", producer, commit=True, version=0)
    assert node.all_values("t") == [b"a"]


def test_a_late_offset_commit_does_not_join_the_next_transaction(node: Node) -> None:
    first = node.init()
    node.commit_offsets("tx", first, "g", ("t", 0, 1))
    node.end("tx", first, commit=True)
    assert refused(lambda: node.commit_offsets("tx", first, "g", ("t", 0, 0))) is E.PRODUCER_FENCED
    assert node.offset("g") == 1


def test_a_deleted_group_does_not_come_back_with_a_commit(node: Node) -> None:
    producer = node.init()
    node.commit_offsets("tx", producer, "g", ("t", 0, 5))
    assert node.groups.delete_group("g") is E.NONE
    node.end("tx", producer, commit=True)
    assert (node.offset("g"), node.groups.group_count) == (-1, 0)
    node.kill()
    assert (node.offset("g"), node.groups.group_count) == (-1, 0)


def test_partitions_are_durable_before_records_and_decisions_before_markers() -> None:
    node = Node(flush_messages=1, sync_at_once=False)
    producer = node.init()
    wait = node.transactions.add_partitions("tx", producer, {node.groups.partition_of("g")}, 2)
    assert wait is not None
    again = node.transactions.add_partitions("tx", producer, {node.groups.partition_of("g")}, 2)
    assert again is wait, "who asks again waits too"
    node.settle()
    node.produce("tx", producer, "t", 0, "a")
    ending = node.begin(node.transactions.end("tx", producer, True, 2))
    assert (ending.done(), node.state(), node.log("t").log_end_offset) == (False, "PrepareCommit", 1)
    node.settle()
    assert ending.result() == Producer(producer.producer_id, 1)
    assert (node.state(), node.committed("t")) == ("CompleteCommit", [b"a"])
    node.close()


def test_partitions_whose_sync_failed_are_not_said_to_be_added_when_they_are_asked_for_again() -> None:
    """A power cut would leave a record in a partition that no marker comes to."""
    node = Node(flush_messages=1, sync_at_once=False)
    producer = node.init()
    partitions = {TopicPartition("t", 0)}
    first = node.transactions.add_partitions("tx", producer, partitions, 2)
    node.world.fake.fail_when(lambda operation: OSError(errno.EIO, "broken") if operation.kind == "sync" else None)
    node.settle()
    assert first is not None
    assert isinstance(first.exception(), StorageError)
    again = node.transactions.add_partitions("tx", producer, partitions, 2)
    assert again is not None, "answered as done"
    node.settle()
    assert isinstance(again.exception(), StorageError)
    node.close()


def full_while(node: Node, is_full: Callable[[], bool]) -> None:
    """The disk has no room for the file of epochs while `is_full`: the first sync of a log after a start writes it."""
    node.world.fake.fail_when(
        lambda op: OSError(errno.ENOSPC, "full") if is_full() and "leader-epoch-checkpoint" in str(op) else None
    )


def test_a_partition_whose_sync_met_a_full_disk_is_in_the_transaction_when_there_is_room() -> None:
    node = Node(flush_messages=1, sync_at_once=False)
    producer = node.init()
    node.stop()
    full = True
    full_while(node, lambda: full)
    partitions = {TopicPartition("t", 0)}
    first = node.transactions.add_partitions("tx", producer, partitions, 2)
    node.settle()
    assert first is not None
    assert isinstance(first.exception(), StorageError)
    full = False
    again = node.transactions.add_partitions("tx", producer, partitions, 2)
    assert again is not None, "answered as done"
    node.wait(again)
    assert node.transactions.add_partitions("tx", producer, partitions, 2) is None
    node.close()


def test_a_decision_whose_sync_met_a_full_disk_is_carried_out_when_there_is_room() -> None:
    node = Node(flush_messages=1, sync_at_once=False)
    producer = node.init()
    node.produce("tx", producer, "t", 0, "a")
    node.stop()
    full = True
    full_while(node, lambda: full)
    ending = node.begin(node.transactions.end("tx", producer, True, 2))
    node.settle()
    assert isinstance(ending.exception(), ProtocolError)
    assert (node.state(), node.committed("t")) == ("PrepareCommit", [])
    full = False
    node.time.advance(seconds=5)
    node.settle()
    assert (node.state(), node.committed("t")) == ("CompleteCommit", [b"a"])
    assert node.end("tx", producer, commit=True) == Producer(producer.producer_id, 1)  # as the client asks again
    node.close()


def test_a_decision_whose_log_has_failed_shows_nowhere() -> None:
    node = Node(flush_messages=1, sync_at_once=False)
    producer = node.init()
    node.produce("tx", producer, "t", 0, "a")
    node.world.fake.fail_when(lambda operation: OSError(errno.EIO, "broken") if operation.kind == "sync" else None)
    ending = node.begin(node.transactions.end("tx", producer, True, 2))
    node.settle()
    assert isinstance(ending.exception(), ProtocolError)
    node.world.fake.fail_when(lambda _: None)
    for _ in range(3):
        node.time.advance(seconds=60)
        node.settle()
    assert (node.state(), node.log("t").log_end_offset) == ("PrepareCommit", 1)
    node.close()


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_that_was_decided_before_a_kill_is_completed_by_the_next_start(commit: bool) -> None:
    node = Node(flush_messages=1, sync_at_once=False)
    producer = node.init()
    node.produce("tx", producer, "t", 0, "a")
    node.begin(node.transactions.end("tx", producer, commit, 2))
    assert (node.state(), node.log("t").log_end_offset) == (f"Prepare{'Commit' if commit else 'Abort'}", 1)
    node.kill()
    assert node.state() == f"Complete{'Commit' if commit else 'Abort'}"
    assert node.committed("t") == ([b"a"] if commit else [])
    assert node.log("t").last_stable_offset == 2
    node.close()


def test_many_transactions_that_were_decided_before_a_kill_let_others_in(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, count = node.time.milliseconds(), 3 * MARKERS_PER_TURN
    places = frozenset(TopicPartition("t", index) for index in range(2))
    for number in range(count):
        known = created(f"tx{number}", number + 10, 60_000, now)
        ended = replace(
            known, producer_epoch=1, state=TransactionState.PREPARE_COMMIT, partitions=places, client_version=2
        )
        node.transactions.log.write(TransactionEntry(ended), ended)
    node.kill()

    def written() -> int:
        return node.log("t", 0).log_end_offset + node.log("t", 1).log_end_offset

    turns = [0, written()]
    later = node.timer.call_later

    def noted(delay_ms: float, callback: Callable[[], None]) -> Any:
        turns.append(written())
        return later(delay_ms, callback)

    monkeypatch.setattr(node.timer, "call_later", noted)
    node.time.advance()
    assert all(after - before <= MARKERS_PER_TURN for before, after in pairwise([*turns, written()]))
    assert (written(), node.transactions.completing_count) == (2 * count, 0)
    assert {node.state(f"tx{number}") for number in range(count)} == {"CompleteCommit"}


def test_a_client_that_goes_away_leaves_nothing_half_done() -> None:
    node = Node(flush_messages=1, sync_at_once=False)
    producer = node.init()
    node.produce("tx", producer, "t", 0, "a")
    ending = node.begin(node.transactions.end("tx", producer, True, 2))
    ending.cancel()
    node.settle()
    assert (node.state(), node.committed("t")) == ("CompleteCommit", [b"a"])
    node.close()


@pytest.mark.parametrize("leave", [Node.kill, Node.stop])
def test_a_restart_knows_everybody(node: Node, leave: Callable[[Node], None]) -> None:
    open_one, done = node.init("open"), node.init("done")
    node.produce("open", open_one, "t", 0, "a")
    node.produce("done", done, "t", 1, "b")
    done = node.end("done", done, commit=True)
    leave(node)
    assert (node.state("open"), node.state("done")) == ("Ongoing", "CompleteCommit")
    assert node.end("done", Producer(done.producer_id, 0), commit=True) == done, "its answer got lost"
    node.produce("open", open_one, "t", 0, "c", sequence=1)
    node.end("open", open_one, commit=True)
    assert (node.committed("t"), node.committed("t", 1)) == ([b"a", b"c"], [b"b"])
    node.kill()
    assert node.log("__transaction_state").leader_epoch + node.log("__transaction_state", 1).leader_epoch >= 2


def test_a_transaction_whose_time_is_over_is_aborted(node: Node) -> None:
    producer = node.init(timeout_ms=30_000)
    node.produce("tx", producer, "t", 0, "a")
    node.time.advance(seconds=25)
    node.produce("tx", producer, "u", 0, "b")
    assert node.state() == "Ongoing"
    node.time.advance(seconds=20)
    assert (node.state(), node.transactions.timed_out, node.transactions.ongoing_count) == ("CompleteAbort", 1, 0)
    assert (node.committed("t"), node.log("t").last_stable_offset) == ([], 2)
    assert refused(lambda: node.produce("tx", producer, "t", 0, "late", sequence=1)) is E.INVALID_PRODUCER_EPOCH
    assert refused(lambda: node.end("tx", producer, commit=True)) is E.INVALID_TXN_STATE
    assert node.init(expected=producer) == Producer(producer.producer_id, 1), "in version 2 it may go on"


def test_many_transactions_whose_time_is_over_let_others_in(node: Node) -> None:
    """As after a start, with what was under way before a long stop."""
    now, count = node.time.milliseconds(), 3 * MARKERS_PER_TURN
    places = frozenset(TopicPartition("t", index) for index in range(2))
    for number in range(count):
        known = created(f"tx{number}", number + 10, 60_000, now)
        begun = replace(
            known, producer_epoch=0, state=TransactionState.ONGOING, start_ms=now, partitions=places, client_version=2
        )
        node.transactions.log.write(TransactionEntry(begun), begun)
    node.time.set_wall_clock(now + 61_000)
    written = [0]
    for _ in node.transactions.abort_overdue():
        written.append(node.log("t", 0).log_end_offset + node.log("t", 1).log_end_offset)
        assert written[-1] - written[-2] <= MARKERS_PER_TURN
    assert (node.transactions.timed_out, node.transactions.ongoing_count) == (count, 0)
    assert {node.state(f"tx{number}") for number in range(count)} == {"CompleteAbort"}


def test_a_transaction_that_ends_between_two_slices_of_those_whose_time_is_over_is_left_alone(node: Node) -> None:
    begun = {}
    for number in range(MARKERS_PER_TURN):
        begun[f"tx{number}"] = node.init(f"tx{number}")
        node.add(f"tx{number}", begun[f"tx{number}"], ("t", 0))
    node.time.set_wall_clock(node.time.milliseconds() + 61_000)
    aborting = node.transactions.abort_overdue()
    next(aborting)
    name = next(name for name in begun if node.state(name) == "Ongoing")
    node.end(name, begun[name], commit=True)
    list(aborting)
    assert (node.state(name), node.transactions.timed_out) == ("CompleteCommit", len(begun) - 1)


def test_time_goes_on_over_a_restart(node: Node) -> None:
    producer = node.init(timeout_ms=30_000)
    node.produce("tx", producer, "t", 0, "a")
    node.time.advance(seconds=25)
    node.kill()
    assert node.state() == "Ongoing"
    node.time.advance(seconds=20)
    assert node.state() == "CompleteAbort"


@pytest.mark.parametrize("version", [0, 1])
def test_below_version_2_producers_keep_their_epoch(version: int) -> None:
    node = Node(version=version)
    producer = node.init()
    for commit in (True, False):
        node.add("tx", producer, ("t", 0))
        node.produce("tx", producer, "t", 0, "a", sequence=0 if commit else 1, version=11)
        assert node.end("tx", producer, commit=commit, version=0) == producer
    assert node.committed("t") == [b"a"]
    node.add("tx", producer, ("t", 0))
    node.produce("tx", producer, "t", 0, "b", sequence=2, version=11)
    node.time.advance(seconds=100)
    assert refused(lambda: node.end("tx", producer, commit=True, version=0)) is E.PRODUCER_FENCED
    assert refused(lambda: node.init(expected=producer)) is E.PRODUCER_FENCED
    assert node.committed("t") == [b"a"]
    node.close()


def test_the_last_epoch_is_followed_by_a_new_id(node: Node) -> None:
    producer = node.init()
    entry = node.transactions.log.find("tx")
    node.transactions.log.write(entry, replace(entry.metadata, producer_epoch=LAST_EPOCH))
    last = Producer(producer.producer_id, LAST_EPOCH)
    node.produce("tx", last, "t", 0, "a")
    following = node.end("tx", last, commit=True)
    assert following == Producer(2, 0)
    assert node.end("tx", last, commit=True) == following, "its answer got lost"
    node.produce("tx", following, "t", 0, "b")
    node.kill()
    node.end("tx", following, commit=True)
    assert node.committed("t") == [b"a", b"b"]


def test_nobody_goes_on_with_the_epoch_that_only_fences(node: Node) -> None:
    """Its transactions would have no epoch above them: neither a marker nor a time-out could end them."""
    producer = node.init()
    entry = node.transactions.log.find("tx")
    node.transactions.log.write(entry, replace(entry.metadata, producer_epoch=LAST_EPOCH))
    last = Producer(producer.producer_id, LAST_EPOCH)
    node.produce("tx", last, "t", 0, "a")
    node.time.advance(seconds=75)
    assert node.state() == "CompleteAbort"
    assert refused(lambda: node.end("tx", last, commit=False)) is E.PRODUCER_FENCED
    following = node.init()
    assert (following.producer_id == last.producer_id, following.producer_epoch) == (False, 0)


def test_ids_that_nobody_uses_are_forgotten(node: Node) -> None:
    node.init("idle")
    busy = node.init("busy")
    node.time.advance(days=6)
    node.produce("busy", busy, "t", 0, "a")
    busy = node.end("busy", busy, commit=True)
    assert names(node) == ["busy", "idle"]
    node.time.advance(days=2)
    assert names(node) == ["busy"]
    node.kill()
    assert names(node) == ["busy"]
    node.time.advance(days=8)
    assert names(node) == []
    assert refused(lambda: node.end("busy", busy, commit=True)) is E.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("settings", [{}, {"max_message_bytes": 20_000}], ids=["default", "small batches"])
def test_long_ids_that_nobody_uses_are_forgotten_too(settings: dict[str, int]) -> None:
    node = Node(**settings)
    for number in range(1000):
        one = created(f"{number}-" + "x" * 3000, number, 1000, node.time.milliseconds())
        node.transactions.log.write(TransactionEntry(one), one)
    node.time.advance(days=8)
    assert node.transactions.id_count == 0
    node.kill()
    assert node.transactions.id_count == 0
    node.close()


def test_list_and_describe(node: Node) -> None:
    first, _ = node.init("first"), node.init("second")
    node.produce("first", first, "t", 0, "a")
    node.time.advance(seconds=5)
    assert names(node) == ["first", "second"]
    assert names(node, states=["Ongoing"]) == ["first"]
    assert names(node, states=["Nonsense"]) == []
    assert names(node, producer_ids={2}) == ["second"]
    assert names(node, longer_than_ms=4_999, states=["Ongoing"]) == ["first"]
    assert names(node, longer_than_ms=5_000, states=["Ongoing"]) == []
    described = node.transactions.describe("first")
    assert (described.producer_id, described.partitions, described.timeout_ms) == (1, {("t", 0)}, 60_000)
    assert refused(lambda: node.transactions.describe("third")) is E.TRANSACTIONAL_ID_NOT_FOUND
    assert refused(lambda: node.transactions.describe("")) is E.INVALID_REQUEST


def test_while_loading_and_after_the_end(node: Node) -> None:
    producer = node.init()
    shard = node.transactions.log.shard_of("tx")
    shard.loaded = False
    for action in (
        lambda: node.init(),
        lambda: node.add("tx", producer, ("t", 0)),
        lambda: node.end("tx", producer, commit=True),
        lambda: names(node),
        lambda: node.transactions.describe("tx"),
    ):
        assert refused(action) is E.COORDINATOR_LOAD_IN_PROGRESS
    assert refused(lambda: node.produce("tx", producer, "t", 0, "a")) is E.NOT_ENOUGH_REPLICAS, (
        "which all clients retry"
    )
    shard.loaded = True
    node.transactions.close()
    assert refused(lambda: names(node)) is E.COORDINATOR_NOT_AVAILABLE


def test_a_partition_that_cannot_be_read_has_no_coordinator(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.init()
    monkeypatch.setattr("tidelog.broker.transactions.coordinator.load_transactions", lambda *_: 1 / 0)
    node.kill()
    assert refused(lambda: node.init()) is E.NOT_COORDINATOR


def test_the_log_fences_what_comes_after_the_wait_for_a_sync() -> None:
    """Its partition is added, the transaction ends while the sync is waited for, then the batch comes."""
    node = Node(flush_messages=1, sync_at_once=False)
    producer = node.init()
    node.add("tx", producer, ("t", 0), version=2)
    ending = node.begin(node.transactions.end("tx", producer, False, 2))
    node.settle()
    assert ending.result().producer_epoch == 1
    with pytest.raises(InvalidProducerEpochError):
        append(
            node.log("t"),
            "late",
            producer_id=producer.producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
    node.close()
