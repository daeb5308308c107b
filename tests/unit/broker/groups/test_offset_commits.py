"""Commit, fetch, delete and expire, through the whole coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest
from support.groups import Groups, now, run_callbacks, subscription
from tidelog.broker.groups.classic.events import GroupProtocol, LeavingMember
from tidelog.broker.groups.offset_commits import (
    OFFSETS_PER_EXPIRY_SLICE,
    CommitRequest,
    FetchedGroup,
    FetchedOffset,
    OffsetToCommit,
    TopicToFetch,
    TxnCommitRequest,
)
from tidelog.broker.groups.store.records import group_key, offset_key, read_offset_value
from tidelog.broker.groups.store.shards import TOMBSTONES_PER_BATCH
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.records.exceptions import RecordTooLargeError
from tidelog.storage.exceptions import KafkaStorageError
from tidelog.storage.producers.transaction_marker import TransactionMarker

DAY = 24 * 3600 * 1000
ID_A, ID_B = b"a" * 16, b"b" * 16


def commit(harness, *offsets, group_id="group", **fields):
    items = [OffsetToCommit(*offset) if isinstance(offset, tuple) else offset for offset in offsets]
    return harness.groups.commit_offsets(CommitRequest(group_id, items, **fields))


def fetch(harness, topics=None, group_id="group", **fields):
    """{(topic, partition): offset} of what is committed; other answers are given as they are."""
    outcome = harness.groups.fetch_offsets(group_id, topics, **fields)
    return by_partition(outcome) if isinstance(outcome, FetchedGroup) else outcome


def by_partition(group):
    assert group.error is ErrorCode.NONE
    return {(topic.topic, each.partition): each.offset for topic in group.topics for each in topic.partitions}


def refused(harness, *offsets, **fields):
    with pytest.raises(ProtocolError) as caught:
        commit(harness, *offsets, **fields)
    return caught.value.code


# -- commit


def test_a_simple_commit_makes_a_group_without_members(harness):
    assert commit(harness, ("t", 0, 5, 3, "meta"), ("t", 1, 6)) == [ErrorCode.NONE] * 2
    assert harness.state() == "Empty"
    assert fetch(harness, [TopicToFetch("t", (0, 1, 2)), TopicToFetch("u", (0,))]) == {
        ("t", 0): 5,
        ("t", 1): 6,
        ("t", 2): -1,
        ("u", 0): -1,
    }
    (topic,) = harness.groups.fetch_offsets("group", [TopicToFetch("t", (0,))]).topics
    assert topic.partitions == [FetchedOffset(0, 5, 3, "meta")]
    assert (harness.groups.offset_count, harness.groups.commits) == (2, 2)


def test_what_is_written(harness):
    commit(harness, OffsetToCommit("t", 7, 5, 3, "meta", ID_A))
    ((key, value),) = harness.log.records
    assert key == offset_key("group", "t", 7)
    committed = read_offset_value(value)
    assert (committed.offset, committed.leader_epoch, committed.metadata, committed.topic_id) == (5, 3, "meta", ID_A)
    assert committed.commit_timestamp_ms == harness.time.milliseconds()
    assert value[:2] == b"\x00\x04"


def test_one_commit_is_one_batch(harness):
    commit(harness, *(("t", p, p) for p in range(100)))
    assert [len(batch.records) for partition in harness.log.batches for batch in partition] == [100]


def test_a_members_commit(harness):
    alice, _bob = harness.stable("alice", "bob")
    assert commit(harness, ("t", 0, 5), member_id=alice.member_id, generation=1) == [ErrorCode.NONE]
    assert refused(harness, ("t", 0, 6), member_id=alice.member_id, generation=2) is ErrorCode.ILLEGAL_GENERATION
    assert refused(harness, ("t", 0, 6), member_id="nobody", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(harness, ("t", 0, 6)) is ErrorCode.UNKNOWN_MEMBER_ID  # from outside, while there are members
    assert refused(harness, ("t", 0, 6), member_id=alice.member_id) is ErrorCode.ILLEGAL_GENERATION
    assert fetch(harness)[("t", 0)] == 5


def test_commits_while_the_group_rebalances(harness):
    alice, bob = harness.stable("alice", "bob")
    alice.join()
    assert commit(harness, ("t", 0, 5), member_id=bob.member_id, generation=1) == [ErrorCode.NONE]
    bob.join()
    assert refused(harness, ("t", 0, 6), member_id=bob.member_id, generation=1) is ErrorCode.ILLEGAL_GENERATION
    assert refused(harness, ("t", 0, 6), member_id=bob.member_id, generation=2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life(harness):
    (alice,) = harness.stable("alice")
    for _ in range(5):
        harness.time.advance(9_000)
        commit(harness, ("t", 0, 5), member_id=alice.member_id, generation=1)
    assert harness.state() == "Stable"


def test_a_static_member_that_was_replaced_may_not_commit(harness):
    (alice,) = harness.stable("alice", group_instance_id="one")
    harness.member("alice", group_instance_id="one").join()
    fields = {"member_id": alice.member_id, "group_instance_id": "one", "generation": 1}
    assert refused(harness, ("t", 0, 5), **fields) is ErrorCode.FENCED_INSTANCE_ID


def test_a_member_of_a_group_that_is_not_there(harness):
    assert refused(harness, ("t", 0, 5), member_id="m", generation=3) is ErrorCode.GROUP_ID_NOT_FOUND
    old = {"member_id": "m", "generation": 3, "unknown_group_error": ErrorCode.ILLEGAL_GENERATION}
    assert refused(harness, ("t", 0, 5), **old) is ErrorCode.ILLEGAL_GENERATION
    assert harness.groups.group_count == 0


def test_the_empty_group_id_may_commit(harness):
    assert commit(harness, ("t", 0, 5), group_id="") == [ErrorCode.NONE]
    assert fetch(harness, group_id="") == {("t", 0): 5}


def test_too_long_metadata():
    harness = Groups(config={"offset_metadata_max_bytes": 4})
    codes = commit(
        harness,
        ("t", 0, 1, -1, "1234"),
        ("t", 1, 1, -1, "12345"),
        ("t", 2, 1, -1, "\U0001f600\U0001f600"),
        ("t", 3, 1, -1, "\U0001f600\U0001f6001"),
    )
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert codes == [ErrorCode.NONE, too_large, ErrorCode.NONE, too_large]
    assert set(fetch(harness)) == {("t", 0), ("t", 2)}
    harness.close()


def test_when_all_metadata_is_too_long_nothing_is_written(harness):
    assert commit(harness, ("t", 0, 1, -1, "x" * 4097)) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert harness.log.records == []
    assert harness.groups.group_count == 0


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (KafkaStorageError("disk"), ErrorCode.NOT_COORDINATOR),
        (RecordTooLargeError("large"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_commit_that_cannot_be_written(harness, failure, code):
    harness.log.failure = failure
    assert refused(harness, ("t", 0, 5)) is code
    assert harness.groups.group_count == harness.groups.offset_count == 0


# -- durability


def test_commit_and_fetch_wait_for_durability(harness):
    harness.log.durable = False
    committing = harness.loop.create_task(commit(harness, ("t", 0, 5)))
    fetching = harness.loop.create_task(harness.groups.fetch_offsets("group", None))
    run_callbacks(harness.loop)
    assert not committing.done()
    assert not fetching.done()
    harness.log.sync()
    run_callbacks(harness.loop)
    assert committing.result() == [ErrorCode.NONE]
    assert by_partition(fetching.result()) == {("t", 0): 5}
    assert fetch(harness) == {("t", 0): 5}  # and now at once


def test_a_fetch_that_waits_shows_no_commit_that_came_meanwhile_and_is_not_durable(harness):
    harness.log.durable = False
    first = harness.loop.create_task(commit(harness, ("t", 0, 5)))
    fetching = harness.loop.create_task(harness.groups.fetch_offsets("group", None))
    run_callbacks(harness.loop)
    second = harness.loop.create_task(commit(harness, ("t", 0, 9)))
    run_callbacks(harness.loop)
    harness.log.unsynced.pop(0).set_result(None)  # of what was there when the sync began
    run_callbacks(harness.loop)
    assert first.done()
    assert not second.done()
    assert by_partition(fetching.result()) == {("t", 0): 5}
    harness.log.sync(KafkaStorageError("disk"))
    assert isinstance(second.exception(), ProtocolError)


def test_a_client_that_leaves_does_not_end_anothers_wait(harness):
    harness.log.durable = False
    first = harness.loop.create_task(commit(harness, ("t", 0, 5)))
    second = harness.loop.create_task(harness.groups.fetch_offsets("group", None))
    run_callbacks(harness.loop)
    first.cancel()
    run_callbacks(harness.loop)
    assert not harness.log.unsynced[0].cancelled()
    harness.log.sync()
    run_callbacks(harness.loop)
    assert by_partition(second.result()) == {("t", 0): 5}


def test_a_commit_that_does_not_become_durable(harness):
    harness.log.durable = False
    committing = harness.loop.create_task(commit(harness, ("t", 0, 5)))
    run_callbacks(harness.loop)
    harness.log.sync(KafkaStorageError("disk"))
    run_callbacks(harness.loop)
    with pytest.raises(ProtocolError) as caught:
        committing.result()
    assert caught.value.code is ErrorCode.NOT_COORDINATOR
    # A power cut may take it back, so it is not shown.
    assert fetch_after_sync(harness, KafkaStorageError("disk")) == FetchedGroup([], ErrorCode.NOT_COORDINATOR)


def test_offsets_are_read_again_once_a_sync_succeeds_without_another_commit(harness):
    """A full disk fails a sync, and has room later; a reader that commits what it has read comes to no commit."""
    harness.log.durable = False
    committing = harness.loop.create_task(commit(harness, ("t", 0, 5)))
    run_callbacks(harness.loop)
    harness.log.sync(KafkaStorageError("no room"))
    assert isinstance(committing.exception(), ProtocolError)
    assert fetch_after_sync(harness, KafkaStorageError("no room")) == FetchedGroup([], ErrorCode.NOT_COORDINATOR)
    assert by_partition(fetch_after_sync(harness)) == {("t", 0): 5}
    assert fetch(harness) == {("t", 0): 5}  # and now at once


def fetch_after_sync(harness, error=None):
    """What a fetch is answered that waits for a sync with this outcome."""
    fetching = harness.loop.create_task(harness.groups.fetch_offsets("group", None))
    run_callbacks(harness.loop)
    assert not fetching.done()
    harness.log.sync(error)
    run_callbacks(harness.loop)
    return fetching.result()


# -- fetch


def test_fetch_of_a_group_that_is_not_there(harness):
    assert fetch(harness) == {}
    assert fetch(harness, [TopicToFetch("t", (0,))]) == {("t", 0): -1}


def test_fetch_of_all(harness):
    commit(harness, ("t", 0, 5), ("u", 3, 6))
    assert fetch(harness) == {("t", 0): 5, ("u", 3): 6}


def test_an_offset_of_another_topic_of_that_name_does_not_count(harness):
    commit(harness, OffsetToCommit("t", 0, 5, topic_id=ID_A), OffsetToCommit("t", 1, 6))
    assert fetch(harness, [TopicToFetch("t", (0, 1), ID_A)]) == {("t", 0): 5, ("t", 1): 6}
    assert fetch(harness, [TopicToFetch("t", (0, 1), ID_B)]) == {("t", 0): -1, ("t", 1): 6}
    assert fetch(harness, [TopicToFetch("t", (0, 1))]) == {("t", 0): 5, ("t", 1): 6}


def test_offsets_of_open_transactions(harness):
    commit(harness, ("t", 0, 5), ("t", 1, 6))
    store = next(shard.offsets for shard in harness.groups.shards() if shard.offsets.count)
    _, value = harness.log.records[1]
    store.put_pending(9, 100, "group", "t", 0, value)
    assert fetch(harness) == {("t", 0): 5, ("t", 1): 6}
    (topic,) = harness.groups.fetch_offsets("group", None, require_stable=True).topics
    assert topic.partitions == [
        FetchedOffset(0, error=ErrorCode.UNSTABLE_OFFSET_COMMIT),
        FetchedOffset(1, 6),
    ]


def commit_in_transaction(harness, *offsets, group_id="group", producer_id=9):
    request = CommitRequest(group_id, [OffsetToCommit(*offset) for offset in offsets])
    assert harness.groups.commit_in_transaction(TxnCommitRequest(request, producer_id, 0)) == [ErrorCode.NONE] * len(
        offsets
    )


def end_transaction(harness, *, committed, group_id="group", producer_id=9):
    """The marker in the group's partition, and what the coordinator does when it has been appended."""
    partition = harness.groups.partition_of(group_id).partition
    marker = TransactionMarker(committed, 0)
    _, unsynced = harness.log.put(partition, producer_id, [(marker.key(), marker.value())], is_control=True)
    harness.groups.end_transaction(partition, producer_id, committed, unsynced)


