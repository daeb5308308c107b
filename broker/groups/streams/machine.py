"""Streams groups of KIP-1071: the entry point of the type (see `registry`).

Heartbeats of streams groups: join, stay, leave; the group's epochs, target and statuses. Pure functions.

The order of things is Kafka's: the member, the topology, the topics, the group epoch, the target, and last what of the target
the member can have now; and which process of the group can be asked for which partitions (interactive queries).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ....protocol.errors import ErrorCode, ProtocolError
from ..heartbeat.group import MemberState, metadata_hash
from ..heartbeat.machine import Delay, DelayCleared, DelaySet, Effect, Environment, GroupRecord, MemberGone, Outcome
from ..store.group import Claim, Group, GroupType, claim
from ..store.timers import DelayKind
from . import records as streams_records
from .assignor import Candidate, TaskGroup, assign
from .group import StreamsGroup, StreamsMember
from .reconciliation import reconciled
from .records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    target_epoch_record,
    target_record,
    topology_record,
)
from .requests import EndpointPartitions, StreamsAnswer, StreamsHeartbeat
from .tasks import NO_TASKS, Tasks, task_set
from .topology import ConfiguredTopology, InternalTopic, StatusCode, StreamsStatus, Topology, configured

if TYPE_CHECKING:
    from ..heartbeat.topic_image import TopicImage

log = logging.getLogger(__name__)

T = TypeVar("T")

SESSION_TIMEOUT = "streams.session.timeout.ms"
HEARTBEAT_INTERVAL = "streams.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "streams.assignment.interval.ms"
INITIAL_DELAY = "streams.initial.rebalance.delay.ms"
STANDBY_REPLICAS = "streams.num.standby.replicas"
#: The name under which the group's record has the number of stand-by copies.
REPLICAS_KEY = "num.standby.replicas"

INITIAL_ASSIGNMENT = Delay(DelayKind.ASSIGNMENT)


class _Admitted(NamedTuple):
    group: StreamsGroup
    member: StreamsMember
    replaced: Group | None


class _Target(NamedTuple):
    epoch: int
    tasks: Tasks


# -- whole requests


def heartbeat(
    environment: Environment, found: Group | None, request: StreamsHeartbeat, now_ms: int
) -> Outcome[StreamsAnswer]:
    """Handle a heartbeat of any kind. ProtocolError."""
    if request.is_leaving:
        return _leave(found, request)
    group, member, replaced = _admit(environment, found, request)
    group_id, member_id = request.group_id, request.member_id
    records: list[GroupRecord] = []
    effects: list[Effect] = []
    statuses: list[StreamsStatus] = []

    updated = _updated_member(member, request)
    changed = updated != member or member_id not in group.members
    if changed:
        records.append(member_record(group_id, updated))
    topology = _topology(group, request)
    if group.topology is None:
        records.append(topology_record(group_id, topology))
    elif updated.topology_epoch < topology.epoch:
        statuses.append(
            StreamsStatus(
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {updated.topology_epoch} is behind the group's topology epoch {topology.epoch}.",
            )
        )

    image_seen = environment.topics.changes
    plan, topics_hash = group.configured, group.metadata_hash
    if plan is None or image_seen != group.image_seen:
        plan = _plan(environment, topology)
        topics_hash = metadata_hash(topology.required_topics(), environment.topics)
    validated_epoch = topology.epoch if plan.is_ready else -1
    if plan.is_ready and request.said is not None:
        _check_tasks(plan, request.said)
    configs = assignment_configs(environment, group_id)
    bumped = (
        changed
        or topics_hash != group.metadata_hash
        or validated_epoch != group.validated_topology_epoch
        or configs != group.assignment_configs
    )
    epoch = group.group_epoch + bumped
    if bumped:
        records.append(epoch_record(group_id, epoch, topics_hash, validated_epoch, configs))

    delayed_until_ms = group.delayed_until_ms
    delay_ms = environment.settings.int_of(group_id, INITIAL_DELAY)
    if group.is_empty and delay_ms > 0 and not _is_ahead(delayed_until_ms, now_ms, delay_ms):
        delayed_until_ms = now_ms + delay_ms
        effects.append(DelaySet(INITIAL_ASSIGNMENT, delay_ms))
    target = _Target(group.assignment_epoch, group.target.get(member_id, NO_TASKS))
    if _is_ahead(delayed_until_ms, now_ms, delay_ms):
        target = _Target(group.assignment_epoch, NO_TASKS)
        detail = "Assignment delayed due to the configured initial rebalance delay."
        statuses.append(StreamsStatus(StatusCode.ASSIGNMENT_DELAYED, detail))
    elif group.assignment_epoch < epoch:
        interval_ms = environment.settings.int_of(group_id, ASSIGNMENT_INTERVAL)
        if group.assignment_timestamp_ms and _is_ahead(
            group.assignment_timestamp_ms + interval_ms, now_ms, interval_ms
        ):
            detail = "Assignment delayed due to the configured assignment interval."
            statuses.append(StreamsStatus(StatusCode.ASSIGNMENT_DELAYED, detail))
        else:
            members = {**group.members, member_id: updated}
            targets = _targets(group, members, plan, configs)
            records += _target_records(group, targets, epoch, now_ms)
            target = _Target(epoch, targets[member_id])

    before, updated = updated, reconciled(group, updated, target.tasks, target.epoch, request.said)
    if updated != before or (replaced is not None or member_id not in group.members):
        records.append(current_record(group_id, updated))
        rebalance = Delay(DelayKind.REBALANCE, member_id, updated.member_epoch)
        if updated.state is MemberState.UNREVOKED_PARTITIONS:
            effects.append(DelaySet(rebalance, updated.rebalance_timeout_ms))
        else:
            effects.append(DelayCleared(rebalance))
    session_ms = environment.settings.int_of(group_id, SESSION_TIMEOUT)
    effects.append(DelaySet(Delay(DelayKind.SESSION, member_id), session_ms))

    moved = request.is_joining or updated.assigned != member.assigned
    # A member that reports an older epoch or other tasks may have missed an answer (Kafka 4.3 leaves it without them).
    missed = request.member_epoch != member.member_epoch or not updated.assigned.matches_report(request.said)
    tasks = updated.assigned if moved or missed else None
    endpoint_epoch = group.endpoint_epoch + (moved and updated.endpoint is not None)
    endpoints = None
    if endpoint_epoch != request.endpoint_epoch:
        endpoints = endpoints_of({**group.members, member_id: updated}.values(), plan, environment.topics)
    asked_by = group.shutdown_asked_by or (member_id if request.shutdown else None)
    if plan.problem is not None:
        statuses.append(plan.problem)
    if asked_by is not None:
        statuses.append(
            StreamsStatus(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Streams group member {asked_by} encountered a fatal error and requested a shutdown for the entire application.",
            )
        )

    def note(kept: Group | None) -> None:
        """Set the state of the group that is in no record."""
        assert isinstance(kept, StreamsGroup)
        kept.configured, kept.image_seen = plan, image_seen
        kept.delayed_until_ms = delayed_until_ms
        kept.endpoint_epoch = endpoint_epoch
        kept.shutdown_asked_by = asked_by

    return Outcome(
        StreamsAnswer(
            member_id,
            updated.member_epoch,
            environment.settings.int_of(group_id, HEARTBEAT_INTERVAL),
            tuple(statuses),
            tasks,
            endpoint_epoch,
            endpoints,
        ),
        records,
        effects,
        replaced=replaced,
        rebalanced=bumped,
        note=note,
    )


def topics_to_make(
    environment: Environment, found: Group | None, request: StreamsHeartbeat
) -> tuple[InternalTopic, ...]:
    """Internal topics that the group of this request lacks. Raises ProtocolError as `heartbeat` does."""
    if request.is_leaving:
        return ()
    group = _admit(environment, found, request).group
    plan = group.configured
    if plan is None or environment.topics.changes != group.image_seen:
        plan = _plan(environment, _topology(group, request))
    return plan.to_make


def _leave(found: Group | None, request: StreamsHeartbeat) -> Outcome[StreamsAnswer]:
    group = _streams_group(found, request.group_id)
    member = group.member(request.member_id)
    log.info("group %s: member %s leaves", group.group_id, member.member_id)
    outcome = removed(group, member, StreamsAnswer(request.member_id, request.member_epoch))

    def note(kept: Group | None) -> None:
        if request.shutdown and isinstance(kept, StreamsGroup) and kept.members:
            kept.shutdown_asked_by = kept.shutdown_asked_by or request.member_id

    return replace(outcome, note=note)


def removed(group: StreamsGroup, member: StreamsMember, answer: T) -> Outcome[T]:
    """The group without the member, in a new group epoch."""
    records = member_tombstones(group.group_id, member.member_id)
    records.append(
        epoch_record(
            group.group_id,
            group.group_epoch + 1,
            group.metadata_hash,
            group.validated_topology_epoch,
            group.assignment_configs,
        )
    )
    return Outcome(answer, records, [MemberGone(member.member_id)], rebalanced=True)


def first_assignment(environment: Environment, group: StreamsGroup, now_ms: int) -> Outcome[None]:
    """The initial delay is over: all who have come by now get a target."""

    def note(kept: Group | None) -> None:
        if isinstance(kept, StreamsGroup):
            kept.delayed_until_ms = 0

    if group.is_empty or group.topology is None or group.group_epoch <= group.assignment_epoch:
        return Outcome(None, note=note)
    plan = group.configured or _plan(environment, group.topology)
    targets = _targets(group, group.members, plan, group.assignment_configs)
    return Outcome(None, _target_records(group, targets, group.group_epoch, now_ms), note=note)


# -- parts


def _streams_group(found: Group | None, group_id: str) -> StreamsGroup:
    if found is None:
        raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
    if not isinstance(found, StreamsGroup):
        raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
    return found


def _admit(environment: Environment, found: Group | None, request: StreamsHeartbeat) -> _Admitted:
    group_id, member_id = request.group_id, request.member_id
    replaced = None
    if not request.is_joining:
        group = _streams_group(found, group_id)
        member = group.member(member_id)
    else:
        claimed = claim(GroupType.STREAMS, found)
        if claimed is Claim.REPLACE:
            replaced = found
        if claimed in (Claim.NEW, Claim.REPLACE):
            group = StreamsGroup(group_id)
        else:
            group = _streams_group(found, group_id)
        limit = environment.settings.config.group_streams_max_size
        if member_id not in group.members and group.member_count >= limit:
            raise ProtocolError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {limit} members.",
            )
        member = group.members.get(member_id) or StreamsMember(member_id=member_id)
    _check_epoch(member, request)
    return _Admitted(group, member, replaced)


def _check_epoch(member: StreamsMember, request: StreamsHeartbeat) -> None:
    """The present epoch, or the previous one of a member whose last answer was lost."""
    said, epoch = request.said, request.member_epoch
    if request.is_joining or epoch == member.member_epoch:
        return
    lost = epoch == member.previous_member_epoch and said is not None and member.assigned.covers(said)
    if epoch < member.member_epoch and lost:
        return
    than = "greater" if epoch > member.member_epoch else "smaller"
    raise ProtocolError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {than} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def _updated_member(member: StreamsMember, request: StreamsHeartbeat) -> StreamsMember:
    """Return the member with what the request changes of it."""
    topology, timeout_ms = request.topology, request.rebalance_timeout_ms
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=member.topology_epoch if topology is None else topology.epoch,
        client_id=request.client_id,
        client_host=request.client_host,
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=request.endpoint or member.endpoint,
        client_tags=member.client_tags if request.client_tags is None else request.client_tags,
    )


def _topology(group: StreamsGroup, request: StreamsHeartbeat) -> Topology:
    """The group's; the request's where the group has none."""
    known, said = group.topology, request.topology
    if known is None:
        if said is None:
            # Its record was lost. A member that joins again brings the topology.
            raise ProtocolError(ErrorCode.FENCED_MEMBER_EPOCH, f"Group {group.group_id} has no topology: join again.")
        return said
    if said is not None and said.epoch >= known.epoch and said != known:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    return known


def _plan(environment: Environment, topology: Topology) -> ConfiguredTopology:
    def partition_count(name: str) -> int | None:
        topic = environment.topics.get(name)
        return None if topic is None else topic.partition_count

    return configured(topology, partition_count)


def _check_tasks(plan: ConfiguredTopology, said: Tasks) -> None:
    """Raises ProtocolError INVALID_REQUEST for tasks that there cannot be."""
    subtopologies = plan.subtopologies or {}
    for tasks in said:
        for name, partitions in tasks.items():
            if name not in subtopologies:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, f"Subtopology {name} does not exist in the topology.")
            count = subtopologies[name].task_count
            for partition in partitions:
                if not 0 <= partition < count:
                    raise ProtocolError(
                        ErrorCode.INVALID_REQUEST,
                        f"Task {partition} for subtopology {name} is invalid. Number of tasks for this subtopology: {count}",
                    )


def assignment_configs(environment: Environment, group_id: str) -> Mapping[str, str]:
    """Settings of the group that its target depends on."""
    return {REPLICAS_KEY: str(environment.settings.int_of(group_id, STANDBY_REPLICAS))}


def _targets(
    group: StreamsGroup,
    members: Mapping[str, StreamsMember],
    plan: ConfiguredTopology,
    configs: Mapping[str, str],
) -> Mapping[str, Tasks]:
    """Target of every member; no tasks while the topology cannot run."""
    if not plan.is_ready or plan.subtopologies is None:
        return dict.fromkeys(members, NO_TASKS)
    candidates = [
        Candidate(member_id, member.process_id, group.target.get(member_id, NO_TASKS))
        for member_id, member in members.items()
    ]
    task_groups = [TaskGroup(name, each.task_count, each.is_stateful) for name, each in plan.subtopologies.items()]
    return assign(candidates, task_groups, int(configs.get(REPLICAS_KEY, "0")))


def _target_records(group: StreamsGroup, targets: Mapping[str, Tasks], epoch: int, now_ms: int) -> list[GroupRecord]:
    """Records of the targets that have changed, and of the target's epoch."""
    records = [
        target_record(group.group_id, member_id, tasks)
        for member_id, tasks in targets.items()
        if group.target.get(member_id) != tasks
    ]
    records.append(target_epoch_record(group.group_id, epoch, now_ms))
    return records


