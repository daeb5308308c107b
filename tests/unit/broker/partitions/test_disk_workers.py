"""Syncs in threads: each is run once and told once on the loop thread, as many at a time as there are threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from support.patience import PATIENCE_S
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
    return await asyncio.wait_for(asyncio.gather(*futures), PATIENCE_S)


def threads_of(name: str) -> list[threading.Thread]:
    """The live threads of the workers of that name. Those of another test may still be ending."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(f"{name}-")]


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
    barrier = threading.Barrier(3, timeout=PATIENCE_S)
    try:
        met = await outcomes(syncer, [barrier.wait] * 3)
        assert sorted(n for n in met if isinstance(n, int)) == [0, 1, 2]
    finally:
        syncer.close()


async def test_threads_are_made_when_needed_and_end_when_closed() -> None:
    syncer = DiskWorkers(asyncio.get_running_loop(), "lazy", threads=4)
    assert threads_of("lazy") == []
    await outcomes(syncer, [lambda: 1])
    made = threads_of("lazy")
    assert len(made) == 1
    syncer.close()
    for thread in made:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


async def test_nothing_is_told_after_the_close() -> None:
    syncer = DiskWorkers(asyncio.get_running_loop(), "closed", threads=1)
    begun, go = threading.Event(), threading.Event()
    told: list[object] = []

    def sync() -> int:
        begun.set()
        assert go.wait(PATIENCE_S)
        return 1

    syncer.submit(sync, told.append)
    assert begun.wait(PATIENCE_S)
    (thread,) = threads_of("closed")
    syncer.close()
    go.set()
    await asyncio.to_thread(thread.join, PATIENCE_S)
    assert not thread.is_alive()
    await asyncio.sleep(0)
    assert told == []


async def test_what_the_threads_have_at_the_close_is_done_before_the_join_ends() -> None:
    syncer = DiskWorkers(asyncio.get_running_loop(), "test", threads=1)
    begun, go = threading.Event(), threading.Event()
    done: list[int] = []

    def work(number: int) -> Callable[[], int]:
        def run() -> int:
            begun.set()
            assert go.wait(PATIENCE_S)
            done.append(number)
            return number

        return run

    for number in range(5):
        syncer.submit(work(number), lambda _: None)
    assert begun.wait(PATIENCE_S)
    syncer.close()
    joined = asyncio.get_running_loop().run_in_executor(None, syncer.join)
    assert done == []
    go.set()
    await asyncio.wait_for(joined, PATIENCE_S)
    assert done == list(range(5)), "in their order, as one thread does them"
