"""The engine on toys: it finds planted races, tells deadlocks, repeats itself from a number; its parts act as the real ones."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from typing import Any, ClassVar

import pytest
from simulation import again
from simulation.loop import SimLoop
from simulation.network import Network
from simulation.preemption import Preemption
from simulation.primitives import installed
from simulation.scheduler import Deadlock, Killed, Simulation, SimulationError, TooManySteps

SEEDS = 60


@pytest.fixture(autouse=True)
def _primitives() -> Iterator[None]:
    with installed():
        yield


def in_simulation(seed: int, body: Callable[[Simulation], Any], **how: Any) -> Any:
    with Simulation(seed, **how) as sim:
        return body(sim)


def threads(*bodies: Callable[[], object]) -> None:
    started = [threading.Thread(target=body) for body in bodies]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def lost_update(_: Simulation) -> int:
    """Two threads add one each, with a lock around the reading and one around the writing, and none around both."""
    lock, box = threading.Lock(), [0]

    def add() -> None:
        with lock:
            found = box[0]
        with lock:
            box[0] = found + 1

    threads(add, add)
    return box[0]


def kept_update(_: Simulation) -> int:
    lock, box = threading.Lock(), [0]

    def add() -> None:
        with lock:
            found = box[0]
            time.sleep(0.01)
            box[0] = found + 1

    threads(add, add, add)
    return box[0]


def test_finds_an_update_that_two_threads_lose() -> None:
    assert {in_simulation(seed, lost_update) for seed in range(SEEDS)} == {1, 2}


def test_a_lock_excludes_under_every_seed() -> None:
    assert {in_simulation(seed, kept_update) for seed in range(SEEDS)} == {3}


class _AlwaysChooses(Simulation):
    """Without the short way of `switch` for a step that no other thread could take."""

    def switch(self, where: str) -> None:
        me = self.current
        if me.killed:
            raise Killed
        me.where = where
        if (following := self._choose(me)) is not me:
            self._hand_over(me, following)


def test_the_short_way_of_a_thread_alone_makes_the_run_that_choosing_makes() -> None:
    def busy(sim: Simulation) -> tuple[int, int, str]:
        def works() -> None:
            for number in range(40):
                time.sleep(0.001 * (number % 3))
                for _ in range(number):
                    sim.switch("alone, or not")

        sim.at(5_000_000, lambda: sim.note("an event"))
        threads(works, works, lambda: lost_update(sim))
        return sim.steps, sim.now_ns, sim.digest

    for seed in range(10):
        with _AlwaysChooses(seed) as sim:
            slowly = busy(sim)
        assert in_simulation(seed, busy) == slowly


ROOM = "/toys"
"""Where `TOYS` stand, whose lines may be switch points: the lines of the engine must not be."""
TOYS = """
def adds(sim, box):
    for _ in range(10):
        found = box[0]
        box[0] = found + 1
    sim.switch("half")
    for _ in range(10):
        found = box[0]
        box[0] = found + 1

def works(sim):
    for _ in range(100):
        sim.switch("point")
        for _ in range(5):
            pass
