"""Requests with as many names as they can have, made from their declarations, so that no API is forgotten; and how long the
event loop is held in a row while they are answered.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from support.patience import PATIENCE_S
from tidelog.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from tidelog.protocol.messages.share_fetch import ShareFetchRequest
from tidelog.protocol.messages.sync_group import SyncGroupRequest
from tidelog.protocol.schema import ApiMessage, Field, Struct, VersionRange

T = TypeVar("T")

NEEDED: Mapping[type[Any], Sequence[str]] = {
    ShareFetchRequest: ("group_id", "member_id"),
    ShareAcknowledgeRequest: ("group_id", "member_id"),
    SyncGroupRequest: ("protocol_type", "protocol_name"),
}
"""What may be null in a request's declaration, but is refused then before anything else is looked at."""


def crowded(cls: type[ApiMessage], version: int, count: int) -> Iterator[tuple[str, ApiMessage]]:
    """(which array is full, a request in which it has `count` elements with names of their own) for each array of `cls`,
    those inside of others too; of every other array there is one element, or none where that is null. No request has more
    elements in all than `cls` may have."""
    for path in _arrays(cls, version):
        around = len(path) - 1  # one element of each array that it is in
        yield ".".join(path), _filled(cls, version, path, min(count, cls.MOST_ELEMENTS - around), "x")


def _arrays(cls: type[Struct], version: int) -> Iterator[tuple[str, ...]]:
    for field in cls.FIELDS:
        if not VersionRange.parse(field.versions).has(version):
            continue
        if field.is_array:
            yield (field.name,)
        if isinstance(field.element, type):
            yield from ((field.name, *path) for path in _arrays(field.element, version))


def _filled(cls: type[Any], version: int, path: tuple[str, ...], count: int, name: str) -> Any:
    values: dict[str, Any] = {}
    for field in cls.FIELDS:
        if VersionRange.parse(field.versions).has(version):
            value = name if field.name in NEEDED.get(cls, ()) else _value(field, version, path, count, name)
            if value is not None:
                values[field.name] = value
    return cls(**values)


def _value(field: Field, version: int, path: tuple[str, ...], count: int, name: str) -> Any:
    is_on_path = bool(path) and path[0] == field.name
    if field.is_array:
        many = count if is_on_path and len(path) == 1 else 1 if is_on_path else 0
        rest = path[1:] if is_on_path else ()
        return [_element(field, version, rest, count, f"{name}{number}") for number in range(many)]
    if isinstance(field.element, type):
        return _filled(field.element, version, path[1:], count, name) if is_on_path else None
    if field.tag is not None or (VersionRange.parse(field.nullable).has(version) and field.name != "name"):
        return None
    return name if field.element.name == "STRING" else None


def _element(field: Field, version: int, path: tuple[str, ...], count: int, name: str) -> Any:
    if isinstance(field.element, type):
        return _filled(field.element, version, path, count, name)
    number = int(name.rpartition("x")[2] or 0)
    by_kind: dict[str, Any] = {"STRING": name, "UUID": number.to_bytes(16, "big"), "BYTES": name.encode()}
    return by_kind.get(field.element.name, number % 100)


class Held(NamedTuple):
    """How long a loop was held in a row, in CPU seconds of its thread."""

    parts: tuple[float, ...]
    """The three longest, the longest first."""
    total: float
    """Of all that held it at all."""


MOST_OF_LONGEST = 1 / 3
MOST_OF_THIRD = 1 / 8
_ATTEMPTS = 3
_LEAST_S = 0.0001
"""A look that finds less in between has met nothing but itself."""


def is_in_turns(found: Held) -> bool:
    """True if the work was done in parts: by shares of the whole, which a slow machine takes longer for too.

    Requests of 25,000 to 98,000 names, on a machine with three times more to do than it can: the longest part is 1 to 13 % of the
    whole, and 95 to 99 % with slices without end (`CHUNK_UNITS` of 10⁹). A Fetch without slices has long parts of 34 and
    51 %; in turns its third is 5 % at most. So the bounds are 2.5 times or more from what they allow and from what they don't.
    """
    return found.parts[0] < MOST_OF_LONGEST * found.total and found.parts[-1] < MOST_OF_THIRD * found.total


def held(
    loop: asyncio.AbstractEventLoop, ask: Callable[[], object], suffices: Callable[[Held], bool] = is_in_turns
) -> Held:
    """How `loop` is held while `ask` runs: at the first of three times that `suffices`, or else the time with the shortest hold.

    What code does comes again, and chance doesn't. Any thread but the loop's.
    """
    best: Held | None = None
    for _ in range(_ATTEMPTS):
        watch = LoopWatch(loop)
        watch.start()
        try:
            ask()
        finally:
            found = watch.stop()
        if suffices(found):
            return found
        best = found if best is None else min(best, found)
    assert best is not None
    return best


class LoopWatch:
    """The longest that a loop was held between two looks, in CPU seconds of its thread: what else runs on the machine does
    not count. Between looks everything that waits has its turn.

    What is in memory at the start is not looked at by the garbage collection meanwhile: it is the tests', and no daemon's.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._last = 0.0
        self._parts: list[float] = []
        self._total = 0.0
        self._on = False
        self._is_frozen = False
        """Before it began: what tests/conftest.py has frozen stays so."""

    def start(self) -> None:
        """Any thread."""
        self._is_frozen = gc.get_freeze_count() > 0
        gc.collect()
        gc.freeze()
        self._call(self._begin)

    def stop(self) -> Held:
        """Since `start`. Any thread but the loop's."""
        try:
            return self._call(self._end)
        finally:
            if not self._is_frozen:
                gc.unfreeze()

    def _call(self, what: Callable[[], T]) -> T:
        async def run() -> T:
            return what()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE_S)

    def _begin(self) -> None:
        self._on, self._parts, self._total, self._last = True, [0.0] * 3, 0.0, time.thread_time()
        self._look()

    def _look(self) -> None:
        now = time.thread_time()
        passed = now - self._last
        if passed > self._parts[-1]:
            self._parts = sorted([*self._parts[:-1], passed], reverse=True)
        if passed > _LEAST_S:
            self._total += passed
        self._last = now
        if self._on:
            self._loop.call_soon(self._look)

    def _end(self) -> Held:
        self._look()
        self._on = False
        return Held(tuple(self._parts), self._total)
