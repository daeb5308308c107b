"""Produce: broker CPU per GB of values for large batches, small records and lz4; per request for single records."""

from __future__ import annotations

from dataclasses import dataclass

from floors import Kfake, append_floors, has_go
from measure import FLOOR, KAFKA, KFAKE, LOOP, OURS, Goal, Row
from session import BATCH_64K, Session, details

SMALL = ("--value-bytes", 100, "--records", 500)


@dataclass(frozen=True, slots=True)
class Load:
    """A row, the load that makes it, and which of the generator's figures it is."""

    row: Row
    options: tuple[object, ...]
    figure: str
    beside: tuple[str, ...] = ()
    """Measured beside these too: the C servers, kfake."""


#: The C handler on our loop takes a copy of what comes, and kfake keeps it: they are for requests of little.
OF_ONE = (FLOOR, LOOP, KFAKE)
CPU_PER_GB, CPU_PER_REQUEST = "cpu_s_per_GB", "cpu_us_per_request"
LOADS = (
    Load(
        Row("produce-64k", "Produce, 64 KiB batches of 1 KiB records: CPU", "CPU-s/GB", (Goal(0.4, KAFKA),)),
        (*BATCH_64K, "--depth", 5),
        CPU_PER_GB,
        beside=(FLOOR,),
    ),
    Load(
        Row(
            "produce-one-1",
            "Produce, one record a request, 1 connection: CPU",
            "µs/request",
            (Goal(0.35, KAFKA),),
        ),
        ("--connections", 1),
        CPU_PER_REQUEST,
        beside=OF_ONE,
    ),
    Load(
        Row(
            "produce-one-16",
            "Produce, one record a request, 16 connections: CPU",
            "µs/request",
            (Goal(0.45, KAFKA), Goal(1.3, KFAKE), Goal(2, LOOP)),
        ),
        ("--connections", 16),
        CPU_PER_REQUEST,
        beside=OF_ONE,
    ),
    Load(
        Row("produce-one-64", "Produce, one record a request, 64 connections: CPU", "µs/request"),
        ("--connections", 64),
        CPU_PER_REQUEST,
        beside=OF_ONE,
    ),
    Load(
        Row(
            "produce-rate-16",
            "Produce, one record a request, 16 connections",
            "1/s",
            (Goal(1.3, KAFKA, at_least=True),),
        ),
        ("--connections", 16),
        "requests_per_s",
        beside=OF_ONE,
    ),
    Load(
        Row("produce-small", "Produce, 500 records of 100 bytes a batch: CPU", "CPU-s/GB", (Goal(1 / 3, KAFKA),)),
        (*SMALL, "--depth", 5),
        CPU_PER_GB,
        beside=(FLOOR,),
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
    brokers = dict(session.pair())
    seconds = session.seconds(1.0, 3.0)
    has_floors = OURS in brokers and KAFKA in brokers
    if has_floors and any(KFAKE in load.beside for load in wanted) and has_go():
        brokers[KFAKE] = kfake = Kfake(session.directory / "kfake")
        session.at_end(kfake.remove)
        session.say(f"kfake answers after {kfake.start():.2f} s")
        session.warm_up(kfake, 1.5)
    for number, order in enumerate(session.rounds()):
        for load in wanted:
            for side in (*order, KFAKE) if KFAKE in load.beside and KFAKE in brokers else order:
                broker = brokers[side]
                with session.topic(broker) as topic:
                    options = (*load.options, "--warmup", 0.5, "--seconds", seconds, "--seed", number + 1)
                    result = session.load(broker, "produce", topic, *options)
                    session.verify(broker, topic, result)
                session.add(load.row, side, result[load.figure], details(result))
            if load.beside and has_floors:
                options = (*load.options, "--topic", "t", "--warmup", 0.5, "--seconds", seconds)
                floors = append_floors(session.directory)
                try:
                    for side, floor in floors.items():
                        if side not in load.beside:
                            continue
                        result = floor.load("produce", *options)
                        session.add(load.row, side, result[load.figure], details(result))
                finally:
                    for floor in floors.values():
                        floor.stop()
