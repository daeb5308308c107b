from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.fake_logs import FakeLogs
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.create_topics import create_topics
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.schema import decode, encode


def topic(name: str = "orders", partitions: int = 1, replicas: int = 1, **rest: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **rest)


def settings(**named: str | None) -> list[CreatableTopicConfig]:
    return [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in named.items()]


def assigned(*brokers: list[int]) -> list[CreatableReplicaAssignment]:
    return [CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in enumerate(brokers)]


async def ask(world: TopicWorld, *topics: CreatableTopic, version: int = 7, validate: bool = False) -> Any:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=1000, validate_only=validate)
    response = await create_topics(request, world.context(version))
    decoded, _ = decode(CreateTopicsResponse, version, encode(response, version))
    return decoded.topics


async def test_topics_are_made_and_answered_with_id_and_settings(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        (answer,) = await ask(world, topic(partitions=3, configs=settings(retention_ms="5000")))
        assert (answer.error_code, answer.error_message) == (0, None)
        assert UUID(bytes=answer.topic_id) == UUID(int=1, version=4)
        assert (answer.num_partitions, answer.replication_factor) == (3, 1)
        told = {setting.name: setting for setting in answer.configs}
        assert (told["retention.ms"].value, told["retention.ms"].config_source) == ("5000", 1)
        assert (told["segment.bytes"].value, told["segment.bytes"].config_source) == ("1073741824", 5)
        assert list(told) == sorted(told)
        assert world.logs.names() == ["orders-0", "orders-1", "orders-2"]


@pytest.mark.parametrize("version", range(8))
async def test_every_version_is_answered(tmp_path: Path, version: int) -> None:
    async with topic_world(tmp_path) as world:
        good, bad = await ask(world, topic("good"), topic("b d"), version=version)
        assert (good.error_code, bad.error_code) == (0, ErrorCode.INVALID_TOPIC_EXCEPTION)
        assert bool(bad.error_message) == (version >= 1)


async def test_minus_one_is_the_brokers_default(tmp_path: Path) -> None:
    async with topic_world(tmp_path, num_partitions=4) as world:
        (answer,) = await ask(world, topic(partitions=-1, replicas=-1))
        assert (answer.error_code, answer.num_partitions) == (0, 4)


async def test_validation_alone_makes_nothing(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        good, bad = await ask(world, topic("good"), topic("bad", 0), validate=True)
        assert (good.error_code, good.num_partitions, good.topic_id) == (0, 1, bytes(16))
        assert bad.error_code == ErrorCode.INVALID_PARTITIONS
        assert world.logs.names() == []
        assert world.topics.all() == []


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (topic(replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(replicas=-2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(replicas=3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(partitions=0), ErrorCode.INVALID_PARTITIONS),
        (topic(partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (topic(partitions=2**31 - 1), ErrorCode.POLICY_VIOLATION),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (topic("present"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic(configs=settings(retention_ms="x")), ErrorCode.INVALID_CONFIG),
        (topic(configs=settings(retention_ms=None)), ErrorCode.INVALID_CONFIG),
        (topic(configs=settings(no_such="1")), ErrorCode.INVALID_CONFIG),
        (topic(configs=settings(retention_ms="1") * 2), ErrorCode.INVALID_CONFIG),
        (topic(partitions=1, replicas=-1, assignments=assigned([1])), ErrorCode.INVALID_REQUEST),
        (topic(partitions=-1, replicas=1, assignments=assigned([1])), ErrorCode.INVALID_REQUEST),
        (topic(partitions=-1, replicas=-1, assignments=assigned([1], [2])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(partitions=-1, replicas=-1, assignments=assigned([1, 1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(partitions=-1, replicas=-1, assignments=assigned([])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(partitions=-1, replicas=-1, assignments=assigned([1], [1])[1:]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic(partitions=-1, replicas=-1, assignments=assigned([1]) * 2), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_what_kafka_refuses_is_refused_with_its_code(
    tmp_path: Path, wanted: CreatableTopic, code: ErrorCode
) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("present", 1, {})
        (answer,) = await ask(world, wanted)
        assert answer.error_code == code
        assert answer.error_message
        assert world.logs.names() == ["present-0"]


async def test_an_assignment_to_this_node_is_taken(tmp_path: Path) -> None:
    async with topic_world(tmp_path, FakeLogs(node_id=5)) as world:
        assignments = assigned([5], [5])[::-1]
        (answer,) = await ask(world, topic(partitions=-1, replicas=-1, assignments=assignments))
        assert (answer.error_code, answer.num_partitions) == (0, 2)


async def test_a_name_that_is_there_twice_is_refused_once(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        answers: list[CreatableTopicResult] = await ask(world, topic("twice"), topic("good"), topic("twice"))
        assert [(a.name, a.error_code) for a in answers] == [("twice", ErrorCode.INVALID_REQUEST), ("good", 0)]


async def test_one_request_makes_ten_thousand_partitions_at_most(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        answers = await ask(world, topic("a", 9_000), topic("b", 1_001), topic("c", 1_000), validate=True)
        assert [answer.error_code for answer in answers] == [0, ErrorCode.POLICY_VIOLATION, 0]
