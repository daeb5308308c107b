"""The edge, with real sockets: a broker in this process, and what is sent to each of its listeners. No bytes may make it fail:
a defect is a log line with a traceback, an answer that says so, or a broker that does not answer the next client.

Which inputs came before may matter here, and what a finding shows is the last one. TLS has no broker around it: its records
are fed to a connection.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import random
import re
import socket
import ssl
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import trustme
from fuzz.target import target
from fuzz.targets.records import RECORDS
from fuzz.targets.wire import REQUESTS
from support.connections import Server, Transport
from support.inside import services_of
from support.messages import random_struct
from tidelog.broker.network.connection import Connection
from tidelog.broker.network.socket_server import Endpoint
from tidelog.broker.network.tls_connection import TlsConnection
from tidelog.broker.requests.registry import load_apis
from tidelog.broker.runtime.exceptions import ConnectionAborted
from tidelog.broker.security.principal import parse_rules
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ProtocolError
from tidelog.protocol.headers import RequestHeader, parse_request_header, request_header_bytes
from tidelog.protocol.message_set import wire as message_set
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.schema import INT32, INT64, STRING, UUIDS, Field, Struct, decode, encode
from tidelog.testing import Broker

TOPIC_ID = b"an id that is t's"[:16]
"""Stands for the topic's id in an input."""
MOST_PARTITIONS = 20
#: A request that waits is not waited for.
PATIENCE_S = 0.1
#: Connections are taken by the kernel: only a machine that stands still is slower.
CONNECT_S = 300
_SIZE = struct.Struct(">H")
_FRAME = struct.Struct(">i")
_TOO_MANY_INPUTS = 3000


