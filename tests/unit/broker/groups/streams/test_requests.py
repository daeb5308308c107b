"""What a heartbeat may say, whatever its group."""

from __future__ import annotations

import pytest
from tidelog.broker.groups.streams.group import StreamsEndpoint
from tidelog.broker.groups.streams.requests import read_heartbeat
from tidelog.broker.groups.streams.tasks import NO_TASKS, unpacked_offsets
from tidelog.broker.groups.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.messages import streams_group_heartbeat as wire

TOPIC = wire.TopicInfo(
    name="x", partitions=2, replication_factor=1, topic_configs=[wire.KeyValue(key="retention.ms", value="-1")]
)


def topology(**fields):
    one = {"subtopology_id": "1", "source_topics": ["a"], **fields}
    return wire.Topology(
        epoch=3, subtopologies=[wire.Subtopology(**one), wire.Subtopology(subtopology_id="0", source_topics=["b"])]
    )


def joining(**fields):
    return wire.StreamsGroupHeartbeatRequest(
        **{
            "group_id": "g", "member_id": "m", "rebalance_timeout_ms": 1000, "topology": topology(),
            "active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "process_id": "p", **fields,
        }
    )  # fmt: skip


def staying(**fields):
    return wire.StreamsGroupHeartbeatRequest(**{"group_id": "g", "member_id": "m", "member_epoch": 5, **fields})


def test_a_first_heartbeat():
    full = topology(
        state_changelog_topics=[wire.TopicInfo(name="store")],
        repartition_sink_topics=["y"],
        repartition_source_topics=[TOPIC],
        copartition_groups=[wire.CopartitionGroup(source_topics=[0], repartition_source_topics=[0])],
    )
    tags = [wire.KeyValue(key="zone", value="b"), wire.KeyValue(key="cluster", value="c")]
    read = read_heartbeat(
        joining(topology=full, client_tags=tags, user_endpoint=wire.Endpoint(host="h", port=8080), rack_id="r"),
        "c",
        "/h",
        1,
    )
    made = InternalTopic("x", 2, 1, (("retention.ms", "-1"),))
    assert read.topology == Topology(
        3,
        (
            Subtopology("0", ("b",)),
            Subtopology("1", ("a",), (InternalTopic("store"),), ("y",), (made,), (CopartitionGroup((0,), (0,)),)),
        ),
    )
    assert (read.is_joining, read.is_leaving, read.said) == (True, False, NO_TASKS)
    assert (read.endpoint, read.client_tags) == (StreamsEndpoint("h", 8080), (("cluster", "c"), ("zone", "b")))
    assert (read.client_id, read.client_host, read.process_id, read.rack_id) == ("c", "/h", "p", "r")


def test_a_later_heartbeat_says_what_has_changed():
    read = read_heartbeat(staying(), "c", "/h", 1)
    assert (read.topology, read.said, read.endpoint, read.client_tags, read.rebalance_timeout_ms) == (None,) * 4 + (-1,)
    tasks = [wire.TaskIds(subtopology_id="0", partitions=[2, 1]), wire.TaskIds(subtopology_id="1")]
    read = read_heartbeat(staying(active_tasks=tasks, standby_tasks=[], warmup_tasks=[]), "c", "/h", 1)
    assert read.said == ({"0": {1, 2}}, {}, {})
    assert read_heartbeat(staying(member_epoch=-1), "c", "/h", 1).is_leaving
    away = read_heartbeat(staying(member_epoch=-2, instance_id="i"), "c", "/h", 1)
    assert (away.is_leaving, away.instance_id) == (True, "i")


def test_offsets_of_tasks():
    offsets = [
        wire.TaskOffset(subtopology_id=name, partition=partition, offset=offset)
        for name, partition, offset in (("1", 0, 7), ("0", 3, 1 << 40), ("1", 2, -1))
    ]
    read = read_heartbeat(staying(task_offsets=offsets), "c", "/h", 1)
    assert list(unpacked_offsets(read.task_offsets.reached)) == [("1", 0, 7), ("1", 2, -1), ("0", 3, 1 << 40)]
    assert (read.task_offsets.ends, read.version) == (None, 1)
    assert read_heartbeat(staying(), "c", "/h", 0).task_offsets is None


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (joining(instance_id=" "), "InstanceId can't be empty."),
        (joining(warmup_tasks=[wire.TaskIds()]), "WarmupTasks must be empty when"),
        (
            staying(task_end_offsets=[wire.TaskOffset(subtopology_id="0", partition=1, offset=each) for each in (1, 2)]),
            "Task offsets contain a duplicate entry for subtopology 0 and partition 1.",
        ),
        (joining(topology=topology(source_topic_regex=["a.*"])), "Regular expressions for source topics are not"),
        (joining(member_id=""), "MemberId can't be empty."),
        (joining(group_id=" "), "GroupId can't be empty."),
        (joining(rack_id=""), "RackId can't be empty."),
        (joining(rebalance_timeout_ms=-1), "RebalanceTimeoutMs must be provided in first request."),
        (joining(active_tasks=[wire.TaskIds()]), "ActiveTasks must be empty when"),
        (joining(standby_tasks=[wire.TaskIds()]), "StandbyTasks must be empty when"),
        (joining(topology=None), "Topology must be non-null when"),
        (staying(member_epoch=-2), "InstanceId can't be null."),
        (staying(member_epoch=-3), "MemberEpoch is -3, but must be greater than or equal to -2."),
        (staying(active_tasks=[]), "If one task-type is non-null, all must be non-null."),
        (staying(topology=topology()), "Topology can only be provided when"),
    ],
)  # fmt: skip
def test_what_is_refused(request_, says):
    with pytest.raises(ProtocolError, match=says) as caught:
        read_heartbeat(request_, "c", "/h", 1)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (topology(repartition_sink_topics=["__consumer_offsets"]), "Use of Kafka internal topics __consumer_offsets in"),
        (topology(source_topics=["a b", "c"]), "Topic names a b are not valid topic names."),
        (topology(source_topics=[]), "No source topics found for subtopology 1"),
    ],
)  # fmt: skip
def test_topologies_that_are_refused(found, says):
    with pytest.raises(ProtocolError, match=says) as caught:
        read_heartbeat(joining(topology=found), "c", "/h", 1)
    assert caught.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
