"""OffsetFetch, API key 9, versions 0 to 10: how far groups have read.

- 0 asked ZooKeeper; here the one store answers, in ZooKeeper's way: nothing committed is UNKNOWN_TOPIC_OR_PARTITION.
- 1: an error of the group is told in each partition, from 2 on once; 2: null topics mean all; 5: leader epochs;
  7: `require_stable` (KIP-447); 8: several groups at once (KIP-709); 9: a member says who it is (KIP-848); 10: topics by id.
- From 1 on, where nothing is committed the offset is -1 and there is no error.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ..groups.offset_commits import NO_OFFSET, FetchedGroup, FetchedOffset, FetchedTopic, TopicToFetch
from ..requests.access import requires_each, shows
from ..requests.registry import api
from ..runtime.cooperative import SLICE_UNITS, batches
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..groups.coordinator import GroupCoordinator
    from ..requests.context import RequestContext

FIRST_WITH_GROUPS = 8
FIRST_WITH_IDS = 10

_PIECE_UNITS = SLICE_UNITS // 2
_UNITS_OF_GROUP = 3
_PARTITIONS_IN_UNIT = 2
_MOST_PARTITIONS = (_PIECE_UNITS - 1) * _PARTITIONS_IN_UNIT

_Topic = TypeVar("_Topic", OffsetFetchRequestTopic, OffsetFetchRequestTopics)


@api(
    ApiKey.OFFSET_FETCH,
    (0, FIRST_WITH_IDS),
    OffsetFetchRequest,
    requires=(
        requires_each(AclOperation.DESCRIBE, ResourceType.GROUP),
        requires_each(AclOperation.DESCRIBE, ResourceType.TOPIC),
        shows(AclOperation.DESCRIBE, ResourceType.TOPIC, "where all are asked for"),
    ),
    many_names=True,
)
def offset_fetch(
    request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    groups = context.services.groups
    if len(request.groups) > 1 or any(group.topics is not None for group in request.groups):
        if _is_long(request.groups, groups):
            return _in_pieces(request, context)
    elif context.api_version < FIRST_WITH_GROUPS and _units(request.topics) > SLICE_UNITS:
        return _one_in_pieces(request, context)
    plans = _plans(request, context)
    if len(plans) == 1 and plans[0].wanted is None and not plans[0].is_refused:
        held = groups.committed_partitions(plans[0].group_id)
        if _units_of_all(held) > SLICE_UNITS:
            return _all_in_pieces(request, context, plans[0], _pieces_of_all(held))
    if context.api_version == 0 and not groups.is_open and not plans[0].is_refused:
        # As in ZooKeeper there is nothing yet, and no error in that.
        nothing = [
            FetchedTopic(topic.topic, [FetchedOffset(index) for index in topic.partitions])
            for topic in plans[0].wanted or ()
        ]
        return _single(request, _seen(FetchedGroup(nothing), plans[0], context), 0)
    outcomes: list[FetchedGroup | Awaitable[FetchedGroup]] = [
        FetchedGroup([], ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if plan.is_refused
        else groups.fetch_offsets(
            plan.group_id,
            plan.wanted,
            require_stable=request.require_stable,
            member_id=plan.member_id,
            member_epoch=plan.member_epoch,
        )
        for plan in plans
    ]
    if any(inspect.isawaitable(outcome) for outcome in outcomes):
        return _later(request, context, plans, outcomes)
    return _respond(request, context, plans, [outcome for outcome in outcomes if isinstance(outcome, FetchedGroup)])


def _units(topics: Sequence[_Topic] | None) -> int:
    """Of very many some are counted: more than a chunk has."""
    units = 0
    for topic in topics or ():
        units += 1 + len(topic.partition_indexes) // _PARTITIONS_IN_UNIT
        if units > SLICE_UNITS:
            break
    return units


def _units_of_all(held: Mapping[str, Collection[int]]) -> int:
    """The same for all that a group has."""
    units = 0
    for partitions in held.values():
        units += 1 + len(partitions) // _PARTITIONS_IN_UNIT
        if units > SLICE_UNITS:
            break
    return units


def _is_long(asked: Sequence[OffsetFetchRequestGroup], groups: GroupCoordinator) -> bool:
    """True if these groups are more than one chunk."""
    units = 0
    for group in asked:
        units += _units_of_group(group, groups)
        if units > SLICE_UNITS:
            return True
    return False


def _units_of_group(group: OffsetFetchRequestGroup, groups: GroupCoordinator) -> int:
    if group.topics is None:
        return _UNITS_OF_GROUP + _units_of_all(groups.committed_partitions(group.group_id))
    return _UNITS_OF_GROUP + _units(group.topics)


async def _in_pieces(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    """Fetch several groups in chunks, so that others get their turn: groups, and the topics of one, are independent."""
    answers: list[OffsetFetchResponseGroup] = []
    for some in _pieces(request.groups, context.services.groups):
        if answers:
            await context.next_turn()
        if not some:
            continue
        found = offset_fetch(OffsetFetchRequest(groups=some, require_stable=request.require_stable), context)
        for group in (found if isinstance(found, OffsetFetchResponse) else await found).groups:
            before = answers[-1] if answers else None
            if before is None or before.group_id != group.group_id:
                answers.append(group)
            elif not before.error_code:
                before.error_code = group.error_code
                before.topics = [] if group.error_code else _joined(before.topics, group.topics)
    return OffsetFetchResponse(groups=answers)


async def _one_in_pieces(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    """The same for the one group of an older version."""
    answer: OffsetFetchResponse | None = None
    for topics in _pieces_of_topics(request.topics or ()):
        if answer is not None:
            await context.next_turn()
        piece = OffsetFetchRequest(group_id=request.group_id, topics=topics, require_stable=request.require_stable)
        found = offset_fetch(piece, context)
        part = found if isinstance(found, OffsetFetchResponse) else await found
        if answer is None:
            answer = part
        elif not answer.error_code:
            answer.error_code = part.error_code
            has_none = part.error_code and not part.topics  # from version 2 on
            answer.topics = [] if has_none else _joined(answer.topics, part.topics)
        elif answer.topics:
            answer.topics = _joined(answer.topics, part.topics)
    assert answer is not None
    return answer


async def _all_in_pieces(
    request: OffsetFetchRequest, context: RequestContext, plan: _Plan, pieces: Iterator[list[TopicToFetch]]
) -> OffsetFetchResponse:
    """Fetch all that a group has. An offset that is deleted meanwhile is left out."""
    answer: OffsetFetchResponse | None = None
    for wanted in pieces:
        if answer is not None:
            await context.next_turn()
        outcome = context.services.groups.fetch_offsets(
            plan.group_id,
            wanted,
            require_stable=request.require_stable,
            member_id=plan.member_id,
            member_epoch=plan.member_epoch,
        )
        found = outcome if isinstance(outcome, FetchedGroup) else await outcome
        if found.error is not ErrorCode.NONE:
            return _respond(request, context, [plan], [found])
        part = _respond(request, context, [plan], [found._replace(topics=_there(found.topics))])
        if answer is None:
            answer = part
        elif answer.groups:
            answer.groups[0].topics = _joined(answer.groups[0].topics, part.groups[0].topics)
        else:
            answer.topics = _joined(answer.topics, part.topics)
    assert answer is not None
    return answer


def _there(topics: Sequence[FetchedTopic]) -> list[FetchedTopic]:
    """Without partitions that have no offset any more."""
    found = []
    for topic in topics:
        offsets = [each for each in topic.partitions if each.offset != NO_OFFSET or each.error is not ErrorCode.NONE]
        if offsets:
            found.append(topic._replace(partitions=offsets))
    return found


def _pieces_of_all(held: Mapping[str, Collection[int]]) -> Iterator[list[TopicToFetch]]:
    """All that a group has now, a slice each. What is committed meanwhile changes nothing of it."""
    now = [(topic, tuple(partitions)) for topic, partitions in held.items()]
    piece: list[TopicToFetch] = []
    left = _PIECE_UNITS
    for topic, partitions in now:
        for indexes in batches(partitions, _MOST_PARTITIONS):
            units = 1 + len(indexes) // _PARTITIONS_IN_UNIT
            if piece and units > left:
                yield piece
                piece, left = [], _PIECE_UNITS
            piece.append(TopicToFetch(topic, indexes))
            left -= units
    yield piece


def _joined(before: Sequence[Any], more: Sequence[Any]) -> list[Any]:
    """Answers for the topics of two pieces: one that was cut in two is one again."""
    known = {_key(topic): topic for topic in before[-_PIECE_UNITS:]}
    joined = list(before)
    for topic in more:
        same = known.get(_key(topic))
        if same is None:
            joined.append(topic)
        else:
            same.partitions = [*same.partitions, *topic.partitions]
    return joined


def _key(topic: OffsetFetchResponseTopic | OffsetFetchResponseTopics) -> tuple[str, bytes]:
    return topic.name, topic.topic_id if isinstance(topic, OffsetFetchResponseTopics) else b""


def _pieces(
    asked: Sequence[OffsetFetchRequestGroup], groups: GroupCoordinator
) -> Iterator[list[OffsetFetchRequestGroup]]:
    """Groups of a slice each; one with more topics or partitions goes into several, or of which all is asked for alone. Of one
    that is named again all is told once: a request may have thousands of names. A slice may be empty.
    """
    piece: list[OffsetFetchRequestGroup] = []
    left = _PIECE_UNITS
    told: set[str] = set()
    for group in asked:
        if group.topics is None and group.group_id in told:
            left -= 1
            if left <= 0:
                yield piece
                piece, left = [], _PIECE_UNITS
            continue
        if group.topics is None:
            told.add(group.group_id)
        many = _units(group.topics) > _PIECE_UNITS
        for topics in _pieces_of_topics(group.topics or ()) if many else (group.topics,):
            part = OffsetFetchRequestGroup(
                group_id=group.group_id, topics=topics, member_id=group.member_id, member_epoch=group.member_epoch
            )
            units = _units_of_group(part, groups)
            if piece and units > left:
                yield piece
                piece, left = [], _PIECE_UNITS
            piece.append(part)
            left -= units
    yield piece


def _pieces_of_topics(topics: Sequence[_Topic]) -> Iterator[list[_Topic]]:
    """Topics of a slice each; one with more partitions goes into several."""
    piece: list[_Topic] = []
    left = _PIECE_UNITS
    for topic in topics:
        for indexes in batches(topic.partition_indexes, _MOST_PARTITIONS) if topic.partition_indexes else ([],):
            part = copy(topic)
            part.partition_indexes = indexes
            units = _units((part,))
            if piece and units > left:
                yield piece
                piece, left = [], _PIECE_UNITS
            piece.append(part)
            left -= units
    yield piece


class _Plan(NamedTuple):
    """Topics to look up for one group; `denied`: answers for topics that the client may not describe."""

    group_id: str
    wanted: list[TopicToFetch] | None = None
    denied: Sequence[FetchedTopic] = ()
    member_id: str | None = None
    member_epoch: int = -1
    is_refused: bool = False


def _plans(request: OffsetFetchRequest, context: RequestContext) -> list[_Plan]:
    if context.api_version < FIRST_WITH_GROUPS:
        return [_plan(_Plan(request.group_id, _by_name(request.topics)), context)]
    by_id = context.api_version >= FIRST_WITH_IDS
    return [
        _plan(
            _Plan(
                group.group_id,
                _by_id(group.topics, context) if by_id else _by_name(group.topics),
                member_id=group.member_id,
                member_epoch=group.member_epoch,
            ),
            context,
        )
        for group in request.groups
    ]


def _plan(plan: _Plan, context: RequestContext) -> _Plan:
    """The plan without the topics that the client may not see."""
    if not context.allows(AclOperation.DESCRIBE, ResourceType.GROUP, plan.group_id):
        return plan._replace(is_refused=True)
    if plan.wanted is None:
        return plan
    shown = context.allowed(AclOperation.DESCRIBE, ResourceType.TOPIC, (topic.topic for topic in plan.wanted))
    denied = [
        FetchedTopic(
            topic.topic,
            [FetchedOffset(index, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED) for index in topic.partitions],
            topic.topic_id,
        )
        for topic in plan.wanted
        if topic.topic not in shown
    ]
    return plan._replace(wanted=[topic for topic in plan.wanted if topic.topic in shown], denied=denied)


def _seen(result: FetchedGroup, plan: _Plan, context: RequestContext) -> FetchedGroup:
    if result.error is not ErrorCode.NONE:
        return result
    topics = result.topics
    if plan.wanted is None:
        names = (topic.topic for topic in topics)
        shown = context.allowed(AclOperation.DESCRIBE, ResourceType.TOPIC, names, quietly=True)
        topics = [topic for topic in topics if topic.topic in shown]
    return result._replace(topics=[*topics, *plan.denied])


async def _later(
    request: OffsetFetchRequest,
    context: RequestContext,
    plans: list[_Plan],
    outcomes: list[FetchedGroup | Awaitable[FetchedGroup]],
) -> OffsetFetchResponse:
    results = [outcome if isinstance(outcome, FetchedGroup) else await outcome for outcome in outcomes]
    return _respond(request, context, plans, results)


def _by_name(
    topics: Sequence[OffsetFetchRequestTopics] | Sequence[OffsetFetchRequestTopic] | None,
) -> list[TopicToFetch] | None:
    return None if topics is None else [TopicToFetch(topic.name, topic.partition_indexes) for topic in topics]


def _by_id(topics: Sequence[OffsetFetchRequestTopics] | None, context: RequestContext) -> list[TopicToFetch] | None:
    """Topics with a known id."""
    if topics is None:
        return None
    named = ((context.services.partitions.name_of(topic.topic_id), topic) for topic in topics)
    return [TopicToFetch(name, topic.partition_indexes, topic.topic_id) for name, topic in named if name is not None]


def _respond(
    request: OffsetFetchRequest, context: RequestContext, plans: list[_Plan], found: list[FetchedGroup]
) -> OffsetFetchResponse:
    version = context.api_version
    results = [_seen(result, plan, context) for result, plan in zip(found, plans, strict=True)]
    if version < FIRST_WITH_GROUPS:
        return _single(request, results[0], version)
    answers = []
    for group, result in zip(request.groups, results, strict=True):
        topics = []
        if result.error is ErrorCode.NONE:
            topics = _with_ids(group.topics, result, context) if version >= FIRST_WITH_IDS else _with_names(result)
        answers.append(OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=result.error))
    return OffsetFetchResponse(groups=answers)


def _with_names(result: FetchedGroup) -> list[OffsetFetchResponseTopics]:
    return [OffsetFetchResponseTopics(name=t.topic, partitions=_partitions(t.partitions)) for t in result.topics]


def _with_ids(
    requested: Sequence[OffsetFetchRequestTopics] | None, result: FetchedGroup, context: RequestContext
) -> list[OffsetFetchResponseTopics]:
    answers = []
    for topic in result.topics:
        topic_id = topic.topic_id if topic.topic_id is not None else _id_of(topic.topic, topic.partitions, context)
        if topic_id is not None:  # else it was deleted: there is no way to name it
            answers.append(OffsetFetchResponseTopics(topic_id=topic_id, partitions=_partitions(topic.partitions)))
    known = {answer.topic_id for answer in answers}
    for unknown in requested or ():
        if unknown.topic_id not in known:
            offsets = [FetchedOffset(index, error=ErrorCode.UNKNOWN_TOPIC_ID) for index in unknown.partition_indexes]
            answers.append(OffsetFetchResponseTopics(topic_id=unknown.topic_id, partitions=_partitions(offsets)))
    return answers


def _id_of(topic: str, offsets: list[FetchedOffset], context: RequestContext) -> bytes | None:
    for offset in offsets:
        partition = context.services.partitions.get(topic, offset.partition)
        if partition is not None:
            return None if partition.log.topic_id is None else partition.log.topic_id.bytes
    return None


def _partitions(offsets: list[FetchedOffset]) -> list[OffsetFetchResponsePartitions]:
    return [
        OffsetFetchResponsePartitions(
            partition_index=each.partition,
            committed_offset=each.offset,
            committed_leader_epoch=each.leader_epoch,
            metadata=each.metadata,
            error_code=each.error,
        )
        for each in offsets
    ]


def _single(request: OffsetFetchRequest, result: FetchedGroup, version: int) -> OffsetFetchResponse:
    topics = [(topic.topic, topic.partitions) for topic in result.topics]
    if result.error is not ErrorCode.NONE and version < 2:
        topics = [
            (topic.name, [FetchedOffset(index, error=result.error) for index in topic.partition_indexes])
            for topic in request.topics or ()
        ]
    return OffsetFetchResponse(
        error_code=result.error,
        topics=[
            OffsetFetchResponseTopic(
                name=name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=each.partition,
                        committed_offset=each.offset,
                        committed_leader_epoch=each.leader_epoch,
                        metadata=each.metadata,
                        error_code=_none_in_zookeeper(each) if version == 0 else each.error,
                    )
                    for each in offsets
                ],
            )
            for name, offsets in topics
        ],
    )


def _none_in_zookeeper(found: FetchedOffset) -> ErrorCode:
    missing = found.error is ErrorCode.NONE and found.offset == NO_OFFSET
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if missing else found.error
