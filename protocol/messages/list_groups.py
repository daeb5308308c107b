"""ListGroups (16): all groups that this broker coordinates.

Version 4 tells and filters states, 5 types (KIP-848).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import STRING, ApiMessage, Struct, array, int16, int32, string


class ListGroupsRequest(ApiMessage):
    """Empty filters let all through."""

    API_KEY = ApiKey.LIST_GROUPS
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3

    states_filter: Sequence[str] = array(STRING, "4+")
    types_filter: Sequence[str] = array(STRING, "5+")


class ListedGroup(Struct):
    """Id, type and state of a group."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)


class ListGroupsResponse(ApiMessage):
    """All groups."""

    API_KEY = ApiKey.LIST_GROUPS
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    groups: Sequence[ListedGroup] = array(ListedGroup)
