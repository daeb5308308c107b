from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.delete_topics import delete_topics
from tidelog.broker.metadata.topics import CONSUMER_OFFSETS, Topic
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tidelog.protocol.schema import decode, encode

FIRST = UUID(int=1, version=4).bytes
SECOND = UUID(int=2, version=4).bytes
UNKNOWN = UUID(int=99, version=4).bytes


async def ask(world: TopicWorld, request: DeleteTopicsRequest, version: int) -> list[tuple[str | None, bytes, int]]:
    response = await delete_topics(request, world.context(version))
    decoded, _ = decode(DeleteTopicsResponse, version, encode(response, version))
    return [(answer.name, answer.topic_id, answer.error_code) for answer in decoded.responses]


@pytest.mark.parametrize("version", range(6))
async def test_topics_are_deleted_by_name(tmp_path: Path, version: int) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("a", 1, {})
        request = DeleteTopicsRequest(topic_names=["a", "none"], timeout_ms=1)
        assert await ask(world, request, version) == [
            ("a", bytes(16), 0),
            ("none", bytes(16), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert world.topics.all() == []


async def test_topics_are_deleted_by_name_or_id(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("a", 1, {})
        await world.topics.create("b", 1, {})
        states = [DeleteTopicState(name="a"), DeleteTopicState(topic_id=SECOND), DeleteTopicState(topic_id=UNKNOWN)]
        assert await ask(world, DeleteTopicsRequest(topics=states), 6) == [
            ("a", FIRST, 0),
            ("b", SECOND, 0),
            (None, UNKNOWN, ErrorCode.UNKNOWN_TOPIC_ID),
        ]
        assert world.logs.names() == []


async def test_what_is_named_badly_or_twice_is_refused_and_stays(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("a", 1, {})
        refused = ErrorCode.INVALID_REQUEST
        for states, answers in [
            ([DeleteTopicState()], [(None, bytes(16), refused)]),
            ([DeleteTopicState(name="a", topic_id=FIRST)], [("a", FIRST, refused)]),
            ([DeleteTopicState(name="a")] * 2, [("a", bytes(16), refused)]),
            (
                [DeleteTopicState(name="a"), DeleteTopicState(topic_id=FIRST)],
                [("a", bytes(16), refused), (None, FIRST, refused)],
            ),
        ]:
            assert await ask(world, DeleteTopicsRequest(topics=states), 6) == answers
        assert world.logs.names() == ["a-0"]


async def test_the_brokers_own_topics_stay(tmp_path: Path) -> None:
    async with topic_world(tmp_path, offsets_topic_num_partitions=1) as world:
        await world.topics.ensure(CONSUMER_OFFSETS)
        ((_, _, code),) = await ask(world, DeleteTopicsRequest(topic_names=[CONSUMER_OFFSETS]), 5)
        assert code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert world.logs.names() == [f"{CONSUMER_OFFSETS}-0"]


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
async def test_deletion_can_be_switched_off(tmp_path: Path, version: int, code: ErrorCode) -> None:
    async with topic_world(tmp_path, delete_topic_enable=False) as world:
        await world.topics.create("a", 1, {})
        assert await ask(world, DeleteTopicsRequest(topic_names=["a"]), version) == [("a", bytes(16), code)]
        assert world.logs.names() == ["a-0"]


async def test_a_topic_of_the_same_name_that_was_made_meanwhile_is_not_deleted_by_the_id_of_the_old_one(
    tmp_path: Path,
) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("a", 1, {})
        context = world.context(6)

        async def others() -> None:
            if world.topics.by_id(FIRST) is not None:
                await world.topics.delete("a")
                await world.topics.create("a", 1, {})

        context.next_turn = others
        unknown = [DeleteTopicState(topic_id=UUID(int=number, version=4).bytes) for number in range(1000, 1100)]
        request = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=FIRST), *unknown])
        response = await delete_topics(request, context)
        assert [topic.topic_id.bytes for topic in world.topics.all()] == [SECOND]
        answer = response.responses[0]
        assert (answer.topic_id, answer.error_code) == (FIRST, ErrorCode.UNKNOWN_TOPIC_ID)


async def test_very_many_ids_are_looked_up_with_turns_for_others_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with topic_world(tmp_path) as world:
        context, by_id = world.context(6), world.topics.by_id
        looked_up = [0]

        def count(topic_id: UUID | bytes) -> Topic | None:
            looked_up[-1] += 1
            return by_id(topic_id)

        async def next_turn() -> None:
            looked_up.append(0)

        monkeypatch.setattr(world.topics, "by_id", count)
        context.next_turn = next_turn
        states = [DeleteTopicState(topic_id=UUID(int=number, version=4).bytes) for number in range(1000, 3000)]
        response = await delete_topics(DeleteTopicsRequest(topics=states), context)
        assert {answer.error_code for answer in response.responses} == {ErrorCode.UNKNOWN_TOPIC_ID}
        assert (len(response.responses), sum(looked_up)) == (2000, 2000)
        assert max(looked_up) <= 400
