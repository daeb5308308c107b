"""Many of everything on one box: partitions, connections, groups; and what each step costs as their number grows.

The steps are taken with a quarter and with all of 10,000 partitions, 2,000 connections and 500 groups: a step that is
quadratic in any of them takes sixteen times the daemon's CPU for four times as many, one that is not takes four. CPU, as a
machine that does something else at the same time changes the clock's figures and not these.
"""

from __future__ import annotations

import asyncio
import struct
import time
from typing import TypeVar

import wire
from brokers import Broker
from measure import OURS, Goal, Row
from session import Session
from tidelog.protocol.headers import response_header_bytes
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.protocol.schema import ApiMessage, decode, encode

START = Row("scale-start", "Start to first answer, 10,000 partitions, after a clean stop", "s", (Goal(5),))
MEMORY = Row("scale-memory", "Memory after a produce and a fetch on each of 10,000", "MiB", (Goal(400),))
METADATA = Row("scale-metadata", "Metadata of 10,000 partitions", "ms", (Goal(100),))
CREATE = Row("scale-create", "Making 10,000 partitions: CPU for each, beside that at a quarter", "×", (Goal(2),))
CONNECT = Row("scale-connect", "Opening 2,000 connections: CPU for each, beside that at a quarter", "×", (Goal(2),))
WRITE = Row(
    "scale-write", "A produce and a fetch on each of 10,000: CPU for each, beside that at a quarter", "×", (Goal(2),)
)
JOIN = Row("scale-join", "500 groups of one member: CPU for each, beside that at a quarter", "×", (Goal(2),))
ROWS = (START, MEMORY, METADATA, CREATE, CONNECT, WRITE, JOIN)

PARTITIONS, CONNECTIONS, GROUPS = 10_000, 2_000, 500
PER_TOPIC = 500
STEPS = (4, 1)
"""A quarter, all."""
MIB = 1 << 20

T = TypeVar("T", bound=ApiMessage)
Times = dict[Row, list[float]]


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def ask(self, request: ApiMessage, version: int, response: type[T]) -> T:
        header = struct.pack(">hhih", request.API_KEY, version, 1, -1)
        if request.FLEXIBLE_FROM is not None and version >= request.FLEXIBLE_FROM:
            header += b"\0"
        frame = header + encode(request, version)
        self.writer.write(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        answer = await self._reader.readexactly(size)
        return decode(response, version, answer, len(response_header_bytes(request.API_KEY, version, 1)))[0]


def run(session: Session) -> None:
    if OURS not in session.sides or not session.wants(*ROWS):
        return
    times: Times = {row: [] for row in ROWS}
    for step in STEPS:
        session.say(f"{PARTITIONS // step} partitions, {CONNECTIONS // step} connections, {GROUPS // step} groups")
        broker = session.fresh(OURS)
        broker.start()
        before = broker.cpu_seconds()
        topics = PARTITIONS // step // PER_TOPIC
        for number in range(topics):
            wire.create_topic(broker.port, f"t{number}", PER_TOPIC)
        times[CREATE].append(broker.cpu_seconds() - before)
        asyncio.run(_load(broker, topics, CONNECTIONS // step, GROUPS // step, times))
        memory = broker.rss_bytes() / MIB
        broker.stop()
        start_s = broker.start()
        if step == 1:
            session.add(MEMORY, OURS, memory)
            session.add(START, OURS, start_s)
            session.add(METADATA, OURS, times[METADATA][-1] * 1000)
        broker.stop()
        broker.remove()
    for row in (CREATE, CONNECT, WRITE, JOIN):
        quarter, whole = times[row]
        session.add(row, OURS, whole / quarter / STEPS[0])


async def _load(broker: Broker, topics: int, connections: int, groups: int, times: Times) -> None:
    before = broker.cpu_seconds()
    clients = [Client(*await asyncio.open_connection(wire.HOST, broker.port)) for _ in range(connections)]
    for client in clients:
        await client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    times[CONNECT].append(broker.cpu_seconds() - before)
    before = broker.cpu_seconds()
    places = [(f"t{topic}", index) for topic in range(topics) for index in range(PER_TOPIC)]
    await asyncio.gather(
        *(_write_and_read(client, places[number::connections]) for number, client in enumerate(clients))
    )
    times[WRITE].append(broker.cpu_seconds() - before)
    took = []
    for _ in range(5):
        started = time.monotonic()
        await clients[0].ask(MetadataRequest(topics=None), 12, MetadataResponse)
        took.append(time.monotonic() - started)
    times[METADATA].append(sorted(took)[2])
    await clients[0].ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4, FindCoordinatorResponse)
    before = broker.cpu_seconds()
    await asyncio.gather(*(_join(client, f"g{number}") for number, client in enumerate(clients[:groups])))
    times[JOIN].append(broker.cpu_seconds() - before)
    for client in clients:
        client.writer.close()


async def _write_and_read(client: Client, places: list[tuple[str, int]]) -> None:
    batch = build_batch([Record(0, int(time.time() * 1000), b"key", bytes(100), ())])
    for topic, index in places:
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=batch)])
        done = await client.ask(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data]), 9, ProduceResponse)
        assert done.responses[0].partition_responses[0].error_code == 0, done
        wanted = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=MIB)
        fetch = FetchRequest(
            max_wait_ms=1000, min_bytes=1, max_bytes=MIB, topics=[FetchTopic(topic=topic, partitions=[wanted])]
        )
        read = await client.ask(fetch, 11, FetchResponse)
        assert read.responses[0].partitions[0].records, read


async def _join(client: Client, group: str) -> None:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joined = await client.ask(request, 3, JoinGroupResponse)
    assert joined.error_code == 0, joined
    own = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"a")
    sync = SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=[own]
    )
    assert (await client.ask(sync, 2, SyncGroupResponse)).error_code == 0
