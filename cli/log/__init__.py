"""`tidelog log ...`: the offline tools. They read (or, said so, change) files of a data directory without a daemon.

Each is a module of this package with `add_parser(subparsers)`, as the commands are; to add one, add it to `TOOLS`. Start reading
at `dump.py`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from . import anatomy, compact, dump, export_kraft, scrub, verify

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

TOOLS = (dump, verify, scrub, anatomy, compact, export_kraft)


def add_parser(commands: Subparsers) -> None:
    description = (__doc__ or "").partition("\n\n")[0]  # the rest is for developers who add a tool
    parser = commands.add_parser("log", help="explain, check and convert log files", description=description)
    tools = parser.add_subparsers(title="tools", metavar="TOOL", required=True)
    for tool in TOOLS:
        tool.add_parser(tools)
