"""DescribeCluster (60): the cluster's id, controller and brokers.

Version 1 can ask controllers (KIP-919), 2 for fenced brokers too (KIP-1073).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, boolean, int8, int16, int32, string


class DescribeClusterRequest(ApiMessage):
    """endpoint_type: 1 brokers, 2 controllers."""

    API_KEY = ApiKey.DESCRIBE_CLUSTER
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


class DescribeClusterBroker(Struct):
    """Id and address of a broker."""

    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean("2+")


class DescribeClusterResponse(ApiMessage):
    """All brokers."""

    API_KEY = ApiKey.DESCRIBE_CLUSTER
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: Sequence[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-0x80000000)