def _is_ahead(until_ms: int, now_ms: int, longest_ms: int) -> bool:
    """True if that time is in the future, but within `longest_ms`: the wall clock may have been set back."""
    return 0 < until_ms - now_ms <= longest_ms


def endpoints_of(
    members: Iterable[StreamsMember], plan: ConfiguredTopology, topics: TopicImage
) -> tuple[EndpointPartitions, ...]:
    """Endpoint information of each member with an endpoint; empty while partition counts are not decided."""
    if plan.subtopologies is None:
        return ()
    return tuple(
        EndpointPartitions(
            member.endpoint,
            _partitions(task_set(member.assigned.active), plan, topics),
            _partitions(member.assigned.standby, plan, topics),
        )
        for member in members
        if member.endpoint is not None
    )


def _partitions(
    tasks: Mapping[str, frozenset[int]], plan: ConfiguredTopology, topics: TopicImage
) -> list[tuple[str, list[int]]]:
    """Partitions that these tasks read, by topic. A topic may have fewer partitions than its subtopology has tasks."""
    assert plan.subtopologies is not None
    found = []
    for name in sorted(tasks):
        subtopology = plan.subtopologies.get(name)
        for topic in sorted(set(subtopology.inputs)) if subtopology is not None else ():
            seen = topics.get(topic)
            if seen is not None:
                found.append((topic, sorted(part for part in tasks[name] if part < seen.partition_count)))
    return found


