"""AddRaftVoter, API key 80, versions 0 and 1: refused; metadata is kept by this node alone.

As in a cluster of Kafka's with kraft.version 0: UNSUPPORTED_VERSION; INCONSISTENT_CLUSTER_ID when another cluster is
meant (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..security.acl.model import AclOperation

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.ADD_RAFT_VOTER,
    (0, 1),
    AddRaftVoterRequest,
    requires=(requires_cluster(AclOperation.ALTER),),
    many_names=True,
)
def add_raft_voter(request: AddRaftVoterRequest, context: RequestContext) -> AddRaftVoterResponse:
    code, message = voters_refusal(request.cluster_id, context)
    return AddRaftVoterResponse(error_code=code, error_message=message)


def voters_refusal(cluster_id: str | None, context: RequestContext) -> tuple[ErrorCode, str]:
    """Error code and text: the voters of a single node can't be changed."""
    own = context.services.logs.cluster_id
    if cluster_id is not None and cluster_id != own:
        return ErrorCode.INCONSISTENT_CLUSTER_ID, f"this is cluster {own}, not {cluster_id}"
    return ErrorCode.UNSUPPORTED_VERSION, "kraft.version is 0: the only voter is this broker, and stays it"
