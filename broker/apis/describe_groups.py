"""DescribeGroups, API key 15, versions 0 to 6: groups with their members.

- 3 may ask what the client is allowed to do: everything, as long as there is no authoriser; 4 has static members.
- A group is told once, however often it is named: a request may have thousands of names, and a group megabytes.
- A group that does not exist is shown as Dead without error up to 5, as GROUP_ID_NOT_FOUND from 6 on (KIP-1043).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ..requests.access import requires_each
from ..requests.authorized_operations import NOT_ASKED, operations_of
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, Steps, each_once, run_in_chunks
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.DESCRIBE_GROUPS,
    (0, 6),
    DescribeGroupsRequest,
    requires=(requires_each(AclOperation.DESCRIBE, ResourceType.GROUP),),
    many_names=True,
)
def describe_groups(
    request: DescribeGroupsRequest, context: RequestContext
) -> DescribeGroupsResponse | ChunkedResult[DescribeGroupsResponse]:
    return run_in_chunks(_steps(request, context), context)


def _steps(request: DescribeGroupsRequest, context: RequestContext) -> Steps[DescribeGroupsResponse]:
    def tell(group_id: str) -> DescribedGroup:
        return _describe(group_id, request.include_authorized_operations, context)

    found = yield from each_once(request.groups, tell, lambda group: 1 + len(group.members))
    return DescribeGroupsResponse(groups=found)


def _describe(group_id: str, tells_operations: bool, context: RequestContext) -> DescribedGroup:
    if not context.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(
            error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id, authorized_operations=NOT_ASKED
        )
    group = context.services.groups.describe_group(group_id)
    with_messages = context.api_version >= 6
    error = group.error
    if error is ErrorCode.GROUP_ID_NOT_FOUND and not with_messages:
        error = ErrorCode.NONE
    return DescribedGroup(
        error_code=error,
        error_message=group.error_message if with_messages else None,
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
        authorized_operations=operations_of(
            context, ResourceType.GROUP, group_id, tells_operations and error is ErrorCode.NONE
        ),
    )
