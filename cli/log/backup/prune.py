"""`tidelog backup prune`: removes cuts that backup.retention.ms and backup.keep.* do not keep, and objects that none needs.

A daemon does it once an hour. Objects stay a day longer than the last cut that needs them. `--dry-run` says what would go.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .source import add_source, configured, opened

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(tools: Subparsers) -> None:
    parser = tools.add_parser("prune", help="remove old cuts and what only they need", description=__doc__)
    add_source(parser)
    parser.add_argument("--dry-run", action="store_true", help="change nothing")
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Prints; 1 if a kept cut is damaged, else 0."""
    from ....backup.upkeep.retention import keep_of
    from ....backup.upkeep.sweep import sweep
    from ....storage.clock import SystemTime
    from ...support.output import plural

    keep = keep_of(configured(options))
    with opened(options) as store:
        swept = sweep(store, keep, SystemTime().milliseconds(), is_rehearsal=options.dry_run)
    verb = "would remove" if options.dry_run else "removed"
    print(
        f"{verb} {plural(swept.deleted_cuts, 'cut')} and {plural(swept.deleted_objects, 'object')} with "
        f"{plural(swept.deleted_bytes, 'byte')}; {plural(swept.kept_cuts, 'cut')} kept"
    )
    for sentence in swept.damaged:
        print(f"damaged: {sentence}")
    return 1 if swept.damaged else 0
