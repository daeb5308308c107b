"""Heartbeats of streams groups (KIP-1071): join, stay and leave, and from them the group's epochs, target, statuses and internal
topics. `Machine` is the type's entry point, which `../heartbeat/registry.py` finds by name.

A heartbeat is taken in Kafka's order: the member, the topology, the topics, the group epoch, the target, then what of the target
the member can have now, and last which process of the group can be asked for which partitions (interactive queries).

Pure functions of group, request, environment and time. ProtocolError refuses a request.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ....protocol.errors import ErrorCode, ProtocolError
from ..heartbeat.group import AWAY_EPOCH, MemberState, metadata_hash
from ..heartbeat.machine import Delay, DelayCleared, DelaySet, Effect, Environment, GroupRecord, MemberGone, Outcome
from ..store.group import Claim, Group, GroupType, claim
from ..store.timers import DelayKind
from . import records as streams_records
from .assignor import Candidate, TaskGroup, assign
from .description_push import description_failed
from .descriptions import AskedUntil, asked_again, is_asked, is_wanted
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
from .static_members import away, relabelled, returned
from .tasks import NO_TASKS, Tasks, task_set, union
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
#: Kafka 4.4's defaults. It hands out no warm-up tasks yet that they would count for.
ACCEPTABLE_RECOVERY_LAG = 10_000
TASK_OFFSET_INTERVAL_MS = 60_000
#: Version of StreamsGroupHeartbeat.
FIRST_WITH_DESCRIPTIONS = 1
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
    return _Heartbeat(environment, found, request, now_ms).outcome()


class _Heartbeat:
    """A heartbeat of a member that joins or stays. Each step adds to `records`, `effects` and `statuses`, in Kafka's order.

    Attributes:
        member: the member before this heartbeat; `updated` is what becomes of it.
        plan: the configured topology, made again if topics have changed since. From `_configure` on.
    """

    plan: ConfiguredTopology

    def __init__(self, environment: Environment, found: Group | None, request: StreamsHeartbeat, now_ms: int) -> None:
        self.environment = environment
        self.request = request
        self.now_ms = now_ms
        self.group, self.member, self.replaced = _admit(environment, found, request)
        self.is_new = self.member.member_id not in self.group.members
        self.records: list[GroupRecord] = []
        self.effects: list[Effect] = []
        self.statuses: list[StreamsStatus] = []
        self.updated = _updated_member(self.member, request)
        self.image_seen = environment.topics.changes
        self.delayed_until_ms = self.group.delayed_until_ms

    def outcome(self) -> Outcome[StreamsAnswer]:
        """Take all steps. ProtocolError, from the first ones."""
        changed = self._keep_member()
        topics_hash, validated_epoch = self._configure()
        epoch, configs, bumped = self._bump(topics_hash, validated_epoch, changed=changed)
        self._reconcile(self._choose_target(epoch, configs))
        return self._answer(bumped=bumped)

    def _int_of(self, setting: str) -> int:
        return self.environment.settings.int_of(self.request.group_id, setting)

    def _status(self, code: StatusCode, detail: str) -> None:
        self.statuses.append(StreamsStatus(code, detail))

    def _keep_member(self) -> bool:
        """Record what the member says of itself, if that is new. Returns whether tasks are to be assigned anew: of a static
        member only what they are assigned by counts, as it may come back from another address.
        """
        before, updated = self.member, self.updated
        changed = updated != before or self.is_new
        if changed:
            self.records.append(member_record(self.request.group_id, updated))
        if self.request.instance_id is None or self.is_new:
            return changed
        return updated.assigned_by != before.assigned_by

    def _configure(self) -> tuple[int, int]:
        """Bring the topology and `plan` up to date. Returns the hash of the topics' metadata and the topology epoch that is
        valid with them, or -1.
        """
        environment, group, request = self.environment, self.group, self.request
        topology = _topology(group, request)
        if group.topology is None:
            self.records.append(topology_record(request.group_id, topology))
        elif self.updated.topology_epoch < topology.epoch:
            self._status(
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {self.updated.topology_epoch} is behind the group's topology epoch "
                f"{topology.epoch}.",
            )
        plan, topics_hash = group.configured, group.metadata_hash
        if plan is None or self.image_seen != group.image_seen:
            plan = _plan(environment, topology)
            topics_hash = metadata_hash(topology.required_topics(), environment.topics)
        if plan.is_ready and request.said is not None:
            _check_tasks(plan, request.said)
        self.plan = plan
        return topics_hash, topology.epoch if plan.is_ready else -1

    def _bump(self, topics_hash: int, validated_epoch: int, *, changed: bool) -> tuple[int, Mapping[str, str], bool]:
        """Raise the group epoch if anything that an assignment depends on has changed. Returns it, the assignment's settings,
        and whether it rose.
        """
        group, configs = self.group, assignment_configs(self.environment, self.request.group_id)
        bumped = (
            changed
            or topics_hash != group.metadata_hash
            or validated_epoch != group.validated_topology_epoch
            or configs != group.assignment_configs
        )
        epoch = group.group_epoch + bumped
        if bumped:
            self.records.append(
                epoch_record(self.request.group_id, epoch, topics_hash, validated_epoch, configs, group.descriptions)
            )
        return epoch, configs, bumped

    def _choose_target(self, epoch: int, configs: Mapping[str, str]) -> _Target:
        """The member's target, from a new assignment if the group's is older than `epoch` and no delay holds it back."""
        group, now_ms, member_id = self.group, self.now_ms, self.member.member_id
        delay_ms = self._int_of(INITIAL_DELAY)
        if group.is_empty and delay_ms > 0 and not _is_ahead(self.delayed_until_ms, now_ms, delay_ms):
            self.delayed_until_ms = now_ms + delay_ms
            self.effects.append(DelaySet(INITIAL_ASSIGNMENT, delay_ms))
        if _is_ahead(self.delayed_until_ms, now_ms, delay_ms):
            detail = "Assignment delayed due to the configured initial rebalance delay."
            self._status(StatusCode.ASSIGNMENT_DELAYED, detail)
            return _Target(group.assignment_epoch, NO_TASKS)
        if group.assignment_epoch < epoch:
            interval_ms, last_ms = self._int_of(ASSIGNMENT_INTERVAL), group.assignment_timestamp_ms
            if not last_ms or not _is_ahead(last_ms + interval_ms, now_ms, interval_ms):
                targets = _targets(group, {**group.members, member_id: self.updated}, self.plan, configs)
                self.records += _target_records(group, targets, epoch, now_ms)
                return _Target(epoch, targets[member_id])
            detail = "Assignment delayed due to the configured assignment interval."
            self._status(StatusCode.ASSIGNMENT_DELAYED, detail)
        return _Target(group.assignment_epoch, group.target.get(member_id, NO_TASKS))

    def _reconcile(self, target: _Target) -> None:
        """Give the member what it can have of its target now, and set its time limits."""
        group_id, member_id = self.request.group_id, self.member.member_id
        before = self.updated
        self.updated = updated = reconciled(self.group, before, target.tasks, target.epoch, self.request.said)
        if updated != before or self.replaced is not None or self.is_new:
            self.records.append(current_record(group_id, updated))
            rebalance = Delay(DelayKind.REBALANCE, member_id, updated.member_epoch)
            if updated.state is MemberState.UNREVOKED_PARTITIONS:
                self.effects.append(DelaySet(rebalance, updated.rebalance_timeout_ms))
            else:
                self.effects.append(DelayCleared(rebalance))
        self.effects.append(DelaySet(Delay(DelayKind.SESSION, member_id), self._int_of(SESSION_TIMEOUT)))

    def _ask_for_description(self) -> AskedUntil | None:
        """Decide to ask this member to describe the topology: the delay until somebody else is asked. None: it is not asked."""
        environment, group, epoch = self.environment, self.group, self.plan.epoch
        kept = environment.descriptions
        if self.request.version < FIRST_WITH_DESCRIPTIONS or kept is None or not is_wanted(group, epoch, kept):
            return None
        is_stale = any(code is StatusCode.STALE_TOPOLOGY for code, _ in self.statuses)
        if is_stale or is_asked(group.description_asked, epoch, self.now_ms):
            return None
        log.info("group %s: member %s is asked to describe the topology", self.request.group_id, self.updated.member_id)
        return asked_again(group.description_asked, epoch, self.now_ms, environment.chance)

    def _answer(self, *, bumped: bool) -> Outcome[StreamsAnswer]:
        """Everything that came of the steps, and what the member is told."""
        group, request, updated, plan = self.group, self.request, self.updated, self.plan
        moved = request.is_joining or updated.assigned != self.member.assigned
        answers = moved or updated.endpoint != self.member.endpoint
        # A member that reports an older epoch or other tasks may have missed an answer (Kafka 4.3 leaves it without them).
        missed = request.member_epoch != self.member.member_epoch or not updated.assigned.matches_report(request.said)
        endpoint_epoch = group.endpoint_epoch + (answers and updated.endpoint is not None)
        endpoints = None
        if endpoint_epoch != request.endpoint_epoch:
            members = {**group.members, updated.member_id: updated}
            endpoints = endpoints_of(members.values(), plan, self.environment.topics)
        asked = self._ask_for_description()
        asked_by = group.shutdown_asked_by or (updated.member_id if request.shutdown else None)
        if plan.problem is not None:
            self.statuses.append(plan.problem)
        if asked_by is not None:
            self._status(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Streams group member {asked_by} encountered a fatal error and requested a shutdown for the entire "
                "application.",
            )

        def note(kept: Group | None) -> None:
            """Set the state of the group that is in no record."""
            assert isinstance(kept, StreamsGroup)
            kept.configured, kept.image_seen = plan, self.image_seen
            kept.delayed_until_ms = self.delayed_until_ms
            kept.endpoint_epoch = endpoint_epoch
            kept.shutdown_asked_by = asked_by
            kept.description_asked = asked or kept.description_asked
            if request.task_offsets is not None:
                kept.tell_offsets(updated.member_id, kept.offsets_after(updated.member_id, request.task_offsets))

        return Outcome(
            StreamsAnswer(
                updated.member_id,
                updated.member_epoch,
                self._int_of(HEARTBEAT_INTERVAL),
                tuple(self.statuses),
                updated.assigned if moved or missed else None,
                endpoint_epoch,
                endpoints,
                asked is not None,
                ACCEPTABLE_RECOVERY_LAG,
                TASK_OFFSET_INTERVAL_MS,
            ),
            self.records,
            self.effects,
            replaced=self.replaced,
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
    answer = StreamsAnswer(request.member_id, request.member_epoch)
    if request.instance_id is None:
        member = group.member(request.member_id)
    else:
        member = group.known_instance(request.instance_id, request.member_id)
    if request.member_epoch == AWAY_EPOCH:
        log.info("group %s: static member %s is away", group.group_id, request.instance_id)
        outcome = Outcome(answer, [current_record(group.group_id, away(member))])
    else:
        log.info("group %s: member %s leaves", group.group_id, member.member_id)
        outcome = removed(group, member, answer)

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
            group.descriptions,
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
        if request.instance_id is None:
            member = group.member(member_id)
        else:
            member = group.known_instance(request.instance_id, member_id)
    else:
        claimed = claim(GroupType.STREAMS, found)
        if claimed is Claim.REPLACE:
            replaced = found
        if claimed in (Claim.NEW, Claim.REPLACE):
            group = StreamsGroup(group_id)
        else:
            group = _streams_group(found, group_id)
        limit, static = environment.settings.config.group_streams_max_size, group.static_member(request.instance_id)
        if member_id not in group.members and static is None and group.member_count >= limit:
            raise ProtocolError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {limit} members.",
            )
        member = group.members.get(member_id) or StreamsMember(member_id=member_id)
        if static is not None:
            member = returned(static, request)
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
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
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
            _partitions(union(member.assigned.standby, member.assigned.warmup), plan, topics),
        )
        for member in members
        if member.endpoint is not None
    )


def _partitions(
    tasks: Mapping[str, frozenset[int]], plan: ConfiguredTopology, topics: TopicImage
) -> list[tuple[str, list[int]]]:
    """Partitions that these tasks read, by topic. A topic may have fewer partitions than its subtopology has tasks: where it has
    none of these, it is left out.
    """
    assert plan.subtopologies is not None
    found = []
    for name in sorted(tasks):
        subtopology = plan.subtopologies.get(name)
        for topic in sorted(set(subtopology.inputs)) if subtopology is not None else ():
            seen = topics.get(topic)
            parts = sorted(part for part in tasks[name] if seen is not None and part < seen.partition_count)
            if parts:
                found.append((topic, parts))
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

    def relabelled(self, group: Group | None, request: StreamsHeartbeat) -> Outcome[None]:
        """Pass what a static member had on to the id that it comes back under, as `relabelled`. Before its heartbeat."""
        return relabelled(group, request, self._environment.settings.int_of(request.group_id, SESSION_TIMEOUT))

    def topics_to_make(self, group: Group | None, request: StreamsHeartbeat) -> tuple[InternalTopic, ...]:
        """Internal topics that the request needs, as `heartbeat.topics_to_make`."""
        return topics_to_make(self._environment, group, request)

    def description_failed(self, epoch: int, now_ms: int) -> Outcome[None]:
        """Handle a description that could not be stored, as `description_push.description_failed`."""
        return description_failed(self._environment, epoch, now_ms)

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
