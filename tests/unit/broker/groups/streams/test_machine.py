"""The entry point of the type: delays, and what a start begins again."""

from __future__ import annotations

from support.streams_groups import StreamsClient, StreamsWorld
from tidelog.broker.groups.heartbeat.group import MemberState

AT_ONCE = {"group_streams_initial_rebalance_delay_ms": 0, "group_streams_assignment_interval_ms": 0}


def test_who_is_not_heard_of_is_put_out():
    world = StreamsWorld(**AT_ONCE)
    first, second = StreamsClient(world, "a"), StreamsClient(world, "b", "q")
    first.beat()
    second.beat()
    world.pass_time(44_999)
    first.beat()
    world.pass_time(1)
    assert list(world.group.members) == ["a"]
    assert world.group.state_name == "Assigning"


def test_who_does_not_give_up_its_tasks_in_time_is_put_out():
    world = StreamsWorld(**AT_ONCE)
    first, second = StreamsClient(world, "a", rebalance_timeout_ms=10_000), StreamsClient(world, "b", "q")
    first.beat()
    first.work()
    second.beat()
    first.beat()
    assert world.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    world.pass_time(9_999)
    first.beat()
    assert "a" in world.group.members
    world.pass_time(1)
    assert list(world.group.members) == ["b"]


def test_giving_up_in_time_ends_the_delay():
    world = StreamsWorld(**AT_ONCE)
    first, second = StreamsClient(world, "a", rebalance_timeout_ms=10_000), StreamsClient(world, "b", "q")
    first.beat()
    first.work()
    second.beat()
    first.beat()
    first.work()
    first.beat()
    world.pass_time(20_000)
    assert list(world.group.members) == ["a", "b"]


def test_a_start_gives_every_member_a_whole_session():
    world = StreamsWorld(**AT_ONCE)
    first, second = StreamsClient(world, "a", rebalance_timeout_ms=10_000), StreamsClient(world, "b", "q")
    first.beat()
    first.work()
    second.beat()
    first.beat()
    world.restart()
    assert sorted(world.delays) == [("a", "rebalance"), ("a", "session"), ("b", "session")]
    assert second.beat().statuses == ()
    world.pass_time(10_000)
    assert list(world.group.members) == ["b"]


def test_nobody_is_left_when_the_first_assignment_is_due():
    world = StreamsWorld()
    client = StreamsClient(world, "a")
    client.beat()
    world.delays["", "assignment"] = (world.now_ms + 10, world.delays["", "assignment"][1])
    client.leave()
    written = len(world.log)
    world.pass_time(10)
    assert (world.group.delayed_until_ms, len(world.log)) == (0, written)
