"""DeleteGroups (42): groups without members, and their offsets.

Version 2 is flexible, 3 says in words why a group is still there (KIP-1331).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import STRING, ApiMessage, Struct, array, int16, int32, string


class DeleteGroupsRequest(ApiMessage):
    """Ids of the groups."""

    API_KEY = ApiKey.DELETE_GROUPS
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2
    MOST_ELEMENTS = 5_000

    groups_names: Sequence[str] = array(STRING)


class DeletableGroupResult(Struct):
    """Result for one group."""

    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class DeleteGroupsResponse(ApiMessage):
    """One result for each group."""

    API_KEY = ApiKey.DELETE_GROUPS
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = int32()
    results: Sequence[DeletableGroupResult] = array(DeletableGroupResult)
