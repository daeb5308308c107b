"""Bad input over raw sockets: a clear error or a closed connection, nothing lost, nothing leaked, the others unharmed.

Requests and batches are packed by hand here, so that the daemon's own codecs are not their own judge. Apache Kafka
passes all but what is marked as stricter.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import crc32c
import pytest
from support.clients.librdkafka import LibrdkafkaDriver
from support.daemon import Daemon
from support.patience import until

MakeTopic = Callable[..., str]

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
NONE, OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION = 0, 1, 2, 3
MESSAGE_TOO_LARGE, INVALID_REQUIRED_ACKS, UNSUPPORTED_VERSION = 10, 21, 35
UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD = 76, 87
GZIP, ZSTD, CONTROL = 1, 4, 0x20


# -- bytes by hand -----------------------------------------------------------------------------------------------------


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def request(key: int, version: int, body: bytes = b"", correlation_id: int = 7) -> bytes:
    """A framed request with the header of non-flexible versions."""
    message = struct.pack(">hhi", key, version, correlation_id) + text("bad-input") + body
    return struct.pack(">i", len(message)) + message


def varint(value: int) -> bytes:
    rest, out = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def record(offset_delta: int, value: bytes, key: bytes | None = None) -> bytes:
    key_bytes = varint(-1) if key is None else varint(len(key)) + key
    body = b"\0" + varint(0) + varint(offset_delta) + key_bytes + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


@dataclass(frozen=True)
class Batch:
    """A V2 batch that can be wrong in any field; None takes the right value."""

    records: Sequence[bytes]
    attributes: int = 0
    magic: int = 2
    length: int | None = None
    crc: int | None = None
    count: int | None = None
    last_offset_delta: int | None = None

    def pack(self) -> bytes:
        count = len(self.records) if self.count is None else self.count
        last = len(self.records) - 1 if self.last_offset_delta is None else self.last_offset_delta
        now = int(time.time() * 1000)
        checked = struct.pack(">hiqqqhii", self.attributes, last, now, now, -1, -1, -1, count) + b"".join(self.records)
        crc = crc32c.crc32c(checked) if self.crc is None else self.crc
        rest = struct.pack(">ibI", -1, self.magic, crc) + checked
        return struct.pack(">qi", 0, len(rest) if self.length is None else self.length) + rest


GOOD = Batch([record(0, b"good")])


def produce(topic: str, *partitions: tuple[int, bytes], acks: int = -1, version: int = 8) -> bytes:
    data = b"".join(struct.pack(">ii", index, len(records)) + records for index, records in partitions)
    body = struct.pack(">hhii", -1, acks, 10_000, 1) + text(topic) + struct.pack(">i", len(partitions)) + data
    return request(PRODUCE, version, body)


def fetch(topic: str, partition: int, offset: int) -> bytes:
    body = struct.pack(">iiiibiii", -1, 100, 1, 1 << 20, 0, 0, -1, 1) + text(topic)
    body += struct.pack(">iiiqqi", 1, partition, -1, offset, -1, 1 << 20) + struct.pack(">i", 0) + text("")
    return request(FETCH, 11, body)


class Connection:
    """A plain socket; everything on it is bounded in time."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return data

    def receive(self) -> bytes:
        """The next response without its size and correlation id, which must be request()'s; EOFError when closed."""
        size, correlation_id = struct.unpack(">ii", self._read(8))
        assert correlation_id == 7
        return self._read(size - 4)

    def is_closed_by_peer(self) -> bool:
        """Waits for the end of the stream (or a reset); TimeoutError when the connection stays open."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def ping(self) -> None:
        """An ApiVersions request that must be answered."""
        self.send(request(API_VERSIONS, 0))
        assert struct.unpack_from(">h", self.receive()) == (NONE,)

    def produce_errors(self, topic: str, *partitions: tuple[int, bytes], acks: int = -1) -> dict[int, tuple[int, int]]:
        """Produce v8; by partition the error and the base offset."""
        self.send(produce(topic, *partitions, acks=acks))
        answer = self.receive()
        position = 4 + 2 + len(topic) + 4
        found = {}
        for _ in partitions:
            index, error, base_offset = struct.unpack_from(">ihq", answer, position)
            found[index] = (error, base_offset)
            position += 4 + 2 + 8 + 8 + 8
            (record_errors,) = struct.unpack_from(">i", answer, position)
            position += 4
            for _ in range(record_errors):
                position += 4 + 2 + max(0, struct.unpack_from(">h", answer, position + 4)[0])
            position += 2 + max(0, struct.unpack_from(">h", answer, position)[0])
        return found

    def fetch_error(self, topic: str, partition: int, offset: int) -> int:
        """Fetch v11; the partition's error."""
        self.send(fetch(topic, partition, offset))
        answer = self.receive()
        position = 4 + 2 + 4 + 4 + 2 + len(topic) + 4
        index, error = struct.unpack_from(">ih", answer, position)
        assert index == partition
        return int(error)

    def close(self) -> None:
        self.socket.close()


