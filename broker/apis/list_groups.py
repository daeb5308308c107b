"""ListGroups, API key 16, versions 0 to 5: all groups. 4 filters by state (KIP-518), 5 by type (KIP-848).

Of very many groups, which nobody bounds, others have their turn between parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ProtocolError
from ...protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ..requests.access import shows, suffices
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, Steps, batches, run_in_chunks
from ..security.acl.model import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext

_GROUPS_IN_UNIT = 4


@api(
    ApiKey.LIST_GROUPS,
    (0, 5),
    ListGroupsRequest,
    requires=(
        suffices(AclOperation.DESCRIBE, ResourceType.CLUSTER),
        shows(AclOperation.DESCRIBE, ResourceType.GROUP, "each"),
    ),
    many_names=True,
)
def list_groups(
    request: ListGroupsRequest, context: RequestContext
) -> ListGroupsResponse | ChunkedResult[ListGroupsResponse]:
    return run_in_chunks(_steps(request, context), context)


def _steps(request: ListGroupsRequest, context: RequestContext) -> Steps[ListGroupsResponse]:
    try:
        groups = context.services.groups.list_groups(request.states_filter, request.types_filter)
    except ProtocolError as error:
        return ListGroupsResponse(error_code=error.code)
    sees_all = context.allows(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, quietly=True)
    listed: list[ListedGroup] = []
    for some in batches(groups, _GROUPS_IN_UNIT if sees_all else 1):
        yield 1
        listed += [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.listed_protocol_type,
                group_state=group.state_name,
                group_type=group.group_type,
            )
            for group in some
            if sees_all or context.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id, quietly=True)
        ]
    return ListGroupsResponse(groups=listed)
