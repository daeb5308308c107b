"""Heartbeats by example; random ones are in tests/property/test_streams_model.py."""

from __future__ import annotations

import pytest
from support.heartbeat_groups import Image
from support.streams_groups import GROUP, TOPOLOGY, StreamsClient, StreamsWorld
from tidelog.broker.groups.classic.metadata import GroupMetadata
from tidelog.broker.groups.consumer.group import ConsumerGroup
from tidelog.broker.groups.heartbeat.group import MemberState
from tidelog.broker.groups.streams.group import StreamsEndpoint
from tidelog.broker.groups.streams.tasks import NO_TASKS, Tasks
from tidelog.broker.groups.streams.topology import StatusCode, Subtopology, Topology
from tidelog.protocol.errors import ErrorCode, ProtocolError

AT_ONCE = {"group_streams_initial_rebalance_delay_ms": 0, "group_streams_assignment_interval_ms": 0}
ALL = {"0": {0, 1, 2}, "1": {0, 1, 2}}


def codes(answer):
    return [code for code, _ in answer.statuses]


def refused(client, **changes):
    with pytest.raises(ProtocolError) as caught:
        client.beat(**changes)
    return caught.value.code, caught.value.message


def test_the_first_member_gets_everything():
    world = StreamsWorld(**AT_ONCE)
    answer = StreamsClient(world, "a").beat()
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 2, 5000)
    assert answer.statuses == ()
    assert {name: set(epochs) for name, epochs in answer.tasks.active.items()} == ALL
    assert {epoch for epochs in answer.tasks.active.values() for epoch in epochs.values()} == {2}
    assert (world.group.state_name, world.group.group_epoch, world.group.assignment_epoch) == ("Stable", 2, 2)
    assert world.image.get("store-changelog").partition_count == 3


def test_what_does_not_change_is_neither_written_nor_told():
    world = StreamsWorld(**AT_ONCE)
    client = StreamsClient(world, "a")
    client.beat()
    client.work()
    written = len(world.log)
    answer = client.beat()
    assert (answer.tasks, answer.member_epoch, len(world.log)) == (None, 2, written)
    assert client.beat(rack_id="other").member_epoch == 3
    assert len(world.log) == written + 4  # member, group epoch, assignment epoch, where the member is


def test_a_static_member_that_only_says_where_it_is_has_its_tasks_as_before():
    world = StreamsWorld(**AT_ONCE)
    client = StreamsClient(world, "a", instance_id="i")
    client.beat(endpoint=StreamsEndpoint("h", 1))
    client.work()
    for changes, epoch, endpoint_epoch in (
        ({"client_id": "other"}, 2, 1),
        ({"client_host": "/10.0.0.1"}, 2, 1),
        ({"endpoint": StreamsEndpoint("h", 2)}, 2, 2),
        ({"rebalance_timeout_ms": 5}, 2, 2),
        ({"process_id": "other"}, 3, 2),
        ({"process_id": "other", "client_tags": (("a", "b"),)}, 4, 2),
    ):
        answer = client.beat(**changes)
        assert (answer.member_epoch, answer.endpoint_epoch) == (epoch, endpoint_epoch)
    member = world.group.members["a"]
    assert (member.rebalance_timeout_ms, member.endpoint, member.instance_id) == (5, StreamsEndpoint("h", 2), "i")


def test_who_has_missed_an_answer_is_told_again():
    world = StreamsWorld(**AT_ONCE)
    client = StreamsClient(world, "a")
    client.beat(endpoint=StreamsEndpoint("h", 1))
    answer = client.beat()  # it has not taken its tasks over yet
    assert ({name: set(epochs) for name, epochs in answer.tasks.active.items()}, answer.endpoint_epoch) == (ALL, 1)
    assert client.beat(said=None).tasks is None
    client.work()
    assert client.beat().tasks is None
    client.beat(rack_id="other", answered=False)
    assert client.beat(rack_id="other").tasks is not None
    assert client.beat(rack_id="other").tasks is None


def test_a_second_member_waits_for_what_the_first_gives_up():
    world = StreamsWorld(**AT_ONCE)
    first, second = StreamsClient(world, "a"), StreamsClient(world, "b", "q")
    first.beat()
    first.work()
    answer = second.beat()
    assert (answer.member_epoch, answer.tasks.is_empty) == (3, True)
    assert world.group.members["b"].state is MemberState.UNRELEASED_PARTITIONS
    answer = first.beat()
    assert (answer.member_epoch, sum(map(len, answer.tasks.active.values()))) == (2, 3)
    assert second.beat().tasks is None  # it has what it was told: nothing
    first.work()
    assert first.beat().member_epoch == 3
    assert sum(map(len, second.beat().tasks.active.values())) == 3
    assert world.group.state_name == "Stable"


