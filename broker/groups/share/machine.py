"""Share groups of KIP-932: the entry point of the type (see `registry`), and what decides for them.

Before a partition is assigned, its state has to be kept in `__share_group_state`. `uninitialized` returns what is missing; who
sees to it (`share.groups`) has that written down before (`initializing`) and after (`initialized`), so that a crash in between
leaves a trace: what is on the way is initialized again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from ....protocol.errors import ErrorCode, ProtocolError
from ..assignors import Partitions, assign_simple
from ..heartbeat.group import JOINING_EPOCH, counted, metadata_hash
from ..heartbeat.machine import Delay, DelaySet, Effect, Environment, GroupRecord, MemberGone, Outcome
from ..store.group import Claim, Group, GroupType, claim
from ..store.timers import DelayKind
from . import group as share_records
from .group import ShareGroup, ShareMember, StatePartitions

log = logging.getLogger(__name__)
T = TypeVar("T")

RECORDS = share_records.RECORDS

SESSION_TIMEOUT = "share.session.timeout.ms"
HEARTBEAT_INTERVAL = "share.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "share.assignment.interval.ms"


class ShareHeartbeat(NamedTuple):
    """A request. `rack_id` and `topics` are None where they are as before."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    topics: frozenset[str] | None
    client_id: str
    client_host: str


