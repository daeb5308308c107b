"""ConsumerGroupDescribe (69): consumer groups with their epochs, members and assignments (KIP-848).

Version 1 tells the type of each member: classic or consumer.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, STRING, ApiMessage, Struct, array, boolean, int8, int16, int32, string, structure, uuid


class ConsumerGroupDescribeRequest(ApiMessage):
    """Ids of the groups."""

    API_KEY = ApiKey.CONSUMER_GROUP_DESCRIBE
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 5_000

    group_ids: Sequence[str] = array(STRING)
    include_authorized_operations: bool = boolean()


class TopicPartitions(Struct):
    """The listed partitions of one topic."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: Sequence[int] = array(INT32)


class Assignment(Struct):
    """Partitions of several topics."""

    topic_partitions: Sequence[TopicPartitions] = array(TopicPartitions)


class Member(Struct):
    """One member. member_type: -1 unknown, 0 classic, 1 consumer."""

    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: Sequence[str] = array(STRING)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: Assignment = structure(Assignment)
    target_assignment: Assignment = structure(Assignment)
    member_type: int = int8("1+", default=-1, ignorable=True)


class DescribedGroup(Struct):
    """Description of one group, or its error."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: Sequence[Member] = array(Member)
    authorized_operations: int = int32(default=-0x8000_0000)


class ConsumerGroupDescribeResponse(ApiMessage):
    """In the order that was asked."""

    API_KEY = ApiKey.CONSUMER_GROUP_DESCRIBE
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    groups: Sequence[DescribedGroup] = array(DescribedGroup)
