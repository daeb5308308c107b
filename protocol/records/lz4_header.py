"""Check byte of an LZ4 frame's header, as the format defines it and as Kafka wrote it before 0.10.

    frame    0          4       5       6 or 14
             +----------+-------+-------+----------------+-------+---------
             | magic    | flags | block | content size   | check | blocks …        check: bits 8–15 of an xxHash-32
             +----------+-------+-------+----------------+-------+---------
    The hash covers flags up to check. Kafka's first writer let it cover the magic too (KAFKA-3160), and its first reader
    insisted on that: in messages of format 0 the check byte is that wrong one for ever, from format 1 on the right one.

Stands below `legacy_record`. The lz4 package knows only the right byte, so format 0 goes through here both ways.
"""

from __future__ import annotations

from .exceptions import CorruptRecordError

_HEADER_SIZE = 7
_FLAGS_AT = 4
_HAS_CONTENT_SIZE = 0x08
_HAS_DICTIONARY_ID = 0x01

_MASK = 0xFFFF_FFFF
_PRIME_1 = 0x9E37_79B1
_PRIME_2 = 0x85EB_CA77
_PRIME_3 = 0xC2B2_AE3D
_PRIME_4 = 0x27D4_EB2F
_PRIME_5 = 0x1656_67B1


def xxh32(data: bytes) -> int:
    """xxHash-32 with seed 0 of fewer than 16 bytes, enough for a frame header: longer input is hashed differently."""
    if len(data) >= 16:
        raise ValueError(f"{len(data)} bytes are more than a frame header has")
    value = _PRIME_5 + len(data)
    words = len(data) // 4 * 4
    for at in range(0, words, 4):
        value = (value + int.from_bytes(data[at : at + 4], "little") * _PRIME_3) & _MASK
        value = _rotate(value, 17) * _PRIME_4 & _MASK
    for byte in data[words:]:
        value = (value + byte * _PRIME_5) & _MASK
        value = _rotate(value, 11) * _PRIME_1 & _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return value ^ value >> 16


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def with_historical_check(frame: bytes) -> bytes:
    """Copy `frame`, written by the lz4 package without content size, with the wrong check byte that format 0 requires."""
    check = xxh32(frame[: _HEADER_SIZE - 1]) >> 8 & 0xFF
    return frame[: _HEADER_SIZE - 1] + bytes([check]) + frame[_HEADER_SIZE:]


def with_right_check(frame: bytes) -> bytes:
    """Copy `frame` of a format 0 message with the check byte that the lz4 package requires. The old byte is not
    verified: Kafka never looks at it there, and the message's own checksum guards it.

    Raises:
        CorruptRecordError: too short for a frame header.
    """
    check_at = _HEADER_SIZE - 1
    if len(frame) > _FLAGS_AT:
        check_at += 8 if frame[_FLAGS_AT] & _HAS_CONTENT_SIZE else 0
        check_at += 4 if frame[_FLAGS_AT] & _HAS_DICTIONARY_ID else 0
    if len(frame) <= check_at:
        raise CorruptRecordError("broken lz4 data: no frame header")
    check = xxh32(frame[_FLAGS_AT:check_at]) >> 8 & 0xFF
    return frame[:check_at] + bytes([check]) + frame[check_at + 1 :]
