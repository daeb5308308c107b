from __future__ import annotations

import asyncio

from tidelog.broker.network.pending_response import then


def test_an_answer_that_is_there():
    assert then(2, lambda value: value + 1) == 3
    assert then(None, lambda value: [value]) == [None]


async def test_an_answer_that_comes_later():
    future = asyncio.get_running_loop().create_future()
    later = then(future, lambda value: value + 1)
    future.set_result(2)
    assert await later == 3
