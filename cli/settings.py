"""`tidelog settings [NAME]`: a table of every setting, or all that is known of one: type, default, range, what it does.

Of a name that both the broker and topics have, both are shown. The daemon's values in force: `tidelog configs describe`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..config.setting import Setting

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

#: A default or range beyond so many characters is cut in the table; `tidelog settings NAME` has all of it.
_WIDEST = 44
_WIDTH = 100
_INDENT = 17


def add_parser(commands: Subparsers) -> None:
    parser = commands.add_parser("settings", help="list all settings, or explain one", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help="explain these; all are listed when none is given")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--sample", action="store_true", help="print a sample server.properties instead")
    form.add_argument("--json", action="store_true", help="print JSON: the broker's and the topics' settings by name")
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Prints; returns 0. ConfigError for a name that there is not."""
    from ..config.exceptions import ConfigError

    if options.sample:
        from ..config.render import render_sample

        if options.names:
            raise ConfigError(["--sample prints all settings: leave out the names"])
        print(render_sample(), end="")
        return 0
    entries = [entry for name in options.names for entry in entries_of(name)]
    if options.json:
        import json

        print(json.dumps(as_json(entries if options.names else None), indent=2))
        return 0
    if options.names:
        print("\n\n".join("\n".join(picture(entry)) for entry in entries))
    else:
        print("\n".join(overview()))
    return 0


class Entry(NamedTuple):
    """A setting and whose it is: `broker` or `topic`."""

    kind: str
    row: Setting


def entries_of(name: str) -> list[Entry]:
    """The broker's and the topics' setting of that name, those that there are. ConfigError: there is none."""
    from ..config.definitions import BROKER_SETTINGS, TOPIC_SETTINGS, find_broker_setting
    from ..config.exceptions import ConfigError
    from .support.nearest import did_you_mean

    rows = (("broker", find_broker_setting(name)), ("topic", TOPIC_SETTINGS.get(name)))
    found = [Entry(kind, row) for kind, row in rows if row is not None]
    if not found:
        hint = did_you_mean(name, {**BROKER_SETTINGS, **TOPIC_SETTINGS}) or " (`tidelog settings` lists them)"
        raise ConfigError([f"there is no setting {name}{hint}"])
    return found


def overview() -> list[str]:
    """The table of every honoured setting, under its headings, as lines of text."""
    from ..config.definitions import HONOURED_BROKER, HONOURED_TOPIC
    from .support.output import table

    rows: list[tuple[str, ...]] = []
    for kind, settings in (("broker", HONOURED_BROKER), ("topic", HONOURED_TOPIC)):
        rows += [
            (kind, row.name, row.type.name.lower(), _cut(_default(row)), _cut(row.allowed_text()))
            for row in sorted(settings, key=lambda row: row.name)
            if not row.internal
        ]
    lines = table(("of", "setting", "type", "default", "allowed"), rows)
    return [*lines, "", "`tidelog settings NAME` explains one; `tidelog configs describe` shows what a daemon has"]


def picture(entry: Entry) -> list[str]:
    """All that is known of a setting, as lines of text."""
    from textwrap import wrap

    from ..config.page import address_of
    from ..config.setting import Status

    row = entry.row
    honoured = row.status is Status.HONOURED
    facts: list[tuple[str, str]] = [("type", row.type.name.lower()), ("default", _default(row) or "empty")]
    if allowed := row.allowed_text():
        facts.append(("allowed", allowed))
    if honoured:
        facts.append(
            ("changes", "while the daemon runs" if row.dynamic or entry.kind == "topic" else "at a start only")
        )
        facts += _other_names(entry)
    what = {Status.NO_MEANING: "taken, and without effect: ", Status.REFUSED: "refused: "}.get(row.status, "")
    facts.append(("what it does", what + row.doc))
    if row.why_different:
        facts.append(("not as in Kafka", row.why_different))
    facts.append(("documentation", address_of(row)))
    lines = [f"{row.name} ({entry.kind}'s)"]
    for name, text in facts:
        first, *rest = wrap(text, _WIDTH - _INDENT - 4, break_long_words=False, break_on_hyphens=False) or [""]
        lines += [f"  {name.ljust(_INDENT)}  {first}", *(" " * (_INDENT + 4) + line for line in rest)]
    return lines


def _other_names(entry: Entry) -> Iterable[tuple[str, str]]:
    """What else the setting is called: where topics or the broker have it, and the environment variable."""
    from ..config.definitions import BROKER_SETTINGS, TOPIC_OF_BROKER

    row = entry.row
    if entry.kind == "topic":
        if row.synonyms:
            yield "broker's default", ", ".join(synonym.name for synonym in row.synonyms)
        return
    if row.name in TOPIC_OF_BROKER:
        yield "topics have it as", TOPIC_OF_BROKER[row.name]
    if row.name in BROKER_SETTINGS:
        yield "environment", row.environment


def _default(row: Setting) -> str:
    from ..config.setting import text_of

    return text_of(row.default) or ""


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def as_json(entries: list[Entry] | None = None) -> dict[str, dict[str, dict[str, Any]]]:
    """These settings, or every honoured one of the broker and of topics: type, default, what is allowed, when it may change,
    meaning."""
    from ..config.definitions import HONOURED_BROKER, HONOURED_TOPIC
    from ..config.setting import text_of

    if entries is None:
        honoured = (("broker", HONOURED_BROKER), ("topic", HONOURED_TOPIC))
        entries = [Entry(kind, row) for kind, rows in honoured for row in rows if not row.internal]
    found: dict[str, dict[str, dict[str, Any]]] = {"broker": {}, "topic": {}}
    for kind, row in entries:
        found[kind][row.name] = {
            "type": row.type.name.lower(),
            "default": text_of(row.default),
            "allowed": row.allowed_text() or None,
            "whileRunning": row.dynamic,
            "documentation": row.doc,
        }
    return found
