"""One of two disks hangs: who produces to it waits, and nobody else notices.

The daemon runs in this process, so that a test can hold a file's write; clients in threads talk to it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.patience import PATIENCE_S
from support.wire_client import WireClient
from tidelog.broker.server.node import Node
from tidelog.config.loader import load_config
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record, iterate_records
from tidelog.storage.io.filesystem import Buffer, RealFile


class Client(WireClient):
    """A producer, consumer and group member by hand."""

    def create(self, topic: str) -> None:
        wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
        answer = self.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=5000), 4, CreateTopicsResponse)
        assert answer.topics[0].error_code == 0

    def produce(self, topic: str, value: bytes) -> int:
        records = build_batch([Record(0, 1_700_000_000_000, None, value, ())])
        data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])]
        answer = self.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data), 8, ProduceResponse)
        row = answer.responses[0].partition_responses[0]
        assert row.error_code == 0
        return row.base_offset

    def fetch(self, topic: str) -> list[bytes | None]:
        wanted = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
        topics = [FetchTopic(topic=topic, partitions=wanted)]
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=topics)
        records = self.ask(request, 11, FetchResponse).responses[0].partitions[0].records
        assert records is not None
        found: list[bytes | None] = []
        position = 0
        while position < len(records):
            found += [record.value for record in iterate_records(records, position)]
            position += 12 + int.from_bytes(records[position + 8 : position + 12], "big")
        return found

    def join(self, group: str) -> Callable[[], int]:
        """Becomes the only member; returns what sends a heartbeat and gives its error code."""
        self.ask(FindCoordinatorRequest(key=group), 0, FindCoordinatorResponse)
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        joining = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=300_000,
            rebalance_timeout_ms=300_000,
            member_id="",
            protocol_type="consumer",
            protocols=[protocol],
        )
        joined = self.ask(joining, 3, JoinGroupResponse)
        assert joined.error_code == 0
        assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")
        member = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
        synced = self.ask(SyncGroupRequest(**member, assignments=[assignment]), 2, SyncGroupResponse)
        assert synced.error_code == 0
        return lambda: self.ask(HeartbeatRequest(**member), 2, HeartbeatResponse).error_code


async def test_a_disk_that_hangs_holds_up_its_own_partitions_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = [str(tmp_path / name) for name in "ab"]
    settings = [
        "listeners=PLAINTEXT://127.0.0.1:0",
        "http.listener=",
        "log.dirs=" + ",".join(directories),
        "offsets.topic.num.partitions=1",
        "group.initial.rebalance.delay.ms=0",
    ]
    node = Node(load_config(None, {}, settings), asyncio.get_running_loop())
    await node.start()
    address = (node.socket_server.endpoints[0].host, node.socket_server.endpoints[0].port)
    hangs, go_on, held = threading.Event(), threading.Event(), ""
    take = RealFile.append

    def append(file: RealFile, buffer: Buffer) -> None:
        if held and file.path.startswith(held):
            hangs.set()
            assert go_on.wait(PATIENCE_S)
        take(file, buffer)

    monkeypatch.setattr(RealFile, "append", append)

    def prepare(client: Client) -> Callable[[], int]:
        heartbeat = client.join("g")
        for topic in ("one", "two"):
            client.create(topic)
            client.produce(topic, b"before")
        return heartbeat

    def live_on(client: Client, heartbeat: Callable[[], int], quick: str, slow: str) -> None:
        assert hangs.wait(PATIENCE_S)
        for number in range(20):
            assert client.produce(quick, b"meanwhile") == number + 1
            assert heartbeat() == 0
        assert client.fetch(slow) == [b"before"]
        assert len(client.fetch(quick)) == 21

    try:
        with Client(address) as one, Client(address) as two, Client(address) as three:
            heartbeat = await asyncio.to_thread(prepare, one)
            homes = {topic: str(Path(found(node, topic).directory).parent) for topic in ("one", "two")}
            assert sorted(homes.values()) == directories
            # not the one of the committed offsets: coordinators write on the loop thread
            offsets = str(Path(found(node, "__consumer_offsets").directory).parent)
            quick, slow = sorted(homes, key=lambda topic: homes[topic] != offsets)
            dict(node.services.logs.paces)[homes[slow]].note(1.0)
            held = homes[slow] + "/" + slow
            waiting = [asyncio.create_task(asyncio.to_thread(client.produce, slow, b"late")) for client in (two, three)]
            await asyncio.to_thread(live_on, one, heartbeat, quick, slow)
            assert not any(task.done() for task in waiting)
            go_on.set()
            assert sorted(await asyncio.gather(*waiting)) == [1, 2]
            assert await asyncio.to_thread(one.fetch, slow) == [b"before", b"late", b"late"]
    finally:
        go_on.set()
        await node.stop()


def found(node: Node, topic: str) -> Any:
    log = node.services.logs.get(topic, 0)
    assert log is not None
    return log
