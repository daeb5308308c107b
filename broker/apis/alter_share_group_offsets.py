"""AlterShareGroupOffsets, API key 91, version 0: sets where a share group without members goes on (KIP-932).

Earlier deliveries of the partitions do not count any more. A group that is not there is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    ResponsePartition,
    ResponseTopic,
)
from ..requests.access import requires_each, requires_field
from ..requests.registry import api
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
)
async def alter_share_group_offsets(
    request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> AlterShareGroupOffsetsResponse:
    readable = context.allowed(AclOperation.READ, ResourceType.TOPIC, (topic.topic_name for topic in request.topics))
    starts = {
        (topic.topic_name, part.partition_index): part.start_offset
        for topic in request.topics
        if topic.topic_name in readable
        for part in topic.partitions
    }
    try:
        check_enabled(context.services)
        outcome = await context.services.share.get().groups.alter_offsets(request.group_id, starts)
    except Exception as error:
        code, message = error_code(error)
        return AlterShareGroupOffsetsResponse(error_code=code, error_message=message)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refused = [
        ResponseTopic(
            topic_name=topic.topic_name,
            partitions=[
                ResponsePartition(partition_index=part.partition_index, error_code=code, error_message=code.text)
                for part in topic.partitions
            ],
        )
        for topic in request.topics
        if topic.topic_name not in readable
    ]
    topics: dict[str, list[ResponsePartition]] = {}
    for (name, index), failed in outcome.items():
        row = ResponsePartition(partition_index=index)
        if failed is not None:
            row.error_code, row.error_message = failed.code, failed.message
        topics.setdefault(name, []).append(row)
    registry = context.services.topics
    return AlterShareGroupOffsetsResponse(
        error_code=ErrorCode.NONE,
        responses=[
            ResponseTopic(
                topic_name=name,
                topic_id=bytes(16) if (topic := registry.get(name)) is None else topic.topic_id.bytes,
                partitions=rows,
            )
            for name, rows in topics.items()
        ]
        + refused,
    )
