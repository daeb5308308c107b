from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from tidelog.broker.security.sasl.login_attempts import PasswordChecks


class Thread(Executor):
    """Work is done when the test says so, one after the other."""

    def __init__(self) -> None:
        self.given: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, work: Any, /, *arguments: Any, **more: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.given.append((future, work))
        return future

    async def do_one(self) -> None:
        future, work = self.given.pop(0)
        future.set_result(work())
        await settled()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Checking:
    def __init__(self) -> None:
        self.thread = Thread()
        self.checks = PasswordChecks(self.thread)
        self.done: list[str] = []

    async def check(self, peer: str, name: str) -> bool:
        async with self.checks.turn(peer) as run:
            return await run(lambda: bool(self.done.append(name)) or name.startswith("good"))

    async def begin(self, *clients: tuple[str, str]) -> list[asyncio.Task[bool]]:
        tasks = [asyncio.ensure_future(self.check(*client)) for client in clients]
        await settled()
        return tasks

    async def do_all(self) -> None:
        while self.thread.given:
            assert len(self.thread.given) == 1, (
                "one at a time, or the thread's own row would be first come, first served"
            )
            await self.thread.do_one()


async def test_one_address_with_a_hundred_guesses_keeps_another_back_by_one_of_them() -> None:
    checking = Checking()
    guesses = await checking.begin(*[("10.0.0.66", f"guess {number}") for number in range(100)])
    good = await checking.begin(("10.0.0.1", "good"))
    await checking.do_all()
    assert checking.done.index("good") == 2, "behind the one in work and the one that was next"
    assert await good[0]
    assert not any([await task for task in guesses])
    assert len(checking.done) == 101


async def test_addresses_take_turns_and_within_one_the_first_is_first() -> None:
    checking = Checking()
    await checking.begin(("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("b", "b2"), ("c", "c1"))
    assert checking.checks.waiting == 5
    await checking.do_all()
    assert checking.done == ["a1", "a2", "b1", "c1", "a3", "b2"]
    assert checking.checks.waiting == 0


async def test_addresses_of_one_network_are_one_row() -> None:
    checking = Checking()
    await checking.begin(*[("2001:db8::1", "1"), ("2001:db8::2", "2"), ("2001:db8::3", "3"), ("10.0.0.1", "other")])
    await checking.do_all()
    assert checking.done == ["1", "2", "other", "3"]


async def test_who_has_gone_holds_nobody_up() -> None:
    checking = Checking()
    tasks = await checking.begin(("a", "a1"), ("a", "a2"), ("b", "b1"), ("c", "c1"))
    for task in tasks[:3]:  # the one in work too: the thread ends it, nobody waits for it
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await settled()
    while checking.thread.given:
        future, work = checking.thread.given.pop(0)
        if future.set_running_or_notify_cancel():
            future.set_result(work())
        await settled()
    assert checking.done == ["c1"]
    assert await tasks[3] is False
    again = await checking.begin(("a", "good"))
    await checking.do_all()
    assert await again[0]


async def test_a_check_that_fails_lets_the_next_one_go_on() -> None:
    checking = Checking()

    async def refused() -> None:
        async with checking.checks.turn("a"):
            await asyncio.sleep(0)
            raise ValueError

    first = asyncio.ensure_future(refused())
    second = await checking.begin(("a", "good"))
    await checking.do_all()
    assert await second[0]
    assert isinstance(first.exception(), ValueError)
