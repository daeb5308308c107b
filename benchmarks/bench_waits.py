"""Work that touches very much at once, and how long its client waits: a rebalance of 100 members, and DeleteRecords over 10,000
segments while producers write.

A rebalance is measured from the end of `group.initial.rebalance.delay.ms` until every member has its assignment. DeleteRecords is
one request that removes the whole log but for its active segment, beside 2,000 produces a second to another topic; what the
producers waited stands beside it. Kafka is not asked for the second: since 4.0 its segments have 1 MiB at least.
"""

from __future__ import annotations

import asyncio
import time

import wire
from bench_scale import Client
from brokers import Broker
from measure import OURS, Goal, Row
from session import LoadError, Session, finish_load
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

REBALANCE = Row("rebalance-100", "Rebalance of 100 members, after the delay", "s", (Goal(1),))
DELETE = Row("delete-records-10k", "DeleteRecords over 10,000 segments beside 2,000 produces/s", "ms", (Goal(20),))
DELETE_P99 = Row("delete-records-p99", "p99 of these produces, files' removal included", "ms")
ROWS = (REBALANCE, DELETE, DELETE_P99)

MEMBERS, SEGMENTS = 100, 10_000
DELAY_S = 1.0
STOP_S = 300.0
METADATA = b"m" * 200
ASSIGNMENT = b"a" * 200


def run(session: Session) -> None:
    if session.wants(REBALANCE):
        for order in session.rounds(at_most=1 if session.quick else 5):
            for side in order:
                broker = session.fresh(side, {"group.initial.rebalance.delay.ms": int(DELAY_S * 1000)})
                broker.start()
                groups = [f"group-{number}" for number in range(3)]
                asyncio.run(_find(broker.port, groups))
                for number, group in enumerate(groups):  # the first warms up
                    seconds = asyncio.run(_rebalance(broker.port, group))
                    if number:
                        session.add(REBALANCE, side, seconds)
                broker.stop()
                broker.remove()
    if OURS in session.sides and session.wants(DELETE, DELETE_P99):
        for _ in range(1 if session.quick else 5):
            broker = session.fresh(OURS)
            broker.start()
            _delete(session, broker)
            broker.stop(STOP_S)
            broker.remove()


async def _find(port: int, groups: list[str]) -> None:
    """Wait until the coordinator has its topic, and the partitions of these groups."""
    client = Client(*await asyncio.open_connection(wire.HOST, port))
    request = FindCoordinatorRequest(key="g", key_type=0)
    # Polled, as clients do.
    while (await client.ask(request, 3, FindCoordinatorResponse)).error_code:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    describe = DescribeGroupsRequest(groups=groups)
    while any(group.error_code for group in (await client.ask(describe, 0, DescribeGroupsResponse)).groups):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    client.writer.close()


async def _rebalance(port: int, group: str) -> float:
    """Seconds from the end of the delay until all members of a new group have their assignments."""
    clients = [Client(*await asyncio.open_connection(wire.HOST, port)) for _ in range(MEMBERS)]
    protocols = [JoinGroupRequestProtocol(name="range", metadata=METADATA)]
    join = JoinGroupRequest(
        group_id=group, session_timeout_ms=30_000, rebalance_timeout_ms=60_000, protocol_type="consumer",
        protocols=protocols,
    )  # fmt: skip

    async def member(client: Client) -> None:
        joined = await client.ask(join, 3, JoinGroupResponse)
        if joined.error_code:
            raise LoadError(f"JoinGroup: error {joined.error_code}")
        assignments = [
            SyncGroupRequestAssignment(member_id=other.member_id, assignment=ASSIGNMENT) for other in joined.members
        ]
        synced = await client.ask(
            SyncGroupRequest(
                group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=assignments
            ),
            2,
            SyncGroupResponse,
        )
        if synced.error_code or synced.assignment != ASSIGNMENT:
            raise LoadError(f"SyncGroup: error {synced.error_code}, {len(synced.assignment)} bytes of assignment")

    began = time.monotonic()
    await asyncio.gather(*map(member, clients))
    # The delay begins once more, since members came within the first one.
    seconds = time.monotonic() - began - 2 * DELAY_S
    for client in clients:
        client.writer.close()
    if seconds < 0:
        raise LoadError(f"the members had their assignments {-seconds:.2f} s before the delay was over")
    return seconds


def _delete(session: Session, broker: Broker) -> None:
    wire.create_topic(broker.port, "many", 1, {"segment.bytes": 1400, "segment.index.bytes": 1024})
    wire.create_topic(broker.port, "quick")
    session.load(broker, "produce", "many", "--depth", 5, "--requests", SEGMENTS)
    found = len(list(broker.partition_directory("many").glob("*.log")))
    if found < SEGMENTS:
        raise LoadError(f"{found} segments, {SEGMENTS} are wanted")
    broker.stop(STOP_S)  # all are synced then: ten thousand syncs of what was rolled would be measured too
    broker.start()
    seconds = session.seconds(4.0, 10.0)
    writer = session.begin_load(
        broker, "produce", "quick", "--rate", 2000, "--connections", 4, "--warmup", 0.5, "--seconds", seconds
    )
    time.sleep(1.5)
    asyncio.run(_delete_below(broker.port, "quick", 0))  # the first request of its kind loads its modules
    took_s = asyncio.run(_delete_below(broker.port, "many", SEGMENTS))
    written = finish_load(writer)
    session.add(DELETE, OURS, took_s * 1000, {"segments": float(found)})
    session.add(DELETE_P99, OURS, written["p99_us"] / 1000)


async def _delete_below(port: int, topic: str, offset: int) -> float:
    """Seconds that DeleteRecords took."""
    client = Client(*await asyncio.open_connection(wire.HOST, port))
    partitions = [DeleteRecordsPartition(partition_index=0, offset=offset)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=60_000)
    began = time.monotonic()
    answer = await client.ask(request, 1, DeleteRecordsResponse)
    took_s = time.monotonic() - began
    row = answer.topics[0].partitions[0]
    if row.error_code or row.low_watermark != offset:
        raise LoadError(f"DeleteRecords: error {row.error_code}, low watermark {row.low_watermark}")
    client.writer.close()
    return took_s
