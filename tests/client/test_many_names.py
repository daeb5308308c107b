"""Requests with as many names as they may have, over a socket: others are served in between, on every API there is."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from support.many_names import LoopWatch, crowded
from support.patience import until
from support.wire_client import WireClient, request_frame
from tidelog.broker.apis.registry import load_apis, loaded
from tidelog.broker.slices import SLICE_UNITS
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.headers import response_header_bytes
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.schema import decode
from tidelog.testing import Broker

ASKED_BY_EVERYBODY = (
    ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT, ApiKey.FIND_COORDINATOR,
    ApiKey.DESCRIBE_GROUPS, ApiKey.DESCRIBE_CONFIGS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DESCRIBE_TOPIC_PARTITIONS,
)  # fmt: skip
MOST_HELD_S = 0.06
"""CPU seconds of the loop in a row: some 20 ms are meant, and a machine under a debugger or a sanitizer is slower."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"auto.create.topics.enable": False}) as running:
        running.create_topic("x", 3)
        yield running


def client_of(broker: Broker) -> WireClient:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return WireClient((host, int(port)), 60)


def watch_of(broker: Broker) -> LoopWatch:
    daemon: Any = broker._daemon
    return LoopWatch(daemon.loop)


@pytest.mark.parametrize("key", ASKED_BY_EVERYBODY, ids=lambda key: key.name)
def test_the_loop_is_not_held(broker: Broker, key: ApiKey) -> None:
    api = loaded(load_apis()[key])
    assert api.many_names
    _, request = next(crowded(api.request, api.max_version, 50_000))
    watch = watch_of(broker)
    with client_of(broker) as client:
        frame = request_frame(request, api.max_version)
        watch.start()
        client.send(frame)
        client.receive()
        held = watch.stop()
    assert held < MOST_HELD_S


def test_every_api_that_takes_names_says_what_bounds_them() -> None:
    """Either it takes turns, or it may have few: whoever adds one decides."""
    forgotten = []
    for key, registration in load_apis().items():
        api = loaded(registration)
        if api.raw or api.many_names or api.request.MOST_ELEMENTS <= 50_000:
            continue
        if any(True for _ in crowded(api.request, api.max_version, 1)):
            forgotten.append(ApiKey(key).name)
    assert forgotten == []


def test_another_client_is_served_in_between(broker: Broker) -> None:
    """By the order of answers, not by time."""
    names = [MetadataRequestTopic(name=f"n{number}") for number in range(99_000)]
    large = request_frame(MetadataRequest(topics=names, allow_auto_topic_creation=False), 12)
    with client_of(broker) as heavy, client_of(broker) as light:
        light.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        daemon: Any = broker._daemon
        requests, turns = daemon.long_requests, daemon.socket_server.turns.taken
        taken = requests.taken
        heavy.send(large)
        until(lambda: requests.taken != taken, "its turn")
        served = 0
        heavy.socket.setblocking(False)
        while True:
            light.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
            try:
                heavy.socket.recv(1, socket.MSG_PEEK)
                break
            except BlockingIOError:
                served += 1
        assert served >= 1
        assert daemon.socket_server.turns.taken - turns >= 99_000 // SLICE_UNITS - 2
        heavy.socket.settimeout(60)
        assert len(heavy.receive()) > 99_000 * 30


def test_those_with_many_names_wait_for_each_other_and_are_answered(broker: Broker) -> None:
    """Several at once, of several connections, with requests behind them: each gets its own answer, in order."""
    # Who sends a second one has to fit into the buffers of the sockets, as nobody reads before all have sent.
    requests = {30_000: 1, 500: 2, 2_000: 1, 10_000: 1, 700: 2}
    daemon: Any = broker._daemon
    taken = daemon.long_requests.taken
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(client_of(broker)) for _ in requests]
        for client, (size, times) in zip(clients, requests.items(), strict=True):
            names = [MetadataRequestTopic(name=f"{'n' * 20}{number}") for number in range(size)]
            request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
            client.send(request_frame(request, 12) * times + request_frame(ApiVersionsRequest(), 0))
        for client, (size, times) in zip(clients, requests.items(), strict=True):
            for _ in range(times):
                body = client.receive()
                answer, _ = decode(MetadataResponse, 12, body, len(response_header_bytes(ApiKey.METADATA, 12, 7)))
                assert len(answer.topics) == size
            assert len(client.receive()) < 1000
    assert daemon.long_requests.taken - taken == sum(requests.values())
    assert len(daemon.long_requests) == 0


def test_who_leaves_while_waiting_keeps_nobody(broker: Broker) -> None:
    names = [MetadataRequestTopic(name=f"n{number}") for number in range(20_000)]
    frame = request_frame(MetadataRequest(topics=names, allow_auto_topic_creation=False), 12)
    for _ in range(5):
        with client_of(broker) as leaving:
            leaving.send(frame)
    with client_of(broker) as client:
        client.send(frame)
        assert len(client.receive()) > 20_000 * 30
