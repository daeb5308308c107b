"""How many frames of Python's a common request costs, from the socket's bytes to its answer's: they are what it costs, and unlike
its time they are the same on each machine."""

from __future__ import annotations

import contextlib
import random
import socket
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from support.connections import Server, Transport, frame
from support.logs import World, batch
from support.mock_time import MockTimer
from support.topic_world import topic_world
from tidelog.broker.network.connection import Connection
from tidelog.broker.network.socket_server import Endpoint
from tidelog.broker.partitions.fetch_session import FetchSessions
from tidelog.broker.partitions.purgatory import FetchPurgatory
from tidelog.broker.produce_fetch._quick import QuickPath
from tidelog.broker.requests.counters import RequestCounters
from tidelog.broker.requests.dispatcher import Dispatcher
from tidelog.broker.requests.registry import load_apis
from tidelog.protocol.headers import RequestHeader, request_header_bytes
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.schema import encode
from tidelog.storage.clock import SystemTime
from tidelog.storage.io.filesystem import RealFileSystem

MOST_FRAMES = 6
MOST_FRAMES_OF_A_BUFFER = 15
RECEIVING = ("Connection", "ReceiveBuffer", "RequestMemoryBudget", "BufferPool", "room_for_frame")


class Client:
    """The far end of a connection to a node with a topic `t`, all of it ours."""

    def __init__(self, world: Any, machine: World, pool: ThreadPoolExecutor) -> None:
        # As the node's: the clock is the system's.
        world.time = SystemTime()
        world.fetch_sessions = FetchSessions(10, machine.time, random.Random(1))
        world.purgatory = FetchPurgatory(world.loop, MockTimer(machine.time))
        world.counters = RequestCounters()
        world.fetch_max_bytes = 1 << 20
        self.server = Server(pool)
        world.socket_server = SimpleNamespace(send_counters=self.server.send_counters)
        dispatcher = Dispatcher(world, load_apis())
        dispatcher.quick = QuickPath(world, dispatcher.metered).take
        self.near, self.far = socket.socketpair()
        for end in (self.near, self.far):
            end.setblocking(False)
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)
        self.connection = Connection(self.server, endpoint, dispatcher)  # type: ignore[arg-type]
        self.connection.connection_made(Transport(self.near))

    def ask(self, request: bytes) -> list[str]:
        """The functions of Python that ran for it."""
        called: list[str] = []

        def note(at: FrameType, event: str, _argument: object) -> None:
            if event == "call" and "tests" not in Path(at.f_code.co_filename).parts:
                called.append(at.f_code.co_qualname)

        data = frame(request)
        before = sys.getprofile()
        while data:
            view = self.connection.get_buffer(-1)
            count = min(len(view), len(data))
            view[:count], data = data[:count], data[count:]
            sys.setprofile(note)
            try:
                self.connection.buffer_updated(count)
            finally:
                sys.setprofile(before)
        self.got = 0
        with contextlib.suppress(BlockingIOError):
            while data := self.far.recv(1 << 20):
                self.got += len(data)
        assert self.got > 20
        return called

    def end(self) -> None:
        self.connection.close()
        self.connection.connection_lost(None)
        self.near.close()
        self.far.close()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    (tmp_path / "logs").mkdir()
    machine = World(RealFileSystem(), directories=[str(tmp_path / "logs")])
    async with topic_world(tmp_path, machine.start()) as world:
        await world.topics.create("t", 1, {})
        world.partitions.get("t", 0)
        with ThreadPoolExecutor(1) as pool:
            made = Client(world, machine, pool)
            yield made
            made.end()
    machine.stop()


def produce(size: int = 1000) -> bytes:
    part = PartitionProduceData(index=0, records=bytes(batch("a" * size)))
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[part])])
    return request_header_bytes(RequestHeader(0, 9, 7, "client")) + encode(request, 9)


def fetch(most: int = 1) -> bytes:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=most)
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic="t", partitions=[part])]
    )
    return request_header_bytes(RequestHeader(1, 12, 7, "client")) + encode(request, 12)


@pytest.mark.parametrize("request_of", [produce, fetch])
async def test_a_warm_request_costs_few_frames(client: Client, request_of: Callable[[], bytes]) -> None:
    for _ in range(3):
        client.ask(produce())
    # Each 4 KiB an entry goes to each index.
    called = min((client.ask(request_of()) for _ in range(4)), key=len)
    called = [name for name in called if name not in ("Server.now", "Server.thread_now")]  # the server's is a clock
    assert len(called) <= MOST_FRAMES, "\n".join(called)


async def test_a_produce_with_an_entry_to_each_index_costs_three_frames_more(client: Client) -> None:
    for _ in range(8):
        client.ask(produce())
    called = max((client.ask(produce()) for _ in range(8)), key=len)
    called = [name for name in called if name not in ("Server.now", "Server.thread_now")]
    assert "OffsetIndex.append" in called
    assert len(called) <= MOST_FRAMES + 3, "\n".join(called)


async def test_a_produce_that_comes_in_two_reads_costs_the_hand_over_of_its_buffer_more(client: Client) -> None:
    """Of 64,000 bytes, above what one read takes: the scratch buffer's part is moved to a buffer of its own, which is given back.

    Each has entries in the indexes: three frames of the most that are allowed here.
    """
    for _ in range(3):
        client.ask(produce(64_000))
    called = min((client.ask(produce(64_000)) for _ in range(3)), key=len)
    called = [name for name in called if name not in ("Server.now", "Server.thread_now")]
    handed_over = [name for name in called if name.split(".")[0] in RECEIVING]
    assert handed_over.count("ReceiveBuffer.__init__") == 1
    assert len(handed_over) <= MOST_FRAMES_OF_A_BUFFER, "\n".join(handed_over)
    assert len(called) <= MOST_FRAMES + 3 + MOST_FRAMES_OF_A_BUFFER, "\n".join(called)


async def test_a_slice_that_is_sent_from_its_file_costs_as_few(client: Client) -> None:
    for _ in range(3):
        client.ask(produce(60_000))
    called = min((client.ask(fetch(65_536)) for _ in range(3)), key=len)
    assert client.got > 65_536
    called = [name for name in called if name not in ("Server.now", "Server.thread_now")]
    assert len(called) <= MOST_FRAMES + 2, "\n".join(called)
