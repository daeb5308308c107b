"""What a heartbeat does: joining, staying, fencing, static members, leaving."""

from __future__ import annotations

from support.heartbeat_groups import Consumers, Image
from tidelog.broker.groups.heartbeat.group import MemberState
from tidelog.broker.groups.offset_commits import CommitRequest, OffsetToCommit
from tidelog.protocol.errors import ErrorCode as E

T4 = {("t", p) for p in range(4)}


def test_the_first_gets_everything_at_once(consumers):
    result, assigned = consumers.joins("a", "t")
    assert assigned == T4
    assert (result.member_id, result.member_epoch, result.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert consumers.group.state_name == "Stable"
    written = len(consumers.harness.log.records)
    assert consumers.beats("a", owns=T4).assigned is None
    assert consumers.beats("a").assigned is None
    assert len(consumers.harness.log.records) == written  # what changes nothing writes nothing


def test_partitions_move_when_they_are_given_up(consumers):
    consumers.joins("a", "t")
    consumers.beats("a", owns=T4)
    consumers.time.advance(1_000)
    first = consumers.joins("b", "t")
    assert (first.assigned, first.result.member_epoch) == (set(), 3)
    assert consumers.group.members["b"].state is MemberState.UNRELEASED_PARTITIONS
    told = consumers.beats("a")
    assert len(told.assigned) == 2
    assert told.result.member_epoch == 2  # it stays in its epoch until it has given up
    assert consumers.beats("b").assigned is None
    assert consumers.beats("a", owns=told.assigned).result.member_epoch == 3
    assert consumers.beats("b").assigned == T4 - told.assigned
    assert consumers.group.state_name == "Stable"


def test_who_asks_in_full_is_told_in_full(consumers):
    consumers.joins("a", "t")
    full = {"rebalance_timeout_ms": 30_000, "subscribed_topics": frozenset("t")}
    assert consumers.beats("a", owns=T4, **full).assigned == T4


def test_an_id_for_who_brings_none(consumers):
    consumers.epochs[""] = 0
    result, assigned = consumers.joins("", "t", chooses_id=False)
    assert result.member_id == "member1"
    assert assigned == T4
    assert consumers.refuses("", chooses_id=True, rebalance_timeout_ms=1) is E.INVALID_REQUEST


def test_fencing(consumers):
    consumers.joins("a", "t")
    consumers.beats("a", owns=T4)
    assert consumers.refuses("a", member_epoch=3) is E.FENCED_MEMBER_EPOCH
    assert consumers.refuses("a", member_epoch=1) is E.FENCED_MEMBER_EPOCH
    consumers.epochs["x"] = 2
    assert consumers.refuses("x") is E.UNKNOWN_MEMBER_ID
    # The answer with epoch 3 was lost: it comes again in epoch 2, with no more than it has.
    consumers.time.advance(1_000)
    consumers.beats("a", subscribed_topics=frozenset({"t", "u"}))
    assert consumers.epochs["a"] == 3
    assert consumers.beats("a", member_epoch=2, owns=T4).result.member_epoch == 3
    assert consumers.refuses("a", member_epoch=2) is E.FENCED_MEMBER_EPOCH
    consumers.image.put("v", 1)
    assert consumers.refuses("a", member_epoch=2, owns={("v", 0)}) is E.FENCED_MEMBER_EPOCH
    # Who is not sure any more joins again, and is told everything.
    assert len(consumers.joins("a", "t", "u").assigned) == 6


def test_no_such_group(consumers):
    consumers.epochs["a"] = 2
    assert consumers.refuses("a") is E.GROUP_ID_NOT_FOUND
    assert consumers.refuses("a", member_epoch=-1) is E.GROUP_ID_NOT_FOUND


def test_leaving(consumers):
    consumers.joins("a", "t")
    consumers.time.advance(1_000)
    consumers.joins("b", "t")
    result, assigned = consumers.beats("a", member_epoch=-1)
    assert (result.member_epoch, assigned) == (-1, None)
    assert list(consumers.group.members) == ["b"]
    consumers.time.advance(1_000)
    assert consumers.beats("b").assigned == T4
    consumers.beats("b", member_epoch=-1)
    assert consumers.group.state_name == "Empty"
    consumers.epochs["b"] = 4
    assert consumers.refuses("b", member_epoch=-1) is E.UNKNOWN_MEMBER_ID


def test_a_full_group():
    consumers = Consumers(Image(t=4), group_consumer_max_size=1)
    consumers.joins("a", "t", instance_id="i")
    consumers.epochs["b"] = 0
    first = {"rebalance_timeout_ms": 1, "subscribed_topics": frozenset("t"), "owned": {}}
    assert consumers.refuses("b", **first) is E.GROUP_MAX_SIZE_REACHED
    consumers.beats("a", member_epoch=-2, instance_id="i")
    assert len(consumers.joins("a2", "t", instance_id="i").assigned) == 4
    consumers.close()


def test_a_static_member_goes_away_and_comes_back(consumers):
    consumers.joins("a", "t", instance_id="i")
    consumers.time.advance(1_000)
    consumers.joins("b", "t")
    given_up = consumers.beats("a").assigned
    consumers.beats("a", owns=given_up)
    mine = consumers.beats("b").assigned
    epoch = consumers.group.group_epoch
    consumers.epochs["a2"] = 0
    first = {"rebalance_timeout_ms": 1, "subscribed_topics": frozenset("t"), "owned": {}, "instance_id": "i"}
    assert consumers.refuses("a2", **first) is E.UNRELEASED_INSTANCE_ID
    result, _ = consumers.beats("a", member_epoch=-2, instance_id="i")
    assert result.member_epoch == -2
    assert consumers.beats("b", owns=mine).assigned is None  # nobody gets what it had
    back = consumers.joins("a2", "t", instance_id="i")
    assert back.assigned == given_up
    assert consumers.group.group_epoch == epoch  # and nobody has to move
    assert "a" not in consumers.group.members
    assert consumers.refuses("a", member_epoch=3, instance_id="i") is E.FENCED_INSTANCE_ID
    consumers.epochs["x"] = 3
    assert consumers.refuses("x", instance_id="unknown") is E.UNKNOWN_MEMBER_ID
    # Its commits count at once, in whatever epoch it is.
    commit = CommitRequest("g", [OffsetToCommit("t", 0, 1)], "a2", None, consumers.epochs["a2"])
    assert consumers.harness.groups.commit_offsets(commit) == [E.NONE]


def test_a_static_member_that_does_not_come_back(consumers):
    consumers.joins("a", "t", instance_id="i")
    consumers.beats("a", member_epoch=-2, instance_id="i")
    consumers.time.advance(44_999)
    assert consumers.group.members
    consumers.time.advance(1)
    assert consumers.group.state_name == "Empty"


def test_who_does_not_give_up_in_time_is_put_out(consumers):
    consumers.joins("a", "t")
    consumers.time.advance(1_000)
    consumers.joins("b", "t")
    consumers.beats("a")
    for _ in range(6):
        consumers.time.advance(5_000)
        if "a" in consumers.group.members:
            consumers.beats("a", owns=T4)
        consumers.beats("b")
    assert list(consumers.group.members) == ["b"]
    consumers.time.advance(1_000)
    consumers.beats("b")
    assert consumers.has("b") == T4
    assert consumers.refuses("a") is E.UNKNOWN_MEMBER_ID


def test_settings_of_the_group():
    own = {"g": {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"}}
    consumers = Consumers(Image(t=1), own)
    assert consumers.joins("a", "t").result.heartbeat_interval_ms == 7_000
    consumers.time.advance(49_999)
    assert consumers.group.members
    consumers.time.advance(1)
    assert not consumers.group.members
    consumers.close()
