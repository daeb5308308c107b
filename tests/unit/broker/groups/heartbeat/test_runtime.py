"""The driver: write, replay, delays; loading; all types through one coordinator."""

from __future__ import annotations

import pytest
from support.groups import Groups, now
from support.heartbeat_groups import Image, make_environment, state_of
from tidelog.broker.groups.classic.metadata import GroupMetadata
from tidelog.broker.groups.consumer import records
from tidelog.broker.groups.consumer.group import ConsumerGroup, ConsumerMember
from tidelog.broker.groups.heartbeat.machine import Delay, DelayCleared, DelaySet, MemberGone, Outcome, random_id
from tidelog.broker.groups.offset_commits import CommitRequest, OffsetToCommit
from tidelog.broker.groups.store.group import Committer, GroupType
from tidelog.broker.groups.store.records import group_key
from tidelog.broker.groups.store.timers import DelayKind
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.storage.exceptions import KafkaStorageError

SESSION_MS = 45_000


@pytest.fixture
def harness():
    groups = Groups(environment=make_environment(Image(t=2)))
    yield groups
    groups.close()


def group_of(harness, group_id="g"):
    return harness.groups.heartbeat_groups.read(group_id)


def joined(*members, epoch=2, replaced=None):
    made = [ConsumerMember(member_id=name, member_epoch=epoch, subscribed_topics=frozenset("t")) for name in members]
    return Outcome(
        "hello",
        [
            *(records.member_record("g", member) for member in made),
            records.epoch_record("g", epoch, 0),
            *(records.current_record("g", member) for member in made),
        ],
        [DelaySet(Delay(DelayKind.SESSION, name), SESSION_MS) for name in members],
        replaced=replaced,
    )


def run(harness, outcome, group_id="g"):
    return harness.groups.heartbeat_groups.run(group_id, lambda group, now_ms: outcome, kind=GroupType.CONSUMER)


