"""FindCoordinator (10): which broker looks after a group or a transactional id.

Version 1 knows transactions, 4 asks for many at once (KIP-699), 5 belongs to KIP-890, 6 knows share groups (KIP-932).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import STRING, ApiMessage, Struct, array, int8, int16, int32, string


class FindCoordinatorRequest(ApiMessage):
    """key_type: 0 group, 1 transactional id, 2 share partition."""

    API_KEY = ApiKey.FIND_COORDINATOR
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 3

    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: Sequence[str] = array(STRING, "4+")


class Coordinator(Struct):
    """Coordinator of one key."""

    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None, ignorable=True)


class FindCoordinatorResponse(ApiMessage):
    """Up to version 3 in its own fields, then in coordinators."""

    API_KEY = ApiKey.FIND_COORDINATOR
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 3

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", default=None, ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: Sequence[Coordinator] = array(Coordinator, "4+")
