"""`tidelog backup verify`: reads all that a restore of a cut would read, and holds it against the cut's sums. Writes nothing but
a note in the store that the cut is being read, which keeps it from being pruned meanwhile.

Says how long it took: a restore takes that, and what writing takes. With `--scratch DIR` the cut is restored there, which does
not exist yet, checked by `log verify`, and removed again: that is what a restore takes. With `--record` the result is kept in
the store, where `backup status` and the daemon (its metrics, `/health`, alerts) find it: for a drill on another machine.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .source import add_choice, add_source, chosen, configured, held_text, opened

if TYPE_CHECKING:
    from ....backup.formats.entries import Cut
    from ....backup.restore.restore import Bar
    from ....backup.store.interface import ObjectStore

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(tools: Subparsers) -> None:
    parser = tools.add_parser("verify", help="check that a cut can be restored", description=__doc__)
    add_source(parser)
    add_choice(parser)
    parser.add_argument("--scratch", metavar="DIR", help="restore into this new directory, verify it, and remove it")
    parser.add_argument("--record", action="store_true", help="keep the result in the store")
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Prints; 0 when the cut is whole, 1 where partitions hold back. DamagedBackupError, StoreError."""
    from ....backup.formats.sealed import DamagedBackupError
    from ....backup.restore.catalog import Catalog
    from ....backup.restore.restore import THREADS, Bar
    from ....backup.upkeep.drill import drill, drilled, record, with_passed_over
    from ....storage.clock import SystemTime
    from ...support.output import ProgressBar, plural

    time = SystemTime()
    with opened(options) as store:
        catalog = Catalog(store)
        cut = chosen(catalog, options)
        with ProgressBar("verify") as progress:
            bar = Bar(progress.total, progress.done)
            if options.scratch is None:
                found = drill(store, cut, time, bar=bar, threads=THREADS)
            else:
                began = time.monotonic()
                fault = _restored(store, cut, options, bar)
                found = drilled(cut, time, began, fault)
        found = with_passed_over(found, catalog)
        if options.record:
            record(store, found)
    if found.fault:
        raise DamagedBackupError(found.fault)
    rate = found.bytes / max(found.seconds, 0.001) / 1e6
    print(
        f"cut {found.cut}: {plural(found.partitions, 'partition')}, {plural(found.bytes, 'byte')} of logs, "
        f"{'read' if options.scratch is None else 'restored'} in {found.seconds:.1f} s ({rate:,.0f} MB/s); all sums are right"
    )
    for entry in cut.held:
        print(f"held back: {held_text(entry)}")
    return 1 if cut.held else 0


def _restored(store: ObjectStore, cut: Cut, options: Any, bar: Bar) -> str:
    """Restore into a scratch directory and verify it; returns what is wrong, or an empty text."""
    from ....backup.formats.sealed import DamagedBackupError
    from ....backup.formats.secrets import OMIT
    from ....backup.restore.restore import Restore
    from ....backup.upkeep.pins import pinned
    from ....storage.inspect.verify import verify
    from ....storage.io.filesystem import RealFileSystem
    from ...support.output import plural

    file_system = RealFileSystem()
    config = configured(options, (f"log.dirs={options.scratch}",))
    try:
        with pinned(store, cut.header.number):
            Restore(store, cut, [options.scratch], file_system, config, bar=bar, key=OMIT).run()
    except DamagedBackupError as error:
        return str(error)
    faults = 0
    for finding in verify(file_system, options.scratch):
        if finding.is_fault:
            faults += 1
            print(finding)
    if faults:
        return f"log verify has found {plural(faults, 'fault')} in {options.scratch}"
    file_system.remove_tree(options.scratch)
    return ""