def test_offsets_of_a_transaction_are_read_once_its_marker_is_durable(harness):
    commit(harness, ("t", 0, 5))
    commit_in_transaction(harness, ("t", 0, 8))
    harness.log.durable = False
    end_transaction(harness, committed=True)
    fetching = harness.loop.create_task(harness.groups.fetch_offsets("group", None))
    run_callbacks(harness.loop)
    assert not fetching.done()  # a power cut now takes the marker back, and the offset 8 with it
    harness.log.sync()
    assert by_partition(fetching.result()) == {("t", 0): 8}
    assert fetch(harness) == {("t", 0): 8}  # and now at once


def test_offsets_of_a_transaction_whose_marker_did_not_become_durable_are_not_shown(harness):
    commit_in_transaction(harness, ("t", 0, 8))
    harness.log.durable = False
    end_transaction(harness, committed=True)
    harness.log.sync(KafkaStorageError("disk"))
    assert fetch_after_sync(harness, KafkaStorageError("disk")) == FetchedGroup([], ErrorCode.NOT_COORDINATOR)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_transaction_that_commits_after_its_group_was_deleted_does_not_bring_the_group_back(harness, restarted):
    """The deletion's tombstones are later than the transaction's records; so they count, here and after a restart."""
    commit(harness, ("t", 0, 5))
    commit_in_transaction(harness, ("t", 0, 8), ("t", 1, 9))
    assert harness.groups.delete_group("group") is ErrorCode.NONE
    later = harness.restarted() if restarted else harness
    end_transaction(later, committed=True)
    assert fetch(later) == {}
    assert harness.groups.delete_group("group") is ErrorCode.GROUP_ID_NOT_FOUND
    assert fetch(later.restarted()) == {}