# -- fixtures ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def settled(make_topic: MakeTopic) -> None:
    """The client behind make_topic keeps its connections; it has them all after its first topic."""
    make_topic("bad-first")


@pytest.fixture(autouse=True)
def others(settled: None, bootstrap: str, daemon: Daemon | None) -> Iterator[None]:
    """Around each test: another connection works on, and the sockets that the daemon holds are as many as before."""
    other = Connection(bootstrap)
    other.ping()
    before = daemon.sockets() if daemon is not None else 0
    yield
    other.ping()
    if daemon is not None:
        until(lambda: daemon.sockets() <= before, "the daemon holds no more sockets than before")
    other.close()


@pytest.fixture
def connection(bootstrap: str) -> Iterator[Connection]:
    made = Connection(bootstrap)
    yield made
    made.close()


@pytest.fixture
def new_topic(bootstrap: str, make_topic: MakeTopic) -> Callable[..., str]:
    """make_topic, and waits until the partitions are served (Apache Kafka lists them a little earlier)."""

    def make(partitions: int, **settings: object) -> str:
        name, ready = make_topic("bad", partitions, **settings), Connection(bootstrap)
        for partition in range(partitions):
            until(lambda p=partition: ready.fetch_error(name, p, 0) == NONE, f"{name} is served")
        ready.close()
        return name

    return make


@pytest.fixture
def topic(new_topic: MakeTopic) -> str:
    return new_topic(2)


def assert_one_log_line(daemon: Daemon | None, connection: Connection, position: int) -> None:
    """The daemon names the client's port in exactly one line that it logged since `position`."""
    if daemon is None:
        return

    def lines() -> list[str]:
        return [line for line in daemon.stderr_lines_since(position) if str(connection.port) in line]

    until(lines, "a log line about the connection")
    assert len(lines()) == 1, lines()


# -- frames ------------------------------------------------------------------------------------------------------------

GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    "tls": bytes.fromhex("1603010200010001fc0303") + bytes(505),
    "text": b"hello, is this a log?\n",
    "noise": b"\x7f" + random.Random(11).randbytes(300),
    "negative size": struct.pack(">i", -5),
    "zero size": struct.pack(">i", 0),
    "size below the header's": struct.pack(">i", 3) + b"abc",
    "oversize frame": struct.pack(">i", 100 * 1024 * 1024 + 1),
    "noise in a frame": struct.pack(">i", 300) + random.Random(12).randbytes(300),
    "negative API": request(-3, 0),
    "negative version": request(METADATA, -1),
    "client id beyond the frame": struct.pack(">ihhih", 12, METADATA, 8, 7, 5000) + b"ab",
    "count beyond the frame": request(METADATA, 8, struct.pack(">i", 2**31 - 1) + text("t")),
    "negative count": request(METADATA, 8, struct.pack(">i", -7)),
    "string beyond the frame": request(METADATA, 8, struct.pack(">ih", 1, 30_000) + b"x"),
    "body cut short": request(FETCH, 11, struct.pack(">iiii", -1, 100, 1, 1 << 20)),
    "produce cut short": request(PRODUCE, 8, struct.pack(">hhii", -1, -1, 9000, 1) + text("topic")),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_ends_the_connection(bootstrap: str, daemon: Daemon | None, kind: str) -> None:
    logged, rss = (len(daemon.stderr()), daemon.usage().rss_bytes) if daemon is not None else (0, 0)
    bad = Connection(bootstrap)
    bad.send(GARBAGE[kind])
    assert bad.is_closed_by_peer()
    assert_one_log_line(daemon, bad, logged)
    bad.close()
    if daemon is not None:
        assert daemon.usage().rss_bytes - rss < 32 << 20, "memory was allocated for what a client only announced"


