"""Request and response headers: the part of a frame between its INT32 size, which `framing` removes, and the body.

    request header    0       2       4               8              10         10 + n
                      +-------+-------+---------------+--------------+-----------+---------------+
                      |api key|version| correlation id| client id len| client id | tagged fields |
                      +-------+-------+---------------+--------------+-----------+---------------+
    v0 ends before the client id (ControlledShutdown v0 only), v1 before the tagged fields, v2 has it all. A null client
    id has length -1. That length stays INT16 in v2, so that any broker can read the header of any ApiVersions request.

    response header   0               4
                      +---------------+---------------+
                      | correlation id| tagged fields |    v0 ends before the tagged fields, v1 has them
                      +---------------+---------------+

Flexible versions of an API (`ApiKey.flexible_from`) use request header v2 and response header v1, the others v1 and v0.
One exception: the ApiVersions response always has header v0, since its reader can't know yet what the broker speaks
(KIP-511). Functions are pure and may be called from any thread.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from .api_keys import ApiKey
from .errors import MalformedRequest
from .primitives import INT32, Buffer, skip_tagged_fields

_FIXED = Struct(">hhi")
_WITH_CLIENT_ID_LENGTH = Struct(">hhih")
_CORRELATION_ID_AND_NO_TAGS = Struct(">ix")
assert _FIXED.size == 8
assert _WITH_CLIENT_ID_LENGTH.size == 10
assert _CORRELATION_ID_AND_NO_TAGS.size == 5

_NEVER = 0x8000  # above every INT16 version
_FLEXIBLE_FROM = {int(key): _NEVER if key.flexible_from is None else key.flexible_from for key in ApiKey}


class RequestHeader(NamedTuple):
    """Header of a request. `api_key` is one of ApiKey's numbers; `api_version` is as sent, supported or not."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_header_version(api_key: int, api_version: int) -> int:
    """Header version of a request: 0, 1 or 2. KeyError for an unknown API."""
    if api_version >= _FLEXIBLE_FROM[api_key]:
        return 2
    return 0 if api_key == ApiKey.CONTROLLED_SHUTDOWN and api_version == 0 else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """Header version of a response: 0 or 1. KeyError for an unknown API."""
    return 1 if api_version >= _FLEXIBLE_FROM[api_key] and api_key != ApiKey.API_VERSIONS else 0


def parse_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Parse a request without its size field: the header, and the position of the body in `frame`.

    MalformedRequest when the header is cut off or the API key unknown. A version that we don't serve is no error here:
    ApiVersions must be answered in any version.
    """
    size = len(frame)
    if size < 8:
        raise MalformedRequest(f"a request of {size} bytes has no header")
    api_key, api_version, correlation_id = _FIXED.unpack_from(frame)
    flexible_from = _FLEXIBLE_FROM.get(api_key)
    if flexible_from is None:
        raise MalformedRequest(f"unknown API key {api_key}")
    if api_version < 0:
        raise MalformedRequest(f"negative version {api_version} of API key {api_key}")
    if api_version == 0 and api_key == ApiKey.CONTROLLED_SHUTDOWN:
        return RequestHeader(api_key, api_version, correlation_id, None), 8
    if size < 10:
        raise MalformedRequest("request header is cut off")
    length = (frame[8] << 8) | frame[9]
    end = 10
    client_id = None
    if length != 0xFFFF:
        end += length
        if length > 0x7FFF or end > size:
            raise MalformedRequest(f"client id of {length} bytes, {size - 10} are left")
        client_id = str(memoryview(frame)[10:end], "utf-8", "replace")
    if api_version >= flexible_from:
        if end < size and frame[end] == 0:
            end += 1
        else:
            end, _ = skip_tagged_fields(frame, end)
    return RequestHeader(api_key, api_version, correlation_id, client_id), end


def request_header_bytes(header: RequestHeader) -> bytes:
    """Encode `header` in the version that its API and version use, without tagged fields."""
    version = request_header_version(header.api_key, header.api_version)
    if version == 0:
        return _FIXED.pack(header.api_key, header.api_version, header.correlation_id)
    client_id = b"" if header.client_id is None else header.client_id.encode()
    length = -1 if header.client_id is None else len(client_id)
    fixed = _WITH_CLIENT_ID_LENGTH.pack(header.api_key, header.api_version, header.correlation_id, length)
    return fixed + client_id + (b"\0" if version == 2 else b"")


def response_header_bytes(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """Encode the response header for a body of that API and version, without tagged fields."""
    if api_version >= _FLEXIBLE_FROM[api_key] and api_key != ApiKey.API_VERSIONS:
        return _CORRELATION_ID_AND_NO_TAGS.pack(correlation_id)
    return INT32.pack(correlation_id)


def parse_response_header(frame: Buffer, api_key: int, api_version: int) -> tuple[int, int]:
    """(correlation id, position of the body) of a response frame without its size. For clients."""
    if len(frame) < 4:
        raise MalformedRequest(f"a response of {len(frame)} bytes has no header")
    correlation_id: int = INT32.unpack_from(frame)[0]
    if response_header_version(api_key, api_version) == 0:
        return correlation_id, 4
    return correlation_id, skip_tagged_fields(frame, 4)[0]
