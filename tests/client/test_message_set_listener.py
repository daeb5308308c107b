"""The message-set listener by wire: sendfile and nothing else, limits, pipelining, garbage, and readers that do not read."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import urllib.request
from collections.abc import Iterator

import pytest
from support import message_sets as by_hand
from support.daemon import Daemon
from support.message_sets import FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS, PRODUCE, request
from support.patience import PATIENCE_S, until
from support.wire_client import WireClient
from tidelog.clients.message_set_client import MessageSetClient
from tidelog.protocol.message_set import NewRecord
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.memory_records import iterate_batches

MAX_REQUEST = 1 << 20
INVALID_REQUEST = 42
MIB = 1 << 20


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = {
        "message.set.listeners": "tcp://127.0.0.1:0,tcp://127.0.0.1:0",
        "socket.request.max.bytes": MAX_REQUEST,
        "max.connections": 50,
        "max.connections.per.ip": 50,
    }
    with Daemon(tmp_path_factory.mktemp("message-set-listener") / "data", settings) as running:
        with WireClient(running.address) as client:
            for name in ("t", "large", "garbage", "quiet"):
                topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
                client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 4, CreateTopicsResponse)
        with MessageSetClient(*running.message_set_address) as filler:
            data = filler.message_set([NewRecord(bytes(500_000))])
            for _ in range(40):
                filler.produce_set("large", 0, data)
        yield running


class Wire:
    """A plain socket with bounded waits."""

    def __init__(self, daemon: Daemon) -> None:
        self.socket = socket.create_connection(daemon.message_set_address, timeout=PATIENCE_S)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> tuple[int, bytes]:
        """(error, what follows it) of the next answer; EOFError when the connection is closed instead."""
        (total,) = struct.unpack(">i", self._read(4))
        answer = self._read(total)
        return struct.unpack_from(">h", answer)[0], answer[2:]

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return bytes(data)

    def is_closed_by_peer(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


@pytest.fixture
def wire(daemon: Daemon) -> Iterator[Wire]:
    with Wire(daemon) as made:
        yield made


def metric(daemon: Daemon, name: str) -> float:
    with urllib.request.urlopen(f"http://{daemon.http}/metrics", timeout=PATIENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + " "))


def test_each_listener_is_in_the_ready_line_and_serves(daemon: Daemon) -> None:
    addresses = [part.removeprefix("tcp://") for part in daemon.ready_line.split() if part.startswith("tcp://")]
    assert len(set(addresses)) == 2
    for address in addresses:
        host, _, port = address.rpartition(":")
        with MessageSetClient(host, int(port)) as client:
            assert client.offsets("t", 1) == [0]


def test_kafka_clients_are_told_of_kafkas_listener_only(daemon: Daemon) -> None:
    with WireClient(daemon.address) as client:
        answer = client.ask(MetadataRequest(topics=[]), 1, MetadataResponse)
    assert [(broker.host, broker.port) for broker in answer.brokers] == [daemon.address]


def test_fetched_bytes_go_by_sendfile(daemon: Daemon, wire: Wire) -> None:
    before = metric(daemon, 'tidelog_fetch_bytes_total{path="sendfile"}')
    wire.send(request(FETCH, by_hand.fetch("large", 0, 3, 4 * MIB)))
    error, data = wire.receive()
    assert (error, len(data), struct.unpack_from(">q", data)[0]) == (0, 4 * MIB, 3)
    assert metric(daemon, 'tidelog_fetch_bytes_total{path="sendfile"}') == before + 4 * MIB
    assert metric(daemon, 'tidelog_fetch_bytes_total{path="copy"}') == 0
    assert metric(daemon, 'tidelog_message_set_requests_total{type="fetch"}') >= 1


def test_requests_may_be_sent_ahead_and_are_answered_in_order(wire: Wire) -> None:
    ahead = 300
    wire.send(b"".join(request(FETCH, by_hand.fetch("large", 0, 0, size)) for size in range(ahead)))
    assert [len(wire.receive()[1]) for _ in range(ahead)] == list(range(ahead))
    kinds = [
        request(PRODUCE, by_hand.produce("nowhere", 0, b"")),
        request(OFFSETS, by_hand.fetch("t", 1, -1, 1)),
        request(MULTIFETCH, by_hand.many()),
        request(99, b""),
        request(MULTIPRODUCE, by_hand.many()),
    ]
    wire.send(b"".join(kinds * 20))
    wanted = [(3, struct.pack(">q", -1)), (0, struct.pack(">iq", 1, 0)), (0, b""), (INVALID_REQUEST, b""), (0, b"")]
    assert [wire.receive() for _ in range(100)] == wanted * 20


def test_a_frame_may_come_byte_by_byte(wire: Wire) -> None:
    wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in request(OFFSETS, by_hand.fetch("t", 1, -2, 1)):
        wire.send(bytes([byte]))
    assert wire.receive() == (0, struct.pack(">iq", 1, 0))


@pytest.mark.parametrize("size", [-1, -(1 << 31), MAX_REQUEST + 1, (1 << 31) - 1])
def test_a_size_beyond_the_limit_ends_the_connection(daemon: Daemon, wire: Wire, size: int) -> None:
    before = len(daemon.stderr())
    wire.send(struct.pack(">ih", size, FETCH))
    assert wire.is_closed_by_peer()
    until(lambda: len(daemon.stderr_lines_since(before)) > 0, "it is logged")
    (line,) = daemon.stderr_lines_since(before)
    assert f"a request of {size} bytes is announced; socket.request.max.bytes allows {MAX_REQUEST}" in line


def test_half_frames_hold_little_memory_and_nobody_up(daemon: Daemon) -> None:
    before = daemon.usage().rss_bytes
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            half = stack.enter_context(Wire(daemon))
            half.send(struct.pack(">ih", MAX_REQUEST, PRODUCE) + b"half")
        with Wire(daemon) as other:
            other.send(request(OFFSETS, by_hand.fetch("t", 1, -1, 1)))
            assert other.receive()[0] == 0
        assert daemon.usage().rss_bytes - before < 40 * (MAX_REQUEST + MAX_REQUEST // 2)


def test_readers_that_do_not_read_cost_no_memory(daemon: Daemon) -> None:
    """Thirty of them, each with 20 MB on the way a hundred times over; another is served meanwhile."""
    before = daemon.usage().rss_bytes
    whole = request(FETCH, by_hand.fetch("large", 0, 0, 20 * MIB))
    with contextlib.ExitStack() as stack:
        stalled = [stack.enter_context(Wire(daemon)) for _ in range(30)]
        for wire in stalled:
            wire.send(whole * 100)
        with Wire(daemon) as other:
            other.send(whole)
            assert len(other.receive()[1]) > 19 * MIB
        assert daemon.usage().rss_bytes - before < 30 * MIB
    until(lambda: metric(daemon, "tidelog_message_set_connections") == 0, "all have gone")


def test_connections_are_limited_with_those_of_kafka(daemon: Daemon) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(Wire(daemon))
        with Wire(daemon) as beyond:
            assert beyond.is_closed_by_peer()
        with socket.create_connection(daemon.address, timeout=PATIENCE_S) as kafkas:
            assert kafkas.recv(1) == b""


@pytest.mark.parametrize("max_magic", [0, 1])
def test_newer_formats_are_converted_and_only_they_are_copied(
    tmp_path_factory: pytest.TempPathFactory, max_magic: int
) -> None:
    settings = {"message.set.listeners": "tcp://127.0.0.1:0", "message.set.max.magic": max_magic}
    with Daemon(tmp_path_factory.mktemp("max-magic") / "data", settings) as daemon:
        with WireClient(daemon.address) as client:
            for name, version in (("old", "0.9.0" if max_magic == 0 else "0.10.2"), ("new", "3.0-IV1")):
                config = CreatableTopicConfig(name="message.format.version", value=version)
                topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=[config])
                client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 4, CreateTopicsResponse)
        values = [b"%d" % number * 100 for number in range(1200)]
        with MessageSetClient(*daemon.message_set_address) as client:
            for name in ("old", "new"):
                for start in range(0, 1200, 100):
                    codec = list(Compression)[start // 100 % 4]
                    client.produce(
                        name, 0, [NewRecord(v, b"k") for v in values[start : start + 100]], compression=codec
                    )
                for fetch_size in (100, 5000, 1 << 20):
                    assert [record.value for record in client.read(name, 0, fetch_size=fetch_size)] == values
                with Wire(daemon) as wire:
                    for body in (by_hand.fetch(name, 0, 150, 1 << 20), by_hand.fetch(name, 0, 1000, 1 << 20)):
                        wire.send(request(FETCH, body))
                        error, data = wire.receive()
                        assert error == 0
                        assert {header.magic for header in iterate_batches(data)} == {max_magic}
                        wire.send(request(MULTIFETCH, by_hand.many(body, by_hand.fetch(name, 0, 99_999, 1), body)))
                        send = struct.pack(">ih", 2 + len(data), 0) + data
                        assert wire.receive() == (0, send + struct.pack(">ih", 2, 1) + send)
                copied = metric(daemon, 'tidelog_fetch_bytes_total{path="copy"}')
                assert (copied > 0) == (name == "new")


def mutated(chance: random.Random, good: list[bytes]) -> bytes:
    """One or two good requests, bent: bits, sizes, counts, pieces cut out or put in. Sizes are made right most times."""
    data = bytearray(b"".join(chance.choices(good, k=chance.choice([1, 1, 2]))))
    for _ in range(chance.choice([1, 1, 2, 6])):
        at = chance.randrange(4, len(data))
        action = chance.randrange(6)
        if action == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif action == 1:
            data[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif action == 2 and len(data) > 20:
            del data[at : at + chance.randint(1, 9)]
        elif action == 3:
            data[at:at] = chance.randbytes(chance.randint(1, 9))
        elif action == 4:
            data[at : at + 4] = struct.pack(">i", chance.choice([-1, -2, 0, 1, 1 << 24, (1 << 31) - 1, -(1 << 31)]))
        else:
            data[at : at + 2] = struct.pack(">h", chance.choice([-1, 0, 0x7FFF, 1001]))
    if chance.random() < 0.9:
        data[:4] = struct.pack(">i", len(data) - 4)
    return bytes(data)


def framing(data: bytes) -> str:
    """Whether the stream ends with a whole frame, waits for more of one, or breaks the limit."""
    position = 0
    while position + 4 <= len(data):
        (size,) = struct.unpack_from(">i", data, position)
        if not 0 <= size <= MAX_REQUEST:
            return "refused"
        position += 4 + size
    return "whole" if position == len(data) else "cut off"


@pytest.mark.parametrize("seed", range(8))
def test_garbage_is_answered_or_ends_its_connection_and_harms_nobody(daemon: Daemon, seed: int) -> None:
    chance = random.Random(seed)
    with MessageSetClient(*daemon.message_set_address) as client:
        sets = [client.message_set([NewRecord(b"v", b"k")] * 3, magic=magic) for magic in (0, 1, 2)]
        good = [
            *(request(PRODUCE, by_hand.produce("garbage", 0, data)) for data in sets),
            request(FETCH, by_hand.fetch("garbage", 0, 0, 5000)),
            request(OFFSETS, by_hand.fetch("garbage", 0, -1, 4)),
            request(MULTIFETCH, by_hand.many(*[by_hand.fetch("garbage", 0, 0, 500)] * 3)),
            request(MULTIPRODUCE, by_hand.many(*(by_hand.produce("garbage", 0, data) for data in sets))),
        ]
        lines = len(daemon.stderr())
        answered = 0
        wire = Wire(daemon)
        for _ in range(300):
            data = mutated(chance, good) if chance.random() < 0.9 else chance.randbytes(chance.randint(1, 200))
            wire.send(data)
            outcome = framing(data)
            if outcome == "whole":
                wire.send(request(OFFSETS, by_hand.fetch("quiet", 1, -2, 7)))
                while wire.receive() != (0, struct.pack(">iq", 1, 0)):
                    pass  # what the garbage is answered with is its own affair
                answered += 1
                continue
            if outcome == "refused":
                with contextlib.suppress(EOFError, ConnectionError):
                    while True:
                        wire.receive()
            wire.socket.close()
            wire = Wire(daemon)
        wire.socket.close()
        assert answered > 100
        assert client.offsets("quiet", 1) == [0]
        # What was taken is sound: every checksum is looked at.
        assert len(list(client.read("garbage", 0))) == client.offsets("garbage", 0)[0]
    assert not [line for line in daemon.stderr_lines_since(lines) if "Traceback" in line or "ERROR" in line]
    assert daemon.usage().rss_peak_bytes < 250 * MIB
