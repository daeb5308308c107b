from __future__ import annotations

import asyncio

import pytest
from tidelog.broker.network.pending_response import PendingResponse


def told(failure: Exception | None) -> bytes:
    return b"well" if failure is None else str(failure).encode()


def test_it_answers_with_the_last_thing_that_it_waits_for() -> None:
    answer, seen = PendingResponse(told, 3), []
    answer.add_done_callback(seen.append)
    answer.one_done(None)
    answer.one_done(None)
    assert seen == []
    answer.one_done(None)
    assert seen == [answer]
    assert (answer.result(), answer.exception(), answer.cancelled()) == (b"well", None, False)


def test_the_first_failure_makes_the_answer() -> None:
    answer, seen = PendingResponse(told, 3), []
    answer.add_done_callback(seen.append)
    for failure in (None, OSError("disk one"), OSError("disk two")):
        answer.one_done(failure)
    assert [one.result() for one in seen] == [b"disk one"]


def test_what_cannot_be_made_is_an_exception_of_the_answer() -> None:
    def broken(_: Exception | None) -> bytes:
        raise ValueError("no answer")

    answer, seen = PendingResponse(broken, 1), []
    answer.add_done_callback(seen.append)
    answer.one_done(None)
    assert seen == [answer]
    assert str(answer.exception()) == "no answer"


def test_nobody_is_called_when_the_client_has_gone() -> None:
    made: list[object] = []
    answer = PendingResponse(lambda failure: made.append(failure) or b"", 1)  # type: ignore[func-returns-value]
    answer.add_done_callback(made.append)
    answer.cancel()
    answer.one_done(None)
    assert made == []
    assert answer.cancelled()


async def test_it_can_be_awaited() -> None:
    good, bad = PendingResponse(told, 1), PendingResponse(told, 1)
    loop = asyncio.get_running_loop()
    loop.call_soon(good.one_done, None)
    loop.call_soon(bad.one_done, OSError("disk"))
    assert await good == b"well"
    assert await bad == b"disk"


async def test_awaited_it_raises_what_its_making_raised() -> None:
    answer = PendingResponse(lambda _: [][1], 1)
    asyncio.get_running_loop().call_soon(answer.one_done, None)
    with pytest.raises(IndexError):
        await answer
