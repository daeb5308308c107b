from __future__ import annotations

from pathlib import Path

import pytest
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.alter_configs import alter_configs
from tidelog.protocol.config_resources import ConfigResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from tidelog.protocol.schema import decode, encode

TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER


def resource(name: str, *settings: tuple[str, str | None], kind: int = TOPIC) -> AlterConfigsResource:
    configs = [AlterableConfig(name=key, value=value) for key, value in settings]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


async def ask(
    world: TopicWorld, *resources: AlterConfigsResource, version: int = 2, validate: bool = False
) -> list[int]:
    request = AlterConfigsRequest(resources=list(resources), validate_only=validate)
    response = await alter_configs(request, world.context(version))
    decoded, _ = decode(AlterConfigsResponse, version, encode(response, version))
    assert all(bool(result.error_message) == bool(result.error_code) for result in decoded.responses)
    return [result.error_code for result in decoded.responses]


def overrides(world: TopicWorld, name: str = "orders") -> dict[str, str]:
    topic = world.topics.get(name)
    assert topic is not None
    return dict(topic.overrides)


@pytest.mark.parametrize("version", range(3))
async def test_all_settings_are_replaced(tmp_path: Path, version: int) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {"retention.ms": "5000", "segment.ms": "5000"})
        assert await ask(world, resource("orders", ("segment.ms", "7")), version=version) == [ErrorCode.NONE]
        assert overrides(world) == {"segment.ms": "7"}
        assert world.logs.get("orders", 0).config.segment_ms == 7


async def test_validation_alone_changes_nothing(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {"retention.ms": "5000"})
        asked = [resource("orders", ("segment.ms", "7")), resource("none", ("segment.ms", "7"))]
        answers = [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await ask(world, *asked, validate=True) == answers
        assert overrides(world) == {"retention.ms": "5000"}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (resource("none", ("retention.ms", "7")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (resource("orders", ("retention.ms", "x")), ErrorCode.INVALID_CONFIG),
        (resource("orders", ("nonsense", "7")), ErrorCode.INVALID_CONFIG),
        (resource("orders", ("retention.ms", None)), ErrorCode.INVALID_REQUEST),
        (resource("orders", ("retention.ms", "7"), ("retention.ms", "8")), ErrorCode.INVALID_REQUEST),
        (resource("1", ("num.partitions", "7"), kind=BROKER), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_is_refused_changes_nothing(tmp_path: Path, asked: AlterConfigsResource, code: ErrorCode) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {"retention.ms": "5000"})
        assert await ask(world, asked) == [code]
        assert overrides(world) == {"retention.ms": "5000"}


def many(name: str, count: int) -> AlterConfigsResource:
    return resource(name, *((f"setting.{number}", "1") for number in range(count)))


async def test_very_many_settings_do_not_hold_the_loop(tmp_path: Path) -> None:
    """Those of one resource are refused, those of several wait for others in between."""
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {})
        assert await ask(world, many("orders", 1001)) == [ErrorCode.INVALID_REQUEST]
        context, turns = world.context(2), []

        async def next_turn() -> None:
            turns.append(len(turns))

        context.next_turn = next_turn
        request = AlterConfigsRequest(resources=[many(f"topic-{number}", 600) for number in range(5)])
        assert len((await alter_configs(request, context)).responses) == 5
        assert len(turns) == 2
