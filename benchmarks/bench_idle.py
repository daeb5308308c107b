"""What a daemon costs that has nothing to do: CPU per minute, memory after start, memory for each idle connection."""

from __future__ import annotations

import resource
import socket
import time
import urllib.request

import wire
from brokers import Broker, Tidelog
from measure import OURS, Goal, Row
from session import Session

CPU = Row("idle-cpu", "Idle, no client: CPU per minute", "CPU-s", (Goal(0.1),))
MEMORY = Row("idle-memory", "Memory (RSS), idle", "MiB", (Goal(60),))
CONNECTION = Row("connection-memory", "Memory (RSS) per idle connection", "KiB", (Goal(12),))
SCRAPE = Row("scrape-cpu", "/metrics each 5 s, 200 partitions with records: CPU on top", "%", (Goal(1),))
ROWS = (CPU, MEMORY, CONNECTION, SCRAPE)
SCRAPE_PARTITIONS = 100  # in each of two topics, of which one is compacted
SCRAPE_INTERVAL_S = 5.0


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
        if OURS in brokers and session.wants(SCRAPE):
            session.add(SCRAPE, OURS, _scrapes(session, brokers[OURS]))
        for broker in brokers.values():
            broker.stop()
            broker.remove()


def _scrapes(session: Session, broker: Broker) -> float:
    """CPU in percent of a core that scraping costs, beside the same time without."""
    assert isinstance(broker, Tidelog)
    for policy in ("delete", "compact"):
        topic = f"scraped-{policy}"
        wire.create_topic(broker.port, topic, SCRAPE_PARTITIONS, {"cleanup.policy": policy, "segment.bytes": 16384})
        spread = ("--partitions", SCRAPE_PARTITIONS, "--connections", SCRAPE_PARTITIONS)
        session.load(broker, "produce", topic, *spread, "--records", 62, "--keys", 100, "--requests", 2000)
    url = f"http://{wire.HOST}:{broker.http_port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        session.say(f"/metrics has {len(answer.read()) / 1e3:.0f} kB")
    time.sleep(20)  # passes and the cleaner's back-off
    count = int(session.seconds(3, 12))
    used = []
    for is_scraped in (False, True):
        before = broker.cpu_seconds()
        for _ in range(count):
            time.sleep(SCRAPE_INTERVAL_S)
            if is_scraped:
                with urllib.request.urlopen(url, timeout=10) as answer:
                    answer.read()
        used.append(broker.cpu_seconds() - before)
    return 100 * (used[1] - used[0]) / (count * SCRAPE_INTERVAL_S)


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
