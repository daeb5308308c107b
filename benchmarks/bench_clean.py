"""Cleaning: the speed of one pass, what it does to producers meanwhile, and its memory.

A topic is written with `cleanup.policy=delete` and then made `compact`, so that one pass finds all of it dirty. One cleaner
thread, the same segments and the same offset map on either side, the data in the page cache. Both sides say themselves how
long a pass took and what it read: Kafka in its log, ours in /metrics; both count bytes read in the second walk over the time
of both. Each side has cleaned a smaller topic before, and a JVM's compiler has had its time.
"""

from __future__ import annotations

import os
import re
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import NamedTuple

import wire
from brokers import Broker, BrokerError, Tidelog
from measure import KAFKA, OURS, QUIET, Goal, Row
from session import Session

MIB = 1 << 20
BUFFER_BYTES = 32 * MIB  # a million keys are 24 MB of entries
SPARE_BYTES = 32 * MIB
PLAIN = Row("clean-100b", "One pass, 100-byte records, 1 M keys, one thread", "MB/s", (Goal(5, KAFKA, at_least=True),))
LZ4 = Row("clean-lz4", "One pass, 1 KiB records in lz4, 1 M keys", "MB/s", (Goal(2, KAFKA, at_least=True),))
PRODUCE = Row("clean-produce", "p99 of 2,000 produces/s during passes", "ms", (Goal(2, QUIET, allowed=1.0),))
MEMORY = Row(
    "clean-memory", "RSS that a pass adds, buffer of 32 MiB", "MiB", (Goal((BUFFER_BYTES + SPARE_BYTES) / MIB),)
)
TWO = Row("clean-two", "Two passes at once on two cores ÷ one, by MB/s", "×", (Goal(1.7, at_least=True),))
ROWS = (PLAIN, LZ4, PRODUCE, MEMORY, TWO)
SMALL = ("--value-bytes", 76, "--records", 500, "--keys", 1_000_000, "--depth", 5)
LARGE = ("--value-bytes", 1000, "--records", 62, "--keys", 1_000_000, "--depth", 5, "--codec", "lz4")
SETTINGS = {
    "log.cleaner.threads": 1,
    "log.cleaner.dedupe.buffer.size": BUFFER_BYTES,
    "log.cleaner.backoff.ms": 200,
}
PASS_LIMIT_S = 900.0


class Pass(NamedTuple):
    """What a broker says of a pass: bytes that its second walk read, seconds of both walks. `cpu_s`: of the process."""

    read_bytes: float
    seconds: float
    cpu_s: float = 0.0

    @property
    def rate(self) -> float:
        return self.read_bytes / 1e6 / self.seconds

    def details(self) -> dict[str, float]:
        return {"seconds": self.seconds, "MB_per_s": self.rate, "server_cpu_s": self.cpu_s}


def run(session: Session) -> None:
    if not session.wants(*ROWS):
        return
    brokers = {side: session.fresh(side, SETTINGS) for side in session.sides}
    size = int(session.seconds(400e6, 2e9))
    for side, broker in brokers.items():
        broker.start()
        session.warm_up(broker, 14.0 if side == KAFKA else 1.5)
        for name, shape in (("warm-100b", SMALL), ("warm-lz4", LARGE)):
            _clean(session, broker, name, shape, int(session.seconds(150e6, 300e6)))
    for number, order in enumerate(session.rounds(at_most=1 if session.quick else 3)):
        for side in order:
            broker = brokers[side]
            if session.wants(PLAIN, MEMORY):
                one, grown = _clean(session, broker, f"plain-{number}", SMALL, size)
                session.add(PLAIN, side, one.rate, one.details())
                if side == OURS:
                    session.add(MEMORY, side, grown / MIB)
            if session.wants(LZ4):
                one, _ = _clean(session, broker, f"lz4-{number}", LARGE, size)
                session.add(LZ4, side, one.rate, one.details())
            if session.wants(PRODUCE):
                with session.may_sleep():
                    _measure_produce(session, side, broker, f"busy-{number}", size)
    for broker in brokers.values():
        broker.stop()
        broker.remove()
    if session.wants(TWO) and OURS in session.sides:
        _measure_two(session, size)


def write_dirty(session: Session, broker: Broker, topic: str, shape: tuple[object, ...], size: int) -> None:
    """A topic of so many bytes that is all dirty once it is compacted; durable, so that no pass pays for it."""
    session.say(f"{broker.name}: {size / 1e6:.0f} MB to clean")
    wire.create_topic(broker.port, topic, 1, {"segment.bytes": 64 * MIB, "retention.ms": -1})
    produced = session.load(broker, "produce", topic, *shape, "--bytes", size)
    session.verify(broker, topic, produced)
    os.sync()  # the disk is at rest on either side


def _clean(session: Session, broker: Broker, topic: str, shape: tuple[object, ...], size: int) -> tuple[Pass, float]:
    """One pass over a new topic of that size, and the bytes of RSS that came on top meanwhile."""
    write_dirty(session, broker, topic, shape, size)
    cpu_s = broker.cpu_seconds()
    with _Watch(broker.rss_bytes) as memory:
        wire.alter_topic(broker.port, topic, "cleanup.policy", "compact")
        one = _wait(broker, topic)
    one = one._replace(cpu_s=broker.cpu_seconds() - cpu_s)
    session.say(f"{broker.name}: {one.seconds:.1f} s, {one.cpu_s:.1f} s of CPU for {one.read_bytes / 1e6:.0f} MB")
    wire.delete_topic(broker.port, topic)
    return one, memory.most - memory.first


