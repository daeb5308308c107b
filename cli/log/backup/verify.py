"""`tidelog backup verify`: reads all that a restore of a cut would read, and holds it against the cut's sums. Writes nothing.

Says how long it took: a restore takes that, and what writing takes. With `--scratch DIR` the cut is restored there, which does
not exist yet, checked by `log verify`, and removed again.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .source import add_choice, add_source, chosen, configured, held_text, opened

if TYPE_CHECKING:
    from ....backup.formats.entries import Cut
    from ....backup.store.interface import ObjectStore

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(tools: Subparsers) -> None:
    parser = tools.add_parser("verify", help="check that a cut can be restored", description=__doc__)
    add_source(parser)
    add_choice(parser)
    parser.add_argument("--scratch", metavar="DIR", help="restore into this new directory, verify it, and remove it")
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Prints; 0 when the cut is whole, else 1 or an error."""
    from ....backup.restore.catalog import Catalog
    from ....backup.restore.restore import Bar, verify_cut
    from ....storage.clock import SystemTime
    from ...support.output import ProgressBar

    time = SystemTime()
    with opened(options) as store:
        cut = chosen(Catalog(store), options)
        began = time.monotonic()
        with ProgressBar("verify") as bar:
            if options.scratch is None:
                verify_cut(store, cut, Bar(bar.total, bar.done))
                faults = 0
            else:
                faults = _drill(store, cut, options, Bar(bar.total, bar.done))
    took = time.monotonic() - began
    how = "read" if options.scratch is None else "restored"
    print(
        f"cut {cut.header.number}: {len(cut.partitions):,} partitions, {cut.size:,} bytes of logs, {how} in {took:.1f} s; "
        + ("all sums are right" if not faults else f"log verify has found {faults} faults")
    )
    for entry in cut.held:
        print(f"held back: {held_text(entry)}")
    return 1 if faults or cut.held else 0


def _drill(store: ObjectStore, cut: Cut, options: Any, bar: Any) -> int:
    """Restore into a scratch directory and verify it; returns the number of faults."""
    from ....backup.restore.restore import Restore
    from ....storage.inspect.verify import verify
    from ....storage.io.filesystem import RealFileSystem

    file_system = RealFileSystem()
    config = configured(options, (f"log.dirs={options.scratch}",))
    Restore(store, cut, [options.scratch], file_system, config, bar=bar).run()
    faults = 0
    for finding in verify(file_system, options.scratch):
        if finding.is_fault:
            faults += 1
            print(finding)
    if not faults:
        file_system.remove_tree(options.scratch)
    return faults
