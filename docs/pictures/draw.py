"""Draws the pictures of docs/CONCEPTS.md: logs of a real broker, by the console's own code, and two diagrams.

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
    return found | {"data-flow": data_flow(), "cleaning-pass": cleaning_pass()}


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


_DIAGRAM = (
    "text { font: 14px system-ui, sans-serif; fill: #1b1f24; } .small { font-size: 12px; }"
    " .box { fill: #eef2f7; stroke: #5b6b7d; }"
    " .gone { fill: none; stroke: #8a94a0; stroke-dasharray: 4 3; } .kept { fill: #cfe8d5; stroke: #2f7d46; }"
    " line { stroke: #1b1f24; stroke-width: 1.5; } .tip { fill: #1b1f24; }"
    " @media (prefers-color-scheme: dark) { text, .tip { fill: #e3e6ea; } .box { fill: #2a3038; stroke: #93a1b3; }"
    " .gone { stroke: #8a94a0; } .kept { fill: #1f4a2c; stroke: #7fd09a; } line { stroke: #e3e6ea; } }"
)


def diagram(title: str, width: int, height: int, *parts: Element) -> str:
    """An SVG file with its own colours, light and dark; `title` is what somebody hears who can't see it."""
    tip = Element("path", (), {"d": "M0 0 L8 4 L0 8 Z", "class": "tip"})
    marker = {"id": "tip", "markerWidth": "8", "markerHeight": "8", "refX": "8", "refY": "4", "orient": "auto"}
    inside = (
        Element("title", (title,), {}),
        Element("style", (_DIAGRAM,), {}),
        Element("defs", (Element("marker", (tip,), marker),), {}),
        *parts,
    )
    size = {"width": str(width), "height": str(height), "viewBox": f"0 0 {width} {height}"}
    return f"{Element('svg', inside, {'xmlns': 'http://www.w3.org/2000/svg', 'role': 'img', **size})}\n"


def box(x: int, y: int, width: int, height: int, *lines: str, kind: str = "box") -> list[Element]:
    """A rectangle with lines of text in its middle, the first one larger."""
    place = {"x": str(x), "y": str(y), "width": str(width), "height": str(height), "rx": "4", "class": kind}
    top = y + height // 2 + 5 - 8 * (len(lines) - 1)
    return [Element("rect", (), place)] + [
        words(x + width // 2, top + 17 * number, line, small=number > 0, middle=True)
        for number, line in enumerate(lines)
    ]


def words(x: int, y: int, text: str, *, small: bool = False, middle: bool = False) -> Element:
    style = ({"class": "small"} if small else {}) | ({"text-anchor": "middle"} if middle else {})
    return Element("text", (text,), {"x": str(x), "y": str(y), **style})


def arrow(x1: int, y1: int, x2: int, y2: int) -> Element:
    ends = {"x1": str(x1), "y1": str(y1), "x2": str(x2), "y2": str(y2)}
    return Element("line", (), {**ends, "marker-end": "url(#tip)"})


def data_flow() -> str:
    """The way of a record: in by one write, out by sendfile, to the disk when the topic's settings say so."""
    return diagram(
        "A producer's batch goes through the daemon into the page cache by one write; the system, or a sync, brings it to the "
        "disk; consumers get it from the page cache by sendfile, past the daemon's memory",
        760, 250,
        *box(10, 20, 130, 56, "producer", "sends a batch"),
        *box(240, 20, 200, 56, "daemon", "checks it, gives offsets"),
        *box(240, 130, 200, 56, "page cache", "segment file, in memory"),
        *box(560, 130, 180, 56, "disk"),
        *box(10, 130, 130, 56, "consumer", "fetches"),
        arrow(140, 40, 240, 40), arrow(340, 76, 340, 130), arrow(440, 158, 560, 158), arrow(240, 158, 140, 158),
        words(158, 32, "Produce", small=True),
        words(348, 108, "one write", small=True),
        words(446, 104, "flush.messages, flush.ms,", small=True),
        words(446, 121, "or the system", small=True),
        words(160, 150, "sendfile", small=True),
        words(10, 222, "Page cache: answered after the write.", small=True),
        words(10, 240, "Ack after sync (flush.messages=1): answered, and shown to consumers, when the disk has it.", small=True),
    )  # fmt: skip


def cleaning_pass() -> str:
    """Four rows: the dirty log, the map of keys, what is copied, the log with the new segment in its place."""
    log = ("ann=10", "bob=20", "ann=15", "cid=5", "bob=21")
    last = {record.partition("=")[0]: offset for offset, record in enumerate(log)}
    kept = sorted(last.values())
    parts: list[Element] = []
    rows = ("1. dirty segments", "2. last offset of each key", "3. copied, in order", "4. in their place")
    for row, name in enumerate(rows):
        parts.append(words(10, 42 + 76 * row, name))
    for offset, record in enumerate(log):
        for row in (0, 2):
            is_kept = offset in kept
            kind = "box" if row == 0 else "kept" if is_kept else "gone"
            parts += box(220 + 92 * offset, 16 + 76 * row, 84, 44, record, f"offset {offset}", kind=kind)
    for number, (key, offset) in enumerate(last.items()):
        parts += box(220 + 92 * number, 92, 84, 44, key, f"→ {offset}")
    for number, offset in enumerate(kept):
        parts += box(220 + 92 * number, 244, 84, 44, log[offset], f"offset {offset}", kind="kept")
    return diagram(
        "A cleaning pass of five records: the first walk notes the last offset of each of three keys, the second copies those "
        "three records with their offsets into a new segment, which takes the place of the old ones",
        700, 306,
        *parts,
    )  # fmt: skip


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
