"""ShareGroupDescribe (77): share groups and their members (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import STRING, ApiMessage, Struct, array, boolean, int16, int32, string, structure
from .consumer_group_describe import Assignment


class ShareGroupDescribeRequest(ApiMessage):
    """Ids of the groups."""

    API_KEY = ApiKey.SHARE_GROUP_DESCRIBE
    VERSIONS = (1, 1)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 5_000

    group_ids: Sequence[str] = array(STRING)
    include_authorized_operations: bool = boolean()


class Member(Struct):
    """One member."""

    member_id: str = string()
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: Sequence[str] = array(STRING)
    assignment: Assignment = structure(Assignment)


class DescribedGroup(Struct):
    """Description of one group, or its error."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: Sequence[Member] = array(Member)
    authorized_operations: int = int32(default=-2147483648)


class ShareGroupDescribeResponse(ApiMessage):
    """In the order of the request."""

    API_KEY = ApiKey.SHARE_GROUP_DESCRIBE
    VERSIONS = (1, 1)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    groups: Sequence[DescribedGroup] = array(DescribedGroup)
