"""OffsetCommit, API key 8, versions 0 to 10: stores how far a group has read.

- 0 was for offsets in ZooKeeper: they go where all others do, as a consumer's outside of any group. The times that 1 has
  for each partition are not looked at.
- 2 to 4 may set a time of retention; 6: leader epochs; 7: static members; 9: a group that does not exist is
  GROUP_ID_NOT_FOUND (ILLEGAL_GENERATION before), and members of heartbeat groups commit with their epoch; 10: topics by id.
- Each partition must exist. The answer waits until the commit is as durable as `__consumer_offsets` is set to be.
- Up to 400 offsets are one batch. More are several, between which others have their turn: each is refused or written as a whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ..groups.offset_commits import CommitRequest, OffsetToCommit
from ..requests.access import requires_each, requires_field
from ..requests.registry import api
from ..runtime.cooperative import CHUNK_UNITS, ChunkedResult, Steps, batches, run_in_chunks
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ...protocol.messages.offset_commit import OffsetCommitRequestTopic
    from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequestTopic
    from ..requests.context import RequestContext

BY_ID_FROM = 10


class HasErrorCode(Protocol):
    """Answer for one partition."""

    error_code: int


TopicT = TypeVar("TopicT")
PartitionT = TypeVar("PartitionT", bound=HasErrorCode)
#: The answer as far as it is known, the offsets to commit, and for each of these its place in the answer.
Checked = tuple[list[TopicT], list[OffsetToCommit], list[PartitionT]]
_Checked = Checked[OffsetCommitResponseTopic, OffsetCommitResponsePartition]
#: A code for each offset; it may be known when they are durable. ProtocolError instead where none is committed.
Outcome = list[ErrorCode] | Awaitable[list[ErrorCode]]


@api(
    ApiKey.OFFSET_COMMIT,
    (0, 10),
    OffsetCommitRequest,
    requires=(
        requires_field(AclOperation.READ, ResourceType.GROUP, "group_id"),
        requires_each(AclOperation.READ, ResourceType.TOPIC),
    ),
    many_names=True,
    is_slow_change=True,
)
def offset_commit(
    request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    checking = check_offsets(
        request.topics,
        context.api_version >= BY_ID_FROM,
        context,
        OffsetCommitResponseTopic,
        OffsetCommitResponsePartition,
    )
    checked = run_in_chunks(checking, context)
    if isinstance(checked, ChunkedResult):
        return _check_and_commit(request, context, checked)
    return _commit(request, context, checked)


async def _check_and_commit(
    request: OffsetCommitRequest, context: RequestContext, checking: ChunkedResult[_Checked]
) -> OffsetCommitResponse:
    answer = _commit(request, context, await checking)
    return answer if isinstance(answer, OffsetCommitResponse) else await answer


def _commit(
    request: OffsetCommitRequest, context: RequestContext, checked: _Checked
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    topics, offsets, places = checked
    response = OffsetCommitResponse(topics=topics)
    if not offsets:
        return response
    if context.api_version == 0 and not context.services.groups.is_open:
        return _make_topic(request, context, checked)

    def commit(some: Sequence[OffsetToCommit]) -> Outcome:
        asked = CommitRequest(
            request.group_id,
            some,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            request.retention_time_ms,
            ErrorCode.GROUP_ID_NOT_FOUND if context.api_version >= 9 else ErrorCode.ILLEGAL_GENERATION,
            context.api_version,
        )
        return context.services.groups.commit_offsets(asked)

    if len(offsets) > CHUNK_UNITS:
        return _later(response, places, commit_in_pieces(offsets, commit, context))
    try:
        outcome = commit(offsets)
    except ProtocolError as error:
        return _fill(response, places, [error.code] * len(places))
    if isinstance(outcome, list):
        return _fill(response, places, outcome)
    return _later(response, places, outcome)


async def _make_topic(request: OffsetCommitRequest, context: RequestContext, checked: _Checked) -> OffsetCommitResponse:
    """Make `__consumer_offsets`, then commit: a client that kept its offsets in ZooKeeper has not looked for a coordinator, which
    would have made the topic."""
    await context.services.groups.ensure_topic()
    answer = _commit(request, context, checked)
    return answer if isinstance(answer, OffsetCommitResponse) else await answer


async def commit_in_pieces(
    offsets: Sequence[OffsetToCommit],
    commit: Callable[[Sequence[OffsetToCommit]], Outcome],
    context: RequestContext,
    code_of: Callable[[ProtocolError], ErrorCode] = lambda error: error.code,
) -> list[ErrorCode]:
    """Codes of very many offsets, which `commit` is given piece by piece. `code_of` says what a piece is told that is refused.

    No piece waits until the one before is durable.
    """

    async def when_done(outcome: Awaitable[list[ErrorCode]], count: int) -> list[ErrorCode]:
        try:
            return await outcome
        except ProtocolError as error:
            return [code_of(error)] * count

    pieces: list[list[ErrorCode] | asyncio.Future[list[ErrorCode]]] = []
    for some in batches(offsets, CHUNK_UNITS):
        if pieces:
            await context.next_turn()
        try:
            outcome = commit(some)
        except ProtocolError as error:
            outcome = [code_of(error)] * len(some)
        pieces.append(outcome if isinstance(outcome, list) else asyncio.ensure_future(when_done(outcome, len(some))))
    codes: list[ErrorCode] = []
    for piece in pieces:
        codes += piece if isinstance(piece, list) else await piece
    return codes


def check_offsets(
    asked: Sequence[OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic],
    by_id: bool,
    context: RequestContext,
    topic_answer: Callable[..., TopicT],
    partition_answer: Callable[..., PartitionT],
) -> Steps[Checked[TopicT, PartitionT]]:
    """Check each partition: it exists, and the client may read its topic. For TxnOffsetCommit too.

    `by_id`: topics are asked for by their ids; the answer repeats the id and names no topic that an id stands for.
    """
    table = context.services.partitions
    topics: list[TopicT] = []
    offsets: list[OffsetToCommit] = []
    places: list[PartitionT] = []
    for topic in asked:
        name = table.name_of(topic.topic_id) if by_id else topic.name
        may_read = name is None or context.allows(AclOperation.READ, ResourceType.TOPIC, name)
        answers = []
        yield 1
        for each in topic.partitions:
            yield 1
            partition = None if name is None or not may_read else table.get(name, each.partition_index)
            answer = partition_answer(partition_index=each.partition_index)
            answers.append(answer)
            if name is None:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
            elif not may_read:
                answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif partition is None:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                topic_id = partition.log.topic_id
                places.append(answer)
                offsets.append(
                    OffsetToCommit(
                        name,
                        each.partition_index,
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.committed_metadata,
                        None if topic_id is None else topic_id.bytes,
                    )
                )
        topics.append(topic_answer(name=topic.name, topic_id=topic.topic_id, partitions=answers))
    return topics, offsets, places


def _fill(
    response: OffsetCommitResponse, places: list[OffsetCommitResponsePartition], codes: list[ErrorCode]
) -> OffsetCommitResponse:
    for place, code in zip(places, codes, strict=True):
        place.error_code = code
    return response


async def _later(
    response: OffsetCommitResponse, places: list[OffsetCommitResponsePartition], outcome: Awaitable[list[ErrorCode]]
) -> OffsetCommitResponse:
    try:
        codes = await outcome
    except ProtocolError as error:
        codes = [error.code] * len(places)
    return _fill(response, places, codes)
