"""The table as documents: docs/SETTINGS.md for people, docs/server.properties.sample to start from.

`python -m tidelog.config.render` in a checkout writes both; a test fails when they differ from the table.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from .definitions import BROKER_SETTINGS, HONOURED_BROKER, HONOURED_TOPIC, TOPIC_OF_BROKER
from .setting import Setting, Status, text_of
from .table.ignored import FAMILIES
from .when_to_change import when_to_change

_HEAD = """# Settings

<!-- Generated from config/table/*.py by `python -m tidelog.config.render`. Don't edit. -->

A setting comes from a file (`tidelog serve --config FILE`: Java properties, or TOML by the suffix `.toml`), from the
environment (`TIDELOG_` and the name in capitals, `_` for `.`), or from `--set NAME=VALUE`; the later one wins. Names,
types, defaults and ranges are Kafka's unless the entry says otherwise. Unknown names and values out of range stop the
start, all of them named at once. In TOML, write a name that is also the beginning of another in quotes
(`"max.connections" = 100`). `tidelog settings` lists what is in force for a file.

Each entry has its name for an anchor: `SETTINGS.md#retention.ms`. Numbers at the ends of a range are those of the type:
2147483647 and 9223372036854775807 stand for "as much as you like".
"""


def render_markdown() -> str:
    """Render docs/SETTINGS.md."""
    parts = [_HEAD, "## The broker's\n"]
    for group, rows in _by_group(row for row in HONOURED_BROKER if row.name not in TOPIC_OF_BROKER):
        parts += [f"### {group}\n", _entries(rows)]
    parts.append(
        "## Topics'\n\nEach topic can have its own; what it does not say, the broker's setting beside it does.\n"
    )
    for group, rows in _by_group(HONOURED_TOPIC):
        parts += [f"### {group}, of a topic\n", _entries(rows, topic=True)]
    running = ", ".join(f"`{row.name}`" for row in HONOURED_BROKER if row.dynamic)
    parts.append(
        "## While it runs\n\nEvery topic setting can be changed while the daemon runs (`tidelog configs alter --topic T`, or any "
        "Kafka client), and of the broker's (`--broker ID`, or `--broker` for all) these; the new value holds at once, and "
        f"after a restart. The others are read at the start.\n\n{running}\n"
    )
    parts.append(
        "## Durations and units behind them\n\nBroker settings that say the same in another unit, weakest last.\n\n"
        "### In other units\n"
    )
    secondary = {s.name for row in HONOURED_TOPIC for s in row.synonyms[1:]}
    parts.append(_entries(BROKER_SETTINGS[name] for name in sorted(secondary)))
    parts.append(
        "## Taken, and without effect\n\n"
        "Kafka has these; here they mean nothing. They are taken with one line in the log, so that a Kafka "
        "`server.properties` starts tidelog.\n"
    )
    reasons: dict[str, list[str]] = {}
    for row in BROKER_SETTINGS.values():
        if row.status is Status.NO_MEANING:
            reasons.setdefault(row.doc, []).append(f"`{row.name}`")
    for prefix, reason in FAMILIES:
        reasons.setdefault(reason, []).append(f"`{prefix}*`")
    parts += [f"- **{_capital(reason)}.** {', '.join(sorted(names))}" for reason, names in reasons.items()]
    parts.append("\n## Refused\n\nKafka has these; leaving them out silently would change what you asked for.\n")
    parts += [f"- `{row.name}`: {row.doc}" for row in BROKER_SETTINGS.values() if row.status is Status.REFUSED]
    return "\n".join(parts) + "\n"


def render_sample() -> str:
    """docs/server.properties.sample: every honoured broker setting with its default, commented out."""
    lines = [
        "# A sample of tidelog's settings: every one with its default, commented out.",
        "# Generated from config/table/*.py by `python -m tidelog.config.render`.",
        "# Start with: tidelog serve --config server.properties",
    ]
    for group, rows in _by_group(row for row in HONOURED_BROKER if not row.internal):
        lines += ["", f"# ---- {group} ----"]
        for row in rows:
            facts = [row.type.name.lower(), *filter(None, [row.allowed_text()])]
            lines.append("")
            lines += textwrap.wrap(f"{row.doc} [{', '.join(facts)}]", 116, initial_indent="# ", subsequent_indent="# ")
            lines.append(f"#{row.name}={text_of(row.default) or ''}")
    return "\n".join(lines) + "\n"


def _by_group(rows: Iterable[Setting]) -> list[tuple[str, list[Setting]]]:
    # Groups in the order in which the table first names them.
    ordered = list(rows)
    first = {row.group: position for position, row in reversed(list(enumerate(ordered)))}
    ordered.sort(key=lambda row: first[row.group])
    return [(group, list(members)) for group, members in groupby(ordered, key=lambda row: row.group)]


def _entries(rows: Iterable[Setting], *, topic: bool = False) -> str:
    return "\n".join(_entry(row, topic=topic) for row in rows)


def _entry(row: Setting, *, topic: bool) -> str:
    """One setting: anchors of its name and of the broker's that stand in for it, facts, what it does, when to change it."""
    default = text_of(row.default)
    stands_in = [synonym.name for synonym in row.synonyms]
    facts = [
        row.type.name.lower(),
        "default " + ("none" if default is None else f"`{default}`" if default else "empty"),
    ]
    if allowed := row.allowed_text():
        facts.append(f"allowed: {allowed}")
    if topic or row.dynamic:
        facts.append("changes while it runs")
    # A heading's own anchor has no dots.
    names = [name for name in dict.fromkeys([row.name, *stands_in[:1]]) if "." in name]
    lines = [*(f'<a id="{name}"></a>\n' for name in names), f"#### {row.name}", "", "; ".join(facts) + ".", "", row.doc]
    if stands_in:
        lines += ["", "Broker's default: " + ", ".join(f"`{name}`" for name in stands_in) + "."]
    if row.why_different:
        lines += ["", f"*Not as in Kafka: {row.why_different.removesuffix('.')}.*"]
    if when := when_to_change(row.name):
        lines += ["", f"**When to change it:** {when}"]
    return "\n".join(lines) + "\n"


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def main(docs: Path) -> None:
    """Writes both files into `docs`."""
    (docs / "SETTINGS.md").write_text(render_markdown(), encoding="utf-8")
    (docs / "server.properties.sample").write_text(render_sample(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "docs")
