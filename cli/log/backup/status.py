"""`tidelog backup status`: the newest cut of a backup: when, how much, what holds back; and how many cuts there are."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .source import add_source, held_text, opened, time_text

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(tools: Subparsers) -> None:
    parser = tools.add_parser("status", help="the newest cut, and what there is", description=__doc__)
    add_source(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Prints; 0, or 1 where partitions hold back."""
    from ....backup.restore.catalog import Catalog
    from ....storage.clock import SystemTime
    from ...support.output import print_json

    with opened(options) as store:
        catalog = Catalog(store)
        cut = catalog.newest()
    age_s = max(0, SystemTime().milliseconds() - cut.header.taken_ms) / 1000
    content = {
        "store": store.name,
        "cuts": len(catalog.numbers),
        "cut": cut.header.number,
        "taken": time_text(cut.header.taken_ms),
        "ageSeconds": round(age_s, 3),
        "clusterId": cut.header.cluster_id,
        "nodeId": cut.header.node_id,
        "partitions": len(cut.partitions),
        "bytes": cut.size,
        "secrets": cut.header.secrets,
        "held": [held_text(entry) for entry in cut.held],
    }
    if options.json:
        print_json(content)
    else:
        print(f"{store.name}: {content['cuts']} cuts of cluster {cut.header.cluster_id}, node {cut.header.node_id}")
        print(f"newest: cut {cut.header.number}, taken {content['taken']}, {age_s:.0f} s ago")
        print(f"        {len(cut.partitions):,} partitions, {cut.size:,} bytes of logs")
        for text in (held_text(entry) for entry in cut.held):
            print(f"held back: {text}")
    return 1 if cut.held else 0
