"""`tidelog settings`: every setting with its type, default, range and meaning, or what is in force with given files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: Subparsers) -> None:
    parser = commands.add_parser("settings", help="list all settings", description=__doc__)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--sample", action="store_true", help="print a sample server.properties instead")
    form.add_argument("--json", action="store_true", help="print JSON: the broker's and the topics' settings by name")
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    from ..config.render import render_markdown, render_sample

    if options.json:
        import json

        print(json.dumps(as_json(), indent=2))
        return 0
    print(render_sample() if options.sample else render_markdown(), end="")
    return 0


def as_json() -> dict[str, dict[str, dict[str, Any]]]:
    """Every honoured setting of the broker and of topics: type, default, what is allowed, when it may change, meaning."""
    from ..config.definitions import HONOURED_BROKER, HONOURED_TOPIC
    from ..config.setting import text_of

    return {
        kind: {
            row.name: {
                "type": row.type.name.lower(),
                "default": text_of(row.default),
                "allowed": row.allowed_text() or None,
                "whileRunning": row.dynamic,
                "documentation": row.doc,
            }
            for row in rows
            if not row.internal
        }
        for kind, rows in (("broker", HONOURED_BROKER), ("topic", HONOURED_TOPIC))
    }
