"""Syncs in threads: each is run once and told once on the loop thread, as many at a time as there are threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from tidelog.broker.partitions.disk_workers import DiskWorkers


async def outcomes(syncer: DiskWorkers, syncs: list[Callable[[], int]]) -> list[int | BaseException]:
    """What the syncs came to, in their order, when all are told."""
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[int | BaseException]] = [loop.create_future() for _ in syncs]
    loop_thread = threading.get_ident()

    def teller(future: asyncio.Future[int | BaseException]) -> Callable[[int | BaseException], None]:
        def tell(outcome: int | BaseException) -> None:
            assert threading.get_ident() == loop_thread
            future.set_result(outcome)

        return tell

    for sync, future in zip(syncs, futures, strict=True):
        syncer.submit(sync, teller(future))
    return await asyncio.wait_for(asyncio.gather(*futures), 60)


async def test_each_is_told_once_in_whatever_order_the_disk_has() -> None:
    syncer = DiskWorkers(asyncio.get_running_loop(), "test", threads=3)
    try:
        for _ in range(20):
            assert await outcomes(syncer, [lambda n=n: n for n in range(50)]) == list(range(50))  # type: ignore[misc]
    finally:
        syncer.close()


async def test_an_error_is_an_outcome_and_the_thread_lives_on() -> None:
    syncer = DiskWorkers(asyncio.get_running_loop(), "test", threads=1)

    def fail() -> int:
        raise OSError(5, "disk")

    try:
        first, second = await outcomes(syncer, [fail, lambda: 7])
        assert isinstance(first, OSError)
        assert second == 7
    finally:
        syncer.close()


async def test_as_many_at_once_as_there_are_threads() -> None:
    """Each sync waits for two others: with three threads all go on, with two none would."""
    syncer = DiskWorkers(asyncio.get_running_loop(), "test", threads=3)
    barrier = threading.Barrier(3, timeout=60)
    try:
        met = await outcomes(syncer, [barrier.wait] * 3)
        assert sorted(n for n in met if isinstance(n, int)) == [0, 1, 2]
    finally:
        syncer.close()


async def test_threads_are_made_when_needed_and_end_when_closed() -> None:
    before = threading.active_count()
    syncer = DiskWorkers(asyncio.get_running_loop(), "lazy", threads=4)
    assert threading.active_count() == before
    await outcomes(syncer, [lambda: 1])
    made = [thread for thread in threading.enumerate() if thread.name.startswith("lazy-")]
    assert len(made) == 1
    syncer.close()
    for thread in made:
        thread.join(60)
        assert not thread.is_alive()


async def test_nothing_is_told_after_the_close() -> None:
    syncer = DiskWorkers(asyncio.get_running_loop(), "test", threads=1)
    begun, go = threading.Event(), threading.Event()
    told: list[object] = []

    def sync() -> int:
        begun.set()
        go.wait(60)
        return 1

    syncer.submit(sync, told.append)
    begun.wait(60)
    thread = next(thread for thread in threading.enumerate() if thread.name == "test-0")
    syncer.close()
    go.set()
    await asyncio.get_running_loop().run_in_executor(None, thread.join, 20)
    await asyncio.sleep(0)
    assert told == []


async def test_what_the_threads_have_at_the_close_is_done_before_the_join_ends() -> None:
    syncer = DiskWorkers(asyncio.get_running_loop(), "test", threads=1)
    begun, go = threading.Event(), threading.Event()
    done: list[int] = []

    def work(number: int) -> Callable[[], int]:
        def run() -> int:
            begun.set()
            assert go.wait(60)
            done.append(number)
            return number

        return run

    for number in range(5):
        syncer.submit(work(number), lambda _: None)
    begun.wait(60)
    syncer.close()
    joined = asyncio.get_running_loop().run_in_executor(None, syncer.join)
    assert done == []
    go.set()
    await asyncio.wait_for(joined, 60)
    assert done == list(range(5)), "in their order, as one thread does them"
