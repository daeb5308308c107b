from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from support.mock_time import MockTime
from support.nodes import made, services_with
from support.patience import PATIENCE_S
from tidelog.broker.http.console.loop_calls import CALLER, NOBODY, Caller, LoopCalls
from tidelog.broker.http.console.page_request import PageError
from tidelog.broker.monitoring.node_state import NodeState
from tidelog.broker.network.fair_queue import FairQueue
from tidelog.broker.requests import registry
from tidelog.broker.requests.audit_log import AuditLog
from tidelog.broker.requests.audited_requests import Changes
from tidelog.broker.requests.context import RequestContext
from tidelog.broker.requests.registry import load_apis
from tidelog.broker.runtime.cooperative import SLICE_UNITS, Steps, run_in_chunks
from tidelog.broker.security.acl.model import AclOperation, ResourceType
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


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
    monkeypatch.setattr(
        registry, "loaded", lambda found: SimpleNamespace(handler=handler, max_version=0, request=None, audited=False)
    )
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
    monkeypatch.setattr(
        registry, "loaded", lambda found: SimpleNamespace(handler=handler, max_version=0, request=None, audited=False)
    )
    calls = calls_to(loop)
    assert calls.ask(ApiKey.LIST_GROUPS, None) == 5
    assert calls._node.services.socket_server.fair_queue.taken >= 4


@pytest.mark.parametrize("later", [False, True])
def test_what_an_action_did_is_in_the_audit_log_also_where_its_page_was_not_waited_for(
    loop: asyncio.AbstractEventLoop, later: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As it is of a client that asks the same, with the user of the page; a plan, which only validates, is no act."""
    caplog.set_level("INFO", "tidelog.audit")
    load_apis()
    gate = threading.Event()

    def handler(request: IncrementalAlterConfigsRequest, context: RequestContext) -> Any:
        rows = [
            AlterConfigsResourceResponse(resource_type=row.resource_type, resource_name=row.resource_name)
            for row in request.resources
        ]
        response = IncrementalAlterConfigsResponse(responses=rows)
        return asyncio.get_running_loop().create_task(disk(response)) if later else response

    async def disk(response: IncrementalAlterConfigsResponse) -> IncrementalAlterConfigsResponse:
        while not gate.is_set():  # noqa: ASYNC110 - turns of the loop
            await asyncio.sleep(0)
        return response

    real = registry.loaded
    monkeypatch.setattr(registry, "loaded", lambda found: dataclasses.replace(real(found), handler=handler))
    calls = calls_to(loop, audit=made(AuditLog(MockTime())), changes=Changes(loop))
    change = AlterableConfig(name="retention.ms", config_operation=0, value="5")
    resource = AlterConfigsResource(resource_type=2, resource_name="orders", configs=[change])
    token = CALLER.set(Caller("User:alice", "10.0.0.7"))
    try:
        for validate_only in (True, False):
            request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
            if later:
                with pytest.raises(PageError, match="has not answered"):
                    calls.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, timeout_s=0.01)
            else:
                calls.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
    finally:
        CALLER.reset(token)
    gate.set()
    calls.run(lambda: calls._node.services.changes.finish(PATIENCE_S))
    (line,) = [record.getMessage() for record in caplog.records if record.name == "tidelog.audit"]
    assert line.startswith("done: User:alice from 10.0.0.7: ")
    assert "orders" in line
    assert "retention.ms=5" in line
    assert line.endswith("(IncrementalAlterConfigs)")
