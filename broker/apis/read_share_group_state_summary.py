"""ReadShareGroupStateSummary, API key 87, versions 0 and 1: how far a share group has come in partitions.

1 tells the count of records that nobody gets any more (KIP-1226).

Brokers of a cluster ask the share coordinator so; here it is in the same process, and tools may ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.messages.read_share_group_state import PartitionData
from ...protocol.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..security.acl.model import AclOperation
from ..share.state_requests import topic_results

if TYPE_CHECKING:
    from ..requests.context import RequestContext
    from ..share.coordinator import ShareCoordinator
    from ..share.records import SharePartitionKey


@api(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    (0, 1),
    ReadShareGroupStateSummaryRequest,
    requires=(requires_cluster(AclOperation.CLUSTER_ACTION),),
    many_names=True,
)
async def read_share_group_state_summary(
    request: ReadShareGroupStateSummaryRequest, context: RequestContext
) -> ReadShareGroupStateSummaryResponse:
    coordinator = context.services.share.get().coordinator
    return ReadShareGroupStateSummaryResponse(
        results=await topic_results(request, context, coordinator, ReadStateSummaryResult, PartitionResult, _outcome)
    )


async def _outcome(coordinator: ShareCoordinator, key: SharePartitionKey, part: PartitionData) -> PartitionResult:
    state = coordinator.summary(key)
    if state is None:
        return PartitionResult(partition=part.partition, start_offset=-1, delivery_complete_count=-1)
    return PartitionResult(
        partition=part.partition,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )
