"""`tidelog log scrub DIR`: looks for rot in the closed segments of a data directory, or of one partition. Changes nothing.

Checksums, offsets, leader epochs, index entries and producer snapshots are checked; no record is decoded, and the page cache is
left as it was. `log verify` checks much more, reads active segments too, and takes several times the processor time. What is
damaged makes the exit code 1. A daemon may run on the directory meanwhile; it does the same in the background
(tidelog.log.scrub.bytes.per.second).
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_MIB = 1 << 20
_LEAST_BLOCK = 64 << 10


def add_parser(tools: Subparsers) -> None:
    parser = tools.add_parser("scrub", help="look for rot in closed segments, read-only", description=__doc__)
    parser.add_argument("directory", metavar="DIR", help="a directory of log.dirs, or a partition's in it")
    parser.add_argument(
        "--rate", metavar="BYTES", type=bytes_per_second, help="read at most so many bytes a second (default: no limit)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object: faults, notes, bytes, findings")
    parser.add_argument("--quiet", action="store_true", help="damage only, no notes")
    parser.set_defaults(run=run)


def bytes_per_second(text: str) -> int:
    """Parse the rate; ValueError unless it is a whole number above 0."""
    rate = int(text)
    if rate < 1:
        raise ValueError(text)
    return rate


def run(options: Any) -> int:
    """Prints; 0 when nothing is damaged, else 1."""
    import time

    from ...storage.inspect.verify import Progress
    from ...storage.io.filesystem import RealFileSystem
    from ...storage.scrub.offline import scrub
    from ..support.output import ProgressBar
    from .verify import print_findings

    with ProgressBar("scrub") as bar:
        done = paced(bar.done, options.rate, time.monotonic, time.sleep)
        block = _MIB if options.rate is None else min(max(options.rate // 4, _LEAST_BLOCK), _MIB)
        findings = scrub(RealFileSystem(), options.directory, Progress(bar.total, done), time.sleep, block)
        return print_findings(findings, options, bar, "closed segments")


def paced(
    done: Callable[[int], object], rate: int | None, now_s: Callable[[], float], wait: Callable[[float], object]
) -> Callable[[int], None]:
    """`done`, which then waits until the bytes it was told of are no more than `rate` a second; None: never."""
    due_s = now_s()

    def report(count: int) -> None:
        nonlocal due_s
        done(count)
        if rate is None:
            return
        # What comes late is not made up for.
        due_s = max(due_s, now_s() - 1.0) + count / rate
        if (ahead := due_s - now_s()) > 0:
            wait(ahead)

    return report
