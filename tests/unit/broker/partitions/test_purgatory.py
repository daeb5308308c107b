"""Fetches that wait: woken by news, answered when the time is up, gone without a trace when their connection is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tidelog.broker.partitions.purgatory import FetchPurgatory


class ManualTimer:
    """Delays that the test lets pass."""

    def __init__(self) -> None:
        self.delays: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> ManualTimer:
        self.delays.append((delay_ms, callback))
        return self

    def cancel(self) -> None:
        self.delays.clear()


class Watched:
    def __init__(self) -> None:
        self.waiters: set[object] = set()


class Answers:
    """Answers once `ready`, or at the last attempt."""

    def __init__(self) -> None:
        self.ready = False
        self.attempts: list[bool] = []

    def __call__(self, last: bool) -> list[bytes] | None:
        self.attempts.append(last)
        return [b"x"] if self.ready or last else None


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def wait(answers: Answers) -> tuple[FetchPurgatory, ManualTimer, Watched, asyncio.Future[list[bytes]]]:
    timer, partition = ManualTimer(), Watched()
    purgatory = FetchPurgatory(asyncio.get_running_loop(), timer)
    future = purgatory.wait([partition], 500, answers)  # type: ignore[list-item, arg-type]
    return purgatory, timer, partition, future  # type: ignore[return-value]


async def test_news_are_looked_at_once_a_turn_and_answered_when_enough() -> None:
    answers = Answers()
    purgatory, timer, partition, future = wait(answers)
    assert timer.delays[0][0] == 500
    for waiter in list(partition.waiters):
        waiter.wake()  # type: ignore[attr-defined]
        waiter.wake()  # type: ignore[attr-defined]
    await turns()
    assert answers.attempts == [False], "two wake-ups in one turn are one look"
    assert not future.done()
    answers.ready = True
    for waiter in list(partition.waiters):
        waiter.wake()  # type: ignore[attr-defined]
    assert await future == [b"x"]
    await turns()
    assert (purgatory.waiting, partition.waiters, timer.delays) == (0, set(), [])


async def test_the_time_being_up_answers_with_what_there_is() -> None:
    answers = Answers()
    purgatory, timer, partition, future = wait(answers)
    timer.delays[0][1]()
    assert await future == [b"x"]
    assert answers.attempts == [True]
    await turns()
    assert (purgatory.waiting, partition.waiters) == (0, set())


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    answers = Answers()
    purgatory, timer, partition, future = wait(answers)
    [waiter] = partition.waiters
    future.cancel()
    await turns()
    assert (purgatory.waiting, partition.waiters, timer.delays) == (0, set(), [])
    waiter.wake()  # type: ignore[attr-defined]
    await turns()
    assert answers.attempts == []


async def test_an_error_of_the_attempt_is_the_error_of_the_wait() -> None:
    def fail(last: bool) -> list[bytes]:
        raise RuntimeError("disk")

    timer, partition = ManualTimer(), Watched()
    purgatory = FetchPurgatory(asyncio.get_running_loop(), timer)
    future = purgatory.wait([partition], 500, fail)  # type: ignore[list-item, arg-type]
    timer.delays[0][1]()
    with pytest.raises(RuntimeError, match="disk"):
        await future
    await turns()
    assert purgatory.waiting == 0


async def test_a_stop_answers_everybody_who_waits() -> None:
    answers = Answers()
    purgatory, _, partition, future = wait(answers)
    purgatory.expire_all()
    assert await future == [b"x"]
    await turns()
    assert (purgatory.waiting, partition.waiters) == (0, set())