def test_records_are_written_and_then_hold(harness):
    assert run(harness, joined("a")) == "hello"
    assert list(group_of(harness).members) == ["a"]
    assert len(harness.log.records) == 3
    assert [(g.group_id, g.group_type, g.state_name) for g in harness.groups.list_groups()] == [
        ("g", "consumer", "Assigning")
    ]
    assert harness.groups.list_groups(types=["Share", "classic"]) == []
    assert len(harness.groups.list_groups(["assigning"], ["CONSUMER"])) == 1
    described = harness.groups.describe_group("g")
    assert (described.error, described.state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert described.error_message == "Group g is not a classic group."


def test_what_cannot_be_written_has_not_happened(harness):
    harness.log.failure = KafkaStorageError("no room")
    with pytest.raises(ProtocolError) as caught:
        run(harness, joined("a"))
    assert caught.value.code is ErrorCode.NOT_COORDINATOR
    assert group_of(harness) is None
    assert harness.groups.heartbeat_groups.delay_count("g") == 0


def test_the_answer_waits_until_the_write_is_durable(harness):
    harness.log.durable = False
    task = harness.loop.create_task(run(harness, joined("a")))
    harness.loop.run_until_complete(harness.loop.create_task(_turn()))
    assert not task.done()
    harness.log.sync()
    assert harness.loop.run_until_complete(task) == "hello"
    task = harness.loop.create_task(run(harness, joined("b", epoch=3)))
    harness.loop.run_until_complete(harness.loop.create_task(_turn()))
    harness.log.sync(KafkaStorageError("gone"))
    with pytest.raises(ProtocolError):
        harness.loop.run_until_complete(task)


def test_an_answer_that_writes_nothing_waits_for_what_it_tells_of(harness):
    """A member that joined again after a lost answer was told at once what no disk had."""
    harness.log.durable = False
    first = harness.loop.create_task(run(harness, joined("a")))
    again = harness.loop.create_task(run(harness, Outcome("hello")))
    harness.loop.run_until_complete(harness.loop.create_task(_turn()))
    assert not again.done()
    harness.log.sync()
    assert [harness.loop.run_until_complete(each) for each in (first, again)] == ["hello", "hello"]
    assert run(harness, Outcome("hello")) == "hello"


def test_what_a_failed_sync_has_lost_is_told_to_nobody(harness):
    """Found by the simulation's seed 3: two members of a consumer group were in epoch 6 with every partition."""
    harness.log.durable = False
    first = harness.loop.create_task(run(harness, joined("a")))
    harness.loop.run_until_complete(harness.loop.create_task(_turn()))
    harness.log.sync(KafkaStorageError("gone"))
    with pytest.raises(ProtocolError):
        harness.loop.run_until_complete(first)
    again = harness.loop.create_task(run(harness, Outcome("hello")))
    harness.loop.run_until_complete(harness.loop.create_task(_turn()))
    assert not again.done()
    harness.log.sync(KafkaStorageError("gone"))
    with pytest.raises(ProtocolError) as caught:
        harness.loop.run_until_complete(again)
    assert caught.value.code is ErrorCode.NOT_COORDINATOR


def test_what_a_failed_sync_held_back_is_told_after_the_next_one(harness):
    harness.log.durable = False
    first = harness.loop.create_task(run(harness, joined("a")))
    harness.loop.run_until_complete(harness.loop.create_task(_turn()))
    harness.log.sync(KafkaStorageError("no room"))
    with pytest.raises(ProtocolError):
        harness.loop.run_until_complete(first)
    again = harness.loop.create_task(run(harness, Outcome("hello")))
    harness.loop.run_until_complete(harness.loop.create_task(_turn()))
    harness.log.sync()
    assert harness.loop.run_until_complete(again) == "hello"
    assert run(harness, Outcome("hello")) == "hello"


async def _turn():
    pass


def test_a_session_ends(harness):
    run(harness, joined("a", "b"))
    harness.time.advance(SESSION_MS - 1)
    run(harness, Outcome(None, effects=[DelaySet(Delay(DelayKind.SESSION, "b"), SESSION_MS)]))
    harness.time.advance(1)
    assert list(group_of(harness).members) == ["b"]
    assert group_of(harness).group_epoch == 3
    harness.time.advance(SESSION_MS)
    assert group_of(harness).state_name == "Empty"
    assert harness.groups.heartbeat_group_rebalances[GroupType.CONSUMER] == 2


def test_delays_are_cleared_whatever_their_epoch_and_with_their_member(harness):
    delays = harness.groups.heartbeat_groups.delay_count
    run(harness, joined("a", "b"))
    of_a = [Delay(kind, "a", 2) for kind in (DelayKind.REBALANCE, DelayKind.JOIN, DelayKind.SYNC)]
    run(harness, Outcome(None, effects=[DelaySet(each, 1000) for each in [*of_a, Delay(DelayKind.REBALANCE, "b", 2)]]))
    assert delays("g") == 6
    cleared = [Delay(DelayKind.REBALANCE, "b", 99), Delay(DelayKind.REBALANCE, "nobody")]
    run(harness, Outcome(None, effects=[DelayCleared(each) for each in cleared]))
    assert delays("g") == 5
    run(harness, Outcome(None, effects=[MemberGone("a")]))
    assert delays("g") == 1
    harness.time.advance(SESSION_MS)
    assert list(group_of(harness).members) == ["a"]


@pytest.mark.parametrize("leave", ["closed", "deleted", "succeeded"])
def test_a_group_that_is_forgotten_has_no_delays(harness, leave):
    run(harness, joined("a"))
    harness.time.advance(SESSION_MS)
    run(harness, Outcome(None, effects=[DelaySet(Delay(DelayKind.ASSIGNMENT, ""), 1000)]))
    assert harness.groups.heartbeat_groups.delay_count("g") == 1
    if leave == "closed":
        harness.groups.close()
    elif leave == "deleted":
        assert harness.groups.delete_group("g") is ErrorCode.NONE
    else:
        run(harness, Outcome(None, successor=GroupMetadata("g", 0)))
    assert harness.groups.heartbeat_groups.delay_count("g") == 0


def test_a_session_whose_end_cannot_be_written_is_tried_again(harness):
    run(harness, joined("a"))
    harness.log.failure = KafkaStorageError("no room")
    harness.time.advance(SESSION_MS)
    assert not group_of(harness).is_empty
    harness.log.failure = None
    harness.time.advance(5_000)
    assert group_of(harness).is_empty


def test_a_restart_knows_the_group_and_its_sessions_begin(harness):
    run(harness, joined("a", "b"))
    again = harness.restarted()
    assert state_of(group_of(again)) == state_of(group_of(harness))
    again.time.advance(SESSION_MS - 1)
    assert list(group_of(again).members) == ["a", "b"]
    again.time.advance(1)
    assert group_of(again).is_empty


def test_an_empty_group_is_deleted_with_its_offsets(harness):
    run(harness, joined("a"))
    assert harness.groups.delete_group("g") is ErrorCode.NON_EMPTY_GROUP
    harness.time.advance(SESSION_MS)
    harness.groups.commit_offsets(CommitRequest("g", [OffsetToCommit("t", 0, 5)]))
    assert harness.groups.delete_group("g") is ErrorCode.NONE
    assert group_of(harness) is None
    assert harness.groups.offset_count == 0
    assert harness.restarted().groups.list_groups() == []


def test_an_empty_group_expires_with_its_last_offset(harness):
    run(harness, joined("a"))
    harness.groups.commit_offsets(CommitRequest("g", [OffsetToCommit("t", 0, 5)], "a", None, 2))
    harness.time.advance(days=6)
    assert harness.groups.offset_count == 1
    harness.time.advance(days=2)
    assert (harness.groups.offset_count, group_of(harness)) == (0, None)
    assert harness.restarted().groups.list_groups() == []


def test_commits_and_fetches_are_checked(harness):
    run(harness, joined("a"))

    def commit(epoch, member="a"):
        return harness.groups.commit_offsets(CommitRequest("g", [OffsetToCommit("t", 0, 5)], member, None, epoch))

    assert commit(2) == [ErrorCode.NONE]
    for bad, code in (((3,), ErrorCode.STALE_MEMBER_EPOCH), ((2, "x"), ErrorCode.UNKNOWN_MEMBER_ID)):
        with pytest.raises(ProtocolError) as caught:
            commit(*bad)
        assert caught.value.code is code
    assert harness.groups.fetch_offsets("g", None, member_id="a", member_epoch=2).topics[0].partitions[0].offset == 5
    assert harness.groups.fetch_offsets("g", None, member_id="a", member_epoch=1).error is ErrorCode.STALE_MEMBER_EPOCH
    assert harness.groups.delete_offsets("g", [("t", 0)]) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert group_of(harness).may_commit(Committer("a", None, 2), ()) is ErrorCode.NONE


def test_it_takes_the_place_of_an_empty_classic_group_whose_offsets_stay(harness):
    harness.groups.commit_offsets(CommitRequest("g", [OffsetToCommit("t", 0, 5)]))
    classic = group_of(harness)
    run(harness, joined("a", replaced=classic))
    assert isinstance(group_of(harness), ConsumerGroup)
    assert harness.log.records[1] == (group_key("g"), None)
    again = harness.restarted()
    assert isinstance(group_of(again), ConsumerGroup)
    assert again.groups.offset_count == 1


def test_an_empty_one_gives_way_to_a_classic_join(harness):
    run(harness, joined("a"))
    harness.time.advance(SESSION_MS)
    harness.groups.commit_offsets(CommitRequest("g", [OffsetToCommit("t", 0, 5)]))
    assert now(harness.join(group_id="g", member_id="unknown")).error is ErrorCode.UNKNOWN_MEMBER_ID
    member = harness.member(group_id="g").join()
    harness.time.advance(6000)
    assert member.joined.error is ErrorCode.NONE
    again = harness.restarted()
    assert again.groups.list_groups()[0].group_type == "classic"
    assert again.groups.offset_count == 1


def test_the_end(harness):
    run(harness, joined("a"))
    harness.groups.close()
    with pytest.raises(ProtocolError):
        group_of(harness)
    harness.time.advance(SESSION_MS * 2)


def test_random_ids():
    ids = {random_id() for _ in range(2000)}
    assert len(ids) == 2000
    assert all(len(each) == 22 and not each.startswith("-") for each in ids)
