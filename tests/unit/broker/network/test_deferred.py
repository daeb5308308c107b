from __future__ import annotations

import asyncio

from tidelog.broker.network.pending_response import map_maybe_awaitable


def test_an_answer_that_is_there():
    assert map_maybe_awaitable(2, lambda value: value + 1) == 3
    assert map_maybe_awaitable(None, lambda value: [value]) == [None]


async def test_an_answer_that_comes_later():
    future = asyncio.get_running_loop().create_future()
    later = map_maybe_awaitable(future, lambda value: value + 1)
    future.set_result(2)
    assert await later == 3
