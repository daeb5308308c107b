"""The message-set protocol for tests: its bytes packed by hand, and a listener on a log without sockets."""

from __future__ import annotations

import inspect
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter_ns
from types import SimpleNamespace
from typing import Any

from support.inside import services_of
from support.logs import SMALL_INDEX, World
from support.topic_world import topic_world
from tidelog.broker.message_set.listener import MessageSetListener
from tidelog.broker.network.outbound import FileSlice, SendCounters
from tidelog.broker.requests.counters import RequestCounters
from tidelog.testing import Broker

PRODUCE, FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS = range(5)


def place(topic: str, partition: int) -> bytes:
    return struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">i", partition)


def fetch(topic: str, partition: int, offset: int, max_size: int) -> bytes:
    return place(topic, partition) + struct.pack(">qi", offset, max_size)


def produce(topic: str, partition: int, data: bytes) -> bytes:
    return place(topic, partition) + struct.pack(">i", len(data)) + data


def many(*bodies: bytes) -> bytes:
    return struct.pack(">h", len(bodies)) + b"".join(bodies)


def request(kind: int, body: bytes) -> bytes:
    """A whole frame."""
    return struct.pack(">ih", 2 + len(body), kind) + body


def message_set_address(broker: Broker, scheme: str = "tcp") -> tuple[str, int]:
    """Host and port of a test broker's message-set listener of that scheme."""
    (endpoint,) = [one for one in services_of(broker).socket_server.message_set_endpoints if one.name == scheme]
    return endpoint.host, endpoint.port


class FakeConnection:
    """What the listener looks at of a `Connection`."""

    def __init__(self) -> None:
        self.last_active = 0
        self.pending_key = -1
        self.pending_since = 0
        self.muted: list[int] = []
        self.user = "ANONYMOUS"
        self.client = "10.0.0.1"

    def mute(self, milliseconds: int) -> None:
        self.muted.append(milliseconds)

    def __str__(self) -> str:
        return "a connection"


class ListenerWorld:
    """Topics `t` (two partitions) and `u`, a listener on them, and requests to it without a socket."""

    def __init__(self, world: Any, machine: World) -> None:
        self.broker = world
        self.machine = machine
        world.counters = RequestCounters()
        world.fetch_max_bytes = 50 << 20
        self.sends = SendCounters()
        world.socket_server = SimpleNamespace(send_counters=self.sends, connections=set(), message_set_endpoints=[])
        world.quotas = SimpleNamespace(active=False)
        self.listener = MessageSetListener(world)
        self.connection = FakeConnection()

    def start(self, frame: bytes) -> Any:
        """What the listener says to a whole frame: an answer, or an awaitable of one."""
        buffer = bytearray(b"--" + frame + b"--")
        connection: Any = self.connection
        connection.last_active = perf_counter_ns()
        answer = self.listener.dispatch(buffer, 6, len(buffer) - 2, connection)
        buffer[:] = bytes(len(buffer))  # it is another request's now
        return answer

    async def ask(self, kind: int, body: bytes) -> tuple[int, bytes]:
        """(error, what follows it); gives the leases back."""
        answer = self.start(request(kind, body))
        if inspect.isawaitable(answer):
            answer = await answer
            self.listener.answered(self.connection.pending_key, self.connection.pending_since)
        return self.taken(answer)

    def taken(self, answer: Any) -> tuple[int, bytes]:
        data = b""
        for part in [answer] if isinstance(answer, bytes) else answer:
            if isinstance(part, FileSlice):
                data += part.file.pread(part.count, part.position)
                self.sends.sendfile_bytes += part.count
                part.release()
            else:
                data += part
        total, error = struct.unpack_from(">ih", data)
        assert total == len(data) - 4
        return error, data[6:]


@asynccontextmanager
async def listener_world(directory: Path, *, max_magic: int = 2, **settings: Any) -> AsyncIterator[ListenerWorld]:
    """`settings` are the topics'."""
    machine = World()
    async with topic_world(directory, machine.start(**settings), message_set_max_magic=max_magic) as topics:
        config = {"segment_index_bytes": SMALL_INDEX} | settings
        for topic, partitions in (("t", 2), ("u", 1)):
            await topics.topics.create(topic, partitions, {n.replace("_", "."): str(v) for n, v in config.items()})
        world = ListenerWorld(topics, machine)
        yield world
    machine.stop()
