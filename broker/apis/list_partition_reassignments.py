"""ListPartitionReassignments, API key 46, version 0: nothing is ever on its way to another broker: there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..security.acl.model import AclOperation

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    (0, 0),
    ListPartitionReassignmentsRequest,
    requires=(requires_cluster(AclOperation.DESCRIBE),),
    many_names=True,
)
def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse()
