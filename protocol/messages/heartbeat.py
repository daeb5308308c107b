"""Heartbeat (12): a member is alive, and learns whether it must join again (classic protocol).

Version 3 has static members.
"""

from __future__ import annotations

from ..api_keys import ApiKey
from ..schema import ApiMessage, int16, int32, string


class HeartbeatRequest(ApiMessage):
    """One member of one group."""

    API_KEY = ApiKey.HEARTBEAT
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(ApiMessage):
    """REBALANCE_IN_PROGRESS asks to join again."""

    API_KEY = ApiKey.HEARTBEAT
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