"""


def with_lines(sim: Simulation, toy: str, *arguments: object, room: str = ROOM, chance: float) -> int:
    """Has two threads of a daemon run a toy; how often a line was a switch point."""
    toys: dict[str, Any] = {}
    exec(compile(TOYS, f"{ROOM}/toys.py", "exec"), toys)
    preemption = Preemption(sim, (room,), chance)
    sim.at_point = preemption.at_point
    tasks = [sim.spawn(name, lambda: toys[toy](sim, *arguments), group="daemon") for name in ("one", "other")]
    while not all(task.done for task in tasks):
        time.sleep(1)
    return preemption.switches


@pytest.mark.parametrize(("room", "may_be_lost"), [(ROOM, True), ("storage", False)])
def test_finds_an_update_that_two_threads_lose_between_two_lines(room: str, may_be_lost: bool) -> None:
    """No lock and no call is between them, and a thread is traced from its begin, or from a switch point that it comes back
    to, on."""

    def lost(sim: Simulation) -> int:
        box = [0]
        with_lines(sim, "adds", box, room=room, chance=0.02)
        return 40 - box[0]

    found = [in_simulation(seed, lost) for seed in range(SEEDS)]
    assert min(found) == 0
    assert (max(found) > 0) == may_be_lost
    assert found == [in_simulation(seed, lost) for seed in range(SEEDS)]


@pytest.mark.parametrize("chance", [0.003, 0.02, 0.1])
def test_lines_are_switch_points_as_often_as_is_asked_however_few_stretches_are_traced(chance: float) -> None:
    found = sum(in_simulation(seed, lambda sim: with_lines(sim, "works", chance=chance)) for seed in range(40))
    lines = 2 * 100 * (2 + 6 + 5)
    assert found == pytest.approx(40 * lines * chance, rel=0.3)


def test_finds_a_signal_that_comes_before_anyone_waits() -> None:
    def missed(_: Simulation) -> bool:
        condition, done = threading.Condition(), []

        def waits() -> None:
            with condition:
                done.append(condition.wait(timeout=5))

        def tells() -> None:
            with condition:
                condition.notify_all()

        threads(waits, tells)
        return bool(done[0])

    assert {in_simulation(seed, missed) for seed in range(SEEDS)} == {True, False}


def test_tells_a_deadlock_with_the_stack_of_each_thread() -> None:
    def embrace(_: Simulation) -> None:
        first, second = threading.Lock(), threading.Lock()

        def one_way() -> None:
            with first, second:
                pass

        def other_way() -> None:
            with second, first:
                pass

        threads(one_way, other_way)

    told = []
    for seed in range(SEEDS):
        try:
            in_simulation(seed, embrace)
        except Deadlock as error:
            told.append(str(error))
    assert 0 < len(told) < SEEDS
    assert all("one_way" in text and "other_way" in text for text in told)


def test_a_wait_without_an_end_is_a_failure() -> None:
    def spins(sim: Simulation) -> None:
        while True:
            sim.switch("spin")

    with pytest.raises(TooManySteps, match="spins"):
        in_simulation(1, spins, most_steps=1000)


def test_an_exception_that_ends_a_thread_fails_the_run() -> None:
    with pytest.raises(SimulationError, match="ZeroDivisionError"):
        in_simulation(1, lambda _: threads(lambda: 1 / 0))


def test_time_passes_only_in_the_simulation() -> None:
    def sleeps(_: Simulation) -> float:
        began = time.monotonic()
        threads(lambda: time.sleep(3600), lambda: time.sleep(7200))
        return time.monotonic() - began

    assert 7200 <= in_simulation(1, sleeps) < 7201


def pools_and_queues(sim: Simulation) -> tuple[str, list[int]]:
    rows: queue.SimpleQueue[int] = queue.SimpleQueue()
    with ThreadPoolExecutor(3) as pool:
        for number in range(8):
            pool.submit(rows.put, number)
    return sim.digest, [rows.get() for _ in range(8)]


def test_executors_run_everything_and_in_the_order_of_the_seed() -> None:
    runs = [in_simulation(seed, pools_and_queues) for seed in range(20)]
    assert all(sorted(order) == list(range(8)) for _, order in runs)
    assert len({tuple(order) for _, order in runs}) > 1
    assert runs == [in_simulation(seed, pools_and_queues) for seed in range(20)]
    assert len({digest for digest, _ in runs}) > 10


def test_who_is_killed_ends_and_holds_no_lock_that_others_want() -> None:
    def kill(sim: Simulation) -> list[str]:
        lock, seen = threading.Lock(), []

        def holder() -> None:
            with lock:
                seen.append("held")
                time.sleep(100)
                seen.append("never")

        sim.spawn("holder", holder, group="victim")
        time.sleep(1)
        sim.kill("victim")
        assert lock.acquire(timeout=1)
        return seen

    for seed in range(SEEDS):
        assert in_simulation(seed, kill) == ["held"]


def test_a_thread_that_one_starts_on_its_way_to_its_end_is_killed_with_its_process() -> None:
    """A pool's thread that leaves work does; of the thread that struck the process itself too, which ends last."""

    def kill(sim: Simulation, by_itself: bool) -> list[str]:
        seen: list[str] = []

        def leaves_work() -> None:
            try:
                if by_itself:
                    sim.kill("victim")
                    sim.current.killed = True
                time.sleep(100)
            finally:
                sim.spawn("another", lambda: seen.append("it works on"))

        sim.spawn("pool", leaves_work, group="victim")
        time.sleep(1)
        if not by_itself:
            sim.kill("victim")
        time.sleep(1)
        return seen

    for seed in range(SEEDS):
        for by_itself in (False, True):
            assert in_simulation(seed, partial(kill, by_itself=by_itself)) == []