# -- delete


def test_delete_offsets(harness):
    commit(harness, ("t", 0, 5), ("t", 1, 6), ("u", 0, 7))
    assert harness.groups.delete_offsets("group", [("t", 0), ("t", 9), ("t", 0)]) == [ErrorCode.NONE] * 3
    assert fetch(harness) == {("t", 1): 6, ("u", 0): 7}
    assert harness.log.records[-1] == (offset_key("group", "t", 0), None)
    assert sum(value is None for _, value in harness.log.records) == 1


def test_offsets_of_subscribed_topics_are_kept(harness):
    (alice,) = harness.stable("alice", protocols=(GroupProtocol("range", subscription("t")),))
    commit(harness, ("t", 0, 5), ("u", 0, 6), member_id=alice.member_id, generation=1)
    assert harness.groups.delete_offsets("group", [("t", 0), ("u", 0)]) == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
    ]
    assert fetch(harness) == {("t", 0): 5}


@pytest.mark.parametrize("group_id", ["group", ""])
def test_delete_offsets_of_no_group(harness, group_id):
    with pytest.raises(ProtocolError) as caught:
        harness.groups.delete_offsets(group_id, [("t", 0)])
    expected = ErrorCode.GROUP_ID_NOT_FOUND if group_id else ErrorCode.INVALID_GROUP_ID
    assert caught.value.code is expected


