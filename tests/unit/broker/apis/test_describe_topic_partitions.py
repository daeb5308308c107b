from __future__ import annotations

from pathlib import Path

import pytest
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.describe_topic_partitions import describe_topic_partitions
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tidelog.protocol.schema import decode, encode

Place = tuple[str, int]


def ask(
    world: TopicWorld, *names: str, limit: int = 2000, cursor: Place | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor and Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    response, _ = decode(
        DescribeTopicPartitionsResponse, 0, encode(describe_topic_partitions(request, world.context(0)), 0)
    )
    return response


def page(response: DescribeTopicPartitionsResponse) -> tuple[list[Place], Place | None]:
    found = [(topic.name or "", part.partition_index) for topic in response.topics for part in topic.partitions]
    cursor = response.next_cursor
    return found, cursor and (cursor.topic_name, cursor.partition_index)


async def test_topics_are_told_by_name(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("b", 2, {})
        await world.topics.create("a", 1, {})
        response = ask(world, "b", "none", "a b", "a", "a")
        assert [(topic.name, topic.error_code) for topic in response.topics] == [
            ("a", ErrorCode.NONE),
            ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("b", ErrorCode.NONE),
            ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        topic = world.topics.get("b")
        assert topic is not None
        row = response.topics[2]
        assert (row.topic_id, row.is_internal, row.topic_authorized_operations) == (topic.topic_id.bytes, False, 0xDF8)
        assert [(p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes) for p in row.partitions] == [
            (1, 0, [1], [1])
        ] * 2


@pytest.mark.parametrize("limit", [-1, 1, 2, 3, 4, 6, 7, 2000])
async def test_pages_together_are_the_whole(tmp_path: Path, limit: int) -> None:
    async with topic_world(tmp_path) as world:
        everything = []
        for name, count in (("a", 3), ("b", 1), ("c", 2)):
            await world.topics.create(name, count, {})
            everything += [(name, index) for index in range(count)]
        found, cursor = page(ask(world, limit=limit))
        while cursor is not None:
            assert len(found) % max(1, limit) == 0
            more, cursor = page(ask(world, limit=limit, cursor=cursor))
            assert len(more) <= max(1, limit)
            found += more
        assert found == everything


async def test_a_cursors_topic_may_be_gone(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("a", 3, {})
        await world.topics.create("c", 2, {})
        assert page(ask(world, cursor=("b", 2))) == ([("c", 0), ("c", 1)], None)
        assert page(ask(world, cursor=("a", 9))) == ([("c", 0), ("c", 1)], None)


async def test_a_cursor_before_the_first_partition_is_refused(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        with pytest.raises(ProtocolError) as raised:
            ask(world, cursor=("a", -1))
        assert raised.value.code == ErrorCode.INVALID_REQUEST
