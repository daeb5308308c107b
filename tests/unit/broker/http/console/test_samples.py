"""The ring of samples: what has risen between two looks, and nothing else."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from tidelog.broker.http.console.samples import INTERVAL_S, KEPT, ApiSample, Samples
from tidelog.broker.requests.counters import RequestCounters


class World:
    """A broker's counters, a clock, and a loop that does what it is told when `turn` is called."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.calls: list[Any] = []
        self.counters = RequestCounters()
        self.server = SimpleNamespace(received_bytes=0, send_counters=SimpleNamespace(sent_bytes=0), connections={1, 2})
        self.broker = SimpleNamespace(
            loop=SimpleNamespace(call_soon_threadsafe=self.calls.append),
            counters=self.counters,
            socket_server=self.server,
            time=SimpleNamespace(milliseconds=lambda: int(self.now_s * 1000)),
        )
        self.samples = Samples(self.broker, lambda: self.now_s)  # type: ignore[arg-type]

    def turn(self) -> None:
        while self.calls:
            self.calls.pop(0)()

    def later(self, seconds: float = INTERVAL_S) -> None:
        self.now_s += seconds
        self.samples.tick()
        self.turn()


def test_a_sample_has_what_has_risen() -> None:
    world = World()
    world.counters.produced_bytes = 1000
    world.counters.latencies[3][20] = 5
    world.counters.nanoseconds[3] = 5000
    world.later(0)
    assert world.samples.samples() == [], "the first look has nothing to compare with"
    world.counters.produced_bytes += 70
    world.counters.errors[3, 1] += 2
    world.counters.latencies[3][20] += 1
    world.counters.latencies[3][22] += 3
    world.counters.nanoseconds[3] += 900
    world.server.received_bytes = 40
    world.later()
    (sample,) = world.samples.samples()
    assert (sample.at_ms, sample.seconds, sample.connections, sample.requests) == (105_000, 5.0, 2, 4)
    assert sample.apis == (ApiSample(3, 4, 900, ((20, 1), (22, 3))),)
    assert (sample.risen.produced_bytes, sample.risen.received_bytes, sample.risen.errors) == (70, 40, 2)
    world.later()
    assert world.samples.samples()[-1].apis == (), "an idle daemon's sample holds nothing"


def test_it_looks_when_it_is_due_and_never_piles_up() -> None:
    world = World()
    world.later(0)
    for _ in range(10):
        world.later(INTERVAL_S / 10.5)
    assert len(world.samples.samples()) == 0
    world.now_s += 60
    for _ in range(5):  # the loop stands still
        world.samples.tick()
        world.now_s += 60
    assert len(world.calls) == 1
    world.turn()
    assert len(world.samples.samples()) == 1


def test_the_ring_has_an_end() -> None:
    world = World()
    for _ in range(KEPT + 20):
        world.later()
    assert len(world.samples.samples()) == KEPT


def test_a_loop_that_is_closed() -> None:
    world = World()

    def closed(call: Any) -> None:
        raise RuntimeError("closed")

    world.broker.loop.call_soon_threadsafe = closed
    world.samples.tick()


def test_counters_of_the_ring_are_those_of_the_daemon() -> None:
    """Their sum over any stretch is what the totals rose by."""
    world = World()
    world.later(0)
    total: Counter[int] = Counter()
    for number in range(20):
        world.counters.latencies[number % 3][10 + number % 5] += number
        world.counters.nanoseconds[number % 3] += number
        total[number % 3] += number
        world.later()
    found: Counter[int] = Counter()
    for sample in world.samples.samples():
        for api in sample.apis:
            found[api.key] += api.requests
    assert found == total
