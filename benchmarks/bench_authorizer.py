"""What access control costs a daemon that serves: CPU for a gigabyte and for 100,000 small requests, without an authorizer and
with one of few and of many rules. Daemons run beside each other and are measured in turn, so that noise meets all of them:

python benchmarks/bench_authorizer.py [--rounds 7] [--rules 10,10000]
"""

from __future__ import annotations

import argparse
import socket
import statistics
import struct
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import wire
from brokers import Tidelog

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.wire_client import request_frame
from tidelog.protocol.messages import create_acls, fetch, produce
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.protocol.schema import encode

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOPIC, SMALL, MANY = "bench-large", "bench-small", [f"bench-many-{number}" for number in range(100)]
RULES_A_REQUEST = 1000
WITHOUT = "without"


class Load(NamedTuple):
    """`frame` sent `count` times, `window` of them ahead of their answers. `per`: what of it the figure is for."""

    name: str
    frame: bytes
    count: int
    window: int
    unit: str
    per: float


def produced(topic: str, value: bytes) -> bytes:
    records = bytes(build_batch([Record(0, 1_700_000_000_000, None, value)]))
    part = produce.PartitionProduceData(index=0, records=records)
    data = [produce.TopicProduceData(name=topic, partition_data=[part])]
    return request_frame(produce.ProduceRequest(acks=1, timeout_ms=10_000, topic_data=data), 9)


def fetched(topics: Sequence[str], offset: int) -> bytes:
    part = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)
    wanted = [fetch.FetchTopic(topic=topic, partitions=[part]) for topic in topics]
    return request_frame(fetch.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1, topics=wanted), 12)


def loads() -> list[Load]:
    large = 65_000
    return [
        Load("produce, 64 KiB", produced(TOPIC, bytes(large)), 1500, 4, "s per GB", 1e9 / (1500 * large)),
        Load("produce, 100 bytes", produced(SMALL, bytes(100)), 10_000, 50, "s per 100,000", 10),
        Load("fetch, one record", fetched([SMALL], 0), 10_000, 50, "s per 100,000", 10),
        Load("fetch, 100 topics", fetched(MANY, 0), 1000, 10, "s per 100,000", 100),
    ]


def run(broker: Tidelog, load: Load) -> float:
    """CPU seconds of the daemon, user's and kernel's."""
    with socket.create_connection((wire.HOST, broker.port), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        window = load.frame * load.window

        def turn() -> None:
            connection.sendall(window)
            for _ in range(load.window):
                (size,) = struct.unpack(">i", wire.receive(connection, 4))
                wire.receive(connection, size)

        turn()
        before = broker.cpu_seconds()
        for _ in range(load.count // load.window):
            turn()
        return (broker.cpu_seconds() - before) * load.per


def add_rules(port: int, count: int) -> None:
    """Who is not asked may use the topics, by a prefix as everybody's rules are, among those of many others."""
    rules = [("bench-", "User:ANONYMOUS", 4)]
    rules += [(f"topic-{number}-", f"User:u{number % 500}", 3 + number % 2) for number in range(count - 1)]
    for first in range(0, count, RULES_A_REQUEST):
        creations = [
            create_acls.AclCreation(
                resource_type=2, resource_name=name, resource_pattern_type=pattern, principal=principal, host="*",
                operation=2, permission_type=3,
            )
            for name, principal, pattern in rules[first : first + RULES_A_REQUEST]
        ]  # fmt: skip
        request = create_acls.CreateAclsRequest(creations=creations)
        wire.call(port, request.API_KEY, 1, encode(request, 1))


def prepared(directory: Path, rules: int | None) -> Tidelog:
    """A daemon that runs. Rules are made by a super user, who is none from then on."""
    settings: dict[str, Any] = {"logging.level": "ERROR"}
    if rules is not None:
        settings |= {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
    broker = Tidelog(directory, settings)
    broker.start()
    for topic in (TOPIC, SMALL, *MANY):
        wire.create_topic(broker.port, topic)
    if rules is not None:
        add_rules(broker.port, rules)
        broker.stop()
        broker.settings["super.users"] = ""
        broker.start()
    return broker


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rules", default="10,10000", metavar="N[,N]")
    options = parser.parse_args(arguments)
    counts: dict[str, int | None] = {WITHOUT: None, **{f"{text} rules": int(text) for text in options.rules.split(",")}}
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
        sides: dict[str, Tidelog] = {}
        try:
            for number, (name, rules) in enumerate(counts.items()):
                sides[name] = prepared(Path(directory) / str(number), rules)
            measure(sides, options.rounds)
        finally:
            for broker in sides.values():
                broker.kill()
    return 0


def measure(sides: dict[str, Tidelog], rounds: int, say: Callable[[str], object] = print) -> None:
    names = list(sides)
    say("| CPU of the daemon | " + " | ".join(names) + " |\n| --- |" + " --- |" * len(names))
    for load in loads():
        found: dict[str, list[float]] = {name: [] for name in names}
        for number in range(rounds):
            for name in names[number % len(names) :] + names[: number % len(names)]:
                found[name].append(run(sides[name], load))
        cells = [f"{statistics.median(all_):.2f} ({min(all_):.2f}–{max(all_):.2f})" for all_ in found.values()]
        say(f"| {load.name}, {load.unit} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