def test_delete_offsets_of_a_group_whose_subscriptions_are_unknown(harness):
    harness.stable("worker", protocol_type="connect")
    with pytest.raises(ProtocolError) as caught:
        harness.groups.delete_offsets("group", [("t", 0)])
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP


def test_delete_groups(harness):
    (alice,) = harness.stable("alice")
    commit(harness, ("t", 0, 5), member_id=alice.member_id, generation=1)
    assert harness.groups.delete_group("group") is ErrorCode.NON_EMPTY_GROUP
    harness.groups.leave("group", [LeavingMember(alice.member_id)])
    assert harness.groups.delete_group("group") is ErrorCode.NONE
    assert harness.log.records[-2:] == [(offset_key("group", "t", 0), None), (group_key("group"), None)]
    assert harness.groups.delete_group("group") is ErrorCode.GROUP_ID_NOT_FOUND
    assert (harness.groups.group_count, harness.groups.offset_count) == (0, 0)
    assert harness.restarted().groups.group_count == 0


def test_large_groups_are_deleted_in_several_batches(harness):
    for start in range(0, 2 * TOMBSTONES_PER_BATCH + 1, 500):
        commit(harness, *(("t", p, p) for p in range(start, start + 500)))
    assert harness.groups.delete_group("group") is ErrorCode.NONE
    sizes = [len(b.records) for partition in harness.log.batches for b in partition if b.records[0][2] is None]
    assert sizes == [TOMBSTONES_PER_BATCH, TOMBSTONES_PER_BATCH, 500, 1]


