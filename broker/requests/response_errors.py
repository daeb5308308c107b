"""The error codes in an answer, found by what its class declares: `error_code` fields at any depth.

Which fields lead to one is worked out once for each class, so that an answer costs one look at each `error_code` it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...protocol.schema import Struct

_FIELD = "error_code"


class _Paths(NamedTuple):
    """Of one class: whether it has a code itself, and the fields below which there is one."""

    has_code: bool
    below: tuple[tuple[str, bool, _Paths], ...]


_paths: dict[type[Struct], _Paths] = {}


def errors_of(response: Any) -> Sequence[int]:
    """Every error code in `response` but 0, in the order of its fields."""
    cls = type(response)
    paths = _paths.get(cls)
    if paths is None:
        if not issubclass(cls, Struct):
            return ()
        paths = _paths_of(cls)
    if paths.below:
        codes: list[int] = []
        _gather(response, paths, codes)
        return codes
    return (response.error_code,) if paths.has_code and response.error_code else ()


def _paths_of(cls: type[Struct]) -> _Paths:
    known = _paths.get(cls)
    if known is not None:
        return known
    below = []
    for field in cls.FIELDS:
        if isinstance(field.element, type) and issubclass(field.element, Struct):
            paths = _paths_of(field.element)
            if paths.has_code or paths.below:
                below.append((field.name, field.is_array, paths))
    made = _paths[cls] = _Paths(any(field.name == _FIELD for field in cls.FIELDS), tuple(below))
    return made


def _gather(value: Any, paths: _Paths, codes: list[int]) -> None:
    if paths.has_code and (code := value.error_code):
        codes.append(code)
    for name, is_array, inner in paths.below:
        held = getattr(value, name)
        if not held and (is_array or held is None):
            continue
        for element in held if is_array else (held,):
            if inner.below:
                _gather(element, inner, codes)
            elif code := element.error_code:
                codes.append(code)
