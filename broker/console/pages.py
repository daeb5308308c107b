"""What is on each page.

/                              topics
/topics/<topic>                its partitions
/topics/<topic>/<partition>    the partition's anatomy: segments to scale, and why each is still there
/console.css                   the style sheet
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from ...storage.exceptions import StorageError
from ..why import why_partition
from .anatomy import anatomy, next_to_go, size_text, time_text
from .html import Element, element
from .style import STYLE

if TYPE_CHECKING:
    from ...storage.unified_log import UnifiedLog
    from ..health import Health
    from ..server import Broker

#: A page may load its own style sheet and nothing else, run nothing, and be framed by nobody.
POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_OK, _NONE, _LOADING = "200 OK", "404 Not Found", "503 Service Unavailable"


class Page(NamedTuple):
    """An answer."""

    status: str
    kind: str
    body: bytes


class Console:
    """Makes pages. HTTP's threads, any of them; blocks as long as facts of a log have to be read."""

    def __init__(self, broker: Broker, health: Health) -> None:
        self._broker = broker
        self._health = health

    def page(self, path: str) -> Page | None:
        """The page at `path`; None where the console has none."""
        if path == "/console.css":
            return Page(_OK, "text/css", STYLE.encode())
        parts = path.strip("/").split("/")
        if path != "/" and parts[0] != "topics":
            return None
        if not self._broker.ready:
            return self._document(_LOADING, "Loading", element("p", "The daemon is loading its logs, or stops."))
        logs = sorted(self._broker.logs.logs(), key=lambda log: (log.topic, log.partition))
        if path == "/":
            return self._topics(logs)
        found = [log for log in logs if parts[1:2] == [log.topic]]
        if found and len(parts) == 2:
            return self._topic(parts[1], found)
        if len(parts) == 3 and (chosen := [log for log in found if str(log.partition) == parts[2]]):
            return self._partition(chosen[0])
        return self._document(_NONE, "Not here", element("p", f"There is no {'/'.join(parts[1:])[:300]}."))

    def _topics(self, logs: Sequence[UnifiedLog]) -> Page:
        topics: dict[str, list[UnifiedLog]] = {}
        for log in logs:
            topics.setdefault(log.topic, []).append(log)
        rows = [
            (
                _link(topic), len(of_topic), sum(log.segment_count for log in of_topic),
                size_text(sum(log.size for log in of_topic)), ", ".join(sorted(of_topic[0].config.cleanup_policy)),
            )
            for topic, of_topic in topics.items()
        ]  # fmt: skip
        table = _table(("topic", "partitions", "segments", "size", "cleanup.policy"), rows, numbers={1, 2, 3})
        problems = list(self._health.problems())
        notes = [element("p", f"{one.reason}: {one.subject} {one.text}", class_="warning") for one in problems[:20]]
        empty = element("p", "No topics yet.", class_="quiet") if not rows else None
        return self._document(_OK, "Topics", *notes, table if rows else None, empty)

    def _topic(self, topic: str, logs: Sequence[UnifiedLog]) -> Page:
        rows = [
            (
                _link(topic, log.partition), log.log_start_offset, log.high_watermark, log.log_end_offset,
                log.segment_count, size_text(log.size),
            )
            for log in logs
        ]  # fmt: skip
        heads = ("partition", "log start", "high watermark", "log end", "segments", "size")
        return self._document(_OK, topic, _table(heads, rows, numbers={1, 2, 3, 4, 5}), trail=())

    def _partition(self, log: UnifiedLog) -> Page:
        broker = self._broker
        try:
            facts = why_partition(log, broker.cleaner.manager, is_cleaner_enabled=broker.cleaner.is_enabled)
        except (OSError, StorageError) as error:
            return self._document("500 Internal Server Error", log.name, element("p", str(error)))
        segments = facts["segments"]
        shown = [name for name in ("clean", "dirty", "closed", "active") if any(s["section"] == name for s in segments)]
        going = next_to_go(segments)
        keys: list[object] = []
        for name in shown:
            keys += [element("span", name, class_=f"key {name}"), " "]
        if going is not None:
            keys.append(f"outlined: retention takes it next, the segment at {going}")
        heads = ("segment", "to", "size", "section", "not cleaned or deleted yet because of", "until")
        return self._document(
            _OK, log.name,
            anatomy(facts),
            element("p", *keys, class_="keys"),
            element("h2", "Segments, and why they are there"),
            _table(heads, [_segment_row(one, facts["asOfMs"]) for one in segments], numbers={0, 1, 2}),
            element("p", f"{facts['segmentsOmitted']} more segments.", class_="quiet") if facts["segmentsOmitted"] else None,
            trail=(log.topic,),
        )  # fmt: skip

    def _document(self, status: str, title: str, *content: object, trail: Sequence[str] = ()) -> Page:
        links: list[object] = [element("a", "Topics", href="/")]
        for topic in trail:
            links += [" / ", _link(topic)]
        page = element(
            "html",
            element(
                "head",
                element("meta", charset="utf-8"),
                element("meta", name="viewport", content="width=device-width, initial-scale=1"),
                element("title", f"{title} - tidelog"),
                element("link", rel="stylesheet", href="/console.css"),
            ),
            element("body", element("nav", *links, aria_label="Where this is"), element("main", element("h1", title), *content)),
            lang="en",
        )  # fmt: skip
        return Page(status, "text/html; charset=utf-8", f"<!doctype html>\n{page}\n".encode())


def _segment_row(segment: dict[str, Any], now_ms: int) -> tuple[object, ...]:
    held = [
        f"{one['reason']}" if one["setting"] is None else f"{one['setting']}={one['value']}"
        for one in segment["reasons"]
    ]
    until = time_text(segment["untilMs"], now_ms) or segment["event"] or ""
    return (
        segment["baseOffset"],
        segment["endOffset"],
        size_text(segment["size"]),
        segment["section"],
        ", ".join(dict.fromkeys(held)),
        until,
    )


def _link(topic: str, partition: int | None = None) -> Element:
    path = f"/topics/{quote(topic, safe='')}"
    return element("a", topic, href=path) if partition is None else element("a", partition, href=f"{path}/{partition}")


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]], numbers: set[int]) -> Element:
    """Columns in `numbers` are set to the right. On a small screen each cell has its head before it."""

    def cells(name: str, row: Sequence[object]) -> list[Element]:
        is_head = name == "th"
        return [
            element(
                name, value,
                class_="number" if column in numbers else None,
                scope="col" if is_head else None,
                data_label=None if is_head else head,
            )
            for column, (head, value) in enumerate(zip(heads, row, strict=True))
        ]  # fmt: skip

    top = element("thead", element("tr", *cells("th", heads)))
    body = element("tbody", *(element("tr", *cells("td", row)) for row in rows))
    return element("div", element("table", top, body), class_="wide", tabindex=0, role="region", aria_label="Table")
