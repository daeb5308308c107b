"""Draws the pictures of docs/CONCEPTS.md: logs of a real broker, by the console's own code.

`python docs/pictures/draw.py [DIRECTORY]` (or `make docs`) writes them; the same bytes each time, which a test holds them to.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidelog.broker.http.console.html import Element
from tidelog.broker.http.console.pages.anatomy import anatomy
from tidelog.broker.http.console.pages.assets import asset
from tidelog.clients.message_set_client import MessageSetClient
from tidelog.protocol.message_set.entries import NewRecord
from tidelog.testing import Broker

HOUR_MS = 3_600_000
SMALL = {"segment.bytes": 16_384}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.9, **SMALL}
SETTINGS = {
    "message.set.listeners": "tcp://127.0.0.1:0",
    "log.cleaner.backoff.ms": 3_600_000_000,
    "http.listener": "127.0.0.1:0",
}


def write(broker: Broker, topic: str, keys: Iterator[int] | range, size: int, first_ms: int, step_ms: int = 1) -> None:
    """One record a message set, so that segments close where they are full."""
    address = next(one for one in broker.addresses if one.startswith("tcp://")).removeprefix("tcp://")
    host, _, port = address.rpartition(":")
    with MessageSetClient(host, int(port)) as client:
        for number, key in enumerate(keys):
            record = NewRecord(b"v" * size, b"%d" % key, first_ms + number * step_ms)
            client.produce(topic, 0, [record])


def facts(broker: Broker, topic: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{broker.http_url}/why/{topic}/0", timeout=30) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)["partitions"][0]
    return found


def pictures() -> dict[str, str]:
    """Name → SVG."""
    found = {}
    with Broker(SETTINGS) as broker:
        now = int(broker.clock.now.timestamp() * 1000)
        broker.create_topic("customers", config=COMPACTED)
        write(broker, "customers", (n % 120 for n in range(600)), 150, now)
        found["written"] = standalone(anatomy(facts(broker, "customers")))
        broker.clean("customers")
        write(broker, "customers", range(20), 150, now)
        found["cleaned"] = standalone(anatomy(facts(broker, "customers")))
        write(broker, "customers", (n % 90 for n in range(330)), 150, now)
        found["written-again"] = standalone(anatomy(facts(broker, "customers")))
        broker.create_topic("orders", config={"retention.ms": 24 * HOUR_MS, **SMALL})
        write(broker, "orders", range(500), 150, now - 20 * HOUR_MS, 120_000)
        found["expiring"] = standalone(anatomy(facts(broker, "orders")))
    return found


def standalone(figure: Element) -> str:
    """The drawing out of the console's figure, as a file that has its colours with it, light and dark."""
    svg = next(one for one in _elements(figure) if one.name == "svg")
    attributes = svg.attributes | {"xmlns": "http://www.w3.org/2000/svg", "width": "1000", "height": "64"}
    style = asset("console.css").decode()
    light, dark = _colours(style.split("@media", 1)[0]), _colours(style.split("@media", 1)[1].split("@media", 1)[0])
    rules = f":root {{ {light} }} @media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}" + "".join(
        f" .{name} {{ fill: var(--{name}); }}" for name in ("clean", "dirty", "active", "closed")
    )
    rules += " .segment { stroke: var(--ground); vector-effect: non-scaling-stroke; }"
    rules += " .next { stroke: var(--next); stroke-width: 3; }"
    return f"{Element('svg', (Element('style', (rules,), {}), *svg.children), attributes)}\n"


def _colours(text: str) -> str:
    return " ".join(f"--{name}: {value};" for name, value in re.findall(r"--([\w-]+): (#[0-9a-fA-F]+)", text))


def _elements(element: Element) -> Iterator[Element]:
    yield element
    for child in element.children:
        if isinstance(child, Element):
            yield from _elements(child)


def main(arguments: list[str]) -> int:
    directory = Path(arguments[0]) if arguments else Path(__file__).parent
    for name, text in pictures().items():
        (directory / f"{name}.svg").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