class Defects(logging.Handler):
    """Log lines that say that something was not foreseen."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        is_repr = "closed: " in (text := record.getMessage()) and re.search(
            r"closed: [A-Z]\w+(Error|Exception)\(", text
        )
        if (
            is_repr
            or (error is not None and not isinstance(error, OSError))
            or (record.levelno >= logging.ERROR and record.name == "asyncio")
        ):
            self.found.append(logging.Formatter().format(record))


class FuzzedBroker:
    """A broker, made with the first input and made anew after many."""

    def __init__(self, **settings: str) -> None:
        """`settings`: those that differ, with underscores for dots."""
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.defects = Defects()
        logging.getLogger().addHandler(self.defects)
        logging.getLogger("tidelog.broker.http.server").setLevel(logging.DEBUG)
        for name in ("tidelog", "asyncio"):
            logging.getLogger(name).addHandler(logging.NullHandler())
        logging.lastResort = None
        self._inputs = 0
        self._broker: Broker | None = None
        self.topic_id = bytes(16)
        atexit.register(self._close)

    def _close(self) -> None:
        if self._broker is not None:
            self._broker.close()
            self._broker = None

    @property
    def broker(self) -> Broker:
        if self._broker is None:
            settings = {
                "http.listener": "127.0.0.1:0",
                "message.set.listeners": "tcp://127.0.0.1:0",
                "num.partitions": 1,
                "offsets.topic.num.partitions": 1,
                "transaction.state.log.num.partitions": 1,
                "share.coordinator.state.topic.num.partitions": 1,
                "log.segment.bytes": 1 << 20,
                "log.index.size.max.bytes": 4096,
            }
            self._broker = Broker({**settings, **self._settings}).open()
            self._broker.create_topic("t", 2)
            self.prepare(self._broker)
            services = services_of(self._broker)
            self.topic_id = services.topics.get("t").topic_id.bytes
        return self._broker

    def prepare(self, broker: Broker) -> None:
        """Gives a new broker what else it is to have."""
        broker.create_topic("in-gzip", config={"compression.type": "gzip"})
        broker.create_topic("old", config={"message.format.version": "0.10.0"})

    def send(self, address: str, data: bytes) -> bytes:
        """What came back until the other side had nothing more to say, or took its time."""
        host, _, port = address.rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S) as client:
            answer = b""
            try:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                client.settimeout(PATIENCE_S)
                while chunk := client.recv(1 << 16):
                    answer += chunk
            except OSError:
                pass
            return answer

    def settle(self) -> None:
        """Raises what the input has made."""
        found, self.defects.found = self.defects.found, []
        assert not found, found[0]
        self._inputs += 1
        if self._inputs % _TOO_MANY_INPUTS == 0:
            self._close()


EDGE = FuzzedBroker()


def kafka_requests() -> Iterator[bytes]:
    """For each API its newest version, with a topic, a group and a transactional id that may be there."""
    rng = random.Random("edge")

    def known(rng: random.Random, _: type[Struct], field: Field) -> Any:
        if field.element is STRING:
            return rng.choice(["t", "in-gzip", "old", "group", "transaction", "member", "consumer", "8", ""])
        if field.element is UUIDS:
            return TOPIC_ID
        if field.element in (INT32, INT64) and field.name.endswith(("_ms", "_bytes")):
            return rng.choice([0, 1, 1000])
        if field.element is INT32 and field.name in (
            "partition",
            "partition_index",
            "index",
            "partitions",
            "partition_indexes",
        ):
            return rng.choice([0, 1])
        if field.name == "records":
            return build_batch(RECORDS)
        return ...

    for key, registration in load_apis().items():
        for version in {registration.min_version, registration.max_version}:
            for _ in range(2):
                body = encode(random_struct(rng, REQUESTS[ApiKey(key)], version, known), version)
                frame = request_header_bytes(RequestHeader(key, version, 7, "fuzz")) + body
                if len(frame) < 1500:
                    yield _SIZE.pack(len(frame)) + frame
    huge = b"\xff" * 0x7FFF  # becomes three times as long when it is written again
    yield _SIZE.pack(0xFFFF) + request_header_bytes(RequestHeader(3, 1, 7, None)) + struct.pack(">ih", 1, 0x7FFF) + huge


def frames_of(data: bytes) -> Iterator[bytes]:
    while len(data) > 2:
        (size,) = _SIZE.unpack_from(data)
        yield data[2 : 2 + size]
        data = data[2 + size :]


def is_modest(frame: bytes) -> bool:
    """Whether it does not ask for thousands of partitions: they would be made, and that takes its time."""
    try:
        header, position = parse_request_header(frame)
        if header.api_key not in (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS):
            return True
        request: Any = decode(REQUESTS[ApiKey(header.api_key)], header.api_version, frame, position)[0]
    except ProtocolError:
        return True
    counts = [getattr(topic, "num_partitions", 0) + getattr(topic, "count", 0) for topic in request.topics]
    return sum(max(1, count) for count in counts) <= MOST_PARTITIONS


@target(seeds=kafka_requests, max_input=40_000, extra=64 << 20, growth=4000)
def kafka_listener(data: bytes) -> None:
    """Requests behind each other, to handlers that are all there."""
    address = EDGE.broker.bootstrap_servers
    frames = [frame for frame in frames_of(data.replace(TOPIC_ID, EDGE.topic_id)) if is_modest(frame)]
    EDGE.send(address, b"".join(_FRAME.pack(len(frame)) + frame for frame in frames))
    EDGE.settle()


def raw_streams() -> Iterator[bytes]:
    frame = request_header_bytes(RequestHeader(18, 0, 7, "fuzz"))
    yield _FRAME.pack(len(frame)) + frame
    yield b"GET / HTTP/1.1\r\n\r\n"
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    yield _FRAME.pack(0x7FFFFFFF) + bytes(20)
    yield _FRAME.pack(message_set.TYPE_SIZE) + b"\0\1"
    yield message_set.fetch_request("t", 0, 0, 1000) + message_set.offsets_request("t", 0, -1, 1)
    yield message_set.produce_request("t", 0, bytes(build_batch(RECORDS)))
    yield message_set.multi_produce_request([("t", 0, b""), ("none", 5, bytes(30))])


@target(seeds=raw_streams, extra=64 << 20, growth=4000)
def raw_bytes(data: bytes) -> None:
    """Anything at all to the Kafka listener and to the one of the message-set protocol."""
    broker = EDGE.broker
    EDGE.send(broker.bootstrap_servers, data)
    EDGE.send(next(one for one in broker.addresses if one.startswith("tcp:")).removeprefix("tcp://"), data)
    EDGE.settle()


def http_requests() -> Iterator[bytes]:
    host = b"Host: localhost\r\n"
    for path in (b"/", b"/metrics", b"/health", b"/why/t/0", b"/topics/t", b"/topics?sort=x", b"/%ff%00/..%2f", b"//"):
        yield b"GET " + path + b" HTTP/1.1\r\n" + host + b"\r\n"
    form = b"Content-Type: application/x-www-form-urlencoded\r\n"
    for length in (b"3", b"-1", b"9" * 5000, "\u0663".encode(), b""):
        yield b"POST /topics/t HTTP/1.1\r\n" + host + form + b"Content-Length: " + length + b"\r\n\r\na=b"
        kind = b"Content-Type: application/json\r\n"
        yield b"POST /clean/t HTTP/1.1\r\n" + host + kind + b"Content-Length: " + length + b"\r\n\r\n{}"
    yield b"GET /clean/t/" + b"1" * 5000 + b"?wait=1e400 HTTP/1.1\r\n" + host + b"\r\n"
    yield b"HEAD /metrics HTTP/1.0\r\nAccept: \xff\r\nCookie: tidelog-console=x\r\n\r\n"
    yield b"GET /\r\n"


@target(seeds=http_requests, max_input=8192, extra=64 << 20, growth=4000)
def http_listener(data: bytes) -> None:
    """An answer to every request line, and none that says that the daemon failed."""
    address = EDGE.broker.http_url.removeprefix("http://")
    answer = EDGE.send(address, data)
    assert not answer.startswith((b"HTTP/1.0 500", b"HTTP/1.1 500")), answer[:200]
    EDGE.settle()


class Security:
    def __init__(self) -> None:
        authority = trustme.CA()
        self.tls_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(self.tls_context)
        self.client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authority.configure_trust(self.client_context)
        self.mapping_rules = parse_rules("DEFAULT")
        self.sasl = False
        self.handshake_timeout_ms = 60_000


class Echo:
    """A dispatcher that says what it got."""

    quick = None

    def dispatch(self, buffer: bytearray, start: int, end: int, connection: Connection) -> bytes:
        if end - start == 1:
            raise ConnectionAborted("as asked")
        return bytes(buffer[start:end])

    def answered(self, key: int, since: int) -> None:
        pass

    def name_of(self, key: int) -> str:
        return str(key)


SECURITY: list[Security] = []
POOL = ThreadPoolExecutor(1)


def tls_streams() -> Iterator[bytes]:
    hello = bytes.fromhex("0303") + bytes(32) + b"\0" + bytes.fromhex("0004c02fc030") + bytes.fromhex("0100")
    hello += bytes.fromhex("001b 000a00040002001d 000b00020100 000d00060004 04030804 ff0100 0100".replace(" ", ""))
    handshake = b"\1" + len(hello).to_bytes(3, "big") + hello
    yield b"\0\x16\x03\x01" + len(handshake).to_bytes(2, "big") + handshake
    yield b"\0\x15\x03\x03\0\2\2\x28"
    yield b"\0GET / HTTP/1.1\r\n\r\n"
    yield b"\1\x17\x03\x03\0\x20" + bytes(32)
    yield b"\1\x15\x03\x03\0\2\1\0"
    yield b"\2" + _FRAME.pack(5) + b"hello" + _FRAME.pack(1) + b"x"
    yield b"\2" + _FRAME.pack(-1)


def hand_shaken(connection: TlsConnection, far: socket.socket, give: Any) -> ssl.SSLObject:
    """The client's end after an honest handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = SECURITY[0].client_context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    for _ in range(10):
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            give(outgoing.read())
            incoming.write(far.recv(1 << 16))
            continue
        give(outgoing.read())
        break
    client.outgoing = outgoing  # type: ignore[attr-defined]
    return client


