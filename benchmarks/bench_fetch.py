"""Fetch from the page cache, against Apache Kafka and against bare C servers on the same files."""

from __future__ import annotations

from dataclasses import dataclass

import wire
from floors import read_floors
from measure import FLOOR, KAFKA, LOOP, OURS, Goal, Row
from session import BATCH_64K, Session, details


@dataclass(frozen=True, slots=True)
class Load:
    """A row, the topic it reads, its `max bytes`, and which of the generator's figures it is."""

    row: Row
    topic: str
    max_bytes: int
    figure: str
    connections: int = 1


LARGE, ONES = "fetch-large", "fetch-ones"
LOADS = (
    Load(
        Row("fetch-1m", "Fetch, 1 MiB a request: CPU", "CPU-s/GB", (Goal(1, KAFKA), Goal(1.2, FLOOR))),
        LARGE,
        1 << 20,
        "cpu_s_per_GB",
    ),
    Load(
        Row("fetch-64k", "Fetch, 64 KiB a request: CPU", "CPU-s/GB", (Goal(0.8, KAFKA), Goal(1.3, FLOOR))),
        LARGE,
        1 << 16,
        "cpu_s_per_GB",
    ),
    Load(
        Row("fetch-one", "Fetch, one 1 KiB record a request: CPU", "µs/request", (Goal(0.35, KAFKA), Goal(2, LOOP))),
        ONES,
        1,
        "cpu_us_per_request",
    ),
    Load(
        Row(
            "fetch-one-16",
            "Fetch, one 1 KiB record a request, 16 connections: CPU",
            "µs/request",
            (Goal(0.35, KAFKA), Goal(2, LOOP)),
        ),
        ONES,
        1,
        "cpu_us_per_request",
        16,
    ),
    Load(
        Row("fetch-one-64", "Fetch, one 1 KiB record a request, 64 connections: CPU", "µs/request"),
        ONES,
        1,
        "cpu_us_per_request",
        64,
    ),
)
ROWS = tuple(load.row for load in LOADS)


def run(session: Session) -> None:
    wanted = [load for load in LOADS if session.wants(load.row)]
    if not wanted:
        return
    brokers = session.pair()
    seconds = session.seconds(1.0, 3.0)
    large = int(session.seconds(300e6, 1e9))
    for broker in brokers.values():
        session.say(f"{broker.name}: {large / 1e6:.0f} MB to fetch")
        for topic, size, shape in (
            (LARGE, large, (*BATCH_64K, "--depth", 5)),
            (ONES, large // 20, ("--connections", 16)),
        ):
            wire.create_topic(broker.port, topic)
            result = session.load(broker, "produce", topic, *shape, "--bytes", size)
            session.verify(broker, topic, result)
    written = brokers.get(OURS) or brokers[KAFKA]
    floors = {topic: read_floors(written.partition_directory(topic)) for topic in (LARGE, ONES)}
    try:
        for order in session.rounds():
            for load in wanted:
                options = (
                    "--max-bytes",
                    load.max_bytes,
                    "--connections",
                    load.connections,
                    "--warmup",
                    0.5,
                    "--seconds",
                    seconds,
                )
                for side in order:
                    result = session.load(brokers[side], "fetch", load.topic, *options)
                    session.add(load.row, side, result[load.figure], details(result))
                for side, floor in floors[load.topic].items():
                    if side == FLOOR or load.topic == ONES:  # the C handler reads into memory: it is for small answers
                        result = floor.load("fetch", *options)
                        session.add(load.row, side, result[load.figure], details(result))
    finally:
        for servers in floors.values():
            for floor in servers.values():
                floor.stop()
    for broker in brokers.values():
        for topic in (LARGE, ONES):
            wire.delete_topic(broker.port, topic)
