"""DeleteShareGroupOffsets, API key 92, version 0: has a share group without members forget topics (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
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
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    (0, 0),
    DeleteShareGroupOffsetsRequest,
    requires=(
        requires_field(AclOperation.DELETE, ResourceType.GROUP, "group_id"),
        requires_each(AclOperation.READ, ResourceType.TOPIC),
    ),
    audited=True,
)
async def delete_share_group_offsets(
    request: DeleteShareGroupOffsetsRequest, context: RequestContext
) -> DeleteShareGroupOffsetsResponse:
    asked = dict.fromkeys(topic.topic_name for topic in request.topics)
    readable = context.allowed(AclOperation.READ, ResourceType.TOPIC, asked)
    names = [name for name in asked if name in readable]
    try:
        check_enabled(context.services)
        outcome = await context.services.share.get().groups.delete_offsets(request.group_id, names)
    except Exception as error:
        code, message = error_code(error)
        return DeleteShareGroupOffsetsResponse(error_code=code, error_message=message)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    rows = [
        ResponseTopic(topic_name=name, error_code=denied, error_message=denied.text)
        for name in asked
        if name not in readable
    ]
    for name, failed in outcome.items():
        topic = context.services.topics.get(name)
        row = ResponseTopic(topic_name=name, topic_id=bytes(16) if topic is None else topic.topic_id.bytes)
        if failed is not None:
            row.error_code, row.error_message = failed.code, failed.message
        rows.append(row)
    return DeleteShareGroupOffsetsResponse(responses=rows)
