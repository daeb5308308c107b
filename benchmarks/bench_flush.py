"""`flush.messages=1`: every answer waits for the disk. 64 producers, one record a request; 1 partition, and 64."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from measure import KAFKA, Goal, Row
from session import Session, details

ONE = Row("flush-1", "flush.messages=1, 64 producers on 1 partition", "acks/s", (Goal(10, KAFKA, at_least=True),))
MANY = Row("flush-64", "flush.messages=1, 64 producers on 64 partitions", "acks/s", (Goal(1.2, KAFKA, at_least=True),))
ROWS = (ONE, MANY)


def run(session: Session) -> None:
    wanted = [(row, partitions) for row, partitions in ((ONE, 1), (MANY, 64)) if session.wants(row)]
    if not wanted:
        return
    brokers = session.pair()
    for order in session.rounds(at_most=1 if session.quick else None):
        disk_us = _fdatasync_us(session.directory)
        session.say(f"one fdatasync of 1 KiB appended: {disk_us:.0f} µs")
        for row, partitions in wanted:
            for side in order:
                broker = brokers[side]
                with session.topic(broker, partitions, {"flush.messages": 1}) as topic:
                    options = ("--connections", 64, "--partitions", partitions, "--warmup", 0.5)
                    result = session.load(broker, "produce", topic, *options, "--seconds", session.seconds(1.5, 5.0))
                    session.verify(broker, topic, result, partitions)
                session.add(row, side, result["requests_per_s"], {**details(result), "fdatasync_us": disk_us})


def _fdatasync_us(directory: Path) -> float:
    """Median microseconds of an fdatasync behind an append of 1 KiB, with nobody else at the disk."""
    path = directory / "fdatasync"
    times = []
    with path.open("wb", buffering=0) as file:
        for _ in range(50):
            file.write(os.urandom(1024))
            begin = time.monotonic()
            os.fdatasync(file.fileno())
            times.append(time.monotonic() - begin)
    path.unlink()
    return statistics.median(times) * 1e6
