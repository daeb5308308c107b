"""JoinGroup (11): becomes a member of a group, or stays one through a rebalance (classic protocol).

Version 1 has a rebalance timeout, 4 asks new members to come again with the id they were given (KIP-394), 5 static
members (KIP-345), 7 returns the protocol's type, 8 takes a reason (KIP-800), 9 tells the leader not to assign.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, boolean, bytes_, int16, int32, string


class JoinGroupRequestProtocol(Struct):
    """An assignor that the member supports, and its subscription."""

    name: str = string()
    metadata: bytes = bytes_()


class JoinGroupRequest(ApiMessage):
    """member_id is empty for a member that has none yet."""

    API_KEY = ApiKey.JOIN_GROUP
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 6
    #: What a join does with its protocols is done in one piece, a microsecond each, and again in each rebalance; clients have
    #: fewer than ten.
    MOST_ELEMENTS = 100

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: Sequence[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    """Id and metadata of a member, for the group's leader."""

    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = bytes_()


class JoinGroupResponse(ApiMessage):
    """members is empty but for the leader."""

    API_KEY = ApiKey.JOIN_GROUP
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 6

    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: Sequence[JoinGroupResponseMember] = array(JoinGroupResponseMember)
