"""Recovery: kill -9 with one large unflushed segment, then how fast the next start reads it again.

Kafka's time is what its own log says for that one partition ("Completed load of Log ... in N ms"), without its JVM's
start. Ours is the black box: the whole start to the first answer, less the start after a kill -9 with nothing to read.
One recovery thread on either side; the pages are in the cache, so this is the cost of checking, per core.
"""

from __future__ import annotations

import re
from pathlib import Path

import wire
from brokers import Broker, BrokerError
from measure import KAFKA, OURS, Goal, Row
from session import BATCH_64K, Session

RATE = Row("recovery", "Recovery after kill -9, one core", "MB/s", (Goal(1.5, KAFKA, at_least=True),))
START = Row("recovery-start", "kill -9 with that segment, to first answer", "s", (Goal(1, KAFKA),))
ROWS = (RATE, START)
SETTINGS = {"num.recovery.threads.per.data.dir": 1, "log.segment.bytes": 2_000_000_000}
TOPIC = "recovery"
LOADED = re.compile(rf"Completed load of Log\(dir=[^,]*/{TOPIC}-0,.* in (\d+)ms")


def run(session: Session) -> None:
    if not session.wants(*ROWS):
        return
    size = int(session.seconds(500e6, 1.8e9))
    for order in session.rounds(at_most=1 if session.quick else 5):
        for side in order:
            _measure(session, side, session.fresh(side, SETTINGS), size)


def _measure(session: Session, side: str, broker: Broker, size: int) -> None:
    broker.start()
    empty = _killed_start(broker) if side == OURS else 0.0
    wire.create_topic(broker.port, TOPIC)
    produced = session.load(broker, "produce", TOPIC, *BATCH_64K, "--depth", 5, "--bytes", size)
    seconds = _killed_start(broker)
    session.verify(broker, TOPIC, produced)
    spent = seconds - empty if side == OURS else _logged_seconds(broker.directory / "server.log")
    session.add(RATE, side, produced["all_bytes"] / 1e6 / max(spent, 0.001), {"seconds": spent})
    session.add(START, side, seconds)
    broker.stop()
    broker.remove()


def _killed_start(broker: Broker) -> float:
    broker.kill()
    return broker.start()


def _logged_seconds(log: Path) -> float:
    found = [int(match[1]) for match in LOADED.finditer(log.read_text(errors="replace"))]
    if not found:
        raise BrokerError(f"{log} says nothing of the recovery of {TOPIC}-0")
    return found[-1] / 1000