RECORDS = streams_records.RECORDS

_WHY = {
    DelayKind.SESSION: "its session expired",
    DelayKind.REBALANCE: "it did not give up its tasks within its rebalance time-out",
}


class Machine:
    """Decides for streams groups. Pure but for its environment; loop thread."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def heartbeat(self, group: Group | None, request: StreamsHeartbeat, now_ms: int) -> Outcome[StreamsAnswer]:
        """Handle a heartbeat, as `heartbeat.heartbeat`."""
        return heartbeat(self._environment, group, request, now_ms)

    def topics_to_make(self, group: Group | None, request: StreamsHeartbeat) -> tuple[InternalTopic, ...]:
        """Internal topics that the request needs, as `heartbeat.topics_to_make`."""
        return topics_to_make(self._environment, group, request)

    def loaded(self, group: StreamsGroup, now_ms: int) -> Sequence[Effect]:
        session_ms = self._environment.settings.int_of(group.group_id, SESSION_TIMEOUT)
        effects: list[Effect] = []
        for member in group.members.values():
            effects.append(DelaySet(Delay(DelayKind.SESSION, member.member_id), session_ms))
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                delay = Delay(DelayKind.REBALANCE, member.member_id, member.member_epoch)
                effects.append(DelaySet(delay, member.rebalance_timeout_ms))
        return effects

    def delay_passed(self, group: StreamsGroup, delay: Delay, now_ms: int) -> Outcome[None] | None:
        if delay.kind is DelayKind.ASSIGNMENT:
            return first_assignment(self._environment, group, now_ms)
        member = group.members.get(delay.member_id)
        if member is None or (delay.kind is DelayKind.REBALANCE and member.member_epoch != delay.epoch):
            return None
        log.info("group %s: member %s is removed: %s", group.group_id, member.member_id, _WHY[delay.kind])
        return removed(group, member, None)
