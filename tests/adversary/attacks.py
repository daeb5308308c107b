"""The attacks, as a program: what one hostile process can do with real sockets.

    python tests/adversary/attacks.py NAME PLAIN_PORT TLS_PORT SASL_PORT CONNECTIONS

It says `attacking N` when its connections are there (N of them), and goes on until its standard input ends. It runs at the
lowest priority: on one machine with its victim, it shall take what it can reach by the network, and not the processor.
"""

from __future__ import annotations

import os
import random
import resource
import select
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.wire_client import request_frame
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

HOST = "127.0.0.1"
TOPIC = "victim"


class World:
    """Where the victim is, and how many connections there shall be."""

    def __init__(self, plain: int, tls: int, sasl: int, connections: int) -> None:
        self.plain, self.tls, self.sasl = plain, tls, sasl
        self.connections = connections
        self.random = random.Random(1)
        self.sockets: list[socket.socket] = []

    def connect(self, port: int) -> socket.socket | None:
        """A connection that is kept; None where the victim or this machine has no more."""
        try:
            made = socket.create_connection((HOST, port), timeout=5)
        except OSError:
            return None
        made.setblocking(False)
        self.sockets.append(made)
        return made

    def connect_all(self, port: int, first: bytes = b"") -> None:
        for _ in range(self.connections):
            made = self.connect(port)
            if made is None:
                break
            with suppress(OSError):
                made.send(first)
        announce(len(self.sockets))


def announce(connections: int) -> None:
    print(f"attacking {connections}", flush=True)


