"""Members that leave a consumer group, or are put out of it because nothing was heard of them in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from ..modern.group import counted, metadata_hash
from ..modern.outcome import GroupRecord, MemberGone, Outcome
from ..modern.topic_image import TopicImage
from .group import ConsumerGroup, ConsumerMember
from .records import epoch_record, expression_record, member_tombstones

T = TypeVar("T")


def removed(group: ConsumerGroup, members: Iterable[ConsumerMember], image: TopicImage, answer: T) -> Outcome[T]:
    """The group without `members`, in a new group epoch; expressions that nobody has any more go with them."""
    members = list(members)
    if not members:
        return Outcome(answer)
    records: list[GroupRecord] = []
    for member in members:
        records += member_tombstones(group.group_id, member.member_id)
    lost = orphaned_expressions(group, members)
    records += (expression_record(group.group_id, expression, None) for expression in lost)
    epoch_hash = metadata_hash(topics_without(group, members, lost), image)
    records.append(epoch_record(group.group_id, group.group_epoch + 1, epoch_hash))
    return Outcome(answer, records, [MemberGone(member.member_id) for member in members], rebalanced=True)


def orphaned_expressions(group: ConsumerGroup, members: Iterable[ConsumerMember]) -> list[str]:
    """Expressions that only `members` have."""
    theirs = Counter(member.expression for member in members if member.expression)
    return [expression for expression, count in theirs.items() if group.expressions.get(expression, 0) == count]


def topics_without(group: ConsumerGroup, members: Iterable[ConsumerMember], lost: Iterable[str]) -> set[str]:
    """What is read without these members and expressions."""
    names = dict(group.names)
    for member in members:
        names = counted(names, member.subscribed_topics, None)
    lost = set(lost)
    resolved = (each.topics for expression, each in group.resolved.items() if expression not in lost)
    return set(names).union(*resolved)
