"""What follows when the pool has matched a group's expressions against all topics."""

from __future__ import annotations

from collections.abc import Mapping

from ..classic.events import Visible
from ..modern.group import metadata_hash
from ..modern.outcome import Outcome
from ..modern.topic_image import TopicImage
from ..store.group import Group
from .group import ConsumerGroup, ResolvedExpression
from .records import epoch_record, expression_record


def seen_by(visible: Visible, resolved: Mapping[str, ResolvedExpression]) -> dict[str, ResolvedExpression]:
    """Without the topics that the member may not know of. Loop thread."""
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
        one for one, each in wanted.items() if one not in found.resolved or found.resolved[one].topics != each.topics
    ]
    rebalanced = bool(unlike) or new_hash != found.metadata_hash
    if rebalanced:
        records.append(epoch_record(group_id, found.group_epoch + 1, new_hash))
    return Outcome(None, records, rebalanced=rebalanced)
