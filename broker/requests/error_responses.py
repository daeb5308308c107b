"""Answers to requests that no handler can answer: an error in the form that the client expects.

Kafka closes the connection on a version that it does not speak, ApiVersions excepted, and the client then guesses why.
Here the client is told: the response of that API with nothing in it but the error, in the version that was asked for
where it exists, else in the nearest that does. A response that has no error of its own (those of ListOffsets and Produce
are each partition's), or an API whose messages are not declared, leaves the error code alone as the body, as the
ApiVersions answer of version 0 begins: clients that never negotiated read that, or fail on it at once.
"""

from __future__ import annotations

import importlib
import struct
from typing import Any, cast

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.headers import response_header_bytes
from ...protocol.schema import ApiMessage, Struct, VersionRange, encode
from .registry import Registration, loaded

_SIZE = struct.Struct(">i")
_API_KEYS = {int(key): key for key in ApiKey}
_BARE = struct.Struct(">iih")  # size, correlation id, error code: a response header of version 0


def response_class(registration: Registration) -> type[ApiMessage]:
    """The response that belongs to the request which `registration` handles."""
    request = loaded(registration).request
    module = importlib.import_module(request.__module__)
    return cast("type[ApiMessage]", getattr(module, request.__name__.removesuffix("Request") + "Response"))


def has_field(kind: type[Struct], name: str, version: int) -> bool:
    """Whether `version` of the message carries the field."""
    return any(field.name == name and VersionRange.parse(field.versions).has(version) for field in kind.FIELDS)


def error_frame(
    registration: Registration, version: int, correlation_id: int, code: ErrorCode, message: str
) -> bytes | None:
    """A frame with the error, or None where the response of that version has no place for one."""
    kind = response_class(registration)
    spoken = min(max(version, kind.VERSIONS[0]), kind.VERSIONS[1])
    if not has_field(kind, "error_code", spoken):
        return None
    values: dict[str, Any] = {"error_code": code}
    if has_field(kind, "error_message", spoken):
        values["error_message"] = message
    header = response_header_bytes(registration.api_key, version, correlation_id)
    body = encode(kind(**values), spoken)
    return b"".join((_SIZE.pack(len(header) + len(body)), header, body))


def unsupported(registration: Registration | None, api_key: int, version: int, correlation_id: int) -> bytes:
    """UNSUPPORTED_VERSION for a version, or a whole API, that is not answered. Neither number is negative."""
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
