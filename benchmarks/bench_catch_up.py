"""Do readers and writers at the tail suffer from a reader that catches up from a cold disk?

2,000 single-record produce requests a second (open loop) and one consumer at the tail, first alone, then while another
consumer reads a large topic whose pages were thrown out of the page cache. The figures are the p99 with over the p99
without, the p99 itself, and how fast the catch-up is; ours once more with `fetch.cold.disk.percent=100`, which lets it go
first. A tail read's latency is the record's age when it arrives: from the moment its request was due.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import wire
from brokers import Broker
from measure import KAFKA, OURS, Goal, Row
from session import BATCH_64K, LoadError, Session, finish_load

TAIL = Row("catch-up-tail", "p99 of tail reads during a cold catch-up ÷ without", "×")
PRODUCE = Row("catch-up-produce", "p99 of produces during a cold catch-up ÷ without", "×")
TAIL_P99 = Row("catch-up-tail-p99", "p99 of tail reads during a cold catch-up", "ms", (Goal(20),))
PRODUCE_P99 = Row("catch-up-produce-p99", "p99 of produces during a cold catch-up", "ms", (Goal(20),))
SPEED = Row("catch-up-speed", "Cold catch-up beside them", "MB/s", (Goal(0.4, KAFKA, at_least=True),))
FIRST_P99 = Row(
    "catch-up-first-p99", "p99 of produces while it goes first (fetch.cold.disk.percent=100)", "ms", (Goal(1, KAFKA),)
)
FIRST_SPEED = Row("catch-up-first-speed", "Cold catch-up that goes first", "MB/s", (Goal(0.8, KAFKA, at_least=True),))
ROWS = (TAIL, PRODUCE, TAIL_P99, PRODUCE_P99, SPEED, FIRST_P99, FIRST_SPEED)
PERCENT = "fetch.cold.disk.percent"
COLD, WARM = "catch-up-cold", "catch-up-tail"


def run(session: Session) -> None:
    if not session.wants(*ROWS):
        return
    brokers = session.pair()
    size = int(session.seconds(1e9, 10e9))
    produced = {}
    for side, broker in brokers.items():
        session.say(f"{side}: writing {size / 1e9:.0f} GB")
        wire.create_topic(broker.port, COLD, 1, {"segment.bytes": 256 << 20})
        wire.create_topic(broker.port, WARM)
        produced[side] = session.load(broker, "produce", COLD, *BATCH_64K, "--depth", 5, "--bytes", size)
    with session.may_sleep():
        for order in session.rounds(at_most=1 if session.quick else 5):
            for side in order:
                _measure(session, side, brokers[side], produced[side])
                _measure_first(session, side, brokers[side], produced[side])
    for broker in brokers.values():
        wire.delete_topic(broker.port, COLD)
        wire.delete_topic(broker.port, WARM)


def _measure(session: Session, side: str, broker: Broker, produced: dict[str, Any]) -> None:
    seconds = session.seconds(1.5, 10.0)
    without_produce, without_tail = _tail_load(session, broker, seconds)
    with_produce, with_tail, read = _catch_up(session, broker, produced, seconds)
    overlap = min(1.0, read["seconds"] / (seconds + 0.7))
    for row, key, alone, together in (
        (TAIL, "age_p99_us", without_tail, with_tail),
        (PRODUCE, "p99_us", without_produce, with_produce),
    ):
        facts = {
            "p99_alone_us": alone[key],
            "p99_with_us": together[key],
            "MB_per_s": read["MB_per_s"],
            "overlap": overlap,
            "machine_p99_us": with_produce["machine_p99_us"],
        }
        session.add(row, side, together[key] / alone[key], facts)
    for row, value in (
        (TAIL_P99, with_tail["age_p99_us"] / 1000),
        (PRODUCE_P99, with_produce["p99_us"] / 1000),
        (SPEED, read["MB_per_s"]),
    ):
        session.add(row, side, value, {"overlap": overlap})
    session.say(
        f"{side}: catch-up {read['MB_per_s']:.0f} MB/s, over {overlap:.0%} of the measured time; "
        f"the machine's own p99 {with_produce['machine_p99_us'] / 1000:.1f} ms"
    )


def _measure_first(session: Session, side: str, broker: Broker, produced: dict[str, Any]) -> None:
    """The same with catching up first; Apache Kafka has no such setting and is measured as it is."""
    if side == OURS:
        wire.alter_brokers(broker.port, PERCENT, 100)
    produce, _, read = _catch_up(session, broker, produced, session.seconds(1.5, 10.0))
    if side == OURS:
        wire.alter_brokers(broker.port, PERCENT, 50)
    facts = {"MB_per_s": read["MB_per_s"], "machine_p99_us": produce["machine_p99_us"]}
    session.add(FIRST_P99, side, produce["p99_us"] / 1000, facts)
    session.add(FIRST_SPEED, side, read["MB_per_s"])


def _catch_up(
    session: Session, broker: Broker, produced: dict[str, Any], seconds: float
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Results of the producers, the tail reader and the one that catches up from the disk beside them."""
    forget_pages(broker.partition_directory(COLD))
    catching_up = session.begin_load(broker, "fetch", COLD, "--once")
    time.sleep(0.2)
    with session.standing_still() as facts:
        with_produce, with_tail = _tail_load(session, broker, seconds)
    with_produce |= facts
    read = finish_load(catching_up)
    if read["checksum"] != produced["checksum"] or read["all_records"] != produced["all_records"]:
        raise LoadError(f"{broker.name}: the catch-up read other records than were produced")
    return with_produce, with_tail, read


def _tail_load(session: Session, broker: Broker, seconds: float) -> tuple[dict[str, Any], dict[str, Any]]:
    reader = session.begin_load(broker, "fetch", WARM, "--tail", "--warmup", 0.5, "--seconds", seconds)
    writer = session.begin_load(
        broker, "produce", WARM, "--rate", 2000, "--connections", 4, "--warmup", 0.5, "--seconds", seconds
    )
    return finish_load(writer), finish_load(reader)


def forget_pages(directory: Path) -> None:
    """Writes a partition's segments to the disk and drops them from the page cache."""
    for path in directory.glob("*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