def _measure_produce(session: Session, side: str, broker: Broker, topic: str, size: int) -> None:
    """The p99 of an open loop of 2,000 single-record requests/s, with a pass under way all the time and without."""
    with session.topic(broker) as target:
        load = ("--rate", 2000, "--connections", 4, "--warmup", 0.3)
        for name in (topic, topic + "-more"):
            write_dirty(session, broker, name, SMALL, size)
        seconds = session.seconds(1.0, 5.0)
        alone = session.load(broker, "produce", target, *load, "--seconds", seconds)
        begin = time.monotonic()
        for name in (topic, topic + "-more"):
            wire.alter_topic(broker.port, name, "cleanup.policy", "compact")
        time.sleep(0.3)  # the cleaner's back-off
        with session.standing_still() as still:
            together = session.load(broker, "produce", target, *load, "--seconds", seconds)
        loaded = time.monotonic() - begin - 0.3
        cleaned = sum(_wait(broker, name).seconds for name in (topic, topic + "-more"))
        for name in (topic, topic + "-more"):
            wire.delete_topic(broker.port, name)
    facts = {"p99_alone_us": alone["p99_us"], "p99_with_us": together["p99_us"], "overlap": min(1.0, cleaned / loaded)}
    facts |= still
    session.add(PRODUCE, side, together["p99_us"] / 1000, facts)
    if side == OURS:
        session.add(PRODUCE, QUIET, alone["p99_us"] / 1000)
    session.say(
        f"{side}: p99 {alone['p99_us']:.0f} µs and {together['p99_us']:.0f} µs, cleaning {facts['overlap']:.0%} of it"
    )


def _measure_two(session: Session, size: int) -> None:
    """Passes over one topic, and over two at the same time, in a daemon with two cleaner threads."""
    settings = {
        "log.cleaner.threads": 2,
        "log.cleaner.dedupe.buffer.size": 2 * BUFFER_BYTES,
        "log.cleaner.backoff.ms": 20,
    }
    broker = session.fresh(OURS, SETTINGS | settings)
    assert isinstance(broker, Tidelog)
    broker.start()
    session.warm_up(broker, 1.5)
    _clean(session, broker, "warm", SMALL, int(session.seconds(150e6, 300e6)))
    for number in range(1 if session.quick else 3):
        rates = []
        for names in ([f"one-{number}"], [f"two-{number}", f"second-{number}"]):
            for name in names:
                write_dirty(session, broker, name, SMALL, size)
            for name in names:
                wire.alter_topic(broker.port, name, "cleanup.policy", "compact")
            passes = [_wait(broker, name) for name in names]
            ends = [_figure(broker, "timestamp_seconds", name) or 0.0 for name in names]
            took = max(ends) - min(end - one.seconds for end, one in zip(ends, passes, strict=True))
            rates.append(sum(one.read_bytes for one in passes) / 1e6 / took)
            for name in names:
                wire.delete_topic(broker.port, name)
        session.add(TWO, OURS, rates[1] / rates[0], {"one_MB_per_s": rates[0], "two_MB_per_s": rates[1]})
        session.say(f"two passes at once: {rates[1]:.0f} MB/s, one: {rates[0]:.0f}")
    broker.stop()
    broker.remove()


class _Watch:
    """Samples a figure every 10 ms; its value at the beginning and its largest."""

    def __init__(self, figure: Callable[[], int]) -> None:
        self._figure = figure
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.first = self.most = figure()

    def _run(self) -> None:
        while not self._over.wait(0.01):
            self.most = max(self.most, self._figure())

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def _wait(broker: Broker, topic: str) -> Pass:
    """Waits for the first pass over the topic."""
    deadline = time.monotonic() + PASS_LIMIT_S
    while time.monotonic() < deadline:
        found = _ours(broker, topic) if isinstance(broker, Tidelog) else _kafkas(broker, topic)
        if found is not None:
            return found
        time.sleep(0.1)
    raise BrokerError(f"{broker.name} has not cleaned {topic} in {PASS_LIMIT_S:g} s\n{broker.last_words()}")


def _ours(broker: Tidelog, topic: str) -> Pass | None:
    read_bytes, seconds = (_figure(broker, name, topic) for name in ("read_bytes", "seconds"))
    return None if read_bytes is None or seconds is None else Pass(read_bytes, seconds)


def _figure(broker: Tidelog, name: str, topic: str) -> float | None:
    """A metric of the topic's last pass; None before that has ended."""
    with urllib.request.urlopen(f"http://{wire.HOST}:{broker.http_port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.search(rf'^tidelog_cleaner_last_pass_{name}{{[^}}]*"{topic}"[^}}]*}} (\S+)$', text, re.MULTILINE)
    return None if found is None else float(found[1])


def _kafkas(broker: Broker, topic: str) -> Pass | None:
    text = (broker.directory / "server.log").read_text(errors="replace")
    found = re.search(
        rf"cleaned log {topic}-0 \(dirty section.*?\n\s*([\d.,]+) MB of log processed in ([\d.,]+) seconds", text
    )
    if found is None:
        return None
    megabytes, seconds = (float(number.replace(",", "")) for number in found.groups())
    return Pass(megabytes * MIB, seconds)
