"""DescribeGroups (15): groups of the classic protocol and their members.

Version 4 has static members, 6 tells errors in words, GROUP_ID_NOT_FOUND among them (KIP-1043).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import STRING, ApiMessage, Struct, array, boolean, bytes_, int16, int32, string


class DescribeGroupsRequest(ApiMessage):
    """Ids of the groups."""

    API_KEY = ApiKey.DESCRIBE_GROUPS
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 5

    groups: Sequence[str] = array(STRING)
    include_authorized_operations: bool = boolean("3+")


class DescribedGroupMember(Struct):
    """One member."""

    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = bytes_()
    member_assignment: bytes = bytes_()


class DescribedGroup(Struct):
    """Description of one group, or its error."""

    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: Sequence[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-0x80000000)


class DescribeGroupsResponse(ApiMessage):
    """One result for each group."""

    API_KEY = ApiKey.DESCRIBE_GROUPS
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 5

    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: Sequence[DescribedGroup] = array(DescribedGroup)
