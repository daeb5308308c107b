"""Life of the coordinator: loading, the topic, listing and describing, the end."""

from __future__ import annotations

import asyncio
import threading

import pytest
from support.groups import Groups, MemoryCoordinatorLog, now, run_callbacks, subscription
from support.heartbeat_groups import make_environment
from tidelog.broker.coordinator.internal_topic import ReplayBatch
from tidelog.broker.coordinator.runtime import partition_for
from tidelog.broker.groups.classic.events import LeavingMember, SyncRequest
from tidelog.broker.groups.classic.membership import GroupMembership
from tidelog.broker.groups.offset_commits import CommitRequest, FetchedGroup, OffsetToCommit
from tidelog.protocol.errors import ErrorCode, ProtocolError


def commit(harness, group_id, offset=5):
    return harness.groups.commit_offsets(CommitRequest(group_id, [OffsetToCommit("t", 0, offset)]))


def offset(harness, group_id):
    return harness.groups.fetch_offsets(group_id, None)


# -- loading


def test_a_restart_knows_groups_and_offsets(harness):
    alice, bob = harness.stable("alice", "bob")
    commit(harness, "simple", 9)
    harness.time.advance(5_000)
    again = harness.restarted()
    assert again.groups.describe_group("group") == harness.groups.describe_group("group")
    assert again.state("simple") == "Empty"
    assert offset(again, "simple") == offset(harness, "simple")
    # Its members go on as if nothing had been, and have a whole session time-out from now.
    for member in (alice, bob):
        member.harness = again
    again.time.advance(9_999)
    assert alice.heartbeat() is ErrorCode.NONE
    assert bob.heartbeat() is ErrorCode.NONE
    assert bob.sync().synced.assignment == b"bob"


def test_members_that_do_not_come_back_after_a_restart_time_out(harness):
    harness.stable("alice")
    again = harness.restarted()
    again.time.advance(10_000)
    assert again.state() == "Empty"


def test_a_lowered_limit_shrinks_a_group_at_the_next_start(harness):
    members = harness.stable("alice", "bob", "carol")
    again = Groups(log=harness.log, time=harness.time, loop=harness.loop, config={"group_max_size": 2})
    assert again.state() == "PreparingRebalance"
    for member in members:
        member.harness = again
        member.join()
    assert members[2].joined.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert members[0].joined.generation == 2
    assert len(members[0].joined.members) == 2


def test_members_join_when_the_clock_was_set_back_after_a_start(harness):
    """What all members have said is counted before the first of them joins, and that waited until the clock was there again."""
    harness.stable("alice")
    again = harness.restarted()
    again.time.set_wall_clock(again.time.milliseconds() - 3_600_000)
    bob = again.member("bob", group_id="another").join()
    again.time.advance(60_000)
    assert bob.joined.error is ErrorCode.NONE


def test_while_loading(harness):
    (alice,) = harness.stable("alice")
    commit(harness, "simple")
    loading = Groups(log=harness.log, time=harness.time, loop=harness.loop, load=False)
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert now(loading.join()).error is error
    assert now(loading.groups.sync(SyncRequest("group", 1, alice.member_id))).error is error
    assert loading.groups.heartbeat("group", alice.member_id, None, 1) is ErrorCode.NONE
    assert loading.groups.leave("group", [LeavingMember(alice.member_id)]) == (error, [])
    with pytest.raises(ProtocolError) as caught:
        commit(loading, "simple")
    assert caught.value.code is error
    assert offset(loading, "simple") == FetchedGroup([], error)
    assert loading.groups.delete_group("simple") is error
    assert loading.groups.describe_group("group").error is error
    with pytest.raises(ProtocolError) as caught:
        loading.groups.list_groups()
    assert caught.value.code is error
    assert not loading.groups.is_loaded


