"""The attributes of a V2 batch: two bytes, of which the lower seven bits mean something.

    bit    15 … 7 | 6              | 5       | 4             | 3              | 2 1 0
           unused | delete horizon | control | transactional | timestamp type | compression codec

Bit 6 (KIP-534): the base timestamp field holds the time at which the batch's tombstones and transaction markers may go.
"""

from __future__ import annotations

from enum import IntEnum

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40


class Compression(IntEnum):
    """Codec ids, as they stand in bits 0–2 of the attributes of every message format."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """Clock that the timestamps of a batch come from: the producer's or the broker's."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


def attributes_of(
    compression: Compression = Compression.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    *,
    is_transactional: bool = False,
    is_control: bool = False,
    has_delete_horizon: bool = False,
) -> int:
    """The attributes field for a batch with these properties."""
    return (
        int(compression)
        | (TIMESTAMP_TYPE_MASK if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_MASK if is_transactional else 0)
        | (CONTROL_MASK if is_control else 0)
        | (DELETE_HORIZON_MASK if has_delete_horizon else 0)
    )