def test_garbage_after_good_requests(connection: Connection) -> None:
    for _ in range(3):
        connection.ping()
    connection.send(request(API_VERSIONS, 0) + request(-3, 0))
    assert struct.unpack_from(">h", connection.receive()) == (NONE,)
    assert connection.is_closed_by_peer()


def test_truncated_frames_then_close(bootstrap: str, topic: str) -> None:
    whole = produce(topic, (0, GOOD.pack()))
    for cut in range(1, len(whole), 3):
        gone = Connection(bootstrap)
        gone.send(whole[:cut])
        gone.close()
    last = Connection(bootstrap)
    assert last.produce_errors(topic, (0, GOOD.pack())) == {0: (NONE, 0)}
    last.close()


def test_a_frame_may_come_byte_by_byte(connection: Connection, topic: str) -> None:
    for byte in produce(topic, (0, GOOD.pack())) + request(API_VERSIONS, 0):
        connection.send(bytes([byte]))
    assert topic.encode() in connection.receive()
    assert struct.unpack_from(">h", connection.receive()) == (NONE,)


def test_many_half_open_frames(bootstrap: str, daemon: Daemon | None) -> None:
    """A hundred clients announce 50 MB each and stop: memory follows what came, not what was announced.

    Apache Kafka allocates what is announced and is out of memory then; it gets 1 MB each.
    """
    announced, rss = (50 << 20, daemon.usage().rss_bytes) if daemon is not None else (1 << 20, 0)
    with contextlib.ExitStack() as closing:
        for _ in range(100):
            bad = Connection(bootstrap)
            closing.callback(bad.close)
            bad.send(struct.pack(">i", announced) + os.urandom(1000))
        good = Connection(bootstrap)
        closing.callback(good.close)
        good.ping()
        if daemon is not None:
            assert daemon.usage().rss_bytes - rss < 160 << 20


