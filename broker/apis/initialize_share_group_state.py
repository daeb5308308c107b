"""InitializeShareGroupState, API key 83, version 0: what a share group is delivered of partitions is kept from here on.

Brokers of a cluster ask the share coordinator so; here it is in the same process, and tools may ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)
from ..error_mapping import error_code
from ..share.manager import synced
from ..share.records import SharePartitionKey
from .registry import api

if TYPE_CHECKING:
    from ..request_context import RequestContext
    from ..share.coordinator import ShareCoordinator


@api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, (0, 0), InitializeShareGroupStateRequest)
async def initialize_share_group_state(
    request: InitializeShareGroupStateRequest, context: RequestContext
) -> InitializeShareGroupStateResponse:
    coordinator = context.broker.share.coordinator
    return InitializeShareGroupStateResponse(
        results=[
            InitializeStateResult(
                topic_id=topic.topic_id,
                partitions=[
                    await _outcome(
                        coordinator, SharePartitionKey(request.group_id, topic.topic_id, part.partition), part
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _outcome(coordinator: ShareCoordinator, key: SharePartitionKey, part: PartitionData) -> PartitionResult:
    try:
        await synced(coordinator.initialize(key, part.state_epoch, part.start_offset))
    except Exception as error:
        code, message = error_code(error)
        return PartitionResult(partition=part.partition, error_code=code, error_message=message)
    return PartitionResult(partition=part.partition)
