"""StreamsGroupHeartbeat as the coordinator sees it: the message, checked as far as it can be without its group.

What Kafka 4.4 does not do yet is refused in its words: source topics by regular expression. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ....protocol.errors import ErrorCode, ProtocolError
from ....protocol.messages import streams_group_heartbeat as wire
from ....storage.segment.names import is_valid_topic
from ...metadata.topics import INTERNAL_TOPICS
from ..heartbeat.group import AWAY_EPOCH, JOINING_EPOCH, LEAVING_EPOCH
from .group import StreamsEndpoint
from .tasks import OwnedTasks, PackedOffsets, Tasks, TaskSet, ToldOffsets, packed_offsets, task_set
from .topology import CopartitionGroup, InternalTopic, StreamsStatus, Subtopology, Topology, check_topology


class StreamsHeartbeat(NamedTuple):
    """One StreamsGroupHeartbeat. None and -1 mean: unchanged."""

    group_id: str
    member_id: str
    member_epoch: int
    endpoint_epoch: int = 0
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    said: Tasks | None = None
    """The tasks that the member says to have."""
    process_id: str | None = None
    endpoint: StreamsEndpoint | None = None
    client_tags: tuple[tuple[str, str], ...] | None = None
    shutdown: bool = False
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    task_offsets: ToldOffsets | None = None
    version: int = 0
    """Of the message: older clients know less of what an answer may say."""

    @property
    def is_joining(self) -> bool:
        return self.member_epoch == JOINING_EPOCH

    @property
    def is_leaving(self) -> bool:
        """For good, or as a static member that will come back."""
        return self.member_epoch in (LEAVING_EPOCH, AWAY_EPOCH)


class EndpointPartitions(NamedTuple):
    """Partitions that can be queried at one process: (topic, partitions) of its active and its stand-by tasks."""

    endpoint: StreamsEndpoint
    active: Sequence[tuple[str, Sequence[int]]]
    standby: Sequence[tuple[str, Sequence[int]]]


class StreamsAnswer(NamedTuple):
    """Answer to a heartbeat. Tasks and endpoints that are None have not changed."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    statuses: tuple[StreamsStatus, ...] = ()
    tasks: OwnedTasks | None = None
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    asks_for_description: bool = False
    acceptable_recovery_lag: int = -1
    """Offsets that a copy of a task may be behind and count as caught up."""
    task_offset_interval_ms: int = 0
    """How often the member is to tell how far its tasks are."""


def read_heartbeat(
    message: wire.StreamsGroupHeartbeatRequest, client_id: str, client_host: str, version: int
) -> StreamsHeartbeat:
    """Validate and convert a request. ProtocolError, mostly INVALID_REQUEST."""
    _check_features(message)
    _check(message)
    endpoint, tags = message.user_endpoint, message.client_tags
    topology = None if message.topology is None else _topology(message.topology)
    if topology is not None:
        check_topology(topology)
        _check_names(topology)
    return StreamsHeartbeat(
        message.group_id,
        message.member_id,
        message.member_epoch,
        message.endpoint_information_epoch,
        message.rack_id,
        message.rebalance_timeout_ms,
        topology,
        _said(message),
        message.process_id,
        None if endpoint is None else StreamsEndpoint(endpoint.host, endpoint.port),
        None if tags is None else tuple(sorted({tag.key: tag.value for tag in tags}.items())),
        message.shutdown_application,
        client_id,
        client_host,
        message.instance_id,
        _task_offsets(message),
        version,
    )


def _refused(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_REQUEST, message)


def _check_features(message: wire.StreamsGroupHeartbeatRequest) -> None:
    if message.topology is not None and any(each.source_topic_regex for each in message.topology.subtopologies):
        raise _refused("Regular expressions for source topics are not supported yet.")


