"""A metadata record's value: which kind of record it is, in which version, and its fields.

+----------------------+-------------------+-------------------+-------------
| frame version uvarint| type uvarint      | version uvarint   | fields …        frame version 1, the only one so far
+----------------------+-------------------+-------------------+-------------
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import MalformedRequest
from ..primitives import Buffer, read_unsigned_varint, unsigned_varint
from ..schema import decode, encode_into
from .records import RECORDS, MetadataRecord

FRAME_VERSION = 1


class DecodedRecord(NamedTuple):
    """A decoded record. `message` is None for a type whose fields are not declared here."""

    record_type: int
    version: int
    message: MetadataRecord | None


def encode_record(message: MetadataRecord, version: int) -> bytes:
    """The value of a metadata record. Errors as `schema.encode_into`."""
    out = bytearray(unsigned_varint(FRAME_VERSION) + unsigned_varint(message.RECORD_TYPE) + unsigned_varint(version))
    encode_into(message, version, out)
    return bytes(out)


def decode_record(value: Buffer) -> DecodedRecord:
    """The record in `value`.

    Raises MalformedRequest when it is none (a frame of another version, fields that are cut off or left over), and
    ProtocolError UNSUPPORTED_VERSION for a declared type in a version that is not.
    """
    frame, position = read_unsigned_varint(value, 0)
    if frame != FRAME_VERSION:
        raise MalformedRequest(f"a metadata record's frame has the version {frame}, not {FRAME_VERSION}")
    record_type, position = read_unsigned_varint(value, position)
    version, position = read_unsigned_varint(value, position)
    cls = RECORDS.get(record_type)
    if cls is None:
        return DecodedRecord(record_type, version, None)
    message, end = decode(cls, version, value, position)
    if end != len(value):
        raise MalformedRequest(f"{len(value) - end} bytes are left over behind a {cls.__name__}")
    return DecodedRecord(record_type, version, message)
