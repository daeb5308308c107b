"""The ring of samples: what has risen between two looks, and nothing else."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from support.nodes import fake_node, services_with
from tidelog.broker.http.console.samples import INTERVAL_S, KEPT, ApiSample, Samples
from tidelog.broker.monitoring.node_state import NodeState
from tidelog.broker.requests.counters import RequestCounters
from tidelog.config.broker_config import BrokerConfig


class SampledBroker:
    """A broker's counters, a clock, and a loop that does what it is told when `turn` is called."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.calls: list[Any] = []
        self.counters = RequestCounters()
        self.server = SimpleNamespace(received_bytes=0, send_counters=SimpleNamespace(sent_bytes=0), connections={1, 2})
        self.node = fake_node(
            loop=SimpleNamespace(call_soon_threadsafe=self.calls.append),
            counters=self.counters,
            socket_server=self.server,
            cleaner=SimpleNamespace(pool=SimpleNamespace(throttler=SimpleNamespace(total_bytes=0))),
            time=SimpleNamespace(milliseconds=lambda: int(self.now_s * 1000)),
        )
        self.samples = Samples(self.node, lambda: self.now_s)

    def turn(self) -> None:
        while self.calls:
            self.calls.pop(0)()

    def later(self, seconds: float = INTERVAL_S) -> None:
        self.now_s += seconds
        self.samples.tick()
        self.turn()


def test_a_sample_has_what_has_risen() -> None:
    sampled = SampledBroker()
    sampled.counters.produced_bytes = 1000
    sampled.counters.latencies[3][20] = 5
    sampled.counters.nanoseconds[3] = 5000
    sampled.later(0)
    assert sampled.samples.samples() == [], "the first look has nothing to compare with"
    sampled.counters.produced_bytes += 70
    sampled.counters.errors[3, 1] += 2
    sampled.counters.latencies[3][20] += 1
    sampled.counters.latencies[3][22] += 3
    sampled.counters.nanoseconds[3] += 900
    sampled.server.received_bytes = 40
    sampled.later()
    (sample,) = sampled.samples.samples()
    assert (sample.at_ms, sample.seconds, sample.connections, sample.requests) == (105_000, 5.0, 2, 4)
    assert sample.apis == (ApiSample(3, 4, 900, ((20, 1), (22, 3))),)
    assert (sample.risen.produced_bytes, sample.risen.received_bytes, sample.risen.errors) == (70, 40, 2)
    sampled.later()
    assert sampled.samples.samples()[-1].apis == (), "an idle daemon's sample holds nothing"


def test_it_looks_when_it_is_due_and_never_piles_up() -> None:
    sampled = SampledBroker()
    sampled.later(0)
    for _ in range(10):
        sampled.later(INTERVAL_S / 10.5)
    assert len(sampled.samples.samples()) == 0
    sampled.now_s += 60
    for _ in range(5):  # the loop stands still
        sampled.samples.tick()
        sampled.now_s += 60
    assert len(sampled.calls) == 1
    sampled.turn()
    assert len(sampled.samples.samples()) == 1


def test_the_ring_has_an_end() -> None:
    sampled = SampledBroker()
    for _ in range(KEPT + 20):
        sampled.later()
    assert len(sampled.samples.samples()) == KEPT


def test_before_a_node_has_its_parts_nothing_is_asked_and_then_at_once() -> None:
    sampled = SampledBroker()
    node = NodeState(BrokerConfig(), sampled.node.loop, None)  # type: ignore[arg-type]
    samples = Samples(node, lambda: sampled.now_s)
    sampled.now_s += 100 * INTERVAL_S
    samples.tick()
    assert sampled.calls == []
    node.services = services_with(counters=sampled.counters, socket_server=sampled.server, cleaner=sampled.node.cleaner)
    samples.tick()
    sampled.turn()
    sampled.now_s += INTERVAL_S
    samples.tick()
    assert len(sampled.calls) == 1


def test_a_loop_that_is_closed() -> None:
    sampled = SampledBroker()

    def closed(call: Any) -> None:
        raise RuntimeError("closed")

    sampled.node.loop.call_soon_threadsafe = closed
    sampled.samples.tick()


def test_counters_of_the_ring_are_those_of_the_daemon() -> None:
    """Their sum over any stretch is what the totals rose by."""
    sampled = SampledBroker()
    sampled.later(0)
    total: Counter[int] = Counter()
    for number in range(20):
        sampled.counters.latencies[number % 3][10 + number % 5] += number
        sampled.counters.nanoseconds[number % 3] += number
        total[number % 3] += number
        sampled.later()
    found: Counter[int] = Counter()
    for sample in sampled.samples.samples():
        for api in sample.apis:
            found[api.key] += api.requests
    assert found == total
