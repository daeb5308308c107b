"""DeleteShareGroupOffsets (92): has a share group without members forget topics (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, int16, int32, string, uuid


class RequestTopic(Struct):
    """One topic."""

    topic_name: str = string()


class DeleteShareGroupOffsetsRequest(ApiMessage):
    """The listed topics of one group."""

    API_KEY = ApiKey.DELETE_SHARE_GROUP_OFFSETS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    group_id: str = string()
    topics: Sequence[RequestTopic] = array(RequestTopic)


class ResponseTopic(Struct):
    """Result for one topic."""

    topic_name: str = string()
    topic_id: bytes = uuid()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(ApiMessage):
    """One result for each topic of the request."""

    API_KEY = ApiKey.DELETE_SHARE_GROUP_OFFSETS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: Sequence[ResponseTopic] = array(ResponseTopic)
