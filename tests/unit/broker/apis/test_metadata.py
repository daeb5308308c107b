from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.fake_logs import FakeLogs
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.metadata import metadata
from tidelog.broker.metadata.topics import CONSUMER_OFFSETS, MAX_PARTITIONS_PER_REQUEST
from tidelog.broker.quotas.quota import CONTROLLER_MUTATION_RATE
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.schema import decode, encode

FIRST = UUID(int=1, version=4).bytes
UNKNOWN = UUID(int=99, version=4).bytes
NOT_ASKED = -(2**31)


def named(*names: str | None) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


async def ask(
    world: TopicWorld, topics: list[MetadataRequestTopic] | None, version: int = 13, **fields: Any
) -> MetadataResponse:
    answer = metadata(MetadataRequest(topics=topics, **fields), world.context(version, ("10.1.2.3", 1234)))
    response = await answer if inspect.isawaitable(answer) else answer
    return decode(MetadataResponse, version, encode(response, version))[0]


def codes(response: MetadataResponse) -> list[tuple[str | None, int]]:
    return [(topic.name, topic.error_code) for topic in response.topics]


@pytest.mark.parametrize("version", range(14))
async def test_this_node_leads_every_partition(tmp_path: Path, version: int) -> None:
    async with topic_world(tmp_path, FakeLogs(node_id=4, cluster_id="abc"), broker_rack="r1") as world:
        await world.topics.create("orders", 2, {})
        world.logs.get("orders", 1).leader_epoch = 7
        answer = await ask(world, named("orders"), version)
        (broker,) = answer.brokers
        assert (broker.node_id, broker.host, broker.port) == (4, "10.1.2.3", 1234)
        if version >= 2:
            assert (broker.rack, answer.cluster_id, answer.controller_id) == ("r1", "abc", 4)
        (topic,) = answer.topics
        assert (topic.error_code, topic.name, topic.is_internal) == (0, "orders", False)
        assert topic.topic_id == (FIRST if version >= 10 else bytes(16))
        assert [
            (p.partition_index, p.leader_id, list(p.replica_nodes), list(p.isr_nodes)) for p in topic.partitions
        ] == [
            (0, 4, [4], [4]),
            (1, 4, [4], [4]),
        ]
        assert topic.partitions[1].leader_epoch == (7 if version >= 7 else -1)


async def test_all_topics_are_asked_for_by_null_or_in_version_0_by_an_empty_list(tmp_path: Path) -> None:
    async with topic_world(tmp_path, offsets_topic_num_partitions=1) as world:
        await world.topics.create("orders", 1, {})
        await world.topics.ensure(CONSUMER_OFFSETS)
        everything = [(CONSUMER_OFFSETS, 0), ("orders", 0)]
        assert codes(await ask(world, [], 0)) == everything
        assert codes(await ask(world, None, 1)) == everything
        assert codes(await ask(world, [], 1)) == []
        assert [topic.is_internal for topic in (await ask(world, None)).topics] == [True, False]


