"""Produce: broker CPU per GB of values for large batches, small records and lz4; per request for single records."""

from __future__ import annotations

from dataclasses import dataclass

from measure import KAFKA, Goal, Row
from session import BATCH_64K, Session, details

SMALL = ("--value-bytes", 100, "--records", 500)


@dataclass(frozen=True, slots=True)
class Load:
    """A row, the load that makes it, and which of the generator's figures it is."""

    row: Row
    options: tuple[object, ...]
    figure: str


CPU_PER_GB, CPU_PER_REQUEST = "cpu_s_per_GB", "cpu_us_per_request"
LOADS = (
    Load(
        Row("produce-64k", "Produce, 64 KiB batches of 1 KiB records: CPU", "CPU-s/GB", (Goal(1 / 3, KAFKA),)),
        (*BATCH_64K, "--depth", 5),
        CPU_PER_GB,
    ),
    Load(
        Row(
            "produce-one-1",
            "Produce, one record a request, 1 connection: CPU",
            "µs/request",
            (Goal(1 / 4, KAFKA),),
        ),
        ("--connections", 1),
        CPU_PER_REQUEST,
    ),
    Load(
        Row(
            "produce-one-16",
            "Produce, one record a request, 16 connections: CPU",
            "µs/request",
            (Goal(1 / 3, KAFKA),),
        ),
        ("--connections", 16),
        CPU_PER_REQUEST,
    ),
    Load(
        Row("produce-small", "Produce, 500 records of 100 bytes a batch: CPU", "CPU-s/GB", (Goal(1 / 3, KAFKA),)),
        (*SMALL, "--depth", 5),
        CPU_PER_GB,
    ),
    Load(
        Row("produce-small-lz4", "Produce, the same with lz4: CPU", "CPU-s/GB", (Goal(1 / 2, KAFKA),)),
        (*SMALL, "--depth", 5, "--codec", "lz4"),
        CPU_PER_GB,
    ),
)
ROWS = tuple(load.row for load in LOADS)


def run(session: Session) -> None:
    wanted = [load for load in LOADS if session.wants(load.row)]
    if not wanted:
        return
    brokers = session.pair()
    seconds = session.seconds(1.0, 3.0)
    for number, order in enumerate(session.rounds()):
        for load in wanted:
            for side in order:
                broker = brokers[side]
                with session.topic(broker) as topic:
                    options = (*load.options, "--warmup", 0.5, "--seconds", seconds, "--seed", number + 1)
                    result = session.load(broker, "produce", topic, *options)
                    session.verify(broker, topic, result)
                session.add(load.row, side, result[load.figure], details(result))
