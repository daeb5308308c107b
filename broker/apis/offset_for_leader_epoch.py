"""OffsetForLeaderEpoch, API key 23, versions 0 to 4: where a leader epoch ended (KIP-101, KIP-320).

- A consumer asks after it has heard of a new epoch, and so sees whether its position is still in the log. The answer is
  the largest epoch not above the one asked for, and where it ends; −1 and −1 when that is not known.
- 1 tells the epoch too, 2 fences by the epoch that the client believes to be current, 3 tells who asks, 4 is flexible.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ..requests.access import requires_each, suffices
from ..requests.context import EVERY_NAME
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, Steps, run_in_chunks
from ..security.acl.model import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    (0, 4),
    OffsetForLeaderEpochRequest,
    requires=(
        suffices(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
        requires_each(AclOperation.DESCRIBE, ResourceType.TOPIC),
    ),
    many_names=True,
)
def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse | ChunkedResult[OffsetForLeaderEpochResponse]:
    return run_in_chunks(_steps(request, context), context)


def _steps(request: OffsetForLeaderEpochRequest, context: RequestContext) -> Steps[OffsetForLeaderEpochResponse]:
    known: Container[str] = EVERY_NAME
    if not context.allows(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, quietly=True):
        known = context.allowed(AclOperation.DESCRIBE, ResourceType.TOPIC, (topic.topic for topic in request.topics))
    topics = []
    for topic in request.topics:
        rows = []
        for part in topic.partitions:
            rows.append(
                _look_up(topic.topic, part, context)
                if topic.topic in known
                else EpochEndOffset(partition=part.partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            )
            yield 1
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=rows))
        yield 1
    return OffsetForLeaderEpochResponse(topics=topics)


def _look_up(topic: str, part: OffsetForLeaderPartition, context: RequestContext) -> EpochEndOffset:
    row = EpochEndOffset(partition=part.partition)
    partition = context.services.partitions.get(topic, part.partition)
    if partition is None:
        row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return row
    log, believed = partition.log, part.current_leader_epoch
    if believed >= 0 and believed != log.leader_epoch:
        older = believed < log.leader_epoch
        row.error_code = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        return row
    row.leader_epoch, row.end_offset = log.end_offset_for_epoch(part.leader_epoch)
    return row
