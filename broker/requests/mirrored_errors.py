"""The answer that says "error" to a request, for every API and version: one rule in place of a table of eighty.

An answer has its error code at the top, or in each element of what it lists: topics, their partitions, groups, coordinators.
Those lists mirror the request's: the answer gets an element for each that the request names, with the same names and
numbers, and every field called error_code gets the code.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, cast

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.schema import STRING, ApiMessage, Field, Struct, VersionRange

#: Names of the same thing in requests and answers; those that are not here have the same name in both.
_SAME = (
    frozenset({"index", "partition", "partition_id", "partition_index"}),
    frozenset({"name", "topic", "topic_name"}),
    frozenset({"group_id", "group"}),
    frozenset({"key"}),
)
_CODE = "error_code"


@cache
def request_class(key: ApiKey, kind: str) -> type[ApiMessage]:
    """The declared `XRequest` or `XResponse` of an API. ValueError where there is none."""
    try:
        module = importlib.import_module(f"...protocol.messages.{key.name.lower()}", __package__)
    except ModuleNotFoundError:
        raise ValueError(f"{key.name} is not answered by this broker") from None
    name = "".join(word.capitalize() for word in key.name.split("_")) + kind
    found = getattr(module, name, None)
    if found is None:
        raise ValueError(f"{key.name} has no declared {kind.lower()}")
    return cast("type[ApiMessage]", found)


def error_answer(key: ApiKey, version: int, request: ApiMessage, code: ErrorCode) -> ApiMessage | None:
    """The answer in that version; None where nothing in it can say so: the request names no topic, or no such field."""
    response, has_code = _mirror(request_class(key, "Response"), request, version, code)
    return cast(ApiMessage, response) if has_code else None


def _mirror(cls: Any, source: Any, version: int, code: ErrorCode) -> tuple[Struct, bool]:
    """An instance of `cls` after the request's part that it answers, and whether the code is in it."""
    made = cls()
    is_listed = own_code = False
    for field in cls.FIELDS:
        if not VersionRange.parse(field.versions).has(version):
            continue
        if field.name == _CODE:
            own_code = True
        elif field.is_array:
            elements, has_code = _mirror_array(field, source, version, code)
            if elements:
                setattr(made, field.name, elements)
                is_listed = is_listed or has_code
        elif (value := _same_field(source, field)) is not None:
            setattr(made, field.name, value)
    if own_code and not is_listed:  # where partitions can say it, nothing is wrong with the request as a whole
        setattr(made, _CODE, int(code))
    return made, is_listed or own_code


def _mirror_array(field: Field, source: Any, version: int, code: ErrorCode) -> tuple[list[Struct], bool]:
    element: Any = field.element
    if not hasattr(element, "FIELDS") or not isinstance(source, Struct):
        return [], False
    if not _can_say(element, version):
        return [], False
    for candidate in _arrays(source, field.name):
        values = list(getattr(source, candidate.name) or ())
        if not values:
            continue
        made = [_mirror(element, value, version, code) for value in values]
        return [one for one, _ in made], any(has for _, has in made)
    return [], False


def _arrays(source: Struct, name: str) -> list[Field]:
    """The request's arrays that an array of the answer may be about: of its own name first."""
    arrays = [
        field
        for field in source.FIELDS
        if field.is_array and (isinstance(field.element, type) or field.element is STRING or field.element.code == "i")
    ]
    return sorted(arrays, key=lambda field: field.name != name)


def _can_say(element: Any, version: int) -> bool:
    return any(
        VersionRange.parse(field.versions).has(version)
        and (field.name == _CODE or (hasattr(field.element, "FIELDS") and _can_say(field.element, version)))
        for field in element.FIELDS
    )


def _same_field(source: Any, field: Field) -> Any:
    """The request's value for a field of the answer that names or numbers something."""
    same = next((names for names in _SAME if field.name in names), None)
    if not isinstance(source, Struct):  # an element of a list of names or numbers
        kind: Any = field.element
        fits = isinstance(source, str if kind is STRING else int) and (kind is STRING or kind.code == "i")
        return source if same is not None and fits else None
    for candidate in source.FIELDS:
        wanted = candidate.name == field.name or (same is not None and candidate.name in same)
        if wanted and candidate.element is field.element and not candidate.is_array:
            return getattr(source, candidate.name)
    return None