def test_deletions_wait_for_durability(harness):
    commit(harness, ("t", 0, 5), ("t", 1, 5))
    harness.log.durable = False
    for delete in (
        lambda: harness.groups.delete_offsets("group", [("t", 0)]),
        lambda: harness.groups.delete_group("group"),
    ):
        outcome = delete()
        assert isinstance(outcome, Awaitable)
        task = harness.loop.create_task(outcome)
        run_callbacks(harness.loop)
        assert not task.done()
        harness.log.sync()
        run_callbacks(harness.loop)
        assert task.result() in ([ErrorCode.NONE], ErrorCode.NONE)


def test_a_group_deletion_that_does_not_become_durable(harness):
    commit(harness, ("t", 0, 5))
    harness.log.durable = False
    task = harness.loop.create_task(harness.groups.delete_group("group"))
    run_callbacks(harness.loop)
    harness.log.sync(KafkaStorageError("disk"))
    run_callbacks(harness.loop)
    assert task.result() is ErrorCode.NOT_COORDINATOR


def test_offsets_of_deleted_topics_go(harness):
    commit(harness, ("t", 0, 5), ("t", 1, 5), ("u", 0, 6))
    commit(harness, ("t", 0, 7), group_id="other")
    harness.groups.topics_deleted(["t"])
    assert fetch(harness) == {("u", 0): 6}
    assert fetch(harness, group_id="other") == {}
    again = harness.restarted()
    assert fetch(again) == {("u", 0): 6}


def test_offsets_of_a_topic_that_very_many_groups_read_go_in_turns(harness):
    """5,000 groups' tombstones were a batch each, 0.2 seconds of the loop."""
    groups = [f"group{number}" for number in range(2_000)]
    for group_id in groups:
        commit(harness, ("t", 0, 5), ("u", 0, 6), group_id=group_id)
    commit(harness, ("t", 1, 5), group_id="again")
    before = len(harness.log.records)
    harness.groups.topics_deleted(["t"])
    assert all(fetch(harness, group_id=group_id) == {("u", 0): 6} for group_id in groups), "at once"
    assert harness.groups.offset_count == 2_000
    assert len(harness.log.records) - before <= 400
    # A topic of the name is made anew, and offsets for it are committed before all tombstones are written.
    commit(harness, ("t", 0, 1), group_id=groups[-1])
    commit(harness, ("t", 1, 1), group_id="again")
    for _ in range(10):
        harness.time.advance(1)
    assert [value for _, value in harness.log.records].count(None) == 2_001 - 2
    assert max(len(batch.records) for part in harness.log.batches for batch in part) <= 400
    again = harness.restarted()
    assert fetch(again, group_id=groups[0]) == {("u", 0): 6}
    assert fetch(again, group_id=groups[-1]) == {("u", 0): 6, ("t", 0): 1}
    assert fetch(again, group_id="again") == {("t", 1): 1}
    assert again.groups.offset_count == harness.groups.offset_count == 2_002


