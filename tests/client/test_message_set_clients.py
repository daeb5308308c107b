"""Both message-set clients against a daemon, and against a broker that breaks off, hangs or talks nonsense."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.daemon import Daemon
from support.patience import PATIENCE_S
from support.wire_client import WireClient
from tidelog.clients.async_message_set_client import AsyncMessageSetClient
from tidelog.clients.message_set_client import MessageSetClient
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.message_set import EARLIEST, LATEST, MalformedAnswer, MessageSetError, NewRecord
from tidelog.protocol.message_set.entries import read_message_set
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.exceptions import RecordTooLargeError

Topic = Callable[[str], str]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    directory = tmp_path_factory.mktemp("message-sets") / "data"
    with Daemon(directory, {"message.set.listeners": "tcp://127.0.0.1:0", "log.retention.ms": -1}) as running:
        yield running


@pytest.fixture
def topic(daemon: Daemon, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    with WireClient(daemon.address) as client:
        made = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
        answer = client.ask(CreateTopicsRequest(topics=[made], timeout_ms=5000), 4, CreateTopicsResponse)
        assert answer.topics[0].error_code == 0
    return name


class Blocking:
    """The asyncio client's calls, one by one, so that both clients pass the same tests."""

    def __init__(self, client: AsyncMessageSetClient, runner: asyncio.Runner) -> None:
        self.client = client
        self.runner = runner

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            return self.runner.run(self._result(getattr(self.client, name)(*arguments, **options)))

        return call

    async def _result(self, made: Any) -> Any:
        return [record async for record in made] if isinstance(made, AsyncIterator) else await made

    def message_set(self, *arguments: Any, **options: Any) -> bytes:
        return self.client.message_set(*arguments, **options)


@contextmanager
def connected(kind: str, address: tuple[str, int], **options: Any) -> Iterator[Any]:
    if kind == "sync":
        with MessageSetClient(*address, **options) as client:
            yield client
    else:
        with asyncio.Runner() as runner:
            client = Blocking(AsyncMessageSetClient(*address, **options), runner)
            yield client
            client.close()


@pytest.fixture(params=["sync", "async"])
def client(request: pytest.FixtureRequest, daemon: Daemon) -> Iterator[Any]:
    with connected(request.param, daemon.message_set_address, clock=lambda: 1_700_000_000_000) as made:
        yield made


def test_what_is_produced_in_any_format_and_codec_is_read_back(client: Any, topic: str) -> None:
    sent: list[bytes] = []
    for magic in (0, 1, 2):
        for codec in list(Compression)[: 5 if magic == 2 else 4]:
            values = [b"%d %d %d" % (magic, codec, number) * 50 for number in range(7)]
            base = client.produce(
                topic, 0, [NewRecord(value, b"k") for value in values], magic=magic, compression=codec
            )
            assert base == len(sent)
            sent += values
    for fetch_size in (1, 100, 1000, 1 << 20):
        records = list(client.read(topic, 0, fetch_size=fetch_size))
        assert [record.offset for record in records] == list(range(len(sent)))
        assert [record.value for record in records] == sent
        # Format 0 has no timestamps; the others got the producer's clock.
        assert [record.timestamp for record in records] == [-1] * 28 + [1_700_000_000_000] * (len(sent) - 28)
    for offset in (1, 30, len(sent) - 1, len(sent)):
        assert [record.value for record in client.read(topic, 0, offset)] == sent[offset:]
    assert list(client.read(topic, 0, LATEST)) == []


def test_headers_null_keys_and_given_times_are_kept(client: Any, topic: str) -> None:
    client.produce(
        topic, 0, [NewRecord(None, timestamp=5, headers=((b"h", b"1"), (b"n", None))), NewRecord(b"v", b"k")]
    )
    first, second = client.read(topic, 0)
    assert (first.key, first.value, first.timestamp, first.headers) == (None, None, 5, ((b"h", b"1"), (b"n", None)))
    assert (second.key, second.value, second.timestamp) == (b"k", b"v", 1_700_000_000_000)


def test_many_at_once(client: Any, topic: str) -> None:
    one, two = (client.message_set([NewRecord(value)]) for value in (b"one", b"two"))
    first, refused, second = client.multi_produce([(topic, 0, one), ("nowhere", 0, one), (topic, 1, two)])
    assert (first, second) == (0, 0)
    assert refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found, missing, beyond, cut = client.multi_fetch(
        [(topic, 1, 0, 1000), ("nowhere", 0, 0, 1000), (topic, 0, 9, 1000), (topic, 0, 0, 20)]
    )
    assert [record.value for record in found.records] == [b"two"]
    assert missing.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert beyond.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert cut.needs_more_room(0)


def test_offsets_by_time(client: Any, topic: str) -> None:
    client.produce(topic, 0, [NewRecord(b"v", timestamp=time) for time in (1000, 2000, 3000)])
    assert client.offsets(topic, 0) == [3]
    assert client.offsets(topic, 0, EARLIEST) == [0]
    assert client.offsets(topic, 0, 2000) == [1]
    assert client.offsets(topic, 0, 3001) == [3]
    assert client.offsets(topic, 0, LATEST, 9) == [3, 0]
    with pytest.raises(MessageSetError, match=f"OFFSETS of {topic}-7: UNKNOWN_TOPIC_OR_PARTITION"):
        client.offsets(topic, 7)


