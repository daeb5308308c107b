"""Every message class in every version, and random contents for them: what round trips and oracles are fed with."""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Callable, Iterator
from typing import Any

import tidelog.protocol.messages
from tidelog.protocol.schema import (
    BOOLEAN,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UINT16,
    Field,
    Message,
    Struct,
    VersionRange,
    decode,
    encode,
)

Choose = Callable[[random.Random, type[Struct], Field], Any]
"""May give a value for a field that is not a struct; Ellipsis leaves it to chance."""

_BITS = {INT8: 7, INT16: 15, INT32: 31, INT64: 63}
_TEXTS = ("", "a", "topic-1", "grün", "日本語", "\0", "x" * 127, "x" * 128, "ü" * 200)


def message_classes() -> list[type[Message]]:
    """All that have versions, in the order of their modules."""
    found: list[type[Message]] = []
    for info in pkgutil.iter_modules(tidelog.protocol.messages.__path__):
        module = importlib.import_module(f"tidelog.protocol.messages.{info.name}")
        found += [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, Message)
            and "VERSIONS" in vars(value)
            and value.__module__ == module.__name__
        ]
    return found


def cases() -> list[tuple[type[Message], int]]:
    """Each class with each of its versions."""
    return [(cls, version) for cls in message_classes() for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)]


def case_id(value: object) -> str:
    return value.__name__ if isinstance(value, type) else str(value)


def fields_in(cls: type[Struct], version: int) -> list[Field]:
    return [field for field in cls.FIELDS if VersionRange.parse(field.versions).has(version)]


def random_struct(
    rng: random.Random, cls: type[Struct], version: int, choose: Choose | None = None, depth: int = 0
) -> Any:
    """A `cls` whose fields have random values where `version` has them, defaults elsewhere."""
    return cls(
        **{field.name: _random_value(rng, cls, field, version, choose, depth) for field in fields_in(cls, version)}
    )


def _random_value(
    rng: random.Random, cls: type[Struct], field: Field, version: int, choose: Choose | None, depth: int
) -> Any:
    if VersionRange.parse(field.nullable).has(version) and rng.random() < 0.25:
        return None
    if field.tag is not None and rng.random() < 0.3 and not isinstance(field.element, type):
        return field.default
    if field.is_array:
        count = rng.choice((0, 1, 1, 2, 5 if depth else 9))
        single = field._replace(is_array=False, nullable="none", tag=None)
        return [_random_value(rng, cls, single, version, choose, depth + 1) for _ in range(count)]
    element = field.element
    if isinstance(element, type):
        return random_struct(rng, element, version, choose, depth + 1)
    if choose is not None and (chosen := choose(rng, cls, field)) is not ...:
        return chosen
    if element in _BITS:
        bits = _BITS[element]
        return rng.choice((0, 1, -1, (1 << bits) - 1, -(1 << bits), rng.getrandbits(bits)))
    if element is UINT16:
        return rng.choice((0, 1, 0xFFFF, rng.getrandbits(16)))
    if element is FLOAT64:
        return rng.choice((0.0, -1.5, 1e300, float("inf"), rng.random()))
    if element is BOOLEAN:
        return rng.random() < 0.5
    if element is STRING:
        return rng.choice(_TEXTS)
    if element in (BYTES, RECORDS):
        return rng.randbytes(rng.choice((0, 1, 60, 126, 127, 128, 300)))
    assert element.name == "UUID"
    return rng.randbytes(16)


def check_round_trip(message: Message, version: int) -> bytes:
    """Encodes, decodes from each kind of buffer, compares, encodes again; gives the bytes."""
    data = encode(message, version)
    shifted = b"\xa5" * 3 + data + b"\x5a" * 2
    for buffer in (shifted, bytearray(shifted), memoryview(shifted)):
        again, end = decode(type(message), version, buffer, 3)
        assert again == message
        assert end == 3 + len(data)
        assert encode(again, version) == data
    return data


def prefixes(data: bytes) -> Iterator[bytes]:
    """`data` cut off at each place, or at a hundred places if it is long."""
    step = max(1, len(data) // 100)
    for end in range(0, len(data), step):
        yield data[:end]