def test_tombstones_of_a_deleted_topic_are_written_before_the_coordinator_closes():
    harness = Groups()
    for number in range(1_000):
        commit(harness, ("t", 0, 5), group_id=f"group{number}")
    harness.groups.topics_deleted(["t"])
    harness.groups.close()
    again = harness.restarted()
    assert again.groups.offset_count == 0
    harness.close()


def test_offsets_of_open_transactions_for_a_deleted_topic_go(harness):
    commit = CommitRequest("group", [OffsetToCommit("t", 0, 5), OffsetToCommit("u", 0, 5)])
    harness.groups.commit_in_transaction(TxnCommitRequest(commit, 7, 0))
    harness.groups.topics_deleted(["t"])
    index = harness.groups.partition_of("group").partition
    harness.log.put(index, 7, [(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00")], is_control=True)
    harness.groups.end_transaction(index, 7, True, None)
    assert fetch(harness) == fetch(harness.restarted()) == {("u", 0): 5}


def test_an_offset_that_is_deleted_while_a_transaction_holds_it(harness):
    """As with Kafka: the transaction's end does not bring it back, whether or not another was committed before."""
    commit(harness, ("t", 0, 3))
    offsets = CommitRequest("group", [OffsetToCommit("t", 0, 5), OffsetToCommit("t", 1, 5), OffsetToCommit("u", 0, 5)])
    harness.groups.commit_in_transaction(TxnCommitRequest(offsets, 7, 0))
    assert harness.groups.delete_offsets("group", [("t", 0), ("t", 1), ("t", 2)]) == [ErrorCode.NONE] * 3
    index = harness.groups.partition_of("group").partition
    harness.log.put(index, 7, [(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00")], is_control=True)
    harness.groups.end_transaction(index, 7, True, None)
    assert fetch(harness) == fetch(harness.restarted()) == {("u", 0): 5}


# -- expiry


def expire(harness, milliseconds):
    harness.time.advance(milliseconds)
    harness.time.advance(600_000)


def test_offsets_of_a_simple_group_expire_after_their_commit(harness):
    commit(harness, ("t", 0, 5))
    harness.time.advance(3 * DAY)
    commit(harness, ("t", 1, 6))
    expire(harness, 4 * DAY)
    assert fetch(harness) == {("t", 1): 6}
    assert harness.groups.expired_offsets == 1
    expire(harness, 3 * DAY)
    assert fetch(harness) == {}
    assert harness.groups.group_count == 0
    assert harness.log.records[-1] == (group_key("group"), None)


def test_offsets_of_a_group_that_became_empty_expire_together(harness):
    (alice,) = harness.stable("alice", session_timeout_ms=1_800_000)
    commit(harness, ("t", 0, 5), member_id=alice.member_id, generation=1)
    for _ in range(8 * 50):
        harness.time.advance(DAY // 50)
        alice.heartbeat()
    assert fetch(harness) == {}  # "t" is not what alice reads
    commit(harness, ("topic", 0, 5), member_id=alice.member_id, generation=1)
    for _ in range(8 * 50):
        harness.time.advance(DAY // 50)
        alice.heartbeat()
    assert fetch(harness) == {("topic", 0): 5}  # this is
    harness.groups.leave("group", [LeavingMember(alice.member_id)])
    expire(harness, 6 * DAY)
    assert fetch(harness) == {("topic", 0): 5}
    expire(harness, 1 * DAY)
    assert fetch(harness) == {}
    assert harness.groups.group_count == 0


def test_groups_of_other_kinds_keep_their_offsets_while_they_have_members(harness):
    (worker,) = harness.stable("worker", protocol_type="connect", session_timeout_ms=1_800_000)
    commit(harness, ("t", 0, 5), member_id=worker.member_id, generation=1)
    for _ in range(8 * 50):
        harness.time.advance(DAY // 50)
        worker.heartbeat()
    assert fetch(harness) == {("t", 0): 5}


def test_a_retention_time_of_the_clients_own(harness):
    commit(harness, ("t", 0, 5), retention_ms=1_000_000)
    commit(harness, ("t", 1, 5), retention_ms=30 * DAY)
    harness.time.advance(1_200_000)
    assert fetch(harness) == {("t", 1): 5}
    expire(harness, 29 * DAY)
    assert fetch(harness) == {("t", 1): 5}
    expire(harness, 1 * DAY)
    assert fetch(harness) == {}


def test_offsets_of_a_group_with_very_many_expire_in_turns():
    """Those of 100,000 partitions held the loop for a second."""
    harness = Groups(config={"offsets_retention_check_interval_ms": 100 * DAY})
    for start in range(0, 9_000, 3_000):
        commit(harness, *((f"t{start}", number, 5) for number in range(3_000)))
    harness.time.advance(3 * DAY)
    commit(harness, *(("kept", number, 5) for number in range(1_000)))
    harness.time.advance(5 * DAY)
    turns = []
    expiring = harness.groups._commits.expire()
    while True:
        before = harness.groups.expired_offsets
        ended = next(expiring, expiring) is expiring
        turns.append(harness.groups.expired_offsets - before)
        if ended:
            break
        if len(turns) == 1:
            commit(harness, ("t6000", 2_999, 7))  # it is new: it stays
    assert max(turns) <= 2_500
    assert sum(turns) == 8_999
    assert len(fetch(harness)) == 1_001
    assert fetch(harness)["t6000", 2_999] == 7
    assert fetch(harness.restarted()) == fetch(harness)
    harness.time.advance(7 * DAY)
    list(harness.groups._commits.expire())
    assert harness.groups.group_count == 0
    harness.close()


def test_a_group_that_is_deleted_while_it_expires():
    harness = Groups(config={"offsets_retention_check_interval_ms": 100 * DAY})
    commit(harness, *(("t", number, 5) for number in range(5_000)))
    harness.time.advance(8 * DAY)
    expiring = harness.groups._commits.expire()
    next(expiring)
    assert harness.groups.delete_group("group") is ErrorCode.NONE
    commit(harness, ("t", 4_999, 6))
    list(expiring)
    assert fetch(harness) == {("t", 4_999): 6}
    harness.close()


def test_a_retention_time_without_an_end(harness):
    """The longest that can be said is beyond the last time that can be written."""
    assert commit(harness, ("t", 0, 5), retention_ms=2**63 - 1) == [ErrorCode.NONE]
    expire(harness, 1000 * DAY)
    assert fetch(harness) == {("t", 0): 5}


def test_empty_groups_without_offsets_are_forgotten(harness):
    (alice,) = harness.stable("alice")
    harness.groups.leave("group", [LeavingMember(alice.member_id)])
    harness.time.advance(600_000)
    assert harness.groups.group_count == 0
    assert harness.restarted().groups.group_count == 0


def test_ids_given_out_keep_an_empty_group(harness):
    harness.time.advance(599_000)
    coming = now(harness.join())
    harness.time.advance(1_000)
    assert harness.groups.group_count == 1
    assert isinstance(harness.join(member_id=coming.member_id), asyncio.Future)


def test_expiry_works_in_slices():
    harness = Groups(config={"offsets_retention_minutes": 15})
    for index in range(4):
        commit(harness, *(("t", p, p) for p in range(OFFSETS_PER_EXPIRY_SLICE)), group_id=f"group{index}")
    harness.time.advance(600_000)
    assert harness.groups.offset_count == 4 * OFFSETS_PER_EXPIRY_SLICE
    left = []
    real = harness.time.call_at

    def counting(delay):
        left.append(harness.groups.offset_count)
        real(delay)

    harness.time.call_at = counting
    harness.time.advance(600_000)
    # After each group's worth of work the loop gets its turn; then the next round is a long way off.
    assert left == [OFFSETS_PER_EXPIRY_SLICE * n for n in (3, 2, 1, 0)] + [0]
    harness.close()


def test_expiry_goes_on_after_a_failure(harness):
    commit(harness, ("t", 0, 5))
    harness.time.advance(7 * DAY - 1)
    harness.log.failure = KafkaStorageError("disk")
    harness.time.advance(600_000)
    assert fetch(harness) == {("t", 0): 5}
    harness.log.failure = None
    harness.time.advance(600_000)
    assert fetch(harness) == {}
