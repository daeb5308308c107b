"""LeaveGroup (13): members go (classic protocol).

Version 3 takes many, by group instance id too (KIP-345), 5 a reason (KIP-800).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, int16, int32, string


class MemberIdentity(Struct):
    """A leaving member, named by its instance id if it has one."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class LeaveGroupRequest(ApiMessage):
    """One member up to version 2, then a list."""

    API_KEY = ApiKey.LEAVE_GROUP
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4
    MOST_ELEMENTS = 10_000

    group_id: str = string()
    member_id: str = string("0-2")
    members: Sequence[MemberIdentity] = array(MemberIdentity, "3+")


class MemberResponse(Struct):
    """Result for one member."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+")
    error_code: int = int16()


class LeaveGroupResponse(ApiMessage):
    """One result for each member."""

    API_KEY = ApiKey.LEAVE_GROUP
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    members: Sequence[MemberResponse] = array(MemberResponse, "3+")
