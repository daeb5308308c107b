"""A change to one member of a consumer group, step by step: each step adds records and knows what the steps before it did.

The group itself is not touched (records do that when they are written), so a draft sees it as it will be: the one member as it
is becoming, in the place of its predecessor if a static member came back under a new id, and expressions as they were matched
just now. Used by both protocols: a ConsumerGroupHeartbeat and a JoinGroup in a consumer group differ in what comes before and
after. Also here: what follows when the pool has matched a group's expressions against all topics.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from ..assignors import Assignor, GroupSpec, MemberSpec, Partitions, assign_range, assign_uniform
from ..heartbeat import regex_subscription as expressions
from ..heartbeat.group import MemberState, counted, metadata_hash
from ..heartbeat.machine import Delay, DelayCleared, DelaySet, Effect, Environment, GroupRecord, Outcome, Work
from ..heartbeat.regex_subscription import ResolvedExpression
from ..heartbeat.topic_image import TopicImage
from ..store.group import Group, Visible, all_visible
from ..store.timers import DelayKind
from .group import ConsumerGroup, ConsumerMember
from .reconciliation import reconciled
from .records import (
    current_record,
    epoch_record,
    expression_record,
    member_record,
    partition_metadata_tombstone,
    target_epoch_record,
    target_record,
)

log = logging.getLogger(__name__)

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"
LEAST_REFRESH_MS = 10_000
"""Matching many topics is not begun more often than this for one group."""


@dataclass(slots=True)
class Draft:
    """`base`: the member as it was, an empty one if it is new; `replaced`: the id that it had until now, if another."""

    group: ConsumerGroup
    environment: Environment
    now_ms: int
    base: ConsumerMember
    member: ConsumerMember
    replaced: str = ""
    records: list[GroupRecord] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    visible: Visible = all_visible
    work: Work | None = None
    rebalanced: bool = False
    epoch: int = 0
    resolved: dict[str, ResolvedExpression] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.epoch = self.group.group_epoch
        self.resolved = dict(self.group.resolved)

    # -- steps

    def subscribe(self) -> bool:
        """Add records for the changes that the member's request makes to it. Returns whether its subscription changed."""
        names_changed = self._write_member()
        expression_changed, resolved_anew = self._update_expressions()
        self._update_epoch(bump=names_changed or resolved_anew)
        return names_changed or expression_changed

    def assign(self) -> tuple[int, Partitions]:
        """The target's epoch, and the member's target: a new one if it is time for that, else the last."""
        group, target_id = self.group, self.replaced or self.member.member_id
        last = group.assignment_epoch, group.target.get(target_id, {})
        if group.assignment_epoch >= self.epoch or not self._may_assign():
            return last
        settings = self.environment.settings
        preferred = group.preferred_assignor(self.replaced, self.member)
        name = preferred if preferred in ASSIGNORS else settings.config.group_consumer_assignors[0]
        target = ASSIGNORS[name](self._spec())
        log.info("group %s: target of epoch %d for %d members by %s", group.group_id, self.epoch, len(target), name)
        for member_id in self._member_ids():
            new = target.get(member_id, {})
            # A successor has its predecessor's already: that is among its first records.
            known = target_id if member_id == self.member.member_id else member_id
            if new != group.target.get(known):
                self.records.append(target_record(group.group_id, member_id, new))
        self.records.append(target_epoch_record(group.group_id, self.epoch, self.now_ms))
        return self.epoch, target.get(self.member.member_id, {})

    def reconcile(
        self, target_epoch: int, target: Partitions, reported: Partitions | None, *, subscription_changed: bool
    ) -> None:
        """The member goes as far as it can."""
        before = self.member
        if not subscription_changed and before.is_reconciled_to(target_epoch):
            return
        after = reconciled(
            before,
            target_epoch,
            target,
            self.group.owner,
            self._ids_of(self.topics_of(before)),
            reported,
            subscription_changed=subscription_changed,
        )
        if after == before:
            return
        self.member = after
        self.records.append(current_record(self.group.group_id, after))
        if after.classic is None:
            delay = Delay(DelayKind.REBALANCE, after.member_id, after.member_epoch)
            revokes = after.state is MemberState.UNREVOKED_PARTITIONS
            self.effects.append(DelaySet(delay, after.rebalance_timeout_ms) if revokes else DelayCleared(delay))

    # -- the group as it will be

    def members(self) -> Iterator[ConsumerMember]:
        """In the order of their joining; a successor last."""
        for member in self.group.members.values():
            if member.member_id not in (self.replaced, self.member.member_id):
                yield member
            elif member.member_id == self.member.member_id:
                yield self.member
        if self.member.member_id not in self.group.members:
            yield self.member

    def _member_ids(self) -> list[str]:
        return [member.member_id for member in self.members()]

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        resolved = self.resolved.get(member.expression) if member.expression else None
        return member.subscribed_topics if resolved is None else member.subscribed_topics | resolved.topics

    def expressions(self) -> dict[str, int]:
        before, after = self.base.expression, self.member.expression
        if before == after:
            return self.group.expressions
        return counted(self.group.expressions, [before] * bool(before), [after] * bool(after))

    def _names(self) -> Collection[str]:
        before, after = self.base.subscribed_topics, self.member.subscribed_topics
        names = self.group.names if before == after else counted(dict(self.group.names), before, after)
        used = self.expressions()
        matched = [each.topics for expression, each in self.resolved.items() if expression in used]
        return set(names).union(*matched) if matched else names.keys()

    def _ids_of(self, names: Collection[str]) -> frozenset[bytes]:
        found = (self.environment.topics.get(name) for name in names)
        return frozenset(topic.topic_id for topic in found if topic is not None)

    def _spec(self) -> GroupSpec:
        ids: dict[frozenset[str], frozenset[bytes]] = {}
        members: dict[str, MemberSpec] = {}
        counts: dict[bytes, int] = {}
        for member in self.members():
            names = self.topics_of(member)
            topics = ids.get(names)
            if topics is None:
                topics = ids[names] = self._ids_of(names)
                for name in names:
                    topic = self.environment.topics.get(name)
                    if topic is not None:
                        counts[topic.topic_id] = topic.partition_count
            was = self.replaced if self.replaced and member is self.member else member.member_id
            members[member.member_id] = MemberSpec(topics, self.group.target.get(was, {}), member.instance_id)
        return GroupSpec(members, counts)

    # -- parts of the steps

    def _write_member(self) -> bool:
        known = self.group.members.get(self.member.member_id) is not None or bool(self.replaced)
        if self.member == self.base and known:
            return False
        self.records.append(member_record(self.group.group_id, self.member))
        return self.member.subscribed_topics != self.base.subscribed_topics

    def _update_expressions(self) -> tuple[bool, bool]:
        """Add records for a changed expression. Returns whether the member's expression changed, and whether the group may read
        other topics for it.
        """
        group, before, after = self.group, self.base.expression, self.member.expression
        changed = before != after
        bump = False
        used = self.expressions()
        if changed:
            if after and after not in group.expressions:
                expressions.check(after)
            if before and before not in used:
                self.resolved.pop(before, None)
                if before in group.resolved:
                    self.records.append(expression_record(group.group_id, before, None))
            bump = not after or after in self.resolved
        if used:
            bump = self._resolve(used) or bump
        return changed, bump

    def _resolve(self, used: Collection[str]) -> bool:
        """Matches what has to be matched, at once if that is little; returns whether something is another than before.

        Versions and times from the future count for nothing: the wall clock was set back."""
        topics, group = self.environment.topics, self.group
        interval_ms = self.environment.settings.config.group_consumer_regex_refresh_interval_ms
        stale = [
            expression
            for expression in used
            if (known := self.resolved.get(expression)) is None
            or known.version != topics.version
            or not 0 <= self.now_ms - known.timestamp_ms <= interval_ms
        ]
        if not stale:
            return False
        names = list(topics.names())
        if not expressions.is_quick(stale, names):
            self._resolve_later(stale, names)
            return False
        changed = False
        found = expressions.resolve(stale, names, topics.version, self.now_ms)
        for expression, new in seen_by(self.visible, found).items():
            old = self.resolved.get(expression)
            changed = changed or old is None or old.topics != new.topics
            self.resolved[expression] = new
            self.records.append(expression_record(group.group_id, expression, new))
        return changed

    def _resolve_later(self, stale: list[str], names: list[str]) -> None:
        last_ms = max((each.timestamp_ms for each in self.group.resolved.values()), default=0)
        is_fresh = 0 <= self.now_ms - last_ms <= LEAST_REFRESH_MS
        if is_fresh and all(expression in self.resolved for expression in stale):
            return
        visible = self.visible
        version, now_ms, topics = self.environment.topics.version, self.now_ms, self.environment.topics
        self.work = Work(
            lambda: expressions.resolve(stale, names, version, now_ms),
            lambda group, resolved, _: expressions_resolved(group, seen_by(visible, resolved), topics),
        )

    def _update_epoch(self, *, bump: bool) -> None:
        group, topics = self.group, self.environment.topics
        if not bump and group.image_seen == topics.changes:
            return
        new_hash = metadata_hash(self._names(), topics)
        if not bump and new_hash == group.metadata_hash:
            group.image_seen = topics.changes
            return
        self.epoch += 1
        self.rebalanced = True
        self.records.append(epoch_record(group.group_id, self.epoch, new_hash))
        if group.has_partition_metadata:
            self.records.append(partition_metadata_tombstone(group.group_id))
        log.info("group %s: epoch %d", group.group_id, self.epoch)

    def _may_assign(self) -> bool:
        """True unless the group's last target is younger than its assignment interval. One from the future says nothing: the wall
        clock was set back."""
        since_ms = self.now_ms - self.group.assignment_timestamp_ms
        return not 0 <= since_ms < self.environment.settings.int_of(self.group.group_id, ASSIGNMENT_INTERVAL)


