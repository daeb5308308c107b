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
)
from ...protocol.messages.write_share_group_state import PartitionResult
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
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    (0, 0),
    InitializeShareGroupStateRequest,
    requires=(requires_cluster(AclOperation.CLUSTER_ACTION),),
    many_names=True,
    is_slow_change=True,
)
async def initialize_share_group_state(
    request: InitializeShareGroupStateRequest, context: RequestContext
) -> InitializeShareGroupStateResponse:
    coordinator = context.services.share.get().coordinator
    return InitializeShareGroupStateResponse(
        results=await topic_results(request, context, coordinator, InitializeStateResult, PartitionResult, _outcome)
    )


async def _outcome(coordinator: ShareCoordinator, key: SharePartitionKey, part: PartitionData) -> PartitionResult:
    await synced(coordinator.initialize(key, part.state_epoch, part.start_offset))
    return PartitionResult(partition=part.partition)
