"""Drills: the newest cut is read whole and held against its sums, and what came of it is kept in the store.

There it outlives the daemon and the machine, and whoever looks at the backup sees it, wherever the drill was made: by the daemon
(backup.verify.interval.ms), or by `tidelog backup verify --record` on another machine.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ..cut.status import Drills
from ..formats.drills import decode_drill, encode_drill
from ..formats.entries import Drill
from ..formats.keys import DRILLS
from ..formats.sealed import DamagedBackupError, NewerFormatError
from ..restore.catalog import Catalog
from ..restore.restore import Bar, verify_cut
from ..store.errors import AlreadyThere, NotThere, StoreError
from .pins import pinned
from .retention import DAY_MS

if TYPE_CHECKING:
    from ...storage.clock import Time
    from ..formats.entries import Cut
    from ..store.interface import ObjectStore

KEPT = 10
"""Records that stay; older ones are deleted."""


def newest_drill(
    store: ObjectStore,
    time: Time,
    *,
    bar: Bar | None = None,
    threads: int = 1,
    prepare: Callable[[], object] = lambda: None,
) -> Drill:
    """Read the newest cut. Blocks. What is damaged is in the result, also a newer manifest that can't be read; StoreError,
    NoSuchCutError: nothing was found out.
    """
    catalog = Catalog(store)
    found = drill(store, catalog.newest(), time, bar=bar, threads=threads, prepare=prepare)
    return with_passed_over(found, catalog)


def with_passed_over(found: Drill, catalog: Catalog) -> Drill:
    """The drill, which has found damage too where a newer cut than the one that it read can't be read."""
    if found.fault or not catalog.passed_over:
        return found
    return found._replace(fault=catalog.passed_over[0])


def drill(
    store: ObjectStore,
    cut: Cut,
    time: Time,
    *,
    bar: Bar | None = None,
    threads: int = 1,
    prepare: Callable[[], object] = lambda: None,
) -> Drill:
    """Read one cut. `prepare` is what each of its threads begins with. Raises as `newest_drill`."""
    began = time.monotonic()
    fault = ""
    with pinned(store, cut.header.number):
        try:
            verify_cut(store, cut, bar, threads=threads, prepare=prepare)
        except DamagedBackupError as error:
            fault = str(error)
    return drilled(cut, time, began, fault)


def drilled(cut: Cut, time: Time, began: float, fault: str = "") -> Drill:
    """The result of a drill that `began` (of `time.monotonic`) and ends now."""
    return Drill(
        cut.header.number,
        cut.header.taken_ms,
        time.milliseconds(),
        round(time.monotonic() - began, 3),
        len(cut.partitions),
        cut.size,
        fault,
    )


def record(store: ObjectStore, found: Drill) -> None:
    """Keep what came of a drill; remove old records. StoreError."""
    with suppress(AlreadyThere):  # another drill ended in the same millisecond
        store.create(f"{DRILLS}{found.ended_ms:020d}", encode_drill(found))
    keys = _believed(store, found.ended_ms)
    with suppress(StoreError):  # credentials that may not delete
        store.delete(keys[:-KEPT])


def recorded(store: ObjectStore, now_ms: int | None = None) -> Drills:
    """What records say: the last drill, and the last good one. Those that can't be read are left out, and those of a day or more
    after `now_ms`, made while a clock was ahead. StoreError.
    """
    last: Drill | None = None
    for key in reversed(_believed(store, now_ms)[-KEPT:]):
        try:
            found = decode_drill(store.read(key), key)
        except (DamagedBackupError, NewerFormatError, NotThere):
            continue
        last = last or found
        if not found.fault:
            return Drills(last, found)
    return Drills(last)


def _believed(store: ObjectStore, now_ms: int | None) -> list[str]:
    """Keys of records of up to a day after `now_ms`, from the oldest to the newest."""
    keys = sorted(stored.key for stored in store.list(DRILLS))
    return keys if now_ms is None else [key for key in keys if key < f"{DRILLS}{now_ms + DAY_MS:020d}"]
