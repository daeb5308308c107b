"""WriteShareGroupState, API key 85, versions 0 and 1: what has changed in what a share group was delivered.

1 brings the count of records that nobody gets any more (KIP-1226).

Brokers of a cluster ask the share coordinator so; here it is in the same process, and tools may ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..security.acl.model import AclOperation
from ..share.manager import synced
from ..share.records import RecordState, StateBatch
from ..share.state_requests import topic_results

if TYPE_CHECKING:
    from ..requests.context import RequestContext
    from ..share.coordinator import ShareCoordinator
    from ..share.records import SharePartitionKey


@api(
    ApiKey.WRITE_SHARE_GROUP_STATE,
    (0, 1),
    WriteShareGroupStateRequest,
    requires=(requires_cluster(AclOperation.CLUSTER_ACTION),),
    many_names=True,
    is_slow_change=True,
)
async def write_share_group_state(
    request: WriteShareGroupStateRequest, context: RequestContext
) -> WriteShareGroupStateResponse:
    coordinator = context.services.share.get().coordinator
    return WriteShareGroupStateResponse(
        results=await topic_results(request, context, coordinator, WriteStateResult, PartitionResult, _outcome)
    )


async def _outcome(coordinator: ShareCoordinator, key: SharePartitionKey, part: PartitionData) -> PartitionResult:
    try:
        batches = [
            StateBatch(batch.first_offset, batch.last_offset, RecordState(batch.delivery_state), batch.delivery_count)
            for batch in part.state_batches
        ]
        if any(not 0 <= batch.first <= batch.last for batch in batches):
            raise ValueError("a batch that ends before it begins")
    except ValueError as error:
        return PartitionResult(partition=part.partition, error_code=ErrorCode.INVALID_REQUEST, error_message=str(error))
    await synced(
        coordinator.write(
            key, part.state_epoch, part.leader_epoch, part.start_offset, part.delivery_complete_count, batches
        )
    )
    return PartitionResult(partition=part.partition)
