from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace

import pytest
from support import message_sets as by_hand
from support.logs import append, batch
from support.message_sets import (
    FETCH,
    MULTIFETCH,
    MULTIPRODUCE,
    OFFSETS,
    PRODUCE,
    ListenerWorld,
)
from tidelog.broker.message_set.fetch import MAX_FETCHES
from tidelog.broker.message_set.listener import LOG_INTERVAL_S
from tidelog.broker.message_set.produce import MAX_PRODUCES
from tidelog.broker.monitoring.requests import connection_metrics, message_set_connection_metrics, message_set_metrics
from tidelog.broker.network.cold_reads import ColdReads
from tidelog.broker.network.outbound import SendCounters
from tidelog.broker.runtime.metric_family import families_of
from tidelog.protocol.api_keys import API_NAMES
from tidelog.protocol.message_set.wire import RequestType, authenticate_request

INVALID_REQUEST = 42


async def test_requests_that_wait_have_names_that_no_api_of_kafka_has(listening: ListenerWorld) -> None:
    """An AUTHENTICATE that waited was told as StopReplica, the API of Kafka with its number."""
    waiting = [SimpleNamespace(pending_request=listening.listener.name_of(kind)) for kind in RequestType]
    server = SimpleNamespace(connections=waiting, send_counters=SendCounters(), received_bytes=0, accepted_connections=6,
                             refused_connections=0, aborted_connections=0, listeners={},
                             cold_reads=ColdReads(asyncio.get_running_loop(), 50))  # fmt: skip
    told = {family.name: family.rows for family in families_of(connection_metrics(), server)}  # type: ignore[arg-type]
    names = {labels[0] for labels, count in told["tidelog_waiting_requests"] if count}
    assert names == {f"message_set_{kind.name.lower()}" for kind in RequestType}
    assert not names & set(API_NAMES.values())


async def test_each_type_goes_to_its_handler_and_is_counted(listening: ListenerWorld) -> None:
    data = bytes(batch("a", "b"))
    assert await listening.ask(PRODUCE, by_hand.produce("t", 0, data)) == (0, struct.pack(">q", 0))
    error, stored = await listening.ask(FETCH, by_hand.fetch("t", 0, 0, 1000))
    assert (error, len(stored)) == (0, len(data))
    assert await listening.ask(MULTIPRODUCE, by_hand.many(by_hand.produce("t", 0, data))) == (
        0,
        struct.pack(">hq", 0, 2),
    )
    error, sends = await listening.ask(MULTIFETCH, by_hand.many(by_hand.fetch("t", 0, 0, len(data))))
    assert (error, sends) == (0, struct.pack(">ih", 2 + len(data), 0) + stored)
    assert await listening.ask(OFFSETS, by_hand.fetch("t", 0, -1, 1)) == (0, struct.pack(">iq", 1, 4))
    assert listening.listener.requests == [1, 1, 1, 1, 1, 0]
    assert not listening.listener.errors
    assert all(nanoseconds > 0 for nanoseconds in listening.listener.nanoseconds[:-1])
    assert listening.broker.counters.produced_records == 4
    assert listening.broker.counters.produced_bytes == 2 * len(data)
    assert listening.broker.counters.fetched_bytes == 2 * len(data)


@pytest.mark.parametrize(
    ("kind", "body", "answer"),
    [
        (FETCH, b"", b""),
        (FETCH, by_hand.fetch("t", 0, 0, 1) + b"!", b""),
        (PRODUCE, b"\0", struct.pack(">q", -1)),
        (OFFSETS, b"\0\1", struct.pack(">i", 0)),
        (MULTIFETCH, struct.pack(">h", MAX_FETCHES + 1) + by_hand.fetch("t", 0, 0, 1) * (MAX_FETCHES + 1), b""),
        (MULTIPRODUCE, struct.pack(">h", MAX_PRODUCES + 1) + by_hand.produce("t", 0, b"") * (MAX_PRODUCES + 1), b""),
        (MULTIPRODUCE, struct.pack(">h", 0x7FFF), b""),
        (6, by_hand.fetch("t", 0, 0, 1), b""),
        (-1, b"", b""),
    ],
)
async def test_what_cannot_be_read_is_answered_in_its_own_shape(
    listening: ListenerWorld, kind: int, body: bytes, answer: bytes
) -> None:
    assert await listening.ask(kind, body) == (INVALID_REQUEST, answer)
    assert listening.listener.errors == {("malformed", INVALID_REQUEST): 1}


@pytest.mark.parametrize("frame", [b"\0\0\0\0", b"\0\0\0\1\0"])
async def test_a_frame_without_a_type_is_answered_too(listening: ListenerWorld, frame: bytes) -> None:
    assert listening.taken(listening.start(frame)) == (INVALID_REQUEST, b"")


