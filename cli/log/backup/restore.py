"""`tidelog restore --from URL DIR`: makes a data directory of a backup: all partitions as they were at one moment.

DIR must not exist yet, or be empty; with several of them partitions are spread by size. A daemon starts there with `log.dirs`
set to the same directories, and goes on: offsets, groups, transactions, producers, topics, settings, users and rules are those
of the cut. Where a restore is broken off, a daemon refuses DIR, and the same command goes on. The old daemon must not come back
beside the new one: the first to publish a cut stops the other's backup, not the other.

With `--topic T --as NEW --bootstrap-server HOST:PORT` one topic is written into a running daemon, under a new name: its committed
records as of the cut, with keys, values, headers, timestamps, partition and order. Offsets begin at 0. It has T's settings, but
nothing of it is deleted by age or size. Where that fails, NEW is deleted again.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ...support.kafka_client import add_bootstrap_argument
from .source import (
    add_choice,
    add_source,
    chosen,
    configured,
    difference_lines,
    held_text,
    opened,
    secrets_key,
    time_text,
)

if TYPE_CHECKING:
    from ....backup.formats.entries import Cut
    from ....backup.restore.catalog import Catalog

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: Subparsers) -> None:
    parser = commands.add_parser("restore", help="make a data directory of a backup", description=__doc__)
    parser.add_argument("directories", metavar="DIR", nargs="*", help="a new directory; several: the log.dirs to be")
    add_source(parser)
    add_choice(parser)
    parser.add_argument(
        "--without-secrets",
        action="store_true",
        help="leave out passwords that are sealed with a key that is not there (backup.secrets)",
    )
    one = parser.add_argument_group("one topic beside what runs")
    one.add_argument("--topic", metavar="T", help="restore this topic alone, into a running daemon")
    one.add_argument("--as", metavar="NEW", dest="new_name", help="what it is called there; must not exist yet")
    one.add_argument(
        "--scratch",
        metavar="DIR",
        help="where the topic's bytes may be kept meanwhile (default: the temporary directory)",
    )
    add_bootstrap_argument(parser)
    parser.set_defaults(run=run, usage_error=parser.error)


def run(options: Any) -> int:
    """Restores; 0, or 1 where partitions are older than the cut, or the cut than a newer one that is damaged."""
    import os

    if options.topic is not None or options.new_name is not None:
        if options.topic is None or options.new_name is None or options.directories:
            options.usage_error("--topic T goes with --as NEW, and without DIR")
        from .topic import restore_topic

        return restore_topic(options)
    if not options.directories:
        options.usage_error("name DIR, a new directory; or --topic T and --as NEW")
    from ....backup.formats.secrets import OMIT
    from ....backup.restore.catalog import Catalog
    from ....backup.restore.restore import Bar, Restore
    from ....backup.upkeep.pins import pinned
    from ....storage.clock import SystemTime
    from ....storage.io.filesystem import RealFileSystem
    from ...support.output import ProgressBar, plural

    directories = [os.path.abspath(directory) for directory in options.directories]
    time = SystemTime()
    began = time.monotonic()
    config = configured(options, (f"log.dirs={','.join(directories)}",))
    with opened(options) as store:
        catalog = Catalog(store)
        cut = _begun(catalog, directories[0], options) if options.cut is options.to is None else None
        cut = cut or chosen(catalog, options)
        passed_over = catalog.passed_over
        newest = _newest(catalog, cut)
        with ProgressBar("restore") as bar, pinned(store, cut.header.number, lambda: _is_unfinished(directories[0])):
            restore = Restore(
                store,
                cut,
                directories,
                RealFileSystem(),
                config,
                bar=Bar(bar.total, bar.done),
                key=OMIT if options.without_secrets else secrets_key(config),
            )
            done = restore.run()
    took = time.monotonic() - began
    print(
        f"restored cut {cut.header.number}, taken {time_text(cut.header.taken_ms)}: {plural(done.partitions, 'partition')}, "
        f"{plural(done.bytes, 'byte')} of logs in {took:.1f} s"
    )
    if cut.header.key and options.without_secrets:
        print("passwords were left out (--without-secrets): give users theirs again with `tidelog users`")
    if not cut.header.secrets:
        print("passwords are not in this backup (backup.secrets=omit): give users theirs again with `tidelog users`")
    for line in difference_lines(cut, newest):
        print(line)
    for entry in done.held:
        print(f"older than the cut: {held_text(entry)}")
    for sentence in passed_over:
        print(f"passed over a newer cut: {sentence}")
    print(f"start it with: tidelog serve --set log.dirs={','.join(directories)}")
    return 1 if done.held or passed_over else 0


def _newest(catalog: Catalog, cut: Cut) -> Cut:
    """The newest cut, to tell the difference to it; where that is of a newer format `cut` itself, which restores all the same."""
    from ....backup.formats.sealed import NewerFormatError

    try:
        return catalog.newest()
    except NewerFormatError:
        return cut


def _is_unfinished(directory: str) -> bool:
    """True if a restore there is still to be gone on with: its cut has to be there then."""
    from ....backup.restore.marker import read_marker
    from ....storage.io.filesystem import RealFileSystem

    try:
        return read_marker(RealFileSystem(), directory) is not None
    except OSError:  # the disk that broke it off
        return True


def _begun(catalog: Catalog, directory: str, options: Any) -> Cut | None:
    """The cut of a restore that was broken off there: without --cut and --to that one is meant."""
    from ....backup.restore.marker import read_marker
    from ....storage.io.filesystem import RealFileSystem

    file_system = RealFileSystem()
    marker = read_marker(file_system, directory) if file_system.exists(directory) else None
    if marker is None or marker.cut not in catalog.numbers:
        return None
    return catalog.cut(marker.cut)
