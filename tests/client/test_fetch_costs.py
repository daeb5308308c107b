"""What a fetch of 64 KiB costs: reads of the socket and bytes copied, counted exactly.

The daemon runs in this process on the standard library's loop, whose reads can be watched; a client in a thread talks
to it. What is sent is counted where it is sent, in compiled code and by `Outbound`: bytes by `sendfile`, and all.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.wire_client import WireClient, request_frame
from tidelog.broker.server.node import Node
from tidelog.clients.message_set_client import MessageSetClient
from tidelog.config.loader import load_config
from tidelog.protocol.message_set.wire import fetch_request
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.protocol.schema import decode

FETCH_VERSION = 11
RECORDS_BYTES = 64 * 1024


class Calls:
    """Calls on sockets whose own port is `port`, as (name, bytes)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.port = 0
        self.seen: list[tuple[str, int]] = []
        for name in ("recv", "recv_into"):
            monkeypatch.setattr(socket.socket, name, self._watched(name), raising=False)

    def _watched(self, name: str) -> Callable[..., Any]:
        real = getattr(socket.socket, name)

        def call(sock: socket.socket, *arguments: Any) -> Any:
            result = real(sock, *arguments)
            if sock.family == socket.AF_INET and sock.getsockname()[1] == self.port:
                self.seen.append((name, result if isinstance(result, int) else len(result or b"")))
            return result

        return call


def batch_of(size: int) -> bytes:
    """One record, as it stands in the log. 80 bytes are about what a batch needs besides the value."""

    def build(value_bytes: int) -> bytes:
        return build_batch([Record(0, 1_700_000_000_000, None, bytes(value_bytes), ())], partition_leader_epoch=0)

    batch = build(size - 80)
    batch = build(size - 80 + size - len(batch))
    assert len(batch) == size
    return batch


async def test_a_fetch_of_64_kib_is_one_read_a_small_head_and_sendfile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch)
    settings = ["listeners=PLAINTEXT://127.0.0.1:0", "http.listener=", f"log.dirs={tmp_path}"]
    node = Node(load_config(None, {}, settings), asyncio.get_running_loop())
    await node.start()
    endpoint = node.socket_server.endpoints[0]
    calls.port = endpoint.port
    batch = batch_of(RECORDS_BYTES)

    def talk() -> tuple[bytes, int]:
        client = WireClient((endpoint.host, endpoint.port))
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 4, CreateTopicsResponse)
        data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])]
        client.ask(ProduceRequest(acks=1, timeout_ms=5000, topic_data=data), 8, ProduceResponse)
        wanted = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
        fetch = FetchRequest(
            max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic="t", partitions=wanted)]
        )
        client.ask(fetch, FETCH_VERSION, FetchResponse)  # what is done once, is done
        frame = request_frame(fetch, FETCH_VERSION)
        client.send(frame)
        answer = client.receive()
        client.socket.close()
        return answer, len(frame)

    try:
        answer, request_bytes = await asyncio.to_thread(talk)
    finally:
        await node.stop()

    response, _ = decode(FetchResponse, FETCH_VERSION, answer, 4)
    assert response.responses[0].partitions[0].records == batch
    seen = [call for call in calls.seen if call != ("recv_into", 0)]  # the end of the stream
    assert seen[-1] == ("recv_into", request_bytes)
    assert 4 + len(answer) - RECORDS_BYTES < 100, "only the header is copied"
    counters = node.socket_server.send_counters
    assert counters.sendfile_bytes == 2 * RECORDS_BYTES
    assert counters.copy_fetch_bytes == 0


async def test_a_message_set_of_64_kib_is_six_bytes_and_sendfile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(monkeypatch)
    settings = ["listeners=PLAINTEXT://127.0.0.1:0", "message.set.listeners=tcp://127.0.0.1:0", "http.listener="]
    node = Node(load_config(None, {}, [*settings, f"log.dirs={tmp_path}"]), asyncio.get_running_loop())
    await node.start()
    endpoint = node.socket_server.endpoints[0]
    calls.port = node.socket_server.message_set_endpoints[0].port
    batch = batch_of(RECORDS_BYTES)
    frame = fetch_request("t", 0, 0, 1 << 20)

    def talk() -> None:
        client = WireClient((endpoint.host, endpoint.port))
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 4, CreateTopicsResponse)
        client.socket.close()
        with MessageSetClient(endpoint.host, calls.port) as sets:
            sets.produce_set("t", 0, batch)
            for _ in range(3):
                assert len(sets.fetch("t", 0, 0).records) == 1

    try:
        await asyncio.to_thread(talk)
    finally:
        await node.stop()
    seen = [call for call in calls.seen if call != ("recv_into", 0)]
    assert seen[-3:] == [("recv_into", len(frame))] * 3
    counters = node.socket_server.send_counters
    assert counters.sendfile_bytes == 3 * RECORDS_BYTES
    assert counters.copy_fetch_bytes == 0