@target(seeds=tls_streams, extra=16 << 20)
def tls_records(data: bytes) -> None:
    """What a TLS connection reads: instead of a handshake, behind one, or what is within its records."""
    if not data:
        return
    if not SECURITY:
        SECURITY.append(Security())

    async def run() -> None:
        server: Any = Server(POOL, 1000)
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            far.settimeout(CONNECT_S)  # what is waited for has been sent
            transport = Transport(near)
            connection = TlsConnection(server, Endpoint("SSL", "SSL", "127.0.0.1", 1), Echo(), SECURITY[0])  # type: ignore[arg-type]
            connection.connection_made(transport)

            def give(part: bytes) -> None:
                while part and transport.reading and not transport.aborted:
                    view = connection.get_buffer(-1)
                    count = min(len(view), len(part))
                    view[:count] = part[:count]
                    connection.buffer_updated(count)
                    part = part[count:]

            content = data[1:]
            if data[0] % 3:
                client = hand_shaken(connection, far, give)
                if data[0] % 3 == 2 and content:
                    client.write(content)
                    content = client.outgoing.read()  # type: ignore[attr-defined]
            give(content[: len(content) // 2])
            give(content[len(content) // 2 :])
            connection.eof_received()
            connection.connection_lost(None)

    level = logging.getLogger("tidelog.broker.network.connection").level
    logging.getLogger("tidelog.broker.network.connection").setLevel(logging.CRITICAL)
    try:
        asyncio.run(run())
    finally:
        logging.getLogger("tidelog.broker.network.connection").setLevel(level)
