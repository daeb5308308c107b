"""Zigzag varints of records: 7 bits a byte, lowest first; the top bit says that another byte follows.

    value  0 → 00   −1 → 01   1 → 02   −2 → 03   64 → 80 01

A varint is at most 5 bytes and 32 bits, a varlong at most 10 bytes and 64 bits. Longer ones, and ones with bits beyond
that, are refused: two readers could take them for two different numbers.
"""

from __future__ import annotations

from .exceptions import InvalidRecordError


def _read(buffer: bytes | memoryview, position: int, end: int, max_bytes: int, bits: int) -> tuple[int, int]:
    raw = 0
    for index in range(max_bytes):
        if position + index >= end:
            raise InvalidRecordError(f"varint at byte {position} runs past the end of its record")
        byte = buffer[position + index]
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if raw >> bits:
                raise InvalidRecordError(f"varint at byte {position} holds more than {bits} bits")
            return (raw >> 1) ^ -(raw & 1), position + index + 1
    raise InvalidRecordError(f"varint at byte {position} is longer than {max_bytes} bytes")


def read_varint(buffer: bytes | memoryview, position: int, end: int) -> tuple[int, int]:
    """(value, position behind it) of a 32-bit varint; InvalidRecordError when malformed or cut off at `end`."""
    return _read(buffer, position, end, 5, 32)


def read_varlong(buffer: bytes | memoryview, position: int, end: int) -> tuple[int, int]:
    """(value, position behind it) of a 64-bit varint; InvalidRecordError when malformed or cut off at `end`."""
    return _read(buffer, position, end, 10, 64)


def append_varint(out: bytearray, value: int) -> None:
    """Append `value`, of which 64 bits count, in its shortest form; a value within 32 bits is a valid varint too."""
    if -64 <= value < 64:  # one byte: most lengths, deltas and counts
        out.append((value << 1) ^ (value >> 63))
        return
    raw = ((value << 1) ^ -(value >> 63 & 1)) & 0xFFFF_FFFF_FFFF_FFFF  # bit 63 is the sign, of wider differences too
    while raw >= 0x80:
        out.append((raw & 0x7F) | 0x80)
        raw >>= 7
    out.append(raw)