def test_a_partition_serves_as_soon_as_it_is_there(harness):
    names = {partition_for(f"g{i}", 4): f"g{i}" for i in range(20)}
    for name in names.values():
        commit(harness, name)
    gates = [asyncio.Event() for _ in range(4)]

    async def gated(task):
        await gates[order.pop(0)].wait()
        return task()

    order = [0, 1, 2, 3]
    loading = Groups(log=harness.log, time=harness.time, loop=harness.loop, load=False, run_blocking=gated)

    async def scenario():
        await loading.groups.start(0)
        gates[0].set()
        for _ in range(5):
            await asyncio.sleep(0)
        first = [offset(loading, names[p]).error for p in range(4)]
        for gate in gates:
            gate.set()
        while not loading.groups.is_loaded:  # noqa: ASYNC110 - turns of the loop
            await asyncio.sleep(0)
        return first, [offset(loading, names[p]).error for p in range(4)]

    before, after = harness.loop.run_until_complete(scenario())
    assert before == [ErrorCode.NONE] + [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3
    assert after == [ErrorCode.NONE] * 4


def test_a_partition_that_cannot_be_read_has_no_coordinator(harness, caplog):
    names = {partition_for(f"g{i}", 4): f"g{i}" for i in range(20)}
    for name in names.values():
        commit(harness, name)

    def replay(partition):
        if partition == 2:
            raise OSError("unreadable")
        return iter(harness.log.batches[partition])

    harness.log.replay = replay
    again = harness.restarted()
    errors = [offset(again, names[p]).error for p in range(4)]
    assert errors == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NONE,
    ]
    assert "__consumer_offsets-2 cannot be loaded" in caplog.text


def test_a_group_that_was_taken_over_by_half_is_forgotten_with_its_sessions(harness, monkeypatch, caplog):
    """What is in the log is what the next start finds: nothing may be written that follows from a part of it."""
    harness.stable("alice")
    partition = partition_for("group", 4)
    other = next(name for name in map(str, range(100)) if partition_for(name, 4) != partition)
    commit(harness, other)
    taken_over = GroupMembership.loaded

    def fail(self, shard):
        taken_over(self, shard)
        if shard.index == partition:
            raise ZeroDivisionError("a defect")

    monkeypatch.setattr(GroupMembership, "loaded", fail)
    again = harness.restarted()
    assert [group.group_id for group in again.groups.list_groups()] == [other]
    assert offset(again, "group").error is ErrorCode.NOT_COORDINATOR
    assert offset(again, other).error is ErrorCode.NONE
    harness.groups.close()
    before = harness.log.end_offset(partition)
    caplog.clear()
    again.time.advance(100_000)
    assert harness.log.end_offset(partition) == before
    assert caplog.text == ""


async def test_loading_happens_in_another_thread():
    log = MemoryCoordinatorLog(asyncio.get_running_loop())
    threads = set()

    def replay(partition):
        threads.add(threading.current_thread())
        return iter([ReplayBatch(0, -1, False, False, ())])

    log.replay = replay
    log.is_empty = lambda partition: False
    loop = asyncio.get_running_loop()
    harness = Groups(log=log, loop=loop, load=False, run_blocking=lambda task: loop.run_in_executor(None, task))
    await harness.groups.load()
    assert harness.groups.is_loaded
    assert threads
    assert threading.current_thread() not in threads
    harness.close()


def test_a_start_waits_a_little_for_the_loading(harness):
    commit(harness, "group")
    again = Groups(log=harness.log, time=harness.time, loop=harness.loop, load=False)
    harness.loop.run_until_complete(again.groups.start(10))
    assert again.groups.is_loaded


def test_a_topic_that_is_deleted_while_its_offsets_are_loaded(harness):
    commit(harness, "group")
    loading = Groups(log=harness.log, time=harness.time, loop=harness.loop, load=False)
    loading.groups.topics_deleted(["t"])
    assert offset(loading, "group").error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    harness.loop.run_until_complete(loading.groups.load())
    assert offset(loading, "group") == FetchedGroup([])
    assert harness.log.records[-1][1] is None


# -- the topic


def test_without_the_topic_clients_are_sent_to_find_coordinator():
    harness = Groups(exists=False, environment=make_environment())
    assert not harness.groups.is_open
    assert now(harness.join()).error is ErrorCode.NOT_COORDINATOR
    assert offset(harness, "group") == FetchedGroup([], ErrorCode.NOT_COORDINATOR)
    assert harness.groups.heartbeat("group", "m", None, 1) is ErrorCode.NOT_COORDINATOR
    assert harness.groups.list_groups() == []
    # Once a consumer group (KIP-848) was asked for, requests of classic members look for one first.
    assert harness.groups.heartbeat_groups is not None
    assert now(harness.join()).error is ErrorCode.NOT_COORDINATOR
    assert harness.groups.heartbeat("group", "m", None, 1) is ErrorCode.NOT_COORDINATOR
    assert now(harness.groups.sync(SyncRequest("group", 1, "m"))).error is ErrorCode.NOT_COORDINATOR
    harness.loop.run_until_complete(harness.groups.ensure_topic())
    assert harness.groups.is_open
    assert harness.groups.is_loaded
    assert now(harness.join()).error is ErrorCode.MEMBER_ID_REQUIRED
    harness.loop.run_until_complete(harness.groups.ensure_topic())
    assert harness.log.made == 1
    harness.close()


