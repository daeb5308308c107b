"""Kafka's primitive types on the wire, read from and written to plain buffers. Everything is big-endian.

    INT8 INT16 INT32 INT64    two's complement                   UINT16          unsigned
    FLOAT64                   IEEE 754                           UUID            16 bytes
    BOOLEAN                   one byte; 0 is false, others true  UNSIGNED_VARINT  7 bits a byte, lowest first; bit 7: on
    VARINT, VARLONG           zigzag, then as UNSIGNED_VARINT: in records only, see `records/varint.py`
    STRING                    INT16 length, UTF-8            NULLABLE_STRING  length -1 is null
    BYTES                     INT32 length, octets           NULLABLE_BYTES   length -1 is null
    ARRAY                     INT32 count, elements          nullable         count -1 is null
    COMPACT_ of these four    UNSIGNED_VARINT length + 1     nullable         0 is null
    TAGGED_FIELDS             UNSIGNED_VARINT count, then (UNSIGNED_VARINT tag, UNSIGNED_VARINT size, octets) each

`schema.py` generates code that reads most of these in place; the functions here are what that code calls when a case is
too long to inline, and what hand-written readers use. All of them are pure and may be called from any thread.
"""

from __future__ import annotations

from struct import Struct

from .errors import MalformedRequest

INT8 = Struct(">b")
INT16 = Struct(">h")
UINT16 = Struct(">H")
INT32 = Struct(">i")
INT64 = Struct(">q")
FLOAT64 = Struct(">d")

MAX_STRING = 0x7FFF
"""Longest string in bytes. The INT16 length sets it, and Kafka keeps it for compact strings as well."""

MAX_ELEMENTS = 100_000
"""Limit on all array elements of one request: some 40 MB once decoded, and part of a second's work. Far above the
partitions of one daemon.
"""

MAX_ELEMENTS_OF_ANSWERS = 1_000_000
"""Limit on each array of an answer, and of what internal topics hold: Kafka 4.4's on any array. Requests have the one above,
which is lower and for all of their arrays together.
"""

MAX_TAGS = 10_000
"""Limit on all tagged fields of one request, and on those of each struct of an answer: Kafka 4.4's on any struct. Clients send a
handful; a tag may be two bytes, and takes 0.3 µs to skip.
"""

Buffer = bytes | bytearray | memoryview
"""Input of decoders. A memoryview must be one-dimensional, of bytes."""


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """(value, position after it) of an UNSIGNED_VARINT of at most 32 bits; MalformedRequest if longer or cut off."""
    value = shift = 0
    end = min(position + 5, len(buffer))
    while position < end:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
        shift += 7
    raise MalformedRequest("varint is cut off or longer than 32 bits")


def unsigned_varint(value: int) -> bytes:
    """Encode `value`, which must not be negative, as UNSIGNED_VARINT."""
    if value < 0x80:
        if value < 0:
            raise ValueError(f"an unsigned varint can't hold {value}")
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tagged_fields(buffer: Buffer, position: int, most: int = MAX_TAGS) -> tuple[int, int]:
    """Skip a TAGGED_FIELDS section: (position after it, how many of `most` tags are left).

    KIP-482 has tags rise, but Kafka reads them in any order, and so do we. MalformedRequest where there are more than `most`.
    """
    count, position = read_unsigned_varint(buffer, position)
    if count > most:
        raise MalformedRequest(f"{count} tagged fields where {most} more may come")
    for _ in range(count):
        tag, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        if size > len(buffer) - position:
            raise MalformedRequest(f"tagged field {tag} claims {size} bytes, {len(buffer) - position} are left")
        position += size
    return position, most - count


_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))
