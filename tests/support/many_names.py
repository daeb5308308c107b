"""Requests with as many names as they can have, made from their declarations, so that no API is forgotten; and how long the
event loop is held in a row while they are answered.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

from tidelog.protocol.schema import ApiMessage, Field, Struct, VersionRange


def crowded(cls: type[ApiMessage], version: int, count: int) -> Iterator[tuple[str, ApiMessage]]:
    """(which array is full, a request in which it has `count` elements with names of their own) for each array of `cls`,
    those inside of others too; of every other array there is one element, or none where that is null."""
    for path in _arrays(cls, version):
        yield ".".join(path), _filled(cls, version, path, count, "x")


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
            value = _value(field, version, path, count, name)
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


class LoopWatch:
    """The longest that a loop was held between two looks, in CPU seconds of its thread: what else runs on the machine does
    not count. Between looks everything that waits has its turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._last = 0.0
        self._longest = 0.0
        self._on = False

    def start(self) -> None:
        """Any thread."""
        self._call(self._begin)

    def stop(self) -> float:
        """The longest since `start`. Any thread but the loop's."""
        return self._call(self._end)

    def _call(self, what: Callable[[], Any]) -> Any:
        async def run() -> Any:
            return what()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(60)

    def _begin(self) -> None:
        self._on, self._longest, self._last = True, 0.0, time.thread_time()
        self._look()

    def _look(self) -> None:
        now = time.thread_time()
        self._longest = max(self._longest, now - self._last)
        self._last = now
        if self._on:
            self._loop.call_soon(self._look)

    def _end(self) -> float:
        self._look()
        self._on = False
        return self._longest
