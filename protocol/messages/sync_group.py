"""SyncGroup (14): the leader hands in everybody's assignment, everybody gets their own (classic protocol).

Version 3 has static members, 5 tells and checks the protocol's type and name.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, bytes_, int16, int32, string


class SyncGroupRequestAssignment(Struct):
    """Assignment of one member."""

    member_id: str = string()
    assignment: bytes = bytes_()


class SyncGroupRequest(ApiMessage):
    """assignments is empty but for the leader."""

    API_KEY = ApiKey.SYNC_GROUP
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4
    MOST_ELEMENTS = 10_000

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: Sequence[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(ApiMessage):
    """Assignment of the requesting member."""

    API_KEY = ApiKey.SYNC_GROUP
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = bytes_()
