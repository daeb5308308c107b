"""What producers wait when all that a second core can do is done at once: TLS, conversions, cold reads and passes of the cleaner.

2,000 single-record produces a second (open loop), alone, and while one client produces 64 KiB batches by TLS at 30 MB/s, one of
Kafka 0.10's age reads batches of today (all of them are converted), a third reads 64 KiB batches that were dropped from the page
cache, and passes follow each other. The two cores have the clients on them too. Ours alone.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import wire
from bench_catch_up import forget_pages
from bench_clean import SETTINGS, SMALL, write_dirty
from bench_tls import Wrapped, identity
from measure import OURS, QUIET, Goal, Row
from session import BATCH_64K, Session, begin_command, finish_load

P99 = Row("busy-p99", "p99 of produces beside TLS, conversions, cold reads and passes at once", "ms", (Goal(2, QUIET),))
ROWS = (P99,)
FETCH, OLD_VERSION = 1, 2
COLD, OLD, QUICK, SECURE = "busy-cold", "busy-old", "busy-quick", "busy-secure"
TLS_BYTES_PER_S = 30e6
OLD_MAX_BYTES = 1 << 20


def run(session: Session) -> None:
    if OURS not in session.sides or not session.wants(P99):
        return
    session.drop_pair()
    one = Wrapped(session, OURS, *identity(session.directory / "tls"))
    one.broker.settings.update(SETTINGS)
    broker = one.broker
    broker.start()
    session.warm_up(broker, 1.5)
    for topic in (COLD, OLD, QUICK, SECURE):
        wire.create_topic(broker.port, topic)
    for topic, size in ((COLD, session.seconds(1e9, 4e9)), (OLD, 200e6)):
        session.load(broker, "produce", topic, *BATCH_64K, "--depth", 5, "--bytes", int(size))
    with session.may_sleep():
        _rounds(session, one)


def _rounds(session: Session, one: Wrapped) -> None:
    broker, seconds = one.broker, session.seconds(2.0, 8.0)
    for number in range(session.round_count):
        alone = _produces(session, broker, seconds)
        dirty = [f"busy-{number}-{part}" for part in range(2)]
        for topic in dirty:
            write_dirty(session, broker, topic, SMALL, int(session.seconds(400e6, 1e9)))
        forget_pages(broker.partition_directory(COLD))
        with _beside(session, one, dirty, seconds), session.standing_still() as still:
            together = _produces(session, broker, seconds)
        for topic in dirty:
            wire.delete_topic(broker.port, topic)
        facts = {"p99_alone_us": alone["p99_us"], "p99_with_us": together["p99_us"], **still}
        session.add(P99, OURS, together["p99_us"] / 1000, facts)
        session.add(P99, QUIET, alone["p99_us"] / 1000)
    broker.remove()


def _produces(session: Session, broker: Any, seconds: float) -> dict[str, Any]:
    load = ("--rate", 2000, "--connections", 4, "--warmup", 0.5, "--seconds", seconds)
    return session.load(broker, "produce", QUICK, *load)


@contextlib.contextmanager
def _beside(session: Session, one: Wrapped, dirty: list[str], seconds: float) -> Iterator[None]:
    """Everything under way for the block, which takes `seconds` and little more."""
    broker = one.broker
    over = threading.Event()
    read_bytes = itertools.count()
    reader = threading.Thread(target=_read_old, args=(broker.port, over, read_bytes))
    cold = session.begin_load(broker, "fetch", COLD, "--max-bytes", 1 << 16, "--seconds", seconds + 2)
    with one.wrapper() as port:
        secure = begin_command(
            "produce", "--port", port, "--topic", SECURE, *BATCH_64K, "--depth", 2,
            "--rate", TLS_BYTES_PER_S / (62 * 1024), "--seconds", seconds + 2,
        )  # fmt: skip
        reader.start()
        try:
            for topic in dirty:
                wire.alter_topic(broker.port, topic, "cleanup.policy", "compact")
            time.sleep(0.3)  # the cleaner's back-off
            yield
        finally:
            over.set()
            reader.join()
            results = {"TLS": finish_load(secure), "cold": finish_load(cold)}
    rates = ", ".join(f"{name} {result['MB_per_s']:.0f} MB/s" for name, result in results.items())
    session.say(f"beside: {rates}, converted answers {next(read_bytes)}")


def _read_old(port: int, over: threading.Event, answers: Iterator[int]) -> None:
    """Fetches from the topic's begin again and again as a client of Kafka 0.10 does, which knows messages of format 1 alone."""
    name = OLD.encode()
    body = struct.pack(">iiii", -1, 500, 1, 1) + struct.pack(f">h{len(name)}s", len(name), name)
    body += struct.pack(">iiqi", 1, 0, 0, OLD_MAX_BYTES)
    with socket.create_connection((wire.HOST, port), timeout=60) as connection:
        while not over.is_set():
            wire.call_on(connection, FETCH, OLD_VERSION, body)
            next(answers)