def test_a_newer_api_versions_is_told_our_range(connection: Connection) -> None:
    """Error 35 in a v0 body with the broker's own range, and the connection stays good for the second try (KIP-511)."""
    connection.send(request(API_VERSIONS, 99, b"\0\0\0"))
    answer = connection.receive()
    error, count = struct.unpack_from(">hi", answer)
    ranges = {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", answer[6:])}
    assert error == UNSUPPORTED_VERSION
    assert count == len(ranges)
    assert ranges[API_VERSIONS][0] == 0
    assert ranges[API_VERSIONS][1] >= 4
    connection.ping()


# -- records -----------------------------------------------------------------------------------------------------------

TWO = [record(0, b"one"), record(1, b"two")]
BAD_BATCHES: dict[str, tuple[int, bytes]] = {
    "wrong CRC": (CORRUPT_MESSAGE, Batch(TWO, crc=1).pack()),
    "flipped bit": (CORRUPT_MESSAGE, GOOD.pack()[:-3] + bytes([GOOD.pack()[-3] ^ 1]) + GOOD.pack()[-2:]),
    "count above the records": (INVALID_RECORD, Batch(TWO, count=3, last_offset_delta=2).pack()),
    "count below the records": (INVALID_RECORD, Batch(TWO, count=1, last_offset_delta=0).pack()),
    "last offset delta above": (INVALID_RECORD, Batch(TWO, last_offset_delta=2).pack()),
    "last offset delta below": (INVALID_RECORD, Batch(TWO, last_offset_delta=0).pack()),
    "a control batch": (INVALID_RECORD, Batch(TWO, attributes=CONTROL).pack()),
    "old magic": (INVALID_RECORD, Batch(TWO, magic=1).pack()),
    "two batches": (INVALID_RECORD, GOOD.pack() + GOOD.pack()),
    "no batch": (INVALID_RECORD, b""),
    "no records": (INVALID_RECORD, Batch([], count=0, last_offset_delta=0).pack()),
    "batch length beyond the data": (INVALID_RECORD, Batch(TWO, length=5000).pack()),
    "too large": (MESSAGE_TOO_LARGE, Batch([record(0, bytes(1_100_000))]).pack()),
}
# Apache Kafka accepts the first, and answers the others with an error of its own for what it did not expect.
STRICTER: dict[str, tuple[int, bytes]] = {
    "offset deltas with a hole": (INVALID_RECORD, Batch([record(0, b"one"), record(2, b"two")]).pack()),
    "record length beyond the batch": (INVALID_RECORD, Batch([record(0, b"one"), b"\x7e"]).pack()),
    "not what the codec says": (CORRUPT_MESSAGE, Batch(TWO, attributes=GZIP).pack()),
    "zstd that is none": (CORRUPT_MESSAGE, Batch(TWO, attributes=ZSTD).pack()),
}


@pytest.mark.parametrize("kind", [*BAD_BATCHES, *STRICTER])
def test_bad_batch_is_refused_alone(
    bootstrap: str, daemon: Daemon | None, connection: Connection, topic: str, kind: str
) -> None:
    """The error is its own partition's; the good batch beside it is taken, and the log takes the next one."""
    if kind in STRICTER and daemon is None:
        pytest.skip("stricter than Apache Kafka")
    expected, bad = {**BAD_BATCHES, **STRICTER}[kind]
    errors = connection.produce_errors(topic, (0, bad), (1, GOOD.pack()))
    assert errors == {0: (expected, -1), 1: (NONE, 0)}
    assert connection.produce_errors(topic, (0, GOOD.pack())) == {0: (NONE, 0)}
    assert [m.value for m in LibrdkafkaDriver(bootstrap).read(topic, 2)] == [b"good", b"good"]


def test_zstd_needs_produce_7(connection: Connection, topic: str) -> None:
    connection.send(produce(topic, (0, Batch(TWO, attributes=ZSTD).pack()), version=6))
    (error,) = struct.unpack_from(">h", connection.receive(), 4 + 2 + len(topic) + 4 + 4)
    assert error == UNSUPPORTED_COMPRESSION_TYPE


def test_no_key_on_a_compacted_topic(connection: Connection, new_topic: MakeTopic) -> None:
    """INVALID_RECORD names the record and says why (KIP-467), and no record of the batch is taken."""
    topic = new_topic(1, cleanup_policy="compact")
    batch = Batch([record(0, b"one", b"key"), record(1, b"two")]).pack()
    connection.send(produce(topic, (0, batch)))
    answer = connection.receive()
    position = 4 + 2 + len(topic) + 4
    index, error, base_offset = struct.unpack_from(">ihq", answer, position)
    assert (index, error, base_offset) == (0, INVALID_RECORD, -1)
    count, record_index, length = struct.unpack_from(">iih", answer, position + 30)
    assert (count, record_index) == (1, 1)
    assert b"key" in answer[position + 40 : position + 40 + length]
    good = Batch([record(0, b"one", b"key")]).pack()
    assert connection.produce_errors(topic, (0, good)) == {0: (NONE, 0)}


def test_unknown_topic_or_partition(connection: Connection, topic: str) -> None:
    assert connection.produce_errors("bad-no-such-topic", (0, GOOD.pack())) == {0: (UNKNOWN_TOPIC_OR_PARTITION, -1)}
    assert connection.produce_errors(topic, (77, GOOD.pack())) == {77: (UNKNOWN_TOPIC_OR_PARTITION, -1)}
    assert connection.produce_errors(topic, (-1, GOOD.pack())) == {-1: (UNKNOWN_TOPIC_OR_PARTITION, -1)}
    assert connection.fetch_error("bad-no-such-topic", 0, 0) == UNKNOWN_TOPIC_OR_PARTITION
    assert connection.fetch_error(topic, 77, 0) == UNKNOWN_TOPIC_OR_PARTITION


def test_offset_out_of_range(connection: Connection, topic: str) -> None:
    assert connection.produce_errors(topic, (0, GOOD.pack())) == {0: (NONE, 0)}
    assert connection.fetch_error(topic, 0, 0) == NONE
    assert connection.fetch_error(topic, 0, 1) == NONE
    for offset in (2, 1_000_000, 2**62, -1, -5):
        assert connection.fetch_error(topic, 0, offset) == OFFSET_OUT_OF_RANGE


def test_acks_that_do_not_exist(connection: Connection, topic: str) -> None:
    assert connection.produce_errors(topic, (0, GOOD.pack()), acks=5) == {0: (INVALID_REQUIRED_ACKS, -1)}


def test_an_error_with_acks_0_ends_the_connection(connection: Connection, topic: str) -> None:
    """There is no answer to say it in; a good one before it is taken without an answer."""
    connection.send(produce(topic, (0, GOOD.pack()), acks=0))
    connection.ping()
    connection.send(produce(topic, (0, Batch(TWO, crc=1).pack()), acks=0))
    assert connection.is_closed_by_peer()
