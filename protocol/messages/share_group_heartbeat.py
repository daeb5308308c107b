"""ShareGroupHeartbeat (76): a member of a share group joins, stays or leaves, and hears what it is to read (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import STRING, ApiMessage, array, int16, int32, string, structure
from .consumer_group_heartbeat import Assignment


class ShareGroupHeartbeatRequest(ApiMessage):
    """Epoch 0 joins, -1 leaves. Fields that have not changed since the last one are null."""

    API_KEY = ApiKey.SHARE_GROUP_HEARTBEAT
    VERSIONS = (1, 1)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: Sequence[str] | None = array(STRING, nullable="0+")


class ShareGroupHeartbeatResponse(ApiMessage):
    """`assignment` is null where it is as the member knows it."""

    API_KEY = ApiKey.SHARE_GROUP_HEARTBEAT
    VERSIONS = (1, 1)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = structure(Assignment, nullable="0+")
