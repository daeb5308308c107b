"""One broker's topics and groups as the handlers of streams groups' APIs see them: requests from wire to wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.groups import Groups
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.streams_group_describe import streams_group_describe
from tidelog.broker.apis.streams_group_heartbeat import streams_group_heartbeat
from tidelog.broker.groups.heartbeat.machine import Environment, GroupSettings, random_id
from tidelog.broker.groups.heartbeat.topic_image import RegistryImage
from tidelog.protocol.messages import streams_group_heartbeat as wire
from tidelog.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from tidelog.protocol.schema import decode, encode

SETTING = wire.KeyValue(key="cleanup.policy", value="compact")


def topology(copies: int = 0, setting: wire.KeyValue = SETTING) -> wire.Topology:
    return wire.Topology(
        epoch=0,
        subtopologies=[
            wire.Subtopology(
                subtopology_id="0",
                source_topics=["orders"],
                state_changelog_topics=[
                    wire.TopicInfo(name="store-changelog", topic_configs=[setting], replication_factor=copies)
                ],
            )
        ],
    )


class StreamsBroker:
    def __init__(self, world: TopicWorld, groups: Groups) -> None:
        self.world = world
        self.groups = groups
        world.groups = groups.groups  # type: ignore[attr-defined]

    async def ask(self, handler: Any, request: Any, response: type) -> Any:
        context = self.world.context(0)
        context.client_host = "/127.0.0.1"
        decoded, _ = decode(type(request), 0, encode(request, 0))
        answer = handler(decoded, context)
        if asyncio.iscoroutine(answer) or asyncio.isfuture(answer):
            answer = await answer
        return decode(response, 0, encode(answer, 0))[0]

    async def beat(self, **fields: Any) -> Any:
        request = {"group_id": "app", "member_id": "m", **fields}
        return await self.ask(
            streams_group_heartbeat,
            wire.StreamsGroupHeartbeatRequest(**request),
            wire.StreamsGroupHeartbeatResponse,
        )

    async def join(self, found: wire.Topology | None = None, **fields: Any) -> Any:
        return await self.beat(rebalance_timeout_ms=1000, topology=found or topology(), process_id="p", **fields)

    async def describe(self, *group_ids: str, operations: bool = False) -> Any:
        request = StreamsGroupDescribeRequest(group_ids=group_ids, include_authorized_operations=operations)
        return (await self.ask(streams_group_describe, request, StreamsGroupDescribeResponse)).groups


@asynccontextmanager
async def streams_world(directory: Path, **settings: Any) -> AsyncIterator[StreamsBroker]:
    """Topics and groups of one broker; `settings` are the broker's."""
    fields = {"group_streams_initial_rebalance_delay_ms": 0, **settings}
    async with topic_world(directory, **fields) as world:
        environment = Environment(
            RegistryImage(world.topics, world.time), GroupSettings(lambda: world.config, lambda _: {}), random_id
        )
        groups = Groups(loop=asyncio.get_running_loop(), environment=environment, load=False)
        await groups.groups.load()
        await world.topics.create("orders", 2, {})
        yield StreamsBroker(world, groups)
        groups.close()