@pytest.mark.parametrize("version", [0, 3, 4, 13])
async def test_a_topic_that_is_not_there_is_made_before_the_answer(tmp_path: Path, version: int) -> None:
    async with topic_world(tmp_path, num_partitions=3) as world:
        answer = await ask(world, named("new", "new", "b d", "ne.w", "ne_w"), version)
        assert codes(answer) == [
            ("new", 0),
            ("b d", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("ne.w", 0),
            ("ne_w", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]
        assert len(answer.topics[0].partitions) == 3
        assert world.logs.get("new", 2) is not None


async def test_a_deleted_topic_is_another_one_when_it_is_asked_for_again(tmp_path: Path) -> None:
    """As in Kafka it is made anew where that is allowed; what tells clients is the id."""
    async with topic_world(tmp_path, num_partitions=3) as world:
        (before,) = (await ask(world, named("new"), 12)).topics
        await world.topics.delete("new")
        (gone,) = (await ask(world, named("new"), 12, allow_auto_topic_creation=False)).topics
        assert (gone.error_code, list(gone.partitions)) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
        (again,) = (await ask(world, named("new"), 12)).topics
        assert (again.error_code, len(again.partitions)) == (0, 3)
        assert again.topic_id != before.topic_id
        old = MetadataRequestTopic(topic_id=before.topic_id, name=None)
        assert codes(await ask(world, [old], 12)) == [(None, ErrorCode.UNKNOWN_TOPIC_ID)]


async def test_topics_are_made_only_where_client_and_broker_allow_it(tmp_path: Path) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    async with topic_world(tmp_path) as world:
        answer = await ask(world, named("new", "b d"), allow_auto_topic_creation=False)
        assert codes(answer) == [("new", unknown), ("b d", ErrorCode.INVALID_TOPIC_EXCEPTION)]
    async with topic_world(tmp_path, auto_create_topics_enable=False) as world:
        assert codes(await ask(world, named("new"))) == [("new", unknown)]
        assert world.logs.names() == []


async def test_topics_are_found_by_id(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {})
        by_id = [MetadataRequestTopic(topic_id=id_, name=None) for id_ in (FIRST, UNKNOWN)]
        answer = await ask(world, by_id, 12)
        assert codes(answer) == [("orders", 0), (None, ErrorCode.UNKNOWN_TOPIC_ID)]
        assert answer.topics[1].topic_id == UNKNOWN
        # Versions 10 and 11 have the field, and it must not be used.
        assert codes(await ask(world, by_id[:1], 11)) == [("", ErrorCode.INVALID_REQUEST)]
        assert codes(await ask(world, named(None), 12)) == [("", ErrorCode.INVALID_REQUEST)]


async def test_operations_are_told_when_asked_for(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {})
        answer = await ask(
            world,
            named("orders"),
            8,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        # What Apache Kafka answers without an authorizer.
        assert (answer.topics[0].topic_authorized_operations, answer.cluster_authorized_operations) == (3576, 8096)
        answer = await ask(world, named("orders"), 8)
        assert answer.topics[0].topic_authorized_operations == answer.cluster_authorized_operations == NOT_ASKED


async def test_a_partition_without_a_log_has_no_leader(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 2, {})
        world.logs.delete("orders", 1)
        (topic,) = (await ask(world, named("orders"))).topics
        lost = topic.partitions[1]
        assert (lost.error_code, lost.leader_id, list(lost.offline_replicas)) == (
            ErrorCode.LEADER_NOT_AVAILABLE,
            -1,
            [1],
        )


async def test_a_full_disk_is_told_for_the_topic_alone(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {})
        world.logs.fail_after(1, OSError(28, "No space left on device"))
        answer = await ask(world, named("orders", "new"))
        assert codes(answer) == [("orders", 0), ("new", ErrorCode.KAFKA_STORAGE_ERROR)]


async def test_what_is_made_by_asking_for_it_counts_as_its_clients(tmp_path: Path) -> None:
    async with topic_world(tmp_path, max_topics_per_principal=1) as world:
        answer = await ask(world, named("one", "two", CONSUMER_OFFSETS))
        assert codes(answer) == [("one", 0), ("two", ErrorCode.POLICY_VIOLATION), (CONSUMER_OFFSETS, 0)]
        made = {topic.name: topic.makers.owner for topic in world.topics.all()}
        assert made == {"one": "User:ANONYMOUS", CONSUMER_OFFSETS: ""}


async def test_many_who_ask_at_once_make_it_once(tmp_path: Path) -> None:
    async with topic_world(tmp_path, max_partitions_per_principal=1) as world:
        answers = await asyncio.gather(*(ask(world, named("one")) for _ in range(5)))
        assert [codes(answer) for answer in answers] == [[("one", 0)]] * 5
        assert world.topics.makers.partitions_of("User:ANONYMOUS") == 1


async def test_what_is_made_by_asking_for_it_counts_against_the_rate(tmp_path: Path) -> None:
    """The client is told to wait, and that the topic is not there yet, as Kafka says it: it asks again then."""
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    async with topic_world(tmp_path, num_partitions=1000) as world:
        await world.quotas.alter((("user", "ANONYMOUS"),), {CONTROLLER_MUTATION_RATE: 1.0}, False)
        answer = await ask(world, named("one", "two"))
        assert codes(answer) == [("one", 0), ("two", unknown)]
        assert answer.throttle_time_ms > 900_000
        assert codes(await ask(world, named("one"))) == [("one", 0)]
        world.time.advance(answer.throttle_time_ms)
        assert codes(await ask(world, named("two"))) == [("two", 0)]


async def test_one_request_makes_no_more_partitions_than_create_topics_would(tmp_path: Path) -> None:
    async with topic_world(tmp_path, num_partitions=MAX_PARTITIONS_PER_REQUEST) as world:
        assert codes(await ask(world, named("one", "two"))) == [("one", 0), ("two", ErrorCode.POLICY_VIOLATION)]
