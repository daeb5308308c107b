"""DeleteTopics (20).

Version 5 tells errors in words, 6 takes ids (KIP-516).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import STRING, ApiMessage, Struct, array, int16, int32, string, uuid


class DeleteTopicState(Struct):
    """A topic by name or by id."""

    name: str | None = string(nullable="0+", default=None)
    topic_id: bytes = uuid()


class DeleteTopicsRequest(ApiMessage):
    """topic_names up to version 5, then topics."""

    API_KEY = ApiKey.DELETE_TOPICS
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 4

    topics: Sequence[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: Sequence[str] = array(STRING, "0-5", ignorable=True)
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    """Result for one topic."""

    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(ApiMessage):
    """One result for each topic."""

    API_KEY = ApiKey.DELETE_TOPICS
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 4

    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: Sequence[DeletableTopicResult] = array(DeletableTopicResult)