class ShareHeartbeatResult(NamedTuple):
    """`assignment` is None where it is as the member knows it."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


class Machine:
    """Decides for share groups. Pure but for its environment; loop thread."""

    def __init__(self, environment: Environment) -> None:
        self._topics = environment.topics
        self._settings = environment.settings

    def loaded(self, group: ShareGroup, now_ms: int) -> Sequence[Effect]:
        return [self._session(group, member_id) for member_id in group.members]

    def delay_passed(self, group: ShareGroup, delay: Delay, now_ms: int) -> Outcome[None] | None:
        if delay.member_id not in group.members:
            return None
        log.info("group %s: member %s is removed: its session expired", group.group_id, delay.member_id)
        return self._removed(group, delay.member_id, None)

    # -- members

    def heartbeat(self, found: Group | None, asked: ShareHeartbeat, now_ms: int) -> Outcome[ShareHeartbeatResult]:
        """Raises ProtocolError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH."""
        is_joining = asked.member_epoch == JOINING_EPOCH
        group = share_group(found, asked.group_id, may_make=is_joining)
        old = self._known(group, asked, is_joining)
        member = replace(
            old,
            rack_id=old.rack_id if asked.rack_id is None else asked.rack_id,
            subscribed_topics=old.subscribed_topics if asked.topics is None else asked.topics,
            client_id=asked.client_id,
            client_host=asked.client_host,
        )
        records: list[GroupRecord] = []
        is_new = asked.member_id not in group.members
        if is_new or member != old:
            records.append(share_records.member_record(group.group_id, member))
        has_changed = is_new or member.subscribed_topics != old.subscribed_topics
        names = counted(dict(group.names), None if is_new else old.subscribed_topics, member.subscribed_topics)
        epoch = group.group_epoch
        is_rebalance = has_changed or self._is_pending(group, names)
        if is_rebalance or group.image_seen != self._topics.changes:
            digest = metadata_hash(names, self._topics)
            is_rebalance = is_rebalance or digest != group.metadata_hash
            if not is_rebalance:
                group.image_seen = self._topics.changes
            else:  # compared once more by the next heartbeat: these records may not be written
                epoch += 1
                records.append(share_records.epoch_record(group.group_id, epoch, digest))
        target_epoch, target = group.assignment_epoch, group.target.get(member.member_id, {})
        if epoch > target_epoch and self._may_assign(group, now_ms):
            target_epoch, targets = epoch, self._targets(group, member)
            target = targets[member.member_id]
            records += [
                share_records.target_record(group.group_id, member_id, wanted)
                for member_id, wanted in targets.items()
                if wanted != group.target.get(member_id)
            ]
            records.append(share_records.target_epoch_record(group.group_id, epoch, now_ms))
        reached = self._reconciled(member, target_epoch, target, has_changed=has_changed)
        if reached != member or is_new:
            records.append(share_records.assignment_record(group.group_id, reached))
        is_told = is_joining or asked.topics is not None or reached.assigned != old.assigned
        interval_ms = self._settings.int_of(group.group_id, HEARTBEAT_INTERVAL)
        answer = ShareHeartbeatResult(
            member.member_id, reached.member_epoch, interval_ms, reached.assigned if is_told else None
        )
        return Outcome(answer, records, [self._session(group, member.member_id)], rebalanced=is_rebalance)

    def leave(self, found: Group | None, asked: ShareHeartbeat) -> Outcome[ShareHeartbeatResult]:
        """Remove the member. ProtocolError GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID."""
        group = share_group(found, asked.group_id)
        group.member(asked.member_id)
        return self._removed(group, asked.member_id, ShareHeartbeatResult(asked.member_id, asked.member_epoch))

    def _known(self, group: ShareGroup, asked: ShareHeartbeat, is_joining: bool) -> ShareMember:
        most = self._settings.config.group_share_max_size
        if len(group.members) >= most and asked.member_id not in group.members:
            raise ProtocolError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The share group has {most} members already.")
        if is_joining:
            return group.members.get(asked.member_id) or ShareMember(member_id=asked.member_id)
        member = group.member(asked.member_id)
        if asked.member_epoch not in (member.member_epoch, member.previous_member_epoch):
            raise ProtocolError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The member's epoch is {asked.member_epoch}, the coordinator knows {member.member_epoch}: it must join anew.",
            )
        return member

    def _is_pending(self, group: ShareGroup, names: Collection[str]) -> bool:
        """True if partitions that the members read have become assignable since the target was made."""
        if group.group_epoch > group.assignment_epoch or not group.members:
            return False
        if (
            group.compared == (group.assignment_epoch, self._topics.changes)
            and group.compared_with is group.initialized
        ):
            return False  # each heartbeat comes by here
        assigned: dict[bytes, set[int]] = {}
        for target in group.target.values():
            for topic_id, partitions in target.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        is_pending = any(
            state.name in names and self._topics.by_id(topic_id) and assigned.get(topic_id, set()) != state.partitions
            for topic_id, state in group.initialized.items()
        )
        if not is_pending:
            group.compared, group.compared_with = (group.assignment_epoch, self._topics.changes), group.initialized
        return is_pending

    def _may_assign(self, group: ShareGroup, now_ms: int) -> bool:
        since = now_ms - group.assignment_timestamp_ms
        return not 0 <= since < self._settings.int_of(group.group_id, ASSIGNMENT_INTERVAL)

    def _targets(self, group: ShareGroup, changed: ShareMember) -> dict[str, dict[bytes, frozenset[int]]]:
        members = {**group.members, changed.member_id: changed}
        subscriptions = {
            member_id: frozenset(
                topic.topic_id for name in member.subscribed_topics if (topic := self._topics.get(name)) is not None
            )
            for member_id, member in members.items()
        }
        assignable: dict[bytes, frozenset[int]] = {}
        for topic_id, state in group.initialized.items():
            topic = self._topics.by_id(topic_id)
            if topic is not None:
                assignable[topic_id] = frozenset(index for index in state.partitions if index < topic.partition_count)
        return assign_simple(subscriptions, assignable, group.target)

    def _reconciled(
        self, member: ShareMember, target_epoch: int, target: Partitions, *, has_changed: bool
    ) -> ShareMember:
        wanted = {
            topic_id: partitions
            for topic_id, partitions in target.items()
            if (topic := self._topics.by_id(topic_id)) is not None and topic.name in member.subscribed_topics
        }
        if target_epoch != member.member_epoch:
            return replace(
                member, member_epoch=target_epoch, previous_member_epoch=member.member_epoch, assigned=wanted
            )
        return replace(member, assigned=wanted) if has_changed else member

    def _removed(self, group: ShareGroup, member_id: str, answer: T) -> Outcome[T]:
        old = group.members[member_id]
        names = counted(dict(group.names), old.subscribed_topics, None)
        records = share_records.member_tombstones(group.group_id, member_id)
        digest = metadata_hash(names, self._topics)
        records.append(share_records.epoch_record(group.group_id, group.group_epoch + 1, digest))
        return Outcome(answer, records, [MemberGone(member_id)], rebalanced=True)

    def _session(self, group: ShareGroup, member_id: str) -> Effect:
        timeout_ms = self._settings.int_of(group.group_id, SESSION_TIMEOUT)
        return DelaySet(Delay(DelayKind.SESSION, member_id), timeout_ms)

    # -- partitions whose state is kept

    def uninitialized(self, found: Group | None, names: Collection[str]) -> dict[bytes, StatePartitions]:
        """Partitions of these topics of which nothing is kept yet, by topic id."""
        missing: dict[bytes, StatePartitions] = {}
        known = found.initialized if isinstance(found, ShareGroup) else {}
        for name in sorted(names):
            topic = self._topics.get(name)
            if topic is None:
                continue
            have = known[topic.topic_id].partitions if topic.topic_id in known else frozenset()
            if len(have) >= topic.partition_count:  # each heartbeat comes by here
                continue
            if wanted := frozenset(range(topic.partition_count)) - have:
                missing[topic.topic_id] = StatePartitions(name, wanted)
        return missing

    def initializing(
        self,
        found: Group | None,
        group_id: str,
        wanted: Mapping[bytes, StatePartitions],
        *,
        must_be_empty: bool = False,
    ) -> Outcome[int]:
        """Before: writes down what is on the way; the answer is the state epoch to use. Raises ProtocolError:
        GROUP_ID_NOT_FOUND for a group of another type, NON_EMPTY_GROUP."""
        group = share_group(found, group_id, may_make=True)
        if must_be_empty and group.members:
            raise ProtocolError(ErrorCode.NON_EMPTY_GROUP)
        initializing = merged(group.initializing, wanted)
        deleting = {topic_id: name for topic_id, name in group.deleting.items() if topic_id not in initializing}
        record = share_records.state_record(group_id, initializing, group.initialized, deleting)
        return Outcome(group.group_epoch, [record])

    def initialized(
        self,
        found: Group | None,
        group_id: str,
        done: Mapping[bytes, StatePartitions],
        failed: Mapping[bytes, StatePartitions],
    ) -> Outcome[None]:
        """After: these may be assigned; those that failed are not on the way any more."""
        group = share_group(found, group_id)
        initializing = without(without(group.initializing, done), failed)
        initialized = merged(group.initialized, done)
        return Outcome(None, [share_records.state_record(group_id, initializing, initialized, group.deleting)])

    def deleting(self, found: Group | None, group_id: str, topics: Mapping[bytes, str]) -> Outcome[None]:
        """Writes down that nothing of these topics counts any more. Raises ProtocolError: GROUP_ID_NOT_FOUND,
        NON_EMPTY_GROUP."""
        group = share_group(found, group_id)
        if group.members:
            raise ProtocolError(ErrorCode.NON_EMPTY_GROUP)
        initializing, initialized = (
            {topic_id: state for topic_id, state in part.items() if topic_id not in topics}
            for part in (group.initializing, group.initialized)
        )
        deleting = {**group.deleting, **topics}
        return Outcome(None, [share_records.state_record(group_id, initializing, initialized, deleting)])

    def deleted(self, found: Group | None, group_id: str, topics: Collection[bytes]) -> Outcome[None]:
        """Nothing of these topics is kept: after `deleting`, or because they are gone."""
        group = share_group(found, group_id)
        parts = (group.initializing, group.initialized, group.deleting)
        left = [{key: value for key, value in part.items() if key not in topics} for part in parts]
        return Outcome(None, [share_records.state_record(group_id, *left)])  # type: ignore[arg-type]


def share_group(found: Group | None, group_id: str, *, may_make: bool = False) -> ShareGroup:
    """The group, or a new one that nobody knows yet. Raises ProtocolError GROUP_ID_NOT_FOUND."""
    if isinstance(found, ShareGroup):
        return found
    if found is None and may_make:
        return ShareGroup(group_id)
    if claim(GroupType.SHARE, found) is Claim.NEW:
        raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
    raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")


def merged(
    before: Mapping[bytes, StatePartitions], more: Mapping[bytes, StatePartitions]
) -> dict[bytes, StatePartitions]:
    """The partitions of both arguments, by topic."""
    result = dict(before)
    for topic_id, state in more.items():
        known = result[topic_id].partitions if topic_id in result else frozenset()
        result[topic_id] = state._replace(partitions=known | state.partitions)
    return result


def without(
    before: Mapping[bytes, StatePartitions], less: Mapping[bytes, StatePartitions]
) -> dict[bytes, StatePartitions]:
    """The partitions of the first that are not in the second."""
    result: dict[bytes, StatePartitions] = {}
    for topic_id, state in before.items():
        left = state.partitions - less[topic_id].partitions if topic_id in less else state.partitions
        if left:
            result[topic_id] = state._replace(partitions=left)
    return result
