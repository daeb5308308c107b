"""What a daemon costs that has nothing to do: CPU per minute, memory after start, memory for each idle connection."""

from __future__ import annotations

import resource
import socket
import time

import wire
from measure import Goal, Row
from session import Session

CPU = Row("idle-cpu", "Idle, no client: CPU per minute", "CPU-s", (Goal(0.1),))
MEMORY = Row("idle-memory", "Memory (RSS), idle", "MiB", (Goal(60),))
CONNECTION = Row("connection-memory", "Memory (RSS) per idle connection", "KiB", (Goal(12),))
ROWS = (CPU, MEMORY, CONNECTION)


def run(session: Session) -> None:
    if not session.wants(*ROWS):
        return
    seconds = session.seconds(8, 60)
    for order in session.rounds(at_most=1 if session.quick else 3):
        brokers = {side: session.fresh(side) for side in order}
        for broker in brokers.values():
            broker.start()
        time.sleep(session.seconds(3, 10))  # a JVM goes on compiling for a while
        if session.wants(CPU):
            session.say(f"idle for {seconds:g} s")
            before = {side: broker.cpu_seconds() for side, broker in brokers.items()}
            time.sleep(seconds)
            for side, broker in brokers.items():
                session.add(CPU, side, (broker.cpu_seconds() - before[side]) * 60 / seconds)
        for side, broker in brokers.items():
            session.add(MEMORY, side, broker.rss_bytes() / 2**20)
            if session.wants(CONNECTION):
                session.add(CONNECTION, side, _connections(session, broker.port, broker.rss_bytes) / 1024)
        for broker in brokers.values():
            broker.stop()
            broker.remove()


def _connections(session: Session, port: int, rss_bytes: object) -> float:
    """Bytes of RSS for each of many connections that have asked ApiVersions and then say nothing."""
    assert callable(rss_bytes)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(int(session.seconds(500, 2000)), hard - 200)
    open_ones: list[socket.socket] = []

    def connect(n: int) -> None:
        for _ in range(n):
            connection = socket.create_connection((wire.HOST, port), timeout=10)
            open_ones.append(connection)
            wire.call_on(connection, wire.API_VERSIONS, 0, b"")

    try:
        connect(50)  # what the first ones load and allocate for all is not theirs
        before = rss_bytes()
        connect(count)
        time.sleep(0.5)
        return float((rss_bytes() - before) / count)
    finally:
        for connection in open_ones:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
