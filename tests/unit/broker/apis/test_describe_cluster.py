from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.fake_logs import FakeLogs
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.describe_cluster import describe_cluster
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.protocol.schema import decode, encode


def ask(world: TopicWorld, version: int, **fields: Any) -> DescribeClusterResponse:
    response = describe_cluster(DescribeClusterRequest(**fields), world.context(version, ("10.1.2.3", 1234)))
    return decode(DescribeClusterResponse, version, encode(response, version))[0]


@pytest.mark.parametrize("version", range(3))
async def test_this_node_is_the_cluster(tmp_path: Path, version: int) -> None:
    async with topic_world(tmp_path, FakeLogs(node_id=4, cluster_id="abc"), broker_rack="r1") as world:
        answer = ask(world, version)
        assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "abc", 4)
        (broker,) = answer.brokers
        assert (broker.broker_id, broker.host, broker.port, broker.rack) == (4, "10.1.2.3", 1234, "r1")
        assert answer.cluster_authorized_operations == -(2**31)


async def test_operations_are_told_when_asked_for(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        answer = ask(world, 2, include_cluster_authorized_operations=True)
        # What Apache Kafka answers without an authorizer: operations 5, 7, 8, 9, 10, 11, 12.
        assert answer.cluster_authorized_operations == 0b1_1111_1010_0000


@pytest.mark.parametrize(
    ("endpoint", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
async def test_there_are_no_controllers_to_ask_for(tmp_path: Path, endpoint: int, code: ErrorCode) -> None:
    async with topic_world(tmp_path) as world:
        answer = ask(world, 1, endpoint_type=endpoint)
        assert (answer.error_code, answer.brokers) == (code, [])
