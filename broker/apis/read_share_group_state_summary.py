"""ReadShareGroupStateSummary, API key 87, versions 0 and 1: how far a share group has come in partitions.

1 tells the count of records that nobody gets any more (KIP-1226).

Brokers of a cluster ask the share coordinator so; here it is in the same process, and tools may ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from ..error_mapping import error_code
from ..share.records import SharePartitionKey
from .registry import api

if TYPE_CHECKING:
    from ..request_context import RequestContext
    from ..share.coordinator import ShareCoordinator


@api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, (0, 1), ReadShareGroupStateSummaryRequest)
async def read_share_group_state_summary(
    request: ReadShareGroupStateSummaryRequest, context: RequestContext
) -> ReadShareGroupStateSummaryResponse:
    coordinator = context.broker.share.coordinator
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(
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
        state = coordinator.summary(key)
    except Exception as error:
        code, message = error_code(error)
        return PartitionResult(partition=part.partition, error_code=code, error_message=message)
    if state is None:
        return PartitionResult(partition=part.partition, start_offset=-1, delivery_complete_count=-1)
    return PartitionResult(
        partition=part.partition,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )
