"""The frame of a ShareFetch answer: bytes, and slices of files that never pass through this process.

Written by hand because the declared schema would copy the records into it; it is the oracle of the tests
(`protocol/messages/share_fetch.py`). All versions are flexible, and those there are (1 and 2) look alike.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.headers import response_header_bytes
from ...protocol.primitives import unsigned_varint
from ..network.outbound import FileSlice, Part, total_size
from ..runtime.cooperative import Steps
from .partition import Acquired

_SIZE = struct.Struct(">i")
_TOP = struct.Struct(">ih")  # throttle_time_ms, error_code
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_ACQUIRED = struct.Struct(">qqhB")  # first, last, delivery count, no tagged fields
_NO_TAGS = b"\x00"
_NO_LEADER = struct.pack(">iiB", 0, 0, 0)
"""The leader's id and epoch, and no tagged fields: the schema's defaults, which are no newer than what a client knows."""
_NULL = b"\x00"
JOINED_AT = 10_000
"""Pieces of an answer that become one part of it before more are written: joining very many at its end would hold the loop."""


class PartitionAnswer(NamedTuple):
    """One partition's row. `records` holds a lease, which the frame takes over."""

    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    records: FileSlice | None = None
    acquired: Sequence[Acquired] = ()
    acknowledge_error: ErrorCode = ErrorCode.NONE
    acknowledge_message: str | None = None


def share_fetch_steps(
    version: int,
    correlation_id: int,
    error: ErrorCode,
    message: str | None,
    lock_ms: int,
    topics: Mapping[bytes, Sequence[PartitionAnswer]],
) -> Steps[list[Part]]:
    """The answer with its size and header, in steps for each row and each topic. `topics`: rows by topic id."""
    written: list[bytes] = [
        response_header_bytes(ApiKey.SHARE_FETCH, version, correlation_id),
        _TOP.pack(0, error),
        _text(message),
        _INT32.pack(lock_ms),
        unsigned_varint(len(topics) + 1),
    ]
    parts: list[Part] = []
    for topic_id, rows in topics.items():
        yield 1
        written += (topic_id, unsigned_varint(len(rows) + 1))
        for row in rows:
            yield 1
            written += (
                _INT32.pack(row.partition),
                _INT16.pack(row.error),
                _text(row.message),
                _INT16.pack(row.acknowledge_error),
                _text(row.acknowledge_message),
                _NO_LEADER,
                unsigned_varint((row.records.count if row.records is not None else 0) + 1),
            )
            if row.records is not None:
                parts += (b"".join(written), row.records)
                written = []
            written.append(unsigned_varint(len(row.acquired) + 1))
            written += (_ACQUIRED.pack(first, last, count, 0) for first, last, count in row.acquired)
            written.append(_NO_TAGS)
            if len(written) > JOINED_AT:
                parts.append(b"".join(written))
                written = []
        written.append(_NO_TAGS)
    written += (unsigned_varint(1), _NO_TAGS)  # no node endpoints
    parts.append(b"".join(written))
    size = total_size(parts)
    first = parts[0]
    assert isinstance(first, bytes)
    parts[0] = _SIZE.pack(size) + first
    return parts


def _text(text: str | None) -> bytes:
    if text is None:
        return _NULL
    data = text.encode()
    return unsigned_varint(len(data) + 1) + data