async def test_a_flood_of_malformed_requests_is_one_line_a_second(
    listening: ListenerWorld, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(100):
        await listening.ask(9, b"")
    assert [record.getMessage() for record in caplog.records] == [
        "a connection: malformed request: 2 bytes of the unknown type 9"
    ]
    time = listening.broker.loop.time
    monkeypatch.setattr(listening.broker, "loop", SimpleNamespace(time=lambda: time() + LOG_INTERVAL_S))
    await listening.ask(FETCH, b"")
    assert caplog.records[1].getMessage() == (
        "a connection: malformed FETCH: the request ends within its topic, or before what follows it "
        "(100 such since the last line)"
    )


async def test_authenticate_where_nobody_asks_is_refused(listening: ListenerWorld) -> None:
    """A client that believes to be known as somebody is told that it is not."""
    frame = authenticate_request("alice", "secret")
    assert await listening.ask(RequestType.AUTHENTICATE, frame[6:]) == (34, struct.pack(">hq", 0, 0))
    assert listening.listener.errors == {("authenticate", 34): 1}


async def test_offsets(listening: ListenerWorld) -> None:
    append(listening.machine.log(), "a", "b", "c")
    assert await listening.ask(OFFSETS, by_hand.fetch("t", 0, -1, 5)) == (0, struct.pack(">iqq", 2, 3, 0))
    assert await listening.ask(OFFSETS, by_hand.fetch("t", 9, -1, 1)) == (3, struct.pack(">i", 0))
    assert await listening.ask(OFFSETS, by_hand.fetch("t", 0, -9, 1)) == (INVALID_REQUEST, struct.pack(">i", 0))
    assert listening.listener.errors == {("offsets", 3): 1, ("offsets", INVALID_REQUEST): 1}


async def test_metrics_by_type(listening: ListenerWorld) -> None:
    await listening.ask(FETCH, by_hand.fetch("t", 0, 0, 1))
    await listening.ask(FETCH, by_hand.fetch("x", 0, 0, 1))
    await listening.ask(9, b"")
    await listening.ask(OFFSETS, by_hand.fetch("t", 0, -1, 1))
    requests, errors, seconds, connections = [
        *families_of(message_set_metrics(), listening.listener),
        *families_of(message_set_connection_metrics(), listening.broker.socket_server),
    ]
    assert requests.rows == [
        (("produce",), 0), (("fetch",), 2), (("multifetch",), 0), (("multiproduce",), 0), (("offsets",), 1),
        (("authenticate",), 0),
    ]  # fmt: skip
    assert errors.rows == [
        (("fetch", "UNKNOWN_TOPIC_OR_PARTITION"), 1), (("malformed", "INVALID_REQUEST"), 1),
    ]  # fmt: skip
    assert [(labels, sum(buckets)) for labels, buckets, _ in seconds.rows] == [(("fetch",), 2), (("offsets",), 1)]
    assert connections.rows == [((), 0)]


class Quotas:
    """Says how long to wait: 10 ms a produced byte, 1 a fetched one, or `handled` for the time alone."""

    active = True

    def __init__(self) -> None:
        self.asked: list[tuple[str, object, float]] = []
        self.users: set[str] = set()

    def handled(self, client_id: object, seconds: float, user: str) -> int:
        self.users.add(user)
        self.asked.append(("handled", client_id, 0))
        return 5

    def produced(self, client_id: object, size: int, user: str) -> int:
        self.users.add(user)
        self.asked.append(("produced", client_id, size))
        return 10 * size

    def fetched(self, client_id: object, size: int, user: str) -> int:
        self.users.add(user)
        self.asked.append(("fetched", client_id, size))
        return size


async def test_client_quotas_hold_and_mute_the_connection(listening: ListenerWorld) -> None:
    quotas = listening.broker.quotas = Quotas()
    listening.connection.user = "alice"
    data = bytes(batch("a", "b"))
    body = by_hand.produce("t", 0, data)
    assert await listening.ask(PRODUCE, body) == (0, struct.pack(">q", 0))
    assert await listening.ask(MULTIPRODUCE, by_hand.many(body)) == (0, struct.pack(">hq", 0, 2))
    await listening.ask(FETCH, by_hand.fetch("t", 0, 0, 100))
    await listening.ask(MULTIFETCH, by_hand.many(by_hand.fetch("t", 0, 0, 100)))
    await listening.ask(OFFSETS, by_hand.fetch("t", 0, -1, 1))
    assert [one for one in quotas.asked if one[0] != "handled"] == [
        ("produced", None, 2 + len(body)), ("produced", None, 4 + len(body)), ("fetched", None, 106), ("fetched", None, 112),
    ]  # fmt: skip
    assert quotas.users == {"alice"}
    assert quotas.asked.count(("handled", None, 0)) == 5
    assert listening.connection.muted == [10 * (2 + len(body)), 10 * (4 + len(body)), 106, 112, 5]
