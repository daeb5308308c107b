"""`tidelog clean TOPIC`: cleans a topic, or applies its retention, now; with --wait tells what went and why.

Rolls the active segments and takes no notice of min.cleanable.dirty.ratio, nor of back-off after a failure. What is
promised to consumers holds: min.compaction.lag.ms, open transactions, delete.retention.ms (ask `tidelog why`).
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .support.arguments import seconds
from .support.output import plural

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: Subparsers) -> None:
    from .support.http_client import add_http_argument

    parser = commands.add_parser("clean", help="clean a topic, or apply its retention, now", description=__doc__)
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--wait", action="store_true", help="wait until it is done and print what was removed, by cause"
    )
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=seconds, default=3600.0, help="how long --wait waits (default: an hour)"
    )
    parser.add_argument("--json", action="store_true", help="print the daemon's answer as JSON")
    add_http_argument(parser)
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Prints; 0 when all partitions were cleaned, or without --wait when it was begun; 1 when one could not be, with a line for
    each that says why, or when it takes too long."""
    import json
    import sys
    import time
    from urllib.parse import quote

    from .support.http_client import HttpFailure, ask, daemon_of, naming_nearest
    from .support.output import ProgressBar

    daemon = daemon_of(options)
    topic = quote(options.topic, safe="")
    with naming_nearest(options, options.topic):
        state = ask(daemon, "POST", f"/clean/{topic}?wait={5 if options.wait else 0}")
    give_up = time.monotonic() + options.timeout
    wait_s = 1 if sys.stderr.isatty() else 5  # a bar moves at least each second
    with ProgressBar("clean", unit="partitions") as bar:
        bar.total(state["partitions"])
        while options.wait and not _has_ended(state):
            if time.monotonic() > give_up:
                raise HttpFailure(
                    f"not done after {options.timeout:g} s; the daemon goes on with it (request {state['request']})"
                )
            bar.done(state["partitionsDone"] - bar.done_bytes)
            before = time.monotonic()
            state = ask(daemon, "GET", f"/clean/{topic}/{state['request']}?wait={wait_s}")
            if not _has_ended(state) and time.monotonic() - before < 0.2:
                time.sleep(0.2)  # too many wait there already: it answers at once
    if options.json:
        print(json.dumps(state, indent=2))
    else:
        print("\n".join(picture(state)))
    for partition, error in state["errors"].items():
        print(f"tidelog: {options.topic}-{partition} could not be cleaned: {error}", file=sys.stderr)
    return 1 if state["errors"] else 0


def _has_ended(state: Any) -> bool:
    return state["state"] in ("done", "failed")


def picture(state: Any) -> list[str]:
    """Removed records, as lines of aligned text."""
    if not _has_ended(state):
        return [
            f"{state['topic']}: {state['state']}, {state['partitionsDone']:,} of {plural(state['partitions'], 'partition')} done"
        ]
    from .why import ledger_line

    taken_s = (state["finishedMs"] - (state["startedMs"] or state["finishedMs"])) / 1000
    head = f"{state['topic']}: {plural(state['partitions'], 'partition')} in {taken_s:.2f} s"
    if state["errors"]:
        head += f", {len(state['errors'])} of them could not be cleaned"
    lines = [head, *removed_lines(state["removed"], state["removedBytes"])]
    if not any(state["removed"].values()) and not state["errors"]:
        lines.append(f"  nothing went: `tidelog why {state['topic']}` tells what holds each segment, and until when")
    ledgers = [entry["ledger"] for entry in state["byPartition"].values() if entry["ledger"] is not None]
    return [*lines, f"  since it began: {ledger_line(_sum(ledgers))}"] if ledgers else lines


def _sum(ledgers: list[Any]) -> dict[str, Any]:
    """Sum of the partitions' ledgers."""
    removed: dict[str, int] = {}
    for ledger in ledgers:
        for cause, count in ledger["removed"].items():
            removed[cause] = removed.get(cause, 0) + count
    return {
        "appended": sum(ledger["appended"] for ledger in ledgers),
        "live": sum(ledger["live"] for ledger in ledgers),
        "removed": removed,
    }


def removed_lines(removed: dict[str, int], size: int) -> list[str]:
    """Lines about removed records, one for each cause."""
    width = max(len(cause) for cause in removed)
    lines = [f"  {cause.ljust(width)}  {count:>12,}" for cause, count in removed.items()]
    return [*lines, f"  {'records'.ljust(width)}  {sum(removed.values()):>12,}  {plural(size, 'byte')}"]