class Echo(asyncio.Protocol):
    made: ClassVar[list[Any]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.made.append(transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


async def exchange(sim: Simulation, size: int, spoil: Callable[[Any], object] | None = None) -> bytes:
    """Sends `size` bytes to an echo server and reads until all are back."""
    loop = asyncio.get_running_loop()
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.bind(("127.0.0.1", 0))
    await loop.create_server(Echo, sock=listening)
    network = Network.of(sim)
    network.delays.window = 4096
    sock: Any = network.connect(listening.getsockname())
    sent = bytes(range(256)) * (size // 256)

    async def sends() -> None:
        with contextlib.suppress(ConnectionError):
            await loop.sock_sendall(sock, sent)

    sending = loop.create_task(sends())
    if spoil is not None:
        loop.call_later(0.0005, spoil, sock.end)
    got = b""
    while len(got) < len(sent) and (data := await loop.sock_recv(sock, 1 << 16)):
        got += data
    await sending
    assert got == sent
    return got


async def _whole(coroutine: Any) -> Any:
    try:
        return await coroutine
    finally:
        while Echo.made:
            Echo.made.pop().abort()
        await asyncio.sleep(1)


def run(coroutine: Any) -> Any:
    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(_whole(coroutine))


def test_streams_deliver_all_bytes_in_order_whatever_the_window() -> None:
    for seed in range(20):
        assert len(in_simulation(seed, lambda sim: run(exchange(sim, 1 << 16)))) == 1 << 16


def test_a_reset_reaches_both_ends() -> None:
    with pytest.raises(ConnectionResetError):
        in_simulation(1, lambda sim: run(exchange(sim, 1 << 16, lambda end: end.reset())))


def test_of_a_silent_stream_nobody_hears() -> None:
    async def waits(sim: Simulation) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(exchange(sim, 1 << 16, lambda end: end.silence()), 3600)

    in_simulation(1, lambda sim: run(waits(sim)))


def test_a_loop_is_woken_by_other_threads() -> None:
    async def asks() -> int:
        return await asyncio.get_running_loop().run_in_executor(None, lambda: 7)

    assert {in_simulation(seed, lambda sim: run(asks())) for seed in range(SEEDS)} == {7}


def test_tasks_in_a_set_stand_in_the_same_order_wherever_they_lie() -> None:
    async def cancelled() -> list[int]:
        ended: list[int] = []

        async def waits(number: int) -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                ended.append(number)

        tasks = {asyncio.create_task(waits(number)) for number in range(20)}
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return ended

    orders = []
    for number in range(3):
        again.shuffle_memory(number)
        orders.append(in_simulation(1, lambda sim: run(cancelled())))
    assert orders[0] == orders[1] == orders[2]


def test_the_first_step_at_which_two_runs_part_is_told() -> None:
    steps = [str(number) for number in range(100)]
    assert again.first_difference(steps, list(steps)) == ""
    told = again.first_difference(steps, [*steps[:40], "another", *steps[41:]]).splitlines()
    assert told[-3:] == ["    39", "line 41: 40", "or: another"]
    assert again.first_difference(steps, steps[:99]).endswith("line 100: 99\nor: (the end)")


def test_steps_are_told_as_they_are_in_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bytes] = []
    monkeypatch.setattr(Simulation, "tell_steps", told.append)
    digest, _ = in_simulation(1, pools_and_queues)
    assert blake2b(told[0], digest_size=8).hexdigest() == digest
