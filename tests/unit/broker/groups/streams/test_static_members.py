"""Threads with a group.instance.id: away for a while, back under another id, with the tasks that they had."""

from __future__ import annotations

import random

import pytest
from support.heartbeat_groups import Image, state_of
from support.streams_groups import GROUP, StreamsClient, StreamsWorld
from tidelog.broker.groups.heartbeat.group import AWAY_EPOCH
from tidelog.broker.groups.store.group import CommittedPartition, Committer
from tidelog.broker.groups.streams.tasks import NO_TASKS, each_task
from tidelog.protocol.errors import ErrorCode, ProtocolError

AT_ONCE = {"group_streams_initial_rebalance_delay_ms": 0, "group_streams_assignment_interval_ms": 0}


def static(world, member_id, instance_id, process_id="p"):
    return StreamsClient(world, member_id, process_id, instance_id=instance_id)


def refused(client, **changes):
    with pytest.raises(ProtocolError) as caught:
        client.beat(**changes)
    return caught.value.code, caught.value.message


def settle(*clients):
    for _ in range(6):
        for client in clients:
            client.beat()
            client.work()


def pair():
    """Two members with three tasks each."""
    world = StreamsWorld(**AT_ONCE)
    first, second = static(world, "a", "i"), static(world, "b", "j", "q")
    settle(first, second)
    assert (len(first.active), len(second.active)) == (3, 3)
    return world, first, second


def test_who_comes_back_has_the_same_tasks_in_the_same_epoch():
    world, first, second = pair()
    epoch, had = world.group.group_epoch, first.active
    assert first.beat(member_epoch=-2).member_epoch == -2
    assert world.group.members["a"].member_epoch == AWAY_EPOCH
    settle(second)
    assert len(second.active) == 3
    back = static(world, "c", "i")
    answer = back.beat(client_host="/10.0.0.9")
    assert (answer.member_epoch, answer.tasks is not None, world.group.group_epoch) == (epoch, True, epoch)
    back.work()
    assert back.active == had
    assert set(world.group.members) == {"b", "c"}
    assert (world.group.members["c"].client_host, world.group.static_members["i"]) == ("/10.0.0.9", "c")
    settle(back, second)
    assert (back.active, world.group.group_epoch) == (had, epoch)
    assert {key for key, _ in world.delays} == {"b", "c"}


def test_who_comes_back_under_its_own_id():
    world, first, _ = pair()
    had = first.active
    first.leave()  # for good: somebody else is it from now on
    again = static(world, "a", "i")
    settle(again)
    again.beat(member_epoch=-2)
    again.epoch, again.running = 0, NO_TASKS
    again.beat()
    again.work()
    assert len(again.active) == len(had)


def test_another_process_gets_tasks_anew():
    world, first, second = pair()
    epoch = world.group.group_epoch
    first.beat(member_epoch=-2)
    back = static(world, "c", "i", "r")
    back.beat()
    assert world.group.group_epoch == epoch + 1
    settle(back, second)
    assert len(back.active) == len(second.active) == 3


def test_who_does_not_come_back_is_put_out():
    world, first, second = pair()
    first.beat(member_epoch=-2)
    for _ in range(10):
        world.pass_time(5_000)
        second.beat()
    assert set(world.group.members) == {"b"}
    settle(second)
    assert len(second.active) == 6


def test_whose_session_begins_when_it_is_back_under_another_id():
    world, first, second = pair()
    first.beat(member_epoch=-2)
    world.pass_time(40_000)
    second.beat()
    back = static(world, "c", "i")
    back.beat()
    world.pass_time(10_000)
    assert set(world.group.members) == {"b", "c"}


def test_errors():
    world, first, _ = pair()
    code, message = refused(static(world, "c", "i"))
    assert (code, message) == (
        ErrorCode.UNRELEASED_INSTANCE_ID,
        "Static member c with instance id i cannot join the group because the instance id is owned by a member.",
    )
    assert refused(static(world, "a", "i"))[0] is ErrorCode.UNRELEASED_INSTANCE_ID
    first.beat(member_epoch=-2)
    static(world, "c", "i").beat()
    for epoch in (2, -1, -2):
        code, message = refused(first, member_epoch=epoch)
        assert (code, message) == (
            ErrorCode.FENCED_INSTANCE_ID, "Static member a with instance id i was fenced by member c.",
        )  # fmt: skip
    code, message = refused(static(world, "x", "nobody"), member_epoch=2)
    assert (code, message) == (ErrorCode.UNKNOWN_MEMBER_ID, "Instance id nobody is unknown.")


def test_a_full_group_takes_back_who_was_in_it():
    world = StreamsWorld(group_streams_max_size=1, **AT_ONCE)
    first = static(world, "a", "i")
    first.beat()
    first.beat(member_epoch=-2)
    assert refused(static(world, "b", "j"))[0] is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert static(world, "c", "i").beat().member_epoch == 2


def test_a_join_that_is_refused_may_come_again():
    world, first, _ = pair()
    had = first.active
    first.beat(member_epoch=-2)
    back = static(world, "c", "i")
    other = world.topology._replace(epoch=9)
    assert refused(back, topology=other)[0] is ErrorCode.INVALID_REQUEST
    for name in ("c", "d"):  # itself, or the next one
        world.restart()
        back = static(world, name, "i")
        back.beat()
        back.work()
        assert back.active == had
        back.beat(member_epoch=-2)


def test_commits_of_the_successor_count():
    world, first, _ = pair()
    first.beat(member_epoch=-2)
    back = static(world, "c", "i")
    epoch = back.beat().member_epoch
    task = next(iter(each_task(back.told.active)))
    topic = "orders" if task.subtopology == "0" else "by-account"
    for said, expected in ((epoch, ErrorCode.NONE), (0, ErrorCode.NONE), (epoch + 1, ErrorCode.STALE_MEMBER_EPOCH)):
        committer = Committer("c", "i", said)
        assert world.group.may_commit(committer, [CommittedPartition(topic, None, task.partition)]) is expected


@pytest.mark.parametrize("seed", range(20))
def test_static_members_that_come_and_go_keep_their_tasks(seed):
    """Whoever is away or back never makes a task move, however often ids change, and a restart finds the same."""
    rng = random.Random(seed)
    world = StreamsWorld(Image(orders=rng.randint(1, 6)), **AT_ONCE)
    clients = {name: static(world, f"{name}0", name, f"p{name}") for name in "ijk"}
    settle(*clients.values())
    had, epoch = {name: client.active for name, client in clients.items()}, world.group.group_epoch
    gone: set[str] = set()
    for number in range(1, 30):
        name = rng.choice("ijk")
        if rng.random() < 0.15:
            world.restart()
        elif name in gone:
            clients[name] = static(world, f"{name}{number}", name, f"p{name}")
            settle(clients[name])
            gone.discard(name)
        elif rng.random() < 0.6:
            clients[name].beat(member_epoch=-2)
            gone.add(name)
        else:
            settle(clients[name])
        world.pass_time(1_000)
        assert {each: client.active for each, client in clients.items()} == had
        assert (world.group.group_epoch, len(world.group.members)) == (epoch, 3)
        assert state_of(world.replayed()[GROUP]) == state_of(world.group)
