"""ListOffsets, API key 2, versions 0 to 11.

- 0 knows segments only: up to so many offsets at which one begins, from the last that was full by that time downwards.
- A timestamp asks for the first offset whose record has that time or a later one, exactly, inside batches too.
  −1 latest (the last stable offset for a reader of committed data), −2 earliest, −3 the record with the greatest time
  (version 7), −4 earliest local = earliest (8), −5 last tiered: nothing is tiered, so it is unknown (9, KIP-1005);
  −6 earliest that is still to be tiered: likewise (11, KIP-1023).
- 4 fences by leader epoch, 6 is flexible, 10 adds a time-out for tiered look-ups.
- Look-ups by time read indexes and batches, so they run in the I/O pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from ..requests.access import requires_each
from ..requests.registry import api
from ..runtime.cooperative import Turns, batches
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...storage.log.unified_log import UnifiedLog
    from ...storage.values import TimestampOffset
    from ..requests.context import RequestContext

FIRST_WITH_EPOCH = 4
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

_READ_COMMITTED = 1
_NUMBERS_IN_UNIT = 20  # partitions whose numbers are looked at in the time of one that is answered
_CONSUMER = -1


@api(
    ApiKey.LIST_OFFSETS,
    (0, 11),
    ListOffsetsRequest,
    requires=(requires_each(AclOperation.DESCRIBE, ResourceType.TOPIC),),
    many_names=True,
)
async def list_offsets(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    answers = []
    turns = Turns(context)
    repeated = await _repeated(request.topics, turns)
    for topic in request.topics:
        if turns.spent():
            await turns.next()
        may_see = context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name)
        rows = []
        for part in topic.partitions:
            if turns.spent():
                await turns.next()
            if not may_see:
                rows.append(_failed(part, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif (topic.name, part.partition_index) in repeated:
                rows.append(_failed(part, ErrorCode.INVALID_REQUEST))
            elif context.api_version == 0:
                rows.append(await _look_up_segments(context, topic.name, part))
            else:
                rows.append(await _look_up(context, topic.name, part, request.isolation_level))
        answers.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
    return ListOffsetsResponse(topics=answers)


async def _repeated(topics: Sequence[ListOffsetsTopic], turns: Turns) -> set[tuple[str, int]]:
    """Partitions that the request names more than once, under one entry of their topic or several."""
    seen: set[tuple[str, int]] = set()
    repeated: set[tuple[str, int]] = set()
    named = ((topic.name, part.partition_index) for topic in topics for part in topic.partitions)
    for some in batches(named, _NUMBERS_IN_UNIT):
        if turns.spent():
            await turns.next()
        for place in some:
            (repeated if place in seen else seen).add(place)
    return repeated


def _failed(part: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=part.partition_index, error_code=code)


async def _look_up(
    context: RequestContext, topic: str, part: ListOffsetsPartition, isolation: int
) -> ListOffsetsPartitionResponse:
    services = context.services
    partition = services.partitions.get(topic, part.partition_index)
    if partition is None:
        return _failed(part, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    log = partition.log
    epoch = part.current_leader_epoch
    if epoch >= 0 and epoch != log.leader_epoch:
        older = epoch < log.leader_epoch
        return _failed(part, ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
    timestamp, offset, leader_epoch = -1, -1, -1
    wanted = part.timestamp
    limit = log.last_stable_offset if isolation == _READ_COMMITTED else log.high_watermark
    version = context.api_version
    if wanted == LATEST:
        offset, leader_epoch = limit, log.leader_epoch
    elif wanted == EARLIEST or (wanted == EARLIEST_LOCAL and version >= 8):
        offset, leader_epoch = log.log_start_offset, log.epoch_for_offset(log.log_start_offset)
    elif (wanted == LATEST_TIERED and version >= 9) or (wanted == EARLIEST_PENDING_UPLOAD and version >= 11):
        pass
    elif wanted >= 0 or (wanted == MAX_TIMESTAMP and version >= 7):
        # Records that a reader of this isolation level can't fetch yet are not found either.
        def look() -> TimestampOffset | None:
            if wanted == MAX_TIMESTAMP:
                return log.max_timestamp_offset(limit_offset=limit)
            return log.lookup_by_timestamp(wanted, limit_offset=limit)

        try:
            found = await services.loop.run_in_executor(services.io_pool, look)
        except Exception as error:
            return _failed(part, error_code(error)[0])
        if found is not None:
            timestamp, offset, leader_epoch = found
    else:
        return _failed(part, ErrorCode.UNSUPPORTED_VERSION)
    row = ListOffsetsPartitionResponse(partition_index=part.partition_index, timestamp=timestamp, offset=offset)
    if version >= FIRST_WITH_EPOCH:
        row.leader_epoch = leader_epoch
    return row


async def _look_up_segments(
    context: RequestContext, topic: str, part: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    services = context.services
    partition = services.partitions.get(topic, part.partition_index)
    if partition is None:
        return _failed(part, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    log, wanted, now = partition.log, part.timestamp, services.time.milliseconds()
    try:
        offsets = await services.loop.run_in_executor(services.io_pool, lambda: segment_offsets(log, wanted, now))
    except Exception as error:
        return _failed(part, error_code(error)[0])
    row = ListOffsetsPartitionResponse(partition_index=part.partition_index)
    row.old_style_offsets = offsets[: max(part.max_num_offsets, 0)]
    return row


def segment_offsets(log: UnifiedLog, timestamp: int, now_ms: int) -> list[int]:
    """Base offsets of segments, newest first, whose newest record is not younger than `timestamp`; all for LATEST, the oldest
    alone for EARLIEST. The log's end counts as one more, as young as `now_ms`. Reads from disk; any thread.
    """
    high = log.high_watermark
    view = log.segments
    start = log.log_start_offset
    begins = [(max(segment.base_offset, start), segment) for segment in view if segment.base_offset < high]
    if timestamp == EARLIEST:
        return [begins[0][0] if begins else start]
    offsets = [high] if timestamp == LATEST or timestamp >= now_ms else []
    for offset, segment in reversed(begins):
        if offsets or segment.largest_timestamp() <= timestamp:
            offsets.append(offset)
    return offsets
