"""`tidelog settings`: every setting with its type, default, range and meaning, or what is in force with given files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: Subparsers) -> None:
    parser = commands.add_parser("settings", help="list all settings", description=__doc__)
    parser.add_argument("--sample", action="store_true", help="print a sample server.properties instead")
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Prints; returns 0."""
    from ...config.render import render_markdown, render_sample

    print(render_sample() if options.sample else render_markdown(), end="")
    return 0
