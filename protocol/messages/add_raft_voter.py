"""AddRaftVoter (80): adds a voter of the metadata log (KIP-853).

Version 1 can be answered before it is committed (KIP-1186).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, boolean, int16, int32, string, uint16, uuid


class Listener(Struct):
    """Address of a voter on one listener."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class AddRaftVoterRequest(ApiMessage):
    """A voter by its id and its directory's."""

    API_KEY = ApiKey.ADD_RAFT_VOTER
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    cluster_id: str | None = string(nullable="0+")
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    listeners: Sequence[Listener] = array(Listener)
    ack_when_committed: bool = boolean("1+", default=True)


class AddRaftVoterResponse(ApiMessage):
    """Result of adding the voter."""

    API_KEY = ApiKey.ADD_RAFT_VOTER
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None, ignorable=True)
