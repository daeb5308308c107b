"""Pins: a cut that somebody reads stays, with all that it needs, although retention would not keep it.

    pins/00000000000000000042-9f86d081884c7d65     cut 42 is being read, since the time that the store has of this object

Who reads for long (a restore, a drill) pins the cut first. A sweep keeps pinned cuts; a pin that is older than `PIN_MS` is of
somebody who was killed, or of a restore that was broken off, and goes. With credentials that may only read there is no pin: then
retention may be faster.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from ..formats.keys import PINS
from ..store.errors import StoreError
from .retention import DAY_MS

if TYPE_CHECKING:
    from ..store.interface import ObjectStore

PIN_MS = 3 * DAY_MS
_PIN = re.compile(rf"{PINS}(\d{{20}})-[0-9a-f]{{16}}")


class Pin(NamedTuple):
    """One pin. `modified_ms`: the store's time."""

    key: str
    cut: int
    modified_ms: int


@contextmanager
def pinned(store: ObjectStore, cut: int, is_needed: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Keep a cut from being swept meanwhile, as far as the credentials allow it. Blocks. `is_needed`, asked at the end: whether
    somebody goes on with it later."""
    key = f"{PINS}{cut:020d}-{secrets.token_hex(8)}"
    with suppress(StoreError):  # what reads can do without it
        store.create(key, b"{}")
    try:
        yield
    finally:
        if not is_needed():
            with suppress(StoreError):
                store.delete([key])


def pins(store: ObjectStore) -> list[Pin]:
    """All pins that there are. StoreError."""
    return [
        Pin(stored.key, int(match[1]), stored.modified_ms)
        for stored in store.list(PINS)
        if (match := _PIN.fullmatch(stored.key)) is not None
    ]
