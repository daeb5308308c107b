"""Parts of the socket server that need no socket."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from ipaddress import IPv4Network
from types import SimpleNamespace

import pytest
from tidelog.broker.network.advertised_address import ContainerNetwork
from tidelog.broker.network.descriptor_limit import Descriptors
from tidelog.broker.network.response_memory import CROWDED_UNSENT_BYTES
from tidelog.broker.network.socket_server import MANY_CLOSED, SCARCE_READ_BYTES, Endpoint, ListenerCounts, SocketServer
from tidelog.broker.runtime.garbage import malloc_trim
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.listener import ListenerLimits
from tidelog.config.loader import load_config


def config_of(**settings: int) -> BrokerConfig:
    return load_config(None, {}, [f"{name.replace('_', '.')}={value}" for name, value in settings.items()])


def server(container: ContainerNetwork | None = None, **settings: int) -> SocketServer:
    made = SocketServer(SimpleNamespace(call_soon=None), config_of(**settings), None)  # type: ignore[arg-type]
    made.container = container
    return made


DOCKER = ContainerNetwork(frozenset({"172.17.0.1"}), (IPv4Network("172.17.0.0/16"),))
BOUND = Endpoint("PLAINTEXT", "PLAINTEXT", "0.0.0.0", 9092)
OTHER = Endpoint("A", "PLAINTEXT", "::", 1, ("kafka.example", 2))
MINE = ("172.17.0.2", 9092)


def test_a_client_is_told_the_address_that_it_dialled_unless_another_is_set() -> None:
    assert server().advertised_to(BOUND, ("10.1.2.3", 9092), "10.1.2.1") == ("10.1.2.3", 9092)
    assert server().advertised_to(BOUND, ("::ffff:10.1.2.3", 9092), "10.1.2.1") == ("10.1.2.3", 9092)
    assert server().advertised_to(OTHER, ("::1", 1), "::1") == ("kafka.example", 2)
    assert str(Endpoint("A", "PLAINTEXT", "::1", 1)) == "A://[::1]:1"


def test_in_a_container_a_client_from_the_gateway_is_told_localhost() -> None:
    assert server(DOCKER).advertised_to(BOUND, MINE, "172.17.0.1") == ("localhost", 9092)
    assert server(DOCKER).advertised_to(BOUND, MINE, "::ffff:172.17.0.1") == ("localhost", 9092)
    assert server(DOCKER).advertised_to(BOUND, MINE, "172.17.0.3") == MINE, "another container"
    assert server(DOCKER).advertised_to(OTHER, MINE, "172.17.0.1") == ("kafka.example", 2)
    assert server(DOCKER, container_gateway_localhost=False).advertised_to(BOUND, MINE, "172.17.0.1") == MINE


def test_a_client_from_beyond_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    made = server(DOCKER)
    caplog.set_level("WARNING", "tidelog")
    for _ in range(3):
        assert made.advertised_to(BOUND, MINE, "203.0.113.7") == MINE
    (record,) = caplog.records
    assert "203.0.113.7" in record.getMessage()
    assert "advertised.listeners=PLAINTEXT://HOST:PORT" in record.getMessage()


def test_the_ready_line_has_a_hint_in_a_container_only() -> None:
    inside, outside = server(DOCKER), server()
    inside.endpoints, outside.endpoints = [BOUND], [BOUND]
    assert "advertised.listeners" in inside.hint
    assert outside.hint == ""
    inside.endpoints = [OTHER]
    assert inside.hint == ""
    inside.endpoints = [Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)]
    assert inside.hint == "", "nobody comes from outside"


class _Connection(SimpleNamespace):
    """What the server counts of a connection."""

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def test_a_listener_has_a_limit_of_its_own_beside_the_brokers() -> None:
    made = server(max_connections=4)
    limits = {"OUTSIDE": ListenerLimits(connections=2)}
    made.use(dataclasses.replace(config_of(max_connections=4), listener_limits=limits))
    made.wait_of = lambda address, listener: 30 if listener == "OUTSIDE" else 0
    muted: list[int] = []

    def come(name: str) -> tuple[_Connection, str | None]:
        connection = _Connection(listener=Endpoint(name, "PLAINTEXT", "h", 1), peer_host="h", mute=muted.append)
        return connection, made.connection_opened(connection)  # type: ignore[arg-type]

    outside = [come("OUTSIDE") for _ in range(3)]
    assert [why for _, why in outside] == [
        None, None, "2 connections are open at listener OUTSIDE (listener.name.outside.max.connections)"
    ]  # fmt: skip
    inside = [come("INSIDE") for _ in range(3)]
    assert [why for _, why in inside] == [None, None, "4 connections are open (max.connections)"]
    assert muted == [30, 30]
    assert made.listeners["OUTSIDE"] == ListenerCounts(open=2, accepted=2, refused=1, waited_ms=60)
    assert made.listeners["INSIDE"] == ListenerCounts(open=2, accepted=2, refused=1)
    assert made.refused_connections == 2
    for connection, _ in outside:
        made.connection_closed(connection)  # type: ignore[arg-type]
    assert made.listeners["OUTSIDE"].open == 0, "one that was refused was never in"
    assert come("OUTSIDE")[1] is None


def test_a_principal_has_a_limit_of_its_own() -> None:
    made = server(max_connections_per_principal=2)

    def come(principal: str) -> tuple[_Connection, str | None]:
        connection = _Connection(listener=BOUND, peer_host="h", mute=None)
        assert made.connection_opened(connection) is None  # type: ignore[arg-type]
        return connection, made.connection_known(connection, principal)  # type: ignore[arg-type]

    alice = [come("User:alice") for _ in range(3)]
    assert [why for _, why in alice] == [
        None, None, "2 connections of User:alice are open (max.connections.per.principal)"
    ]  # fmt: skip
    assert come("User:bob")[1] is None
    assert made.connection_known(alice[0][0], "User:alice") is None, "who authenticates again is counted once"  # type: ignore[arg-type]
    made.connection_closed(alice[2][0])  # type: ignore[arg-type]
    assert come("User:alice")[1] is not None, "one that was refused was never in"
    made.connection_closed(alice[0][0])  # type: ignore[arg-type]
    assert come("User:alice")[1] is None
    assert made.listeners["PLAINTEXT"].refused == 2


def test_descriptors_are_kept_for_files() -> None:
    made = server()
    made.descriptors = Descriptors(800, lambda: 100)
    made.connections = {_Connection(listener=BOUND, peer_host="h", mute=None) for _ in range(700)}  # type: ignore[assignment]
    refused = made.connection_opened(_Connection(listener=BOUND, peer_host="h", mute=None))  # type: ignore[arg-type]
    assert refused is None
    made.descriptors = Descriptors(800, lambda: 750)
    refused = made.connection_opened(_Connection(listener=BOUND, peer_host="h", mute=None))  # type: ignore[arg-type]
    assert refused == "of 800 file descriptors an eighth is kept for files (ulimit -n)"


def test_reads_are_small_while_memory_is_scarce() -> None:
    made = server()
    whole = len(made.scratch_view)
    made.receiving.limit = 1 << 20
    buffer = made.receiving.buffers.take(1 << 18)
    made.memory_changed()
    assert len(made.scratch_view) == SCARCE_READ_BYTES < whole
    made.receiving.buffers.give(buffer)
    made.memory_changed()
    assert len(made.scratch_view) == whole


def test_memory_is_given_back_when_many_have_gone() -> None:
    made = server()
    later, given = list[Callable[[], None]](), list[object]()
    loop = made.loop
    loop.call_later = lambda _, call: later.append(call)  # type: ignore[method-assign,assignment,misc,return-value]
    loop.time = lambda: 0.0  # type: ignore[method-assign]
    loop.run_in_executor = lambda _, call: given.append(call)  # type: ignore[method-assign,assignment,misc,return-value]
    for _ in range(MANY_CLOSED):
        connection = _Connection(listener=BOUND, peer_host="h", mute=None)
        assert made.connection_opened(connection) is None  # type: ignore[arg-type]
        assert not later
        made.connection_closed(connection)  # type: ignore[arg-type]
    (tick,) = later
    tick()
    assert given == [malloc_trim]
    made.schedule_tick()
    later[-1]()
    assert given == [malloc_trim], "once"


@pytest.mark.parametrize("room", ["receiving", "sending"])
def test_there_is_one_ticker_however_many_are_disconnected_by_it(room: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tick that disconnected somebody started one more: after some, the loop did nothing else."""
    made = server()
    later = list[Callable[[], None]]()
    loop = made.loop
    loop.call_later = lambda _, call: later.append(call) or call  # type: ignore[method-assign,assignment,misc,return-value,func-returns-value]
    loop.time = lambda: 0.0  # type: ignore[method-assign]
    monkeypatch.setattr(type(getattr(made, room)), "tick", lambda _, elapsed_ms: made.schedule_tick())
    monkeypatch.setattr(type(getattr(made, room)), "__len__", lambda _: 1)
    made.schedule_tick()
    assert len(later) == 1
    for ticks in range(2, 6):
        later[-1]()
        assert len(later) == ticks