def test_the_first_assignment_waits_for_more_members():
    world = StreamsWorld(group_streams_assignment_interval_ms=0)
    first, second = StreamsClient(world, "a"), StreamsClient(world, "b", "q")
    for client in (first, second, first):
        answer = client.beat()
        assert codes(answer) == [StatusCode.ASSIGNMENT_DELAYED]
        assert answer.tasks is None or answer.tasks.is_empty
    world.pass_time(3000)
    assert world.group.assignment_epoch == world.group.group_epoch
    for client in (first, second):
        answer = client.beat()
        assert codes(answer) == []
        assert sum(map(len, answer.tasks.active.values())) == 3


def test_a_clock_that_is_set_back_delays_nothing_for_long():
    world = StreamsWorld()
    client = StreamsClient(world, "a")
    client.beat()
    world.now_ms -= 100_000
    assert codes(client.beat()) == []


def test_assignments_come_no_oftener_than_told():
    world = StreamsWorld(group_streams_initial_rebalance_delay_ms=0)
    first = StreamsClient(world, "a")
    first.beat()
    second = StreamsClient(world, "b", "q")
    answer = second.beat()
    assert (codes(answer), answer.member_epoch) == ([StatusCode.ASSIGNMENT_DELAYED], 2)
    assert world.group.state_name == "Assigning"
    world.pass_time(1000)
    assert second.beat().member_epoch == 3


def test_missing_source_topics_keep_the_group_from_running_until_they_come():
    world = StreamsWorld(Image(), **AT_ONCE)
    client = StreamsClient(world, "a")
    answer = client.beat()
    assert (codes(answer), answer.tasks.is_empty) == ([StatusCode.MISSING_SOURCE_TOPICS], True)
    assert world.group.state_name == "NotReady"
    world.image.put("orders", 2)
    answer = client.beat()
    assert (codes(answer), {name: set(e) for name, e in answer.tasks.active.items()}) == (
        [],
        {"0": {0, 1}, "1": {0, 1}},
    )


def test_internal_topics_that_cannot_be_made_are_told():
    world = StreamsWorld(**AT_ONCE)
    client = StreamsClient(world, "a")
    answer = world.heartbeat(client.request(), make=False)
    assert codes(answer) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert world.group.validated_topology_epoch == -1
    assert [topic.name for topic in world.machine.topics_to_make(world.group, client.request())] == [
        "by-account", "store-changelog",
    ]  # fmt: skip


def test_a_topic_that_grows_takes_the_tasks_away_until_the_others_follow():
    world = StreamsWorld(**AT_ONCE)
    client = StreamsClient(world, "a")
    client.beat()
    client.work()
    world.image.put("orders", 5)
    answer = client.beat()
    assert codes(answer) == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]
    assert answer.tasks.is_empty


def test_copies_are_made_when_they_are_asked_for():
    world = StreamsWorld(**AT_ONCE)
    first, second = StreamsClient(world, "a"), StreamsClient(world, "b", "q")
    for client in (first, second, first, first, second):
        client.beat()
        client.work()
    world.own[GROUP] = {"streams.num.standby.replicas": "9"}  # more than the broker lets a group have
    first.beat()
    assert world.group.assignment_configs == {"num.standby.replicas": "2"}
    for client in (second, first, second):
        client.beat()
        client.work()
    for client, other in ((first, second), (second, first)):
        assert client.running.standby == {"1": other.running.active["1"]}


@pytest.mark.parametrize(
    ("epoch", "said", "fenced"),
    [
        (9, NO_TASKS, True),
        (1, NO_TASKS, True),
        (2, None, True),
        (2, NO_TASKS, False),
        (2, Tasks({"0": frozenset({9})}, {}, {}), True),
    ],
)  # fmt: skip
def test_an_epoch_that_is_not_the_members(epoch, said, fenced):
    world = StreamsWorld(**AT_ONCE)
    client = StreamsClient(world, "a")
    client.beat()
    client.beat(rack_id="other")  # epoch 3, after 2
    if fenced:
        assert refused(client, member_epoch=epoch, said=said)[0] is ErrorCode.FENCED_MEMBER_EPOCH
    else:
        assert client.beat(member_epoch=epoch, said=said, rack_id="other").member_epoch == 3


def test_who_is_not_a_member():
    world = StreamsWorld(**AT_ONCE)
    stranger = StreamsClient(world, "x")
    assert refused(stranger, member_epoch=2)[0] is ErrorCode.GROUP_ID_NOT_FOUND
    StreamsClient(world, "a").beat()
    assert refused(stranger, member_epoch=2)[0] is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(stranger, member_epoch=-1)[0] is ErrorCode.UNKNOWN_MEMBER_ID


