"""Whether a store keeps the promises that a backup stands on, found out at start with objects of no meaning."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

from .errors import AlreadyThere, Denied, NotThere, StoreError
from .interface import ObjectStore

_WRITERS = 3
_NAMES = ("a-b", "a.b", "a/b", "a0")  # in order of whole keys, and in another one where a directory is listed as `a`
_REFUSAL = "use a store with conditional writes (If-None-Match), or a directory (file://)"


class Probed(NamedTuple):
    """What was found out."""

    can_delete: bool
    """False: the credentials may not delete, so that nothing of this backup is ever removed by these."""


def probe(store: ObjectStore) -> Probed:
    """Try a store: about 20 small requests below `probe/`, which it removes again. StoreError says which promise is broken.

    The first is that `create` never overwrites: by it a second writer finds out. Stores that ignore the header `If-None-Match`
    answer as if all were well.
    """
    prefix = f"probe/{secrets.token_hex(8)}/"
    keys = [f"{prefix}once", f"{prefix}race", *(prefix + name for name in _NAMES)]
    try:
        _check_create(store, keys[0])
        _check_race(store, keys[1])
        _check_reading(store, prefix, keys)
    finally:
        can_delete = True
        # What went wrong before is told rather than what goes wrong here.
        with suppress(StoreError):
            try:
                store.delete(keys)
            except Denied:
                can_delete = False
    return Probed(can_delete)


def _check_create(store: ObjectStore, key: str) -> None:
    first = b"first"
    with suppress(AlreadyThere):  # an answer was lost, and the request sent again
        store.create(key, first)
    try:
        store.create(key, b"second")
    except AlreadyThere:
        pass
    else:
        problem = "this store ignores If-None-Match and overwrites: two daemons could write one backup and not find out"
        raise StoreError("probe", store.name, "", problem, _REFUSAL)
    if store.read(key) != first:
        problem = "this store says that an object was there, and has overwritten it"
        raise StoreError("probe", store.name, "", problem, _REFUSAL)


def _check_race(store: ObjectStore, key: str) -> None:
    def create(writer: int) -> bool:
        try:
            store.create(key, b"%d" % writer)
        except AlreadyThere:
            return False
        return True

    with ThreadPoolExecutor(_WRITERS, "backup-probe") as pool:
        won = list(pool.map(create, range(_WRITERS)))
    # None: the answer to the one that succeeded was lost.
    if sum(won) > 1 or (sum(won) == 1 and store.read(key) != b"%d" % won.index(True)):
        problem = "of several requests to create an object at one time more than one succeeded"
        raise StoreError("probe", store.name, "", problem, _REFUSAL)


def _check_reading(store: ObjectStore, prefix: str, keys: list[str]) -> None:
    for name in _NAMES:
        with suppress(AlreadyThere):
            store.create(prefix + name, name.encode())
    if store.read(f"{prefix}a-b", 1, 1) != b"-":
        raise StoreError("probe", store.name, "", "this store does not read ranges of objects")
    try:
        store.read(f"{prefix}nothing")
    except NotThere:
        pass
    else:
        raise StoreError("probe", store.name, "", "this store reads objects that are not there")
    listed = [stored.key for stored in store.list(prefix)]
    if listed != sorted(listed):
        problem = "this store does not list objects in order of their keys"
        remedy = "use a bucket without directories of its own (no S3 Express, no hierarchical namespace)"
        raise StoreError("probe", store.name, "", problem, remedy)
    if not set(listed) <= set(keys):
        raise StoreError("probe", store.name, "", "this store lists objects that nobody made")