def test_numbers_that_mean_nothing_get_the_brokers_error(client: Any, topic: str) -> None:
    for call, code in (
        (lambda: client.fetch(topic, 0, 0, -1), ErrorCode.INVALID_FETCH_SIZE),
        (lambda: client.offsets(topic, 0, LATEST, -1), ErrorCode.INVALID_REQUEST),
        (lambda: client.offsets(topic, 0, -7), ErrorCode.INVALID_REQUEST),
    ):
        with pytest.raises(MessageSetError) as caught:
            call()
        assert caught.value.code is code
    (refused,) = client.multi_fetch([(topic, 0, 0, -1)])
    assert refused.code is ErrorCode.INVALID_FETCH_SIZE
    assert client.multi_fetch([]) == client.multi_produce([]) == []


def test_out_of_range_goes_by_the_policy(client: Any, topic: str) -> None:
    client.produce(topic, 0, [NewRecord(b"a"), NewRecord(b"b")])
    assert [record.value for record in client.read(topic, 0, 50, on_out_of_range="earliest")] == [b"a", b"b"]
    assert list(client.read(topic, 0, 50, on_out_of_range="latest")) == []
    with pytest.raises(MessageSetError) as caught:
        list(client.read(topic, 0, 50))
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_what_is_too_large_is_told_by_both_sides(client: Any, topic: str) -> None:
    client.produce(topic, 0, [NewRecord(bytes(10_000))])
    with pytest.raises(RecordTooLargeError, match="max_fetch_size"):
        list(client.read(topic, 0, fetch_size=100, max_fetch_size=5000))
    with pytest.raises(MessageSetError) as caught:
        client.produce(topic, 0, [NewRecord(bytes(2 << 20))])
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert client.offsets(topic, 0) == [1], "an error of the broker leaves the connection in use"


def test_a_follower_gets_what_comes_later(daemon: Daemon, topic: str) -> None:
    polled: list[float] = []
    with MessageSetClient(*daemon.message_set_address) as writer:

        def sleep(seconds: float) -> None:
            polled.append(seconds)
            writer.produce(topic, 0, [NewRecord(b"%d" % len(polled))])

        with MessageSetClient(*daemon.message_set_address, sleep=sleep) as reader:
            records = reader.read(topic, 0, follow=True, poll_interval_s=0.5)
            assert [next(records).value for _ in range(3)] == [b"1", b"2", b"3"]
    assert polled == [0.5] * 3


async def test_an_async_follower_gets_what_comes_later(daemon: Daemon, topic: str) -> None:
    async with AsyncMessageSetClient(*daemon.message_set_address) as client:
        records = client.read(topic, 0, follow=True, poll_interval_s=0.001)
        waiting = asyncio.ensure_future(anext(records))
        assert await client.offsets(topic, 0, LATEST) == [0]
        await client.produce(topic, 0, [NewRecord(b"later")])  # the same connection, taking turns
        assert (await waiting).value == b"later"


# -- a broker that is none


@contextmanager
def broken_broker(*answers: bytes | None) -> Iterator[tuple[str, int]]:
    """Answers the first request of each connection with one of `answers`, and no more; None is silence."""
    listening = socket.create_server(("127.0.0.1", 0))
    connections: list[socket.socket] = []

    def serve() -> None:
        for answer in answers:
            connection = listening.accept()[0]
            connections.append(connection)
            connection.recv(1 << 16)
            if answer is not None:
                with contextlib.suppress(OSError):  # the client may have hung up on what it has read
                    connection.sendall(answer)
                    connection.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()[:2]
    finally:
        thread.join()
        for one in (*connections, listening):
            one.close()


GOOD_OFFSETS = bytes.fromhex("0000000e 0000 00000001 0000000000000007")


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", EOFError),
        (b"\0\0\0", EOFError),
        (GOOD_OFFSETS[:-1], EOFError),
        (b"\x7f\xff\xff\xff\0\0", MalformedAnswer),
        (b"\xff\xff\xff\xff", MalformedAnswer),
        (b"\0\0\0\1\0", MalformedAnswer),
        (b"\0\0\0\2\0\0", MalformedAnswer),
        (None, TimeoutError),
    ],
)
def test_after_a_broken_answer_the_next_call_opens_another_connection(
    kind: str, answer: bytes | None, error: type[Exception]
) -> None:
    with (
        broken_broker(answer, GOOD_OFFSETS) as address,
        connected(kind, address, timeout_s=0.2 if answer is None else PATIENCE_S) as client,
    ):
        with pytest.raises(error):
            client.offsets("t", 0)
        if error is MalformedAnswer and answer == b"\0\0\0\2\0\0":
            client.close()  # its frame was whole: only what is in it is wrong
        getattr(client, "client", client)._timeout_s = PATIENCE_S  # the silence has been long enough
        assert client.offsets("t", 0) == [7]


async def test_a_cancelled_call_does_not_leave_its_answer_to_the_next(daemon: Daemon, topic: str) -> None:
    async with AsyncMessageSetClient(*daemon.message_set_address) as client:
        await client.produce(topic, 0, [NewRecord(b"v")])
        for turns in range(6):
            call = asyncio.ensure_future(client.fetch(topic, 0, 0))
            for _ in range(turns):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
            assert await client.offsets(topic, 0) == [1]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_memory_for_an_answer_follows_what_came_and_not_what_was_announced(kind: str) -> None:
    with broken_broker((500_000_000).to_bytes(4, "big") + b"\0\0") as address, connected(kind, address) as client:
        tracemalloc.start()
        try:
            with pytest.raises(EOFError):
                client.fetch("t", 0, 0, 1_000_000_000)
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()


def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()[:2]
    for kind in ("sync", "async"):
        with connected(kind, address) as client, pytest.raises(ConnectionRefusedError):
            client.offsets("t", 0)


def test_sets_are_built_by_the_client_and_read_by_anyone(daemon: Daemon) -> None:
    with MessageSetClient(*daemon.message_set_address, clock=lambda: 42) as client:
        assert read_message_set(client.message_set([NewRecord(b"v")]), 0).records[0].timestamp == 42
