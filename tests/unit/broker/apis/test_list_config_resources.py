from __future__ import annotations

from pathlib import Path

from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.list_config_resources import list_config_resources
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from tidelog.protocol.schema import decode, encode


def ask(world: TopicWorld, version: int, *kinds: int) -> list[tuple[str, int]] | int:
    response = list_config_resources(ListConfigResourcesRequest(resource_types=kinds), world.context(version))
    decoded, _ = decode(ListConfigResourcesResponse, version, encode(response, version))
    return decoded.error_code or [(found.resource_name, found.resource_type) for found in decoded.config_resources]


async def test_what_has_settings(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("t", 1, {})
        await world.resources.alter("client-metrics", "m", lambda _: {"metrics": "*"})
        await world.resources.alter("group", "g", lambda _: {"share.delivery.count.limit": "3"})
        assert ask(world, 0) == [("m", 16)]
        assert ask(world, 1) == [("t", 2), ("1", 4), ("1", 8), ("m", 16), ("g", 32)]
        assert ask(world, 1, 32, 2) == [("t", 2), ("g", 32)]
        assert ask(world, 1, 2, 99) == ErrorCode.UNSUPPORTED_VERSION