async def test_who_is_answered_while_the_daemon_stops_is_looked_at_and_no_timer_is_left() -> None:
    """The ticker ended with the listeners; an answer behind that began another one, which went off after the stop."""
    made = server()
    made.loop = loop = asyncio.get_running_loop()
    made.schedule_tick()
    await made.stop_accepting()
    (ticker,) = (handle for handle in loop._scheduled if not handle.cancelled())  # type: ignore[attr-defined]
    assert ticker._callback == made._tick
    await made.close_all()
    assert ticker.cancelled()


def test_a_crowd_that_does_not_read_is_told_to_leave_little_unsent_and_later_is_not() -> None:
    made = server()
    loop = made.loop
    later = list[Callable[[], None]]()
    loop.call_later = lambda _, call: later.append(call) or call  # type: ignore[method-assign,assignment,misc,return-value,func-returns-value]
    loop.time = lambda: 0.0  # type: ignore[method-assign]
    told = list[int]()
    connection = _Connection(listener=BOUND, peer_host="h", mute=None, leave_unsent=told.append)
    assert made.connection_opened(connection) is None  # type: ignore[arg-type]
    made.sending.limit = 1 << 20
    waiting = [_Connection(client="h", unsent_bytes=0, send_progress=0) for _ in range(6)]
    for one in waiting:
        made.sending.track(one)
        made.schedule_tick()
    assert told == [CROWDED_UNSENT_BYTES] == [made.send_counters.unsent_bytes]
    for one in waiting[:4]:
        made.sending.untrack(one)
    later[-1]()
    assert told == [CROWDED_UNSENT_BYTES, 0]
    assert made.send_counters.unsent_bytes == 0
