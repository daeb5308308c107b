"""DeleteRecords, API key 21, versions 0 to 2 (flexible): moves a log's start up (KIP-107).

- An offset is the first one to keep; −1 is the high watermark. Below the log's start it changes nothing, above the high
  watermark it is OFFSET_OUT_OF_RANGE. Segments that lie below the start go with the next retention run.
- The new starts are durable before the answer: what was deleted stays deleted after a crash. `log-start-offset-checkpoint`
  says so a second later, until then the room behind its copy (`storage/io/checkpoint_room.py`). Where neither can be written
  it is KAFKA_STORAGE_ERROR, and to be asked for again: clients take the records for deleted, a power cut would bring them back.
- Logs that are only compacted refuse it (POLICY_VIOLATION), the broker's own topics too (INVALID_TOPIC_EXCEPTION).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ..metadata.topics import INTERNAL_TOPICS
from ..requests.access import requires_each
from ..requests.registry import api
from ..runtime.cooperative import Turns
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext

HIGH_WATERMARK = -1
_NO_OFFSET = -1


@api(
    ApiKey.DELETE_RECORDS,
    (0, 2),
    DeleteRecordsRequest,
    requires=(requires_each(AclOperation.DELETE, ResourceType.TOPIC),),
    audited=True,
    many_names=True,
)
async def delete_records(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    topics: list[DeleteRecordsTopicResult] = []
    moved: list[tuple[str, int]] = []
    turns = Turns(context)
    for topic in request.topics:
        rows: list[DeleteRecordsPartitionResult] = []
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=rows))
        if turns.spent():
            await turns.next()
        is_deletable = context.allows(AclOperation.DELETE, ResourceType.TOPIC, topic.name)
        for part in topic.partitions:
            if turns.spent():
                await turns.next()
            if is_deletable:
                rows.append(row := await _delete(topic.name, part, context))
                if row.error_code == ErrorCode.NONE:
                    moved.append((topic.name, part.partition_index))
            else:
                rows.append(
                    DeleteRecordsPartitionResult(
                        partition_index=part.partition_index,
                        low_watermark=_NO_OFFSET,
                        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    )
                )
    if moved:
        services = context.services
        failed = await services.loop.run_in_executor(services.io_pool, services.logs.note_log_starts, moved)
        if failed:
            _refuse(topics, failed)
    return DeleteRecordsResponse(topics=topics)


def _refuse(topics: list[DeleteRecordsTopicResult], failed: set[tuple[str, int]]) -> None:
    """Answer with an error for partitions whose new start is not durable."""
    for topic in topics:
        for row in topic.partitions:
            if row.error_code == ErrorCode.NONE and (topic.name, row.partition_index) in failed:
                row.error_code, row.low_watermark = ErrorCode.KAFKA_STORAGE_ERROR, _NO_OFFSET


async def _delete(topic: str, part: DeleteRecordsPartition, context: RequestContext) -> DeleteRecordsPartitionResult:
    index = part.partition_index
    try:
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=await _move_start(topic, index, part.offset, context)
        )
    except Exception as error:
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=_NO_OFFSET, error_code=error_code(error)[0]
        )


async def _move_start(topic: str, index: int, offset: int, context: RequestContext) -> int:
    """Returns where the log starts afterwards."""
    if topic in INTERNAL_TOPICS:
        raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = context.services.partitions.get(topic, index)
    if partition is None:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    log = partition.log
    if "delete" not in log.config.cleanup_policy:
        raise ProtocolError(ErrorCode.POLICY_VIOLATION)
    wanted = log.high_watermark if offset == HIGH_WATERMARK else offset
    if wanted < 0:
        raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if partition.offload.active:  # the log's lock is its writer's, for as long as the disk takes
        is_moved = await partition.offload.submit(lambda: log.increment_log_start_offset(wanted))
    else:
        is_moved = log.increment_log_start_offset(wanted)
    if is_moved and partition.waiters:
        partition.wake()  # fetches that wait below the new start get an error
    return log.log_start_offset
