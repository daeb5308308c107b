"""The records of streams groups: how each is made of the state, and what each does to it.

By the version of their keys (`../heartbeat/group.py` has what is the same for all):

    17  group epoch, metadata hash, epochs of topologies  20  assignment epoch, time     22  one member: epoch, state, tasks
    19  one member: what it told                          21  one member: its target     23  the topology
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ....protocol.messages.streams_group_records import (
    ClientTag,
    LastAssignmentConfig,
    MemberEndpoint,
    OwnedTaskIds,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    TargetTaskIds,
    TopicConfig,
    TopologyCopartitionGroup,
    TopologySubtopology,
    TopologyTopic,
)
from ..heartbeat.group import (
    LEAVING_EPOCH,
    GroupReplay,
    MemberState,
    forget_member,
    forget_target,
    forget_target_epoch,
    put_target_epoch,
)
from ..heartbeat.machine import GroupRecord
from ..heartbeat.registry import RecordKind
from .descriptions import DescriptionEpochs
from .group import StreamsEndpoint, StreamsGroup, StreamsMember
from .tasks import OWNS_NOTHING, OwnedTasks, TaskEpochs, Tasks, TaskSet, task_set
from .topology import CopartitionGroup, InternalTopic, Subtopology, Topology

#: Records count the states from 1; those of consumer groups, whose names are used here, from 0.
_STATE_OFFSET = 1

# -- made of the state


def epoch_record(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_epoch: int,
    configs: Mapping[str, str],
    descriptions: DescriptionEpochs,
) -> GroupRecord:
    return GroupRecord(
        StreamsGroupMetadataKey(group_id=group_id),
        StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_epoch,
            last_assignment_configs=[LastAssignmentConfig(key=key, value=configs[key]) for key in sorted(configs)],
            stored_description_topology_epoch=descriptions.stored,
            failed_description_topology_epoch=descriptions.failed,
        ),
    )


def member_record(group_id: str, member: StreamsMember) -> GroupRecord:
    endpoint = member.endpoint
    return GroupRecord(
        StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=None if endpoint is None else MemberEndpoint(host=endpoint.host, port=endpoint.port),
            client_tags=[ClientTag(key=key, value=value) for key, value in member.client_tags],
        ),
    )


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> GroupRecord:
    return GroupRecord(
        StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def target_record(group_id: str, member_id: str, target: Tasks) -> GroupRecord:
    def ids(tasks: TaskSet) -> list[TargetTaskIds]:
        return [TargetTaskIds(subtopology_id=name, partitions=sorted(tasks[name])) for name in sorted(tasks)]

    return GroupRecord(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        StreamsGroupTargetAssignmentMemberValue(
            active_tasks=ids(target.active), standby_tasks=ids(target.standby), warmup_tasks=ids(target.warmup)
        ),
    )


def current_record(group_id: str, member: StreamsMember) -> GroupRecord:
    assigned, pending = member.assigned, member.pending
    return GroupRecord(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=min(member.state + _STATE_OFFSET, MemberState.UNKNOWN),
            active_tasks=_owned_active(assigned.active),
            standby_tasks=_owned_copies(assigned.standby),
            warmup_tasks=_owned_copies(assigned.warmup),
            active_tasks_pending_revocation=_owned_active(pending.active),
            standby_tasks_pending_revocation=_owned_copies(pending.standby),
            warmup_tasks_pending_revocation=_owned_copies(pending.warmup),
        ),
    )


def _owned_active(tasks: TaskEpochs) -> list[OwnedTaskIds]:
    return [
        OwnedTaskIds(
            subtopology_id=name,
            partitions=sorted(tasks[name]),
            assignment_epochs=[tasks[name][partition] for partition in sorted(tasks[name])],
        )
        for name in sorted(tasks)
    ]


def _owned_copies(tasks: TaskSet) -> list[OwnedTaskIds]:
    return [OwnedTaskIds(subtopology_id=name, partitions=sorted(tasks[name])) for name in sorted(tasks)]


def topology_record(group_id: str, topology: Topology) -> GroupRecord:
    def topics(found: Iterable[InternalTopic]) -> list[TopologyTopic]:
        return [
            TopologyTopic(
                name=topic.name,
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                topic_configs=[TopicConfig(key=key, value=value) for key, value in topic.configs],
            )
            for topic in found
        ]

    return GroupRecord(
        StreamsGroupTopologyKey(group_id=group_id),
        StreamsGroupTopologyValue(
            epoch=topology.epoch,
            subtopologies=[
                TopologySubtopology(
                    subtopology_id=each.subtopology_id,
                    source_topics=list(each.source_topics),
                    state_changelog_topics=topics(each.changelog_topics),
                    repartition_sink_topics=list(each.sink_topics),
                    repartition_source_topics=topics(each.repartition_topics),
                    copartition_groups=[
                        TopologyCopartitionGroup(
                            source_topics=list(group.source_topics),
                            repartition_source_topics=list(group.repartition_topics),
                        )
                        for group in each.copartition_groups
                    ],
                )
                for each in topology.subtopologies
            ],
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """Forgets a member: what it has, its target, itself."""
    return [
        GroupRecord(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group: StreamsGroup) -> list[GroupRecord]:
    """Forgets the group with all that is in it."""
    group_id = group.group_id
    records: list[GroupRecord] = []
    for key in (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupTargetAssignmentMemberKey):
        records += (GroupRecord(key(group_id=group_id, member_id=member_id), None) for member_id in group.members)
    records.append(GroupRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None))
    records += (
        GroupRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)
        for member_id in group.members
    )
    records.append(GroupRecord(StreamsGroupMetadataKey(group_id=group_id), None))
    records.append(GroupRecord(StreamsGroupTopologyKey(group_id=group_id), None))
    return records


# -- what each does

_STREAMS = GroupReplay(StreamsGroup)


def _member(group: StreamsGroup, member_id: str) -> StreamsMember:
    return group.members.get(member_id) or StreamsMember(member_id=member_id)


def _put_epoch(group: StreamsGroup, value: StreamsGroupMetadataValue) -> None:
    group.group_epoch = value.epoch
    group.metadata_hash = value.metadata_hash
    group.validated_topology_epoch = value.validated_topology_epoch
    group.assignment_configs = {each.key: each.value for each in value.last_assignment_configs or ()}
    group.descriptions = DescriptionEpochs(
        value.stored_description_topology_epoch, value.failed_description_topology_epoch
    )


def _put_member(
    group: StreamsGroup, key: StreamsGroupMemberMetadataKey, value: StreamsGroupMemberMetadataValue
) -> None:
    endpoint = value.user_endpoint
    group.put(
        replace(
            _member(group, key.member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if endpoint is None else StreamsEndpoint(endpoint.host, endpoint.port),
            client_tags=tuple(sorted((tag.key, tag.value) for tag in value.client_tags)),
        )
    )


def _put_target(
    group: StreamsGroup, key: StreamsGroupTargetAssignmentMemberKey, value: StreamsGroupTargetAssignmentMemberValue
) -> None:
    target = Tasks(_read_tasks(value.active_tasks), _read_tasks(value.standby_tasks), _read_tasks(value.warmup_tasks))
    group.set_target(key.member_id, target)


def _put_current(
    group: StreamsGroup,
    key: StreamsGroupCurrentMemberAssignmentKey,
    value: StreamsGroupCurrentMemberAssignmentValue,
) -> None:
    epoch = value.member_epoch
    group.put(
        replace(
            _member(group, key.member_id),
            member_epoch=epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state - _STATE_OFFSET),
            assigned=OwnedTasks(
                _read_active(value.active_tasks, epoch),
                _read_tasks(value.standby_tasks),
                _read_tasks(value.warmup_tasks),
            ),
            pending=OwnedTasks(
                _read_active(value.active_tasks_pending_revocation, epoch),
                _read_tasks(value.standby_tasks_pending_revocation),
                _read_tasks(value.warmup_tasks_pending_revocation),
            ),
        )
    )


def _forget_current(group: StreamsGroup, key: StreamsGroupCurrentMemberAssignmentKey) -> None:
    member = group.members.get(key.member_id)
    if member is not None:
        group.put(
            replace(
                member,
                member_epoch=LEAVING_EPOCH,
                previous_member_epoch=LEAVING_EPOCH,
                assigned=OWNS_NOTHING,
                pending=OWNS_NOTHING,
            )
        )


def _read_tasks(found: Sequence[TargetTaskIds] | Sequence[OwnedTaskIds]) -> TaskSet:
    return task_set({each.subtopology_id: each.partitions for each in found})


def _read_active(found: Iterable[OwnedTaskIds], member_epoch: int) -> TaskEpochs:
    """Kafka before 4.3 did not write when a task was assigned: the member's epoch stands for that."""
    owned: dict[str, Mapping[int, int]] = {}
    for each in found:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [member_epoch] * len(each.partitions)
        if each.partitions:
            owned[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return owned


def _put_topology(group: StreamsGroup, _key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue) -> None:
    group.topology = Topology(
        value.epoch,
        tuple(sorted(_read_subtopology(each) for each in value.subtopologies)),
    )
    group.configured = None


def _forget_topology(group: StreamsGroup, _key: StreamsGroupTopologyKey) -> None:
    group.topology = group.configured = None


def _read_subtopology(each: TopologySubtopology) -> Subtopology:
    def topics(found: Iterable[TopologyTopic]) -> tuple[InternalTopic, ...]:
        return tuple(
            InternalTopic(
                topic.name,
                topic.partitions,
                topic.replication_factor,
                tuple((setting.key, setting.value) for setting in topic.topic_configs),
            )
            for topic in found
        )

    return Subtopology(
        each.subtopology_id,
        tuple(each.source_topics),
        topics(each.state_changelog_topics),
        tuple(each.repartition_sink_topics),
        topics(each.repartition_source_topics),
        tuple(
            CopartitionGroup(tuple(group.source_topics), tuple(group.repartition_source_topics))
            for group in each.copartition_groups
        ),
    )


RECORDS: Mapping[int, RecordKind] = {
    kind.key.VERSIONS[0]: kind
    for kind in (
        _STREAMS.group(StreamsGroupMetadataKey, StreamsGroupMetadataValue, _put_epoch),
        _STREAMS.part(StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue, _put_member, forget_member),
        _STREAMS.part(
            StreamsGroupTargetAssignmentMetadataKey,
            StreamsGroupTargetAssignmentMetadataValue,
            put_target_epoch,
            forget_target_epoch,
        ),
        _STREAMS.part(
            StreamsGroupTargetAssignmentMemberKey,
            StreamsGroupTargetAssignmentMemberValue,
            _put_target,
            forget_target,
        ),
        _STREAMS.part(
            StreamsGroupCurrentMemberAssignmentKey,
            StreamsGroupCurrentMemberAssignmentValue,
            _put_current,
            _forget_current,
        ),
        _STREAMS.part(StreamsGroupTopologyKey, StreamsGroupTopologyValue, _put_topology, _forget_topology),
    )
}
