"""ReadShareGroupState, API key 84, version 0: what a share group was delivered of partitions.

Brokers of a cluster ask the share coordinator so; here it is in the same process, and tools may ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..security.acl.model import AclOperation
from ..share.manager import synced
from ..share.state_requests import topic_results

if TYPE_CHECKING:
    from ..requests.context import RequestContext
    from ..share.coordinator import ShareCoordinator
    from ..share.records import SharePartitionKey


@api(
    ApiKey.READ_SHARE_GROUP_STATE,
    (0, 0),
    ReadShareGroupStateRequest,
    requires=(requires_cluster(AclOperation.CLUSTER_ACTION),),
    many_names=True,
)
async def read_share_group_state(
    request: ReadShareGroupStateRequest, context: RequestContext
) -> ReadShareGroupStateResponse:
    coordinator = context.services.share.get().coordinator
    return ReadShareGroupStateResponse(
        results=await topic_results(request, context, coordinator, ReadStateResult, PartitionResult, _outcome)
    )


async def _outcome(coordinator: ShareCoordinator, key: SharePartitionKey, part: PartitionData) -> PartitionResult:
    state, unsynced = coordinator.read(key, part.leader_epoch)
    await synced(unsynced)
    return PartitionResult(
        partition=part.partition,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=[
            StateBatch(first_offset=first, last_offset=last, delivery_state=kind, delivery_count=count)
            for first, last, kind, count in state.batches
        ],
    )
