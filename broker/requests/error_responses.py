"""Error codes in answers: makes the answer to a request that no handler can answer, and finds the codes in one that was made.
The dispatcher calls all of it, on the loop thread.

Kafka closes the connection on a version that it does not speak, ApiVersions excepted, and the client then guesses why.
Here the client is told (`unsupported`, `error_frame`): the response of that API with nothing in it but the error, in the version
that was asked for where it exists, else in the nearest that does. A response that has no error of its own (those of ListOffsets
and Produce are each partition's), or an API whose messages are not declared, leaves the error code alone as the body, as the
ApiVersions answer of version 0 begins: clients that never negotiated read that, or fail on it at once.

`error_answer` says "error" to a request of any API and version, by one rule in place of a table of eighty. An answer has its
error code at the top, or in each element of what it lists: topics, their partitions, groups, coordinators. Those lists mirror
the request's: the answer gets an element for each that the request names, with the same names and numbers, and every field
called error_code gets the code.

`errors_of` finds codes by what an answer's class declares: `error_code` fields at any depth. Which fields lead to one is worked
out once for each class, so that an answer costs one look at each `error_code` it has.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, cast

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.headers import response_header_bytes
from ...protocol.primitives import MAX_STRING
from ...protocol.schema import STRING, ApiMessage, Field, Struct, VersionRange, encode
from .registry import Registration, loaded

_SIZE = struct.Struct(">i")
_API_KEYS = {int(key): key for key in ApiKey}
_BARE = struct.Struct(">iih")  # size, correlation id, error code: a response header of version 0


def response_class(registration: Registration) -> type[ApiMessage]:
    """Response class of the API that `registration` handles."""
    request = loaded(registration).request
    module = importlib.import_module(request.__module__)
    return cast("type[ApiMessage]", getattr(module, request.__name__.removesuffix("Request") + "Response"))


def has_field(kind: type[Struct], name: str, version: int) -> bool:
    """True if `version` of the message has the field."""
    return any(field.name == name and VersionRange.parse(field.versions).has(version) for field in kind.FIELDS)


def error_frame(
    registration: Registration, version: int, correlation_id: int, code: ErrorCode, message: str
) -> bytes | None:
    """A frame with the error; None if the response has no place for one in that version."""
    kind = response_class(registration)
    spoken = min(max(version, kind.VERSIONS[0]), kind.VERSIONS[1])
    if not has_field(kind, "error_code", spoken):
        return None
    values: dict[str, Any] = {"error_code": code}
    if has_field(kind, "error_message", spoken):
        values["error_message"] = shortened(message)
    header = response_header_bytes(registration.api_key, version, correlation_id)
    body = encode(kind(**values), spoken)
    return b"".join((_SIZE.pack(len(header) + len(body)), header, body))


def unsupported(registration: Registration | None, api_key: int, version: int, correlation_id: int) -> bytes:
    """Answer UNSUPPORTED_VERSION, for a version or a whole API. Neither number is negative."""
    code = ErrorCode.UNSUPPORTED_VERSION
    if registration is not None:
        text = f"version {version} is not answered, only {registration.min_version} to {registration.max_version}"
        if (frame := error_frame(registration, version, correlation_id, code, text)) is not None:
            return frame
    known = _API_KEYS.get(api_key)
    if known is None:
        return _BARE.pack(6, correlation_id, code)
    header = response_header_bytes(known, version, correlation_id)
    return b"".join((_SIZE.pack(len(header) + 2), header, code.to_bytes(2, "big")))


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
    """The declared `XRequest` or `XResponse` of an API. ValueError if there is none."""
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
    """An answer with the error; None if it has no place for one: the request names no topic, or the version has no such
    field.
    """
    response, has_code = _mirror(request_class(key, "Response"), request, version, code)
    return cast(ApiMessage, response) if has_code else None


def _mirror(cls: Any, source: Any, version: int, code: ErrorCode) -> tuple[Struct, bool]:
    """An instance of `cls` for the part of the request that it answers, and True if the code is in it."""
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
        return [part for part, _ in made], any(has for _, has in made)
    return [], False


def _arrays(source: Struct, name: str) -> list[Field]:
    """Arrays of the request that an array of the answer may correspond to: the one of the same name first."""
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
    """The request's value for a field of the answer that is a name or number of something."""
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


_FIELD = "error_code"
_MOST_MESSAGE_BYTES = 4096
"""Of an error message that a string can't hold."""


def shortened(message: str) -> str:
    """The message, or as much of it as is worth reading where no string can hold it: it says a client's texts again."""
    if len(message) <= _MOST_MESSAGE_BYTES:
        return message
    data = message.encode()
    return message if len(data) <= MAX_STRING else data[:_MOST_MESSAGE_BYTES].decode(errors="ignore") + " …"


def shorten_messages(response: Struct) -> None:
    """Shorten each error message in `response` that a string can't hold."""
    for field in response.FIELDS:
        held = getattr(response, field.name)
        if field.name == "error_message" and isinstance(held, str):
            response.error_message = shortened(held)  # type: ignore[attr-defined]
        elif isinstance(held, Struct):
            shorten_messages(held)
        elif field.is_array and isinstance(field.element, type) and not isinstance(held, bytes):
            for element in held or ():
                if isinstance(element, Struct):
                    shorten_messages(element)


class _Paths(NamedTuple):
    """Places of error codes in one class: in itself, and in which fields."""

    has_code: bool
    below: tuple[tuple[str, bool, _Paths], ...]


_paths: dict[type[Struct], _Paths] = {}


def errors_of(response: Any) -> Sequence[int]:
    """Every error code in `response` except 0, in the order of its fields."""
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
