"""AlterShareGroupOffsets, API key 91, version 0: sets where a share group without members goes on (KIP-932).

Earlier deliveries of the partitions do not count any more. A group that is not there is made.
Others have their turn between parts of very many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    ResponsePartition,
    ResponseTopic,
)
from ..requests.access import requires_each, requires_field
from ..requests.registry import api
from ..runtime.cooperative import Turns
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation, ResourceType
from .share_group_heartbeat import check_enabled

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    (0, 0),
    AlterShareGroupOffsetsRequest,
    requires=(
        requires_field(AclOperation.READ, ResourceType.GROUP, "group_id"),
        requires_each(AclOperation.READ, ResourceType.TOPIC),
    ),
    audited=True,
    many_names=True,
)
async def alter_share_group_offsets(
    request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> AlterShareGroupOffsetsResponse:
    readable = context.allowed(AclOperation.READ, ResourceType.TOPIC, (topic.topic_name for topic in request.topics))
    turns = Turns(context)
    starts: dict[tuple[str, int], int] = {}
    refused: list[ResponseTopic] = []
    for topic in request.topics:
        rows: list[ResponsePartition] = []
        may_read = topic.topic_name in readable
        if turns.spent():
            await turns.next()
        for part in topic.partitions:
            if turns.spent():
                await turns.next()
            if may_read:
                starts[topic.topic_name, part.partition_index] = part.start_offset
            else:
                rows.append(_failed(part.partition_index, ProtocolError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
        if not may_read:
            refused.append(ResponseTopic(topic_name=topic.topic_name, partitions=rows))
    try:
        check_enabled(context.services)
        outcome = await context.services.share.get().groups.alter_offsets(request.group_id, starts, turns)
    except Exception as error:
        code, message = error_code(error)
        return AlterShareGroupOffsetsResponse(error_code=code, error_message=message)
    topics: dict[str, list[ResponsePartition]] = {}
    for (name, index), failed in outcome.items():
        if turns.spent():
            await turns.next()
        row = ResponsePartition(partition_index=index) if failed is None else _failed(index, failed)
        topics.setdefault(name, []).append(row)
    responses: list[ResponseTopic] = []
    for name, rows in topics.items():
        if turns.spent():
            await turns.next()
        found = context.services.topics.get(name)
        topic_id = bytes(16) if found is None else found.topic_id.bytes
        responses.append(ResponseTopic(topic_name=name, topic_id=topic_id, partitions=rows))
    return AlterShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=responses + refused)


def _failed(index: int, error: ProtocolError) -> ResponsePartition:
    return ResponsePartition(partition_index=index, error_code=error.code, error_message=error.message)