def test_tasks_that_there_cannot_be():
    world = StreamsWorld(**AT_ONCE)
    client = StreamsClient(world, "a")
    client.beat()
    for tasks, says in (
        ({"0": frozenset({3})}, "Task 3 for subtopology 0 is invalid"),
        ({"7": frozenset({0})}, "Subtopology 7"),
    ):
        code, message = refused(client, said=Tasks(tasks, {}, {}))
        assert code is ErrorCode.INVALID_REQUEST
        assert message.startswith(says)


def test_a_full_group_lets_its_members_join_again():
    world = StreamsWorld(group_streams_max_size=1, **AT_ONCE)
    client = StreamsClient(world, "a")
    client.beat()
    assert refused(StreamsClient(world, "b"))[0] is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert client.beat(member_epoch=0, topology=TOPOLOGY, said=NO_TASKS).member_epoch == 2


def test_leaving():
    world = StreamsWorld(**AT_ONCE)
    client = StreamsClient(world, "a")
    client.beat()
    answer = client.beat(member_epoch=-1)
    assert (answer.member_epoch, answer.tasks) == (-1, None)
    assert (world.group.state_name, world.group.group_epoch, world.delays) == ("Empty", 3, {})


def test_other_topologies():
    world = StreamsWorld(**AT_ONCE)
    StreamsClient(world, "a").beat()
    other = TOPOLOGY._replace(subtopologies=(*TOPOLOGY.subtopologies, Subtopology("2", ("orders",))))
    for found in (other, other._replace(epoch=2), TOPOLOGY._replace(epoch=2)):
        late = StreamsClient(world, "b", topology=found)
        assert refused(late) == (ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    older = StreamsClient(world, "b", topology=Topology(0))
    assert codes(older.beat()) == [StatusCode.STALE_TOPOLOGY]
    assert world.group.topology == TOPOLOGY


def test_a_group_whose_topology_was_lost_asks_for_it():
    world = StreamsWorld(**AT_ONCE)
    client = StreamsClient(world, "a")
    client.beat()
    world.group.topology = None
    assert refused(client)[0] is ErrorCode.FENCED_MEMBER_EPOCH
    assert client.beat().member_epoch == 2
    assert world.group.topology == TOPOLOGY


def test_shutting_the_application_down():
    world = StreamsWorld(**AT_ONCE)
    first, second = StreamsClient(world, "a"), StreamsClient(world, "b", "q")
    first.beat()
    second.beat()
    assert codes(second.beat(shutdown=True)) == [StatusCode.SHUTDOWN_APPLICATION]
    answer = first.beat()
    assert codes(answer) == [StatusCode.SHUTDOWN_APPLICATION]
    assert "member b encountered a fatal error" in answer.statuses[0].detail
    first.leave()
    second.leave()
    assert codes(StreamsClient(world, "c").beat()) == []


def test_asking_for_a_shutdown_while_leaving():
    world = StreamsWorld(**AT_ONCE)
    first, second = StreamsClient(world, "a"), StreamsClient(world, "b", "q")
    first.beat()
    second.beat()
    second.beat(member_epoch=-1, shutdown=True)
    assert codes(first.beat()) == [StatusCode.SHUTDOWN_APPLICATION]


def test_endpoints_are_told_when_they_have_changed():
    world = StreamsWorld(**AT_ONCE)
    first = StreamsClient(world, "a", endpoint=StreamsEndpoint("h", 1))
    answer = first.beat()
    assert answer.endpoint_epoch == 1
    assert [(each.endpoint.port, dict(each.active)) for each in answer.endpoints] == [
        (1, {"orders": [0, 1, 2], "by-account": [0, 1, 2]})
    ]
    assert first.beat(endpoint_epoch=1).endpoints is None
    second = StreamsClient(world, "b", "q")
    assert len(second.beat().endpoints) == 1


def test_which_groups_may_become_streams_groups():
    world = StreamsWorld(**AT_ONCE)
    world.groups[GROUP] = ConsumerGroup(GROUP)
    client = StreamsClient(world, "a")
    assert refused(client) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group app is not a streams group.")
    world.groups[GROUP] = GroupMetadata(GROUP, 0)
    assert client.beat().member_epoch == 2
    assert world.group.members
    assert world.log[0][1] is None  # the classic group's tombstone comes first


def test_a_write_that_fails_has_changed_nothing():
    world = StreamsWorld()
    client = StreamsClient(world, "a")
    world.fails = True
    assert refused(client)[0] is ErrorCode.NOT_COORDINATOR
    assert (world.groups, world.delays, world.log) == ({}, {}, [])
