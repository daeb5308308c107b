"""ShareAcknowledge, API key 79, versions 1 and 2: a member of a share group says what became of records that it has.

- 2 knows acknowledgements that renew (KIP-1222), and tells how long they hold.
- It belongs to the session that ShareFetch opened, and has an epoch of its row; -1 closes the session, and what the member
  still has may be had by others.
- The answer comes when the outcome is as durable as `__share_group_state` is asked to be.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from ..metadata.features import SHARE_VERSION
from ..requests.access import requires_each, requires_field
from ..requests.registry import api
from ..runtime.cooperative import Turns
from ..security.acl.model import AclOperation, ResourceType
from ..share.acknowledgements import Refused, acknowledge, check_member
from ..share.manager import durable
from ..share.sessions import FINAL_EPOCH

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.SHARE_ACKNOWLEDGE,
    (1, 2),
    ShareAcknowledgeRequest,
    requires=(
        requires_field(AclOperation.READ, ResourceType.GROUP, "group_id"),
        requires_each(AclOperation.READ, ResourceType.TOPIC),
    ),
    many_names=True,
    is_slow_change=True,
)
async def share_acknowledge(request: ShareAcknowledgeRequest, context: RequestContext) -> ShareAcknowledgeResponse:
    services = context.services
    try:
        if services.features.level(SHARE_VERSION) < 1:
            raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, "share.version is 0")
        key = check_member(request.group_id, request.member_id)
        shares = services.share.get()
        shares.sessions.checked(key, request.share_session_epoch)
    except Refused as error:
        return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=str(error))
    except ProtocolError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=str(error))
    turns = Turns(context)
    outcomes = await acknowledge(
        shares,
        services.partitions,
        key,
        request.topics,
        context.api_version,
        turns,
        is_renewal=request.is_renew_ack,
        may_read=cache(lambda name: context.allows(AclOperation.READ, ResourceType.TOPIC, name)),
    )
    topics: dict[bytes, list[PartitionData]] = {}
    for where, outcome in outcomes.items():
        if turns.spent():
            await turns.next()
        done = await durable(outcome)
        topics.setdefault(where.topic_id, []).append(
            PartitionData(partition_index=where.partition, error_code=done.error, error_message=done.message)
        )
    if request.share_session_epoch == FINAL_EPOCH:
        shares.end_session(key)
    responses = []
    for topic_id, rows in topics.items():
        if turns.spent():
            await turns.next()
        responses.append(ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=rows))
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=shares.settings.limits(key.group).lock_ms, responses=responses
    )
