"""Start-up: from exec to the first ApiVersions answer; empty directory, 1,000 partitions, after kill -9."""

from __future__ import annotations

import time

import wire
from measure import KAFKA, Goal, Row
from session import Session, each_side

EMPTY = Row("start", "Start to first answer, empty directory", "s", (Goal(0.3),))
MANY = Row("start-1000", "Start to first answer, 1,000 partitions", "s", (Goal(1.5),))
KILLED = Row("start-killed", "kill -9 of an empty daemon, to first answer", "s", (Goal(0.5),))
ROWS = (EMPTY, MANY, KILLED)
PARTITIONS = 1000


def run(session: Session) -> None:
    if session.wants(EMPTY, KILLED):
        each_side(session, lambda side: _empty(session, side), at_most=1 if session.quick else 5)
    if session.wants(MANY):
        _many(session)


def _empty(session: Session, side: str) -> None:
    """Each time a new directory: the first start of all makes every file there is."""
    broker = session.fresh(side)
    session.add(EMPTY, side, broker.start())
    # Kafka waits until its own dead session ends: in a quick run, `recovery-start` shows that well enough.
    if session.wants(KILLED) and not (session.quick and side == KAFKA):
        time.sleep(1.0)  # an idle daemon, not one that is still starting
        broker.kill()
        session.add(KILLED, side, broker.start())
    broker.stop()
    broker.remove()


def _many(session: Session) -> None:
    sides = [side for side in session.sides if not (session.quick and side == KAFKA)]
    brokers = {side: session.fresh(side) for side in sides}
    for side, broker in brokers.items():
        session.say(f"{side}: creating {PARTITIONS} partitions")
        broker.start()
        wire.create_topic(broker.port, "many", PARTITIONS)
        session.load(broker, "produce", "many", "--partitions", PARTITIONS, "--connections", 100, "--requests", 2000)
        broker.stop()
    for order in session.rounds(at_most=2 if session.quick else 5):
        for side in order:
            if side in brokers:
                session.add(MANY, side, brokers[side].start())
                brokers[side].stop()
    for broker in brokers.values():
        broker.remove()
