"""One broker's topics and groups as the handlers of streams groups' APIs see them: requests from wire to wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.groups import Groups, MemoryCoordinatorLog
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.streams_group_describe import streams_group_describe
from tidelog.broker.apis.streams_group_heartbeat import streams_group_heartbeat
from tidelog.broker.apis.streams_group_topology_description_update import streams_group_topology_description_update
from tidelog.broker.groups.heartbeat.machine import Environment, GroupSettings, random_id
from tidelog.broker.groups.heartbeat.topic_image import RegistryImage
from tidelog.broker.metadata.topology_descriptions import TopologyDescriptions
from tidelog.broker.security.acl.model import ResourceType
from tidelog.protocol.messages import streams_group_heartbeat as wire
from tidelog.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from tidelog.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    TopologyDescription,
)
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
        self.hidden_topics: Container[str] = ()
        """Topics that nobody may describe; with some there is an authorizer."""

    async def ask(self, handler: Any, request: Any, response: type, version: int = 1) -> Any:
        context = self.world.context(version)
        context.client_host = "/127.0.0.1"
        if self.hidden_topics:
            self.world.authorizer = object()  # type: ignore[assignment]
            context.allows = lambda _, kind, name: kind is not ResourceType.TOPIC or name not in self.hidden_topics
        decoded, _ = decode(type(request), version, encode(request, version))
        answer = handler(decoded, context)
        if asyncio.iscoroutine(answer) or asyncio.isfuture(answer):
            answer = await answer
        return decode(response, version, encode(answer, version))[0]

    async def beat(self, *, version: int = 1, **fields: Any) -> Any:
        request = {"group_id": "app", "member_id": "m", **fields}
        return await self.ask(
            streams_group_heartbeat,
            wire.StreamsGroupHeartbeatRequest(**request),
            wire.StreamsGroupHeartbeatResponse,
            version,
        )

    async def join(self, found: wire.Topology | None = None, **fields: Any) -> Any:
        return await self.beat(rebalance_timeout_ms=1000, topology=found or topology(), process_id="p", **fields)

    async def describe(self, *group_ids: str, operations: bool = False, topology: bool = False) -> Any:
        request = StreamsGroupDescribeRequest(
            group_ids=group_ids, include_authorized_operations=operations, include_topology_description=topology
        )
        return (await self.ask(streams_group_describe, request, StreamsGroupDescribeResponse)).groups

    async def push(self, description: TopologyDescription, **fields: Any) -> Any:
        """Send a description of the topology of epoch 0 for the member m of the group app."""
        request = StreamsGroupTopologyDescriptionUpdateRequest(
            **{"group_id": "app", "member_id": "m", "topology_description": description, **fields}
        )
        response = StreamsGroupTopologyDescriptionUpdateResponse
        return await self.ask(streams_group_topology_description_update, request, response, 0)

    async def restart(self) -> None:
        """A coordinator that starts now, on what is on disk, takes over."""
        self.groups.close()
        self.groups = make_groups(self.world, self.groups.log)
        self.world.groups = self.groups.groups  # type: ignore[attr-defined]
        await self.groups.groups.load()


async def _aside(task: Any) -> Any:
    return task()


def make_groups(world: TopicWorld, log: MemoryCoordinatorLog | None = None) -> Groups:
    """Groups with descriptions of their topologies in the world's store."""
    descriptions = TopologyDescriptions(world.store.read().descriptions, world.store, lambda: world.config)
    environment = Environment(
        RegistryImage(world.topics, world.time),
        GroupSettings(lambda: world.config, lambda _: {}),
        random_id,
        descriptions,
        lambda: 0.5,
    )
    loop = asyncio.get_running_loop()
    return Groups(loop=loop, log=log, environment=environment, load=False, time=world.time)


@asynccontextmanager
async def streams_world(directory: Path, **settings: Any) -> AsyncIterator[StreamsBroker]:
    """Topics and groups of one broker; `settings` are the broker's."""
    fields = {"group_streams_initial_rebalance_delay_ms": 0, **settings}
    async with topic_world(directory, **fields) as world:
        world.long_requests = world.long_changes = SimpleNamespace(aside=_aside)  # type: ignore[attr-defined]
        groups = make_groups(world)
        await groups.groups.load()
        if world.topics.get("orders") is None:
            await world.topics.create("orders", 2, {})
        broker = StreamsBroker(world, groups)
        yield broker
        broker.groups.close()
