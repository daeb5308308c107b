from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tidelog.broker.apis.registry import load_apis
from tidelog.broker.console.loop_calls import LoopCalls
from tidelog.broker.console.page_request import PageError
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


def test_handlers_of_the_protocol_are_asked(loop: asyncio.AbstractEventLoop) -> None:
    """In their newest version unless told, imported when need be, without a connection."""
    load_apis()
    groups = SimpleNamespace(list_groups=lambda states, types: [])
    broker: Any = SimpleNamespace(loop=loop, groups=groups)
    calls = LoopCalls(broker)
    assert calls.ask(ApiKey.LIST_GROUPS, lambda request: request(states_filter=["Stable"])).groups == []
    assert calls.has(ApiKey.DELETE_GROUPS)
    assert not calls.has(ApiKey.CONTROLLED_SHUTDOWN)
