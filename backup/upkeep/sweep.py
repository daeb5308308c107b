"""Deletes cuts that retention does not keep, and objects that no kept cut names.

    1  list pins and cuts, decide which stay (ages are between times of the store's clock)
    2  mark: read those that stay, note every object that they name
    3  delete the other manifests
    4  delete unmarked objects that are older than the grace, and than what the newest cut's writer was still sending

A crash after any step leaves cuts that are whole, and objects for the next sweep. A daemon goes on publishing meanwhile: what a
new cut names is younger than the grace, or was named by the newest cut of step 1.

A kept cut whose manifest is damaged stays, and with it every object that is not younger than it: nobody knows which of them it
names, and it names none that came later. Other manifests and younger objects go all the same. It is told, since room is made
only when that cut is gone. A manifest of a newer format ends the sweep after step 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from ..formats.entries import Cut
from ..formats.keys import (
    BASES,
    CUTS,
    METADATA,
    PACKS,
    SEGMENTS,
    cut_key,
    cut_number,
    segment_key,
    segments_prefix,
)
from ..formats.manifest import Partitions
from ..formats.sealed import DamagedBackupError
from ..restore.catalog import Catalog
from .pins import PIN_MS, pins
from .retention import GRACE_MS, Keep, kept_cuts

if TYPE_CHECKING:
    from ..store.interface import ObjectStore

_BATCH = 500
_WHAT_TO_DO = (
    "objects of before it are kept until retention ends it: put it back from a copy of the store, or delete it, since "
    "that cut can't be restored"
)


class Swept(NamedTuple):
    """What a sweep has done."""

    kept_cuts: int
    deleted_cuts: int
    deleted_objects: int
    deleted_bytes: int
    damaged: tuple[str, ...] = ()
    """Kept cuts that can't be read, and keep all older objects: why, and what to do, one sentence each."""


def sweep(
    store: ObjectStore, keep: Keep, here_ms: int = 1 << 63, *, grace_ms: int = GRACE_MS, is_rehearsal: bool = False
) -> Swept:
    """Sweep a store; with `is_rehearsal` only count. Blocks.

    `here_ms`: what time it is by the clock of who sweeps, in ms. If the store's newest cut is of later, the store's clock was
    ahead then: what is young by this one is not taken for old.

    StoreError, NewerFormatError: nothing, or not all, was deleted; another sweep goes on.
    """
    held = pins(store)
    cuts = [
        (number, stored.modified_ms) for stored in store.list(CUTS) if (number := cut_number(stored.key)) is not None
    ]
    if not cuts:
        return Swept(0, 0, 0, 0)
    now_ms = min(max(cuts)[1], here_ms)  # of the newest one: the store's clock may have been ahead at others
    kept = kept_cuts(cuts, now_ms, keep)
    kept |= {pin.cut for pin in held if now_ms - pin.modified_ms <= PIN_MS} & {number for number, _ in cuts}
    catalog = Catalog(store)
    marked: set[str] = set()
    before: Partitions = {}
    # Of the newest cut that can be read: what its writer was sending then, or began to send later.
    unnamed = -1
    damaged: dict[int, str] = {}
    for number in sorted(kept):
        try:
            cut = catalog.cut(number)
        except DamagedBackupError as error:
            damaged[number] = f"{error}; {_WHAT_TO_DO}"
            continue
        marked.update(named(cut, before))
        before, unnamed = cut.partitions, cut.header.unnamed
        if unnamed < 0 and number != max(kept):
            unnamed = number
    spared_ms = _unnamed_ms(unnamed, cuts)
    # The store's times: an object is there before the manifest that names it.
    needed_ms = max((at_ms for number, at_ms in cuts if number in damaged), default=-1)
    doomed = [cut_key(number) for number, _ in cuts if number not in kept]
    size = 0
    if not is_rehearsal:
        _delete(store, doomed)
    garbage = [pin.key for pin in held if now_ms - pin.modified_ms > PIN_MS]
    count = 0
    for prefix in (BASES, PACKS, SEGMENTS, METADATA):
        for stored in store.list(prefix):
            age_ms = now_ms - stored.modified_ms
            is_spared = stored.modified_ms >= spared_ms or stored.modified_ms <= needed_ms
            if stored.key in marked or age_ms <= grace_ms or is_spared:
                continue
            garbage.append(stored.key)
            count, size = count + 1, size + stored.size
            if len(garbage) >= _BATCH and not is_rehearsal:
                _delete(store, garbage)
                garbage = []
    if not is_rehearsal:
        _delete(store, garbage)
    return Swept(len(kept), len(doomed), count, size, tuple(damaged.values()))


def _unnamed_ms(unnamed: int, cuts: list[tuple[int, int]]) -> int:
    """When the oldest object was sent that a later cut will name, or before: not before the newest cut up to `unnamed` that is
    there, unless the store's clock was set back after it.
    """
    if unnamed < 0:
        return 1 << 63
    since = max((cut for cut in cuts if cut[0] <= unnamed), default=(0, 0))
    earliest_ms = min((at_ms for number, at_ms in cuts if number > since[0]), default=since[1])
    return since[1] if earliest_ms >= since[1] else earliest_ms - GRACE_MS


def named(cut: Cut, before: Partitions | None = None) -> Iterator[str]:
    """Keys of all objects that a restore of the cut reads, but for those of entries that `before` has too, the very same ones:
    most partitions of neighbouring cuts are those of their common base.
    """
    yield f"{BASES}{cut.header.base}"
    if cut.header.metadata:
        yield f"{METADATA}{cut.header.metadata}"
    for key, entry in cut.partitions.items():
        if before is not None and before.get(key) is entry:
            continue
        topic_id = UUID(hex=entry.topic_id) if entry.topic_id else None
        prefix = segments_prefix(entry.topic, topic_id, entry.partition)
        for segment in entry.segments:
            if segment.object_sum:
                yield segment_key(prefix, segment.base_offset, segment.object_sum)
        for extent in entry.extents():
            yield f"{PACKS}{extent.pack}"


def _delete(store: ObjectStore, keys: list[str]) -> None:
    for start in range(0, len(keys), _BATCH):
        store.delete(keys[start : start + _BATCH])
