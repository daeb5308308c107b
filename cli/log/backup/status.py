"""`tidelog backup status`: the newest cut of a backup (when, how much, what holds back), how many there are, and the last drill.

With `--http` or `--bootstrap-server` the daemon that makes it is asked too: how much would be lost now, and what its requests
to the store came to since its start. Without a store's URL it alone is asked.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from ...support.http_client import VARIABLE, add_http_argument
from .source import add_source, configured, held_text, opened, time_text

if TYPE_CHECKING:
    from ....backup.formats.entries import Drill

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(tools: Subparsers) -> None:
    parser = tools.add_parser("status", help="the newest cut, the last drill, and what there is", description=__doc__)
    add_source(parser)
    add_http_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Prints; 0, or 1 where partitions hold back, a newer cut or the last drill has damage, or the daemon's does not run."""
    from ...support.output import print_json

    has_store = bool(options.url or configured(options).backup_url)
    is_asked = (
        options.http is not None or options.bootstrap_server is not None or (not has_store and VARIABLE in os.environ)
    )
    content: dict[str, Any] = {}
    lines: list[str] = []
    is_well = True
    if has_store or not is_asked:
        is_well = _of_store(options, content, lines)
    if is_asked:
        is_well = _of_daemon(options, content, lines) and is_well
    if options.json:
        print_json(content)
    else:
        print("\n".join(lines))
    return 0 if is_well else 1


def _of_store(options: Any, content: dict[str, Any], lines: list[str]) -> bool:
    """What the store says; True if it is well. ConfigError, StoreError."""
    from ....backup.restore.catalog import Catalog
    from ....backup.upkeep.drill import recorded
    from ....storage.clock import SystemTime
    from ...support.output import plural

    with opened(options) as store:
        catalog = Catalog(store)
        cut = catalog.newest()
        now_ms = SystemTime().milliseconds()
        drills = recorded(store, now_ms)
    age_s = max(0, now_ms - cut.header.taken_ms) / 1000
    content |= {
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
        "damaged": list(catalog.passed_over),
        "drill": None if drills.last is None else _drill_json(drills.last),
        "lastGoodDrill": None if drills.good is None else _drill_json(drills.good),
    }
    lines += [
        f"{store.name}: {plural(len(catalog.numbers), 'cut')} of cluster {cut.header.cluster_id}, node {cut.header.node_id}",
        f"newest: cut {cut.header.number}, taken {content['taken']}, {age_s:.0f} s ago",
        f"        {plural(len(cut.partitions), 'partition')}, {plural(cut.size, 'byte')} of logs",
        *(f"damaged: {sentence}" for sentence in catalog.passed_over),
        *(f"held back: {held_text(entry)}" for entry in cut.held),
        *_drill_lines(drills.last, drills.good, now_ms),
    ]
    return not cut.held and not catalog.passed_over and (drills.last is None or not drills.last.fault)


def _drill_json(drill: Drill) -> dict[str, Any]:
    return {
        "cut": drill.cut,
        "ended": time_text(drill.ended_ms),
        "seconds": drill.seconds,
        "bytes": drill.bytes,
        "damage": drill.fault or None,
    }


def _drill_lines(last: Drill | None, good: Drill | None, now_ms: int) -> list[str]:
    from ...support.output import plural

    if last is None:
        return ["drill:  none yet: `tidelog backup verify --record`, or backup.verify.interval.ms"]
    if not last.fault:
        return [
            f"drill:  cut {last.cut} was read whole {_ago(last.ended_ms, now_ms)}, {plural(last.bytes, 'byte')} of logs in "
            f"{last.seconds:.1f} s"
        ]
    lines = [f"drill:  cut {last.cut} IS DAMAGED, found {_ago(last.ended_ms, now_ms)}: {last.fault}"]
    lines.append(
        f"        the last good one was {_ago(good.ended_ms, now_ms)}" if good else "        no good one is known"
    )
    return lines


def _unsent_text(unsent: Any) -> str:
    """Segments that are being sent, as the daemon tells of them."""
    from ...support.output import plural

    return (
        f"{unsent['topic']}-{unsent['partition']}, since {time_text(unsent['sinceMs'])}: "
        f"{plural(unsent['bytes'], 'byte')} are being sent"
    )


def _ago(at_ms: int, now_ms: int) -> str:
    seconds = max(0, now_ms - at_ms) / 1000
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def _of_daemon(options: Any, content: dict[str, Any], lines: list[str]) -> bool:
    """What the daemon says; True if its backup runs. HttpFailure."""
    from ...support.http_client import ask, daemon_of
    from ...support.output import plural, table

    found = ask(daemon_of(options), "GET", "/backup/status")
    content["daemon"] = found
    lag = (
        "there is no cut yet" if found["lagMs"] is None else f"the last {found['lagMs'] / 1000:.1f} s would be lost now"
    )
    why = f" ({found['reason']})" if found["reason"] else ""
    total = sum(count["requests"] for count in found["requests"].values())
    if lines:
        lines.append("")
    lines += [
        f"daemon: {found['state']}{why}; {lag}",
        *(f"damaged: {sentence}" for sentence in found["damaged"]),
        *(f"held back: {one['topic']}-{one['partition']}: {one['reason']}" for one in found["held"]),
        *(f"waits for: {_unsent_text(one)}" for one in found["waitsFor"]),
        *(f"from before a pass of the cleaner: {_unsent_text(one)}" for one in found["beforePass"]),
        f"{plural(total, 'request')} to the store since its start:",
        *table(
            ("kind", "requests", "bytes", "failed", "seconds"),
            [
                (kind, count["requests"], count["bytes"], count["errors"], f"{count['seconds']:.1f}")
                for kind, count in found["requests"].items()
            ],
            indent="  ",
        ),
    ]
    return found["state"] == "running" and not found["held"] and not found["damaged"]