def _check(message: wire.StreamsGroupHeartbeatRequest) -> None:
    if not message.member_id.strip():
        raise _refused("MemberId can't be empty.")
    if not message.group_id.strip():
        raise _refused("GroupId can't be empty.")
    if message.instance_id is not None and not message.instance_id.strip():
        raise _refused("InstanceId can't be empty.")
    if message.rack_id is not None and not message.rack_id.strip():
        raise _refused("RackId can't be empty.")
    tasks = message.active_tasks, message.standby_tasks, message.warmup_tasks
    if message.member_epoch == JOINING_EPOCH:
        if message.rebalance_timeout_ms == -1:
            raise _refused("RebalanceTimeoutMs must be provided in first request.")
        for name, found in zip(("ActiveTasks", "StandbyTasks", "WarmupTasks"), tasks, strict=True):
            if found:
                raise _refused(f"{name} must be empty when (re-)joining.")
        if message.topology is None:
            raise _refused("Topology must be non-null when (re-)joining.")
    elif message.member_epoch == AWAY_EPOCH and message.instance_id is None:
        raise _refused("InstanceId can't be null.")
    elif message.member_epoch < AWAY_EPOCH:
        raise _refused(f"MemberEpoch is {message.member_epoch}, but must be greater than or equal to -2.")
    if any(found is not None for found in tasks) and any(found is None for found in tasks):
        raise _refused("If one task-type is non-null, all must be non-null.")
    if message.member_epoch != JOINING_EPOCH and message.topology is not None:
        raise _refused("Topology can only be provided when (re-)joining.")


def _check_names(topology: Topology) -> None:
    names = sorted(topology.named_topics())
    if own := [name for name in names if name in INTERNAL_TOPICS]:
        raise ProtocolError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(own)} in a Kafka Streams topology is prohibited.",
        )
    if bad := [name for name in names if not is_valid_topic(name)]:
        raise ProtocolError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Topic names {','.join(bad)} are not valid topic names."
        )


def _said(message: wire.StreamsGroupHeartbeatRequest) -> Tasks | None:
    if message.active_tasks is None or message.standby_tasks is None or message.warmup_tasks is None:
        return None
    return Tasks(_tasks(message.active_tasks), _tasks(message.standby_tasks), _tasks(message.warmup_tasks))


def _task_offsets(message: wire.StreamsGroupHeartbeatRequest) -> ToldOffsets | None:
    if message.task_offsets is None and message.task_end_offsets is None:
        return None
    return ToldOffsets(_packed(message.task_offsets), _packed(message.task_end_offsets))


def _packed(offsets: Iterable[wire.TaskOffset] | None) -> PackedOffsets | None:
    if offsets is None:
        return None
    found: dict[str, dict[int, int]] = {}
    for task in offsets:
        partitions = found.setdefault(task.subtopology_id, {})
        if task.partition in partitions:
            raise _refused(
                f"Task offsets contain a duplicate entry for subtopology {task.subtopology_id} and partition "
                f"{task.partition}."
            )
        partitions[task.partition] = task.offset
    return packed_offsets(found)


def _tasks(found: Iterable[wire.TaskIds]) -> TaskSet:
    return task_set({each.subtopology_id: each.partitions for each in found})


def _topology(topology: wire.Topology) -> Topology:
    return Topology(topology.epoch, tuple(sorted(_subtopology(each) for each in topology.subtopologies)))


def _subtopology(each: wire.Subtopology) -> Subtopology:
    return Subtopology(
        each.subtopology_id,
        tuple(each.source_topics),
        _topics(each.state_changelog_topics),
        tuple(each.repartition_sink_topics),
        _topics(each.repartition_source_topics),
        tuple(
            CopartitionGroup(tuple(group.source_topics), tuple(group.repartition_source_topics))
            for group in each.copartition_groups
        ),
    )


def _topics(found: Iterable[wire.TopicInfo]) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            tuple((setting.key, setting.value) for setting in topic.topic_configs),
        )
        for topic in found
    )
