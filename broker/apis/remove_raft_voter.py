"""RemoveRaftVoter, API key 81, version 0: refused, as `add_raft_voter`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..security.acl.model import AclOperation
from .add_raft_voter import voters_refusal

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.REMOVE_RAFT_VOTER,
    (0, 0),
    RemoveRaftVoterRequest,
    requires=(requires_cluster(AclOperation.ALTER),),
)
def remove_raft_voter(request: RemoveRaftVoterRequest, context: RequestContext) -> RemoveRaftVoterResponse:
    code, message = voters_refusal(request.cluster_id, context)
    return RemoveRaftVoterResponse(error_code=code, error_message=message)