def over() -> bool:
    """Whether standard input has ended."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def pause(seconds: float) -> bool:
    """Waits; True when it is over meanwhile."""
    return bool(select.select([sys.stdin], [], [], seconds)[0])


def half_open(world: World) -> None:
    """Connections that say nothing."""
    world.connect_all(world.plain)
    while not pause(0.5):
        pass


def half_requests(world: World) -> None:
    """Each announces 12 MiB, sends as much as it can at once, and then a byte now and then."""
    world.connect_all(world.plain, struct.pack(">ihhi", 12 << 20, 0, 9, 1))
    block = bytes(64 * 1024)
    for one in world.sockets:
        with suppress(OSError):
            one.send(block)
    while not pause(0.5):
        for one in world.sockets:
            with suppress(OSError):
                one.send(b"x")


def byte_by_byte(world: World) -> None:
    """Requests that are right, a byte at a time."""
    data = request_frame(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 1)
    world.connect_all(world.plain)
    at = 0
    while not pause(0.2):
        for one in world.sockets:
            with suppress(OSError):
                one.send(data[at % len(data) :][:1])
        at += 1


def tls_stops(world: World) -> None:
    """TLS handshakes that stop in the middle of the first message, again and again."""
    hello = bytes.fromhex("1603010200010001fc0303") + bytes(200)
    world.connect_all(world.tls, hello)
    while not pause(0.05):
        for _ in range(5):
            old = world.sockets.pop(0) if len(world.sockets) >= world.connections else None
            if old is not None:
                old.close()
            made = world.connect(world.tls)
            if made is not None:
                with suppress(OSError):
                    made.send(hello)


def garbage(world: World) -> None:
    """What is no request, to each listener."""
    announce(0)
    while not pause(0.005):
        for port in (world.plain, world.tls, world.sasl):
            with suppress(OSError), socket.create_connection((HOST, port), timeout=1) as one:
                size = world.random.choice((0, 4, 100, 5000))
                lead = world.random.choice((b"", struct.pack(">i", size), b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x08"))
                one.sendall(lead + world.random.randbytes(size))


def slow_readers(world: World) -> None:
    """Ask for much and take nothing."""
    fetch = FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=50 << 20,
        topics=[
            FetchTopic(
                topic="big", partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 << 20)]
            )
        ],
    )
    names = [MetadataRequestTopic(name=f"no-such-topic-{n:05}") for n in range(2000)]
    metadata = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    asks = [request_frame(fetch, 4) * 3, request_frame(metadata, 4) * 20]
    for index in range(world.connections):
        made = world.connect(world.plain)
        if made is None:
            break
        with suppress(OSError):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            made.send(asks[index % 2])
    announce(len(world.sockets))
    while not pause(0.5):
        for index, one in enumerate(world.sockets):
            with suppress(OSError):
                one.send(asks[index % 2])


def bombs(world: World) -> None:
    """Batches of each codec that grow to 64 MiB, some to more than is allowed; as fast as they are answered."""
    made = []
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        size = (64 << 20) if codec is not Compression.SNAPPY else 10 << 20
        made.append(build_batch([Record(0, 0, b"k", bytes(size))], compression=codec))
    made.append(build_batch([Record(0, 0, b"k", bytes(160 << 20))], compression=Compression.ZSTD))
    frames = [
        request_frame(
            ProduceRequest(
                acks=1,
                timeout_ms=1000,
                topic_data=[
                    TopicProduceData(name="bombed", partition_data=[PartitionProduceData(index=0, records=one)])
                ],
            ),
            9,
        )
        for one in made
    ]
    announce(8)
    links = []
    while not over():
        while len(links) < 8:
            link = socket.create_connection((HOST, world.plain), timeout=60)
            links.append(link)
        for link in list(links):
            try:
                link.sendall(world.random.choice(frames))
            except OSError:
                links.remove(link)
        for link in list(links):
            try:
                if not link.recv(1000):
                    links.remove(link)
            except OSError:
                links.remove(link)


def huge_counts(world: World) -> None:
    """Requests whose counts are not true, and those that are as full of elements as may be."""
    lie = struct.pack(">ihhih", 18, 3, 1, 1, -1) + struct.pack(">i", 0x7FFFFFFF) + bytes(4)
    full = request_frame(MetadataRequest(topics=[MetadataRequestTopic(name="")] * 400_000), 1)
    most = request_frame(MetadataRequest(topics=[MetadataRequestTopic(name="a")] * 2000), 1)
    announce(0)
    while not pause(0.02):
        for data in (lie, full, most):
            with suppress(OSError), socket.create_connection((HOST, world.plain), timeout=2) as one:
                one.sendall(data)
                one.recv(100)


def failed_logins(world: World) -> None:
    """SASL PLAIN with wrong passwords, as many at once as there are connections."""
    shake = request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    token = request_frame(SaslAuthenticateRequest(auth_bytes=b"\0admin\0guess"), 1)
    announce(0)
    while not pause(0.02):
        batch = [made for made in (world.connect(world.sasl) for _ in range(5)) if made is not None]
        for one in batch:
            with suppress(OSError):
                one.send(shake + token)
        while len(world.sockets) > world.connections:
            world.sockets.pop(0).close()


def reconnects(world: World) -> None:
    """Connections that come and go."""
    announce(0)
    while not pause(0.005):
        for _ in range(10):
            with suppress(OSError):
                socket.create_connection((HOST, world.plain), timeout=1).close()


def deep_sessions(world: World) -> None:
    """Fetch sessions with thousands of partitions each, and never used again."""
    partitions = [FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=100) for n in range(3000)]
    data = request_frame(
        FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1000,
            session_id=0,
            session_epoch=0,
            topics=[FetchTopic(topic="no-such-topic", partitions=partitions)],
        ),
        11,
    )
    link = world.connect(world.plain)
    announce(1)
    while not pause(0.05):
        if link is None:
            link = world.connect(world.plain)
            continue
        link.settimeout(10)
        try:
            link.sendall(data)
            left = struct.unpack(">i", link.recv(4, socket.MSG_WAITALL))[0]
            while left > 0:
                left -= len(link.recv(left)) or left
        except (OSError, struct.error):
            link = None


ATTACKS: dict[str, Callable[[World], None]] = {
    attack.__name__: attack
    for attack in (
        half_open, half_requests, byte_by_byte, tls_stops, garbage, slow_readers, bombs, huge_counts, failed_logins,
        reconnects, deep_sessions,
    )
}  # fmt: skip


def main(name: str, plain: str, tls: str, sasl: str, connections: str) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.nice(19)
    ATTACKS[name](World(int(plain), int(tls), int(sasl), int(connections)))


if __name__ == "__main__":
    main(*sys.argv[1:])
