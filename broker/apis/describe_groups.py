"""DescribeGroups, API key 15, versions 0 to 6: groups with their members.

- 3 may ask what the client is allowed to do: everything, as long as there is no authoriser; 4 has static members.
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
from .registry import api

if TYPE_CHECKING:
    from ..request_context import RequestContext

#: Bits of the operations on a group: READ 3, DELETE 6, DESCRIBE 8, DESCRIBE_CONFIGS 10, ALTER_CONFIGS 11.
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
NOT_ASKED_FOR = -0x8000_0000


@api(ApiKey.DESCRIBE_GROUPS, (0, 6), DescribeGroupsRequest)
def describe_groups(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    operations = ALL_OPERATIONS if request.include_authorized_operations else NOT_ASKED_FOR
    return DescribeGroupsResponse(groups=[_describe(group_id, operations, context) for group_id in request.groups])


def _describe(group_id: str, operations: int, context: RequestContext) -> DescribedGroup:
    group = context.broker.groups.describe_group(group_id)
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
        authorized_operations=operations if error is ErrorCode.NONE else NOT_ASKED_FOR,
    )
