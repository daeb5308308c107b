"""`tidelog log anatomy DIR`: the clean, dirty and active sections of logs, as the cleaner sees them.

DIR is a partition's directory, or a data directory for all of its partitions. For each segment: size, records, distinct
keys (a ≈ says that they were estimated), tombstones, largest timestamp; and the ratio that min.cleanable.dirty.ratio is
held against. Reads whole logs, changes nothing; a daemon may run meanwhile.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...storage.inspect.anatomy import LogAnatomy

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(tools: Subparsers) -> None:
    parser = tools.add_parser("anatomy", help="clean, dirty and active sections of logs", description=__doc__)
    parser.add_argument("directory", metavar="DIR", help="a partition's directory, or one of log.dirs")
    parser.add_argument("--json", action="store_true", help="print a JSON list with an object for each partition")
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Prints; 0 when every byte could be read, else 1."""
    import os
    import shutil
    import sys

    from ...storage.inspect.anatomy import examine, log_size, partitions_in
    from ...storage.io.filesystem import RealFileSystem
    from ..support.output import ProgressBar
    from .anatomy_picture import draw

    file_system = RealFileSystem()
    directories = partitions_in(file_system, options.directory)
    found: list[LogAnatomy] = []
    is_coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    with ProgressBar("anatomy") as bar:
        bar.total(sum(log_size(file_system, directory) for directory in directories))
        for directory in directories:
            anatomy = examine(file_system, directory, bar.done)
            found.append(anatomy)
            if not options.json:
                bar.clear()
                width = shutil.get_terminal_size().columns
                print("\n".join(draw(anatomy, width, is_coloured=is_coloured)) + "\n" * (directory != directories[-1]))
    if options.json:
        _print_json(found)
    unreadable = [anatomy.directory for anatomy in found if anatomy.unreadable]
    for directory in unreadable:
        print(f"tidelog: {directory} can't be read in full: see `tidelog log verify {directory}`", file=sys.stderr)
    return 1 if unreadable else 0


def _print_json(found: list[LogAnatomy]) -> None:
    import json

    logs = [
        {
            "topic": log.topic,
            "partition": log.partition,
            "directory": log.directory,
            "logStartOffset": log.log_start_offset,
            "firstDirtyOffset": log.first_dirty_offset,
            "logEndOffset": log.log_end_offset,
            "ratio": log.ratio,
            "keys": log.keys,
            "keysExact": log.keys_exact,
            "unreadableBytes": log.unreadable,
            "holes": [{"firstOffset": hole.first_offset, "lastOffset": hole.last_offset} for hole in log.holes],
            "sections": {section.value: totals._asdict() for section, totals in log.sections.items()},
            "segments": [
                {
                    "baseOffset": segment.base_offset,
                    "endOffset": segment.end_offset,
                    "section": segment.section.value,
                    "cleanBytes": segment.clean_size,
                    **segment.totals._asdict(),
                }
                for segment in log.segments
            ],
        }
        for log in found
    ]
    print(json.dumps(logs, indent=2))
