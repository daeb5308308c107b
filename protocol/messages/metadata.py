"""Metadata (3): the brokers, and topics with their partitions' leaders.

Version 0 asks for all topics by an empty list, later ones by null. 1 tells the controller and internal topics, 2 the
cluster's id, 4 lets the client forbid creation of topics, 5 tells offline replicas, 7 leader epochs, 8 authorized
operations, 10 topic ids, 12 takes ids without names, 13 has an error for the whole answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, ApiMessage, Struct, array, boolean, int16, int32, string, uuid


class MetadataRequestTopic(Struct):
    """A topic that is asked for, by id if the name is null."""

    topic_id: bytes = uuid("10+", ignorable=True)
    name: str | None = string(nullable="10+")


class MetadataRequest(ApiMessage):
    """Topics to describe; null for all."""

    API_KEY = ApiKey.METADATA
    VERSIONS = (0, 13)
    FLEXIBLE_FROM = 9

    topics: Sequence[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


class MetadataResponseBroker(Struct):
    """Id and address of a broker."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    """Leader and replicas of a partition."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replica_nodes: Sequence[int] = array(INT32)
    isr_nodes: Sequence[int] = array(INT32)
    offline_replicas: Sequence[int] = array(INT32, "5+", ignorable=True)


class MetadataResponseTopic(Struct):
    """A topic, or why there is none."""

    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid("10+", ignorable=True)
    is_internal: bool = boolean("1+", ignorable=True)
    partitions: Sequence[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32("8+", default=-0x80000000)


class MetadataResponse(ApiMessage):
    """Brokers and topics."""

    API_KEY = ApiKey.METADATA
    VERSIONS = (0, 13)
    FLEXIBLE_FROM = 9

    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: Sequence[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: Sequence[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=-0x80000000)
    error_code: int = int16("13+", ignorable=True)
