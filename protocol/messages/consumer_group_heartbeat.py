"""ConsumerGroupHeartbeat (68): a member of a consumer group joins, stays, tells what it owns, and leaves (KIP-848).

Version 1 subscribes by regular expression, and members choose their ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, STRING, ApiMessage, Struct, array, int16, int32, string, structure, uuid


class TopicPartitions(Struct):
    """The listed partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: Sequence[int] = array(INT32)


class ConsumerGroupHeartbeatRequest(ApiMessage):
    """Epoch 0 joins, -1 leaves, -2 leaves for a while (static members). Fields that are null or -1 have not changed."""

    API_KEY = ApiKey.CONSUMER_GROUP_HEARTBEAT
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: Sequence[str] | None = array(STRING, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: Sequence[TopicPartitions] | None = array(TopicPartitions, nullable="0+", default=None)


class Assignment(Struct):
    """Partitions that the member may use now."""

    topic_partitions: Sequence[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupHeartbeatResponse(ApiMessage):
    """A null assignment has not changed."""

    API_KEY = ApiKey.CONSUMER_GROUP_HEARTBEAT
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = structure(Assignment, nullable="0+")
