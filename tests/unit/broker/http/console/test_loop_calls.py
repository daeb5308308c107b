from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from support.nodes import services_with
from tidelog.broker.http.console.loop_calls import CALLER, NOBODY, Caller, LoopCalls
from tidelog.broker.http.console.page_request import PageError
from tidelog.broker.monitoring.node_state import NodeState
from tidelog.broker.network.fair_queue import FairQueue
from tidelog.broker.requests import registry
from tidelog.broker.requests.context import RequestContext
from tidelog.broker.requests.registry import load_apis
from tidelog.broker.runtime.cooperative import SLICE_UNITS, Steps, run_in_chunks
from tidelog.broker.security.acl.model import AclOperation, ResourceType
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.api_keys import ApiKey


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


def test_calls_are_made_on_the_loop(loop: asyncio.AbstractEventLoop) -> None:
    calls = LoopCalls(SimpleNamespace(loop=loop))  # type: ignore[arg-type]

    async def later() -> int:
        await asyncio.sleep(0)
        return threading.get_ident()

    assert calls.run(threading.get_ident) == calls.run(later) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        calls.run(lambda: 1 // 0)


def test_a_loop_that_does_not_answer(loop: asyncio.AbstractEventLoop) -> None:
    calls = LoopCalls(SimpleNamespace(loop=loop))  # type: ignore[arg-type]
    with pytest.raises(PageError, match="has not answered"):
        calls.run(lambda: asyncio.Event().wait(), timeout_s=0.01)
    closed = asyncio.new_event_loop()
    closed.close()
    with pytest.raises(PageError, match="stops"):
        LoopCalls(SimpleNamespace(loop=closed)).run(int)  # type: ignore[arg-type]


def calls_to(loop: asyncio.AbstractEventLoop, **parts: Any) -> LoopCalls:
    parts = {"socket_server": SimpleNamespace(fair_queue=FairQueue(loop.call_soon))} | parts
    return LoopCalls(SimpleNamespace(loop=loop, services=services_with(loop=loop, **parts)))  # type: ignore[arg-type]


def test_handlers_of_the_protocol_are_asked(loop: asyncio.AbstractEventLoop) -> None:
    """In their newest version unless told, imported when need be, without a connection."""
    load_apis()
    groups = SimpleNamespace(list_groups=lambda states, types: [])
    calls = calls_to(loop, groups=groups)
    assert calls.ask(ApiKey.LIST_GROUPS, lambda request: request(states_filter=["Stable"])).groups == []
    assert calls.has(ApiKey.DELETE_GROUPS)
    assert not calls.has(ApiKey.CONTROLLED_SHUTDOWN)


def test_no_handler_is_asked_before_a_node_has_its_parts(loop: asyncio.AbstractEventLoop) -> None:
    load_apis()
    calls = LoopCalls(NodeState(BrokerConfig(), loop, None))  # type: ignore[arg-type]
    with pytest.raises(PageError, match="is loading its logs"):
        calls.ask(ApiKey.LIST_GROUPS, lambda request: request())


def test_no_access_rule_is_asked_and_the_user_is_told(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Roles have decided; who it was goes with the request."""
    seen: list[Any] = []

    def handler(_request: object, context: RequestContext) -> None:
        seen.append((context.connection.principal, context.connection.peer_host, context.user))
        assert context.allows(AclOperation.DELETE, ResourceType.TOPIC, "t")
        assert context.allows_any(AclOperation.WRITE, ResourceType.TOPIC)

    authorizer = SimpleNamespace(allows=lambda *_: False, allows_any=lambda *_: False)
    calls = calls_to(loop, authorizer=authorizer)
    load_apis()
    monkeypatch.setattr(registry, "loaded", lambda found: SimpleNamespace(handler=handler, max_version=0, request=None))
    calls.ask(ApiKey.LIST_GROUPS, None)
    token = CALLER.set(Caller("User:alice", "10.0.0.7"))
    calls.ask(ApiKey.LIST_GROUPS, None)
    CALLER.reset(token)
    assert seen == [(*NOBODY, "ANONYMOUS"), ("User:alice", "10.0.0.7", "alice")]


def test_an_answer_of_many_rows_takes_turns(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in of a connection has turns to wait for: the settings page, of two hundred rows, was answered with 500."""

    def steps() -> Steps[int]:
        for _ in range(5):
            yield SLICE_UNITS
        return 5

    load_apis()
    handler = lambda _request, context: run_in_chunks(steps(), context)  # noqa: E731
    monkeypatch.setattr(registry, "loaded", lambda found: SimpleNamespace(handler=handler, max_version=0, request=None))
    calls = calls_to(loop)
    assert calls.ask(ApiKey.LIST_GROUPS, None) == 5
    assert calls._node.services.socket_server.fair_queue.taken >= 4
