"""Which request holds the event loop for how long? Every API, with each of its arrays as full as it may be, to a daemon that
has many partitions. Not a row of `make bench`: a list to look at.

    python benchmarks/loop_holds.py [--elements 20000] [--partitions 10000] [--only NAME ...] [--all-versions]

For each request the longest time for which the loop's thread was at work without looking at anybody else, the third longest
and the sum, in CPU milliseconds, and how often it let others in. The best of up to three tries: what code does comes again,
chance does not. The daemon runs in this process (`tidelog.testing`), so a collection of garbage may be in it.
"""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.inside import services_of
from support.many_names import crowded, held
from support.wire_client import WireClient, request_frame
from tidelog.broker.requests.dispatcher import MAX_REQUEST_BYTES
from tidelog.broker.requests.registry import load_apis, loaded
from tidelog.protocol.api_keys import ApiKey
from tidelog.testing import Broker

#: Answered by closing the connection, by waiting for others, not at all, or only once.
LEFT_OUT = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.PRODUCE})
TOPICS = 100
PATIENCE_S = 120


class Found(NamedTuple):
    """What one request did to the loop: CPU milliseconds."""

    name: str
    longest_ms: float
    third_ms: float
    total_ms: float
    turns: int


def requests(elements: int, only: list[str], every_version: bool) -> Iterator[tuple[str, bytes]]:
    """Name and frame of each request that can be made."""
    for key, registration in load_apis().items():
        if key in LEFT_OUT or (only and ApiKey(key).name not in only):
            continue
        api = loaded(registration)
        versions = range(api.min_version, api.max_version + 1) if every_version else {api.min_version, api.max_version}
        for version in sorted(versions):
            for path, request in crowded(api.request, version, elements):
                frame = request_frame(request, version)
                if len(frame) < MAX_REQUEST_BYTES:
                    yield f"{ApiKey(key).name} v{version} {path}", frame


def measure(broker: Broker, name: str, frame: bytes) -> Found | None:
    services: Any = services_of(broker)
    host, _, port = broker.bootstrap_servers.rpartition(":")
    queue = services.socket_server.fair_queue
    turns = 0

    def ask() -> None:
        nonlocal turns
        before = queue.taken
        with WireClient((host, int(port))) as client:
            client.socket.settimeout(PATIENCE_S)
            client.send(frame)
            client.receive()
        turns = queue.taken - before

    try:
        found = held(services.loop, ask)
    except (EOFError, OSError) as error:
        print(f"{name:70} {error!r}", file=sys.stderr)
        return None
    longest, _, third = (part * 1000 for part in found.parts)
    return Found(name, longest, third, found.total * 1000, turns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=20_000)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--all-versions", action="store_true")
    options = parser.parse_args()
    settings = {"auto.create.topics.enable": False, "max.partitions": 4 * options.partitions + 1000}
    rows = []
    with Broker(settings=settings) as broker:
        for number in range(TOPICS):  # the names that requests begin with
            broker.create_topic(f"x{number}", options.partitions // TOPICS)
        for name, frame in requests(options.elements, options.only, options.all_versions):
            found = measure(broker, name, frame)
            if found is not None:
                rows.append(found)
                print(f"{found.name:70} {found.longest_ms:8.2f} {found.third_ms:8.2f} {found.total_ms:9.1f} {found.turns:6}",
                      flush=True)  # fmt: skip
    print("\nthe longest:")
    for found in sorted(rows, key=lambda found: -found.longest_ms)[:25]:
        print(f"{found.name:70} {found.longest_ms:8.2f} ms")


if __name__ == "__main__":
    socket.setdefaulttimeout(PATIENCE_S)
    main()