def seen_by(visible: Visible, resolved: Mapping[str, ResolvedExpression]) -> dict[str, ResolvedExpression]:
    """What the expressions match, without the topics that the member may not know of. Loop thread."""
    return {expression: each._replace(topics=visible(each.topics)) for expression, each in resolved.items()}


def expressions_resolved(
    found: Group | None, resolved: Mapping[str, ResolvedExpression], image: TopicImage
) -> Outcome[None] | None:
    """The topics are written, in a new group epoch if they are others than before. None if nobody has the expressions."""
    if not isinstance(found, ConsumerGroup):
        return None
    wanted = {expression: each for expression, each in resolved.items() if expression in found.expressions}
    if not wanted:
        return None
    group_id = found.group_id
    records = [expression_record(group_id, expression, each) for expression, each in wanted.items()]
    after = {**found.resolved, **wanted}
    names = set(found.names).union(*(each.topics for each in after.values()))
    new_hash = metadata_hash(names, image)
    unlike = [
        expression
        for expression, each in wanted.items()
        if expression not in found.resolved or found.resolved[expression].topics != each.topics
    ]
    rebalanced = bool(unlike) or new_hash != found.metadata_hash
    if rebalanced:
        records.append(epoch_record(group_id, found.group_epoch + 1, new_hash))
    return Outcome(None, records, rebalanced=rebalanced)
