from __future__ import annotations

from pathlib import Path

import pytest
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.create_partitions import create_partitions
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tidelog.protocol.schema import decode, encode


def grow(name: str, count: int, *assigned: list[int]) -> CreatePartitionsTopic:
    assignments = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assigned] or None
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


async def ask(
    world: TopicWorld, *topics: CreatePartitionsTopic, version: int = 3, validate: bool = False
) -> list[tuple[str, int]]:
    request = CreatePartitionsRequest(topics=list(topics), timeout_ms=1, validate_only=validate)
    response = await create_partitions(request, world.context(version))
    decoded, _ = decode(CreatePartitionsResponse, version, encode(response, version))
    assert all(bool(result.error_message) == bool(result.error_code) for result in decoded.results)
    return [(result.name, result.error_code) for result in decoded.results]


@pytest.mark.parametrize("version", range(4))
async def test_topics_grow(tmp_path: Path, version: int) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("a", 1, {})
        await world.topics.create("b", 1, {})
        assert await ask(world, grow("a", 2), grow("b", 3, [1], [1]), version=version) == [("a", 0), ("b", 0)]
        assert world.logs.names() == ["a-0", "a-1", "b-0", "b-1", "b-2"]


async def test_validation_alone_changes_nothing(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("a", 1, {})
        assert await ask(world, grow("a", 2), validate=True) == [("a", 0)]
        assert world.logs.names() == ["a-0"]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (grow("a", 2), ErrorCode.INVALID_PARTITIONS),
        (grow("a", 1), ErrorCode.INVALID_PARTITIONS),
        (grow("a", -1), ErrorCode.INVALID_PARTITIONS),
        (grow("a", 2**31 - 1), ErrorCode.POLICY_VIOLATION),
        (grow("none", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (grow("a", 4, [1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow("a", 3, [2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow("a", 3, [1, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_what_kafka_refuses_is_refused_with_its_code(
    tmp_path: Path, topic: CreatePartitionsTopic, code: ErrorCode
) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("a", 2, {})
        assert await ask(world, topic) == [(topic.name, code)]
        assert world.logs.names() == ["a-0", "a-1"]


async def test_a_name_that_is_there_twice_is_refused_once(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("a", 1, {})
        assert await ask(world, grow("a", 2), grow("a", 3)) == [("a", ErrorCode.INVALID_REQUEST)]
