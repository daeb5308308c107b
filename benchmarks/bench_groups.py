"""A million committed offsets: how long after a start they are all there, and how long a client waits meanwhile."""

from __future__ import annotations

import asyncio
import time

import wire
from bench_scale import Client
from measure import OURS, Goal, Row
from session import Session
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

REPLAY = Row("groups-replay", "Start until 1,000,000 committed offsets are there", "s", (Goal(5),))
WAIT = Row("groups-wait", "Longest wait of a client meanwhile", "ms", (Goal(100),))
ROWS = (REPLAY, WAIT)

PARTITIONS, GROUPS, PER_REQUEST = 1_000, 1_000, 500
LOADING = 14


def run(session: Session) -> None:
    if OURS not in session.sides or not session.wants(*ROWS):
        return
    broker = session.fresh(OURS)
    broker.start()
    wire.create_topic(broker.port, "t", PARTITIONS)
    session.say(f"committing {GROUPS * PARTITIONS} offsets")
    asyncio.run(_commit(broker.port))
    for _ in range(1 if session.quick else 3):
        broker.stop()
        started = time.monotonic()
        broker.start()
        loaded_at, longest = asyncio.run(_watch(broker.port))
        session.add(REPLAY, OURS, loaded_at - started)
        session.add(WAIT, OURS, longest * 1000)
    asyncio.run(_check(broker.port))
    broker.stop()
    broker.remove()


async def _client(port: int) -> Client:
    return Client(*await asyncio.open_connection(wire.HOST, port))


async def _commit(port: int) -> None:
    clients = [await _client(port) for _ in range(8)]
    await clients[0].ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4, FindCoordinatorResponse)

    async def commit(client: Client, groups: range) -> None:
        for group in groups:
            for first in range(0, PARTITIONS, PER_REQUEST):
                rows = [
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=group * PARTITIONS + index)
                    for index in range(first, first + PER_REQUEST)
                ]
                topics = [OffsetCommitRequestTopic(name="t", partitions=rows)]
                request = OffsetCommitRequest(
                    group_id=f"g{group}", generation_id_or_member_epoch=-1, member_id="", topics=topics
                )
                answer = await client.ask(request, 6, OffsetCommitResponse)
                assert not any(row.error_code for row in answer.topics[0].partitions), answer

    await asyncio.gather(*(commit(client, range(number, GROUPS, 8)) for number, client in enumerate(clients)))


async def _watch(port: int) -> tuple[float, float]:
    """When every group was there, and the longest wait of a client that only asks what is answered at once."""
    asking, pinging = await _client(port), await _client(port)
    longest, done = 0.0, False

    async def ping() -> None:
        nonlocal longest
        while not done:
            began = time.monotonic()
            await pinging.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
            longest = max(longest, time.monotonic() - began)
            await asyncio.sleep(0.005)

    pings = asyncio.create_task(ping())
    # Polled, as a client does.
    while (await asking.ask(ListGroupsRequest(), 4, ListGroupsResponse)).error_code == LOADING:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    loaded_at, done = time.monotonic(), True
    await pings
    return loaded_at, longest


async def _check(port: int) -> None:
    """Every hundredth group has what it committed."""
    client = await _client(port)
    for group in range(0, GROUPS, 100):
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=list(range(PARTITIONS)))]
        answer = await client.ask(OffsetFetchRequest(group_id=f"g{group}", topics=topics), 5, OffsetFetchResponse)
        found = [row.committed_offset for row in answer.topics[0].partitions]
        assert found == [group * PARTITIONS + index for index in range(PARTITIONS)], group
