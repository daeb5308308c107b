"""`tidelog backup list`: the cuts of a backup, with time, number of partitions and bytes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .source import add_source, opened, time_text

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_MOST = 20


def add_parser(tools: Subparsers) -> None:
    parser = tools.add_parser("list", help="cuts that can be restored", description=__doc__)
    add_source(parser)
    parser.add_argument("--limit", metavar="N", type=int, default=_MOST, help=f"the last N (default: {_MOST}); 0: all")
    parser.add_argument("--json", action="store_true", help="print one JSON array")
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Prints, the oldest first; 0, or 1 where a cut is damaged, or of a newer format."""
    from ....backup.formats.sealed import DamagedBackupError, NewerFormatError
    from ....backup.restore.catalog import Catalog
    from ...support.output import print_json, say_empty, table

    rows: list[dict[str, Any]] = []
    with opened(options) as store:
        catalog = Catalog(store)
        for number in catalog.numbers[-options.limit :] if options.limit else catalog.numbers:
            try:
                cut = catalog.cut(number)
            except (DamagedBackupError, NewerFormatError) as error:
                rows.append({"cut": number, "damage": str(error)})  # it can't be restored here, whichever it is
                continue
            rows.append(
                {
                    "cut": number,
                    "taken": time_text(cut.header.taken_ms),
                    "partitions": len(cut.partitions),
                    "bytes": cut.size,
                    "held": len(cut.held),
                }
            )
    names = ("cut", "taken", "partitions", "bytes", "held")
    if options.json:
        print_json(rows)
    elif not rows:
        say_empty(f"{store.name} has no cut")
    else:
        for line in table(names, [[row.get(name) for name in names] for row in rows]):
            print(line)
        for row in rows:
            if "damage" in row:
                print(f"cut {row['cut']} can't be restored: {row['damage']}")
    return int(any("damage" in row for row in rows))
