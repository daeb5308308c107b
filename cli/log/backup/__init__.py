"""`tidelog backup ...`: looks at the backup that a daemon makes of itself (backup.url), checks it, removes old parts of it.

Start reading in `restore.py`. All read the object store alone: no daemon is needed, and one may run.
`--from URL` names it; without, backup.url of `--config` and
`--set`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from . import list_, prune, status, verify

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

TOOLS = (status, list_, verify, prune)


def add_parser(commands: Subparsers) -> None:
    description = (__doc__ or "").partition("\n\n")[0]
    parser = commands.add_parser("backup", help="look at backups, check and prune them", description=description)
    tools = parser.add_subparsers(title="tools", metavar="TOOL", required=True)
    for tool in TOOLS:
        tool.add_parser(tools)