def test_many_may_ask_for_the_topic_at_once():
    harness = Groups(exists=False)

    async def both():
        await asyncio.gather(*(harness.groups.ensure_topic() for _ in range(5)))

    harness.loop.run_until_complete(both())
    commit(harness, "group")
    assert harness.groups.group_count == 1
    harness.close()


# -- lists and descriptions


def test_list_groups(harness):
    harness.stable("alice", group_id="stable")
    harness.member("bob", group_id="joining").join()
    commit(harness, "simple")
    everything = {(g.group_id, g.state_name, g.listed_protocol_type) for g in harness.groups.list_groups()}
    assert everything == {
        ("stable", "Stable", "consumer"),
        ("joining", "PreparingRebalance", "consumer"),
        ("simple", "Empty", ""),
    }
    assert [g.group_id for g in harness.groups.list_groups(["stable"])] == ["stable"]
    assert {g.group_id for g in harness.groups.list_groups([" PREPARINGREBALANCE ", "Empty"])} == {"joining", "simple"}
    assert len(harness.groups.list_groups([], ["Classic"])) == 3
    assert harness.groups.list_groups([], ["consumer", "share"]) == []
    assert harness.groups.list_groups(["Dead"]) == []


def test_describe_group(harness):
    alice, bob = harness.stable("alice", "bob")
    group = harness.groups.describe_group("group")
    assert (group.state, group.protocol_type, group.protocol) == ("Stable", "consumer", "range")
    assert [(m.member_id, m.client_id, m.client_host) for m in group.members] == [
        (alice.member_id, "alice", "/127.0.0.1"),
        (bob.member_id, "bob", "/127.0.0.1"),
    ]
    assert [m.metadata for m in group.members] == [subscription("topic")] * 2
    assert [m.assignment for m in group.members] == [b"alice", b"bob"]
    alice.join()
    group = harness.groups.describe_group("group")
    assert (group.state, group.protocol) == ("PreparingRebalance", "")
    assert [m.metadata for m in group.members] == [b"", b""]


def test_describe_what_is_not_there(harness):
    group = harness.groups.describe_group("nobody")
    assert (group.state, group.error) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert group.error_message == "Group nobody not found."
    assert harness.groups.describe_group("").error is ErrorCode.INVALID_GROUP_ID


# -- the end


def test_close_answers_everybody():
    harness = Groups()
    alice, bob = (harness.member(name, group_id="syncing").join() for name in ("alice", "bob"))
    carol = harness.member("carol", group_id="joining").join()
    harness.time.advance(2_999)
    dave = harness.member("dave", group_id="joining").join()
    harness.time.advance(1)
    harness.time.advance(2_999)
    bob.sync() if not bob.waits_for_join else None
    harness.groups.close()
    run_callbacks(harness.loop)
    assert carol.joined.error is dave.joined.error is ErrorCode.NOT_COORDINATOR
    assert alice.joined is not None
    assert now(harness.join()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.time.waiting() == []
    with pytest.raises(ProtocolError) as caught:
        harness.groups.list_groups()
    assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    harness.close()


def test_close_answers_those_who_wait_for_their_assignment():
    harness = Groups()
    alice, bob = (harness.member(name).join() for name in ("alice", "bob"))
    harness.time.advance(6000)
    bob.sync()
    harness.log.durable = False
    alice.sync({})
    harness.groups.close()
    assert alice.synced.error is bob.synced.error is ErrorCode.NOT_COORDINATOR
    harness.log.sync()  # comes too late, and harms nobody
    assert harness.time.waiting() == []
    harness.close()


def test_close_ends_the_loading():
    ended = []

    async def never(task):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(True)
            raise

    harness = Groups(load=False, run_blocking=never)
    harness.log.is_empty = lambda partition: False

    async def scenario():
        await harness.groups.start(0)
        harness.groups.close()
        await asyncio.sleep(0)

    harness.loop.run_until_complete(scenario())
    assert ended == [True]
    harness.close()
