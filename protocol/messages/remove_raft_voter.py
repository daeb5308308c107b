"""RemoveRaftVoter (81): removes a voter of the metadata log (KIP-853)."""

from __future__ import annotations

from ..api_keys import ApiKey
from ..schema import ApiMessage, int16, int32, string, uuid


class RemoveRaftVoterRequest(ApiMessage):
    """A voter by its id and its directory's."""

    API_KEY = ApiKey.REMOVE_RAFT_VOTER
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()


class RemoveRaftVoterResponse(ApiMessage):
    """Result of removing the voter."""

    API_KEY = ApiKey.REMOVE_RAFT_VOTER
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None, ignorable=True)
