"""Builds V2 batches from records, for what the daemon writes itself (offset commits, markers, recompressed appends) and
for tests. Clients' batches are not rebuilt: they are stored as they came.

Stands on `record_batch` (the ruler), `compression` and `crc`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Protocol

from .attributes import COMPRESSION_MASK, Compression, TimestampType, attributes_of
from .compression import compress
from .crc import crc32c
from .record_batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    payload_of,
    read_batch_header,
)
from .varint import append_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    Bytes = bytes | bytearray | memoryview

CRC = struct.Struct(">I")
LENGTH = struct.Struct(">i")
ATTRIBUTES = struct.Struct(">h")


class RecordLike(Protocol):
    """Fields that `build_batch` reads of a record; `Record` has them."""

    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> Bytes | None: ...
    @property
    def value(self) -> Bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[Bytes, Bytes | None]]: ...


def append_record(out: bytearray, offset_delta: int, timestamp_delta: int, record: RecordLike) -> None:
    """Append one record to `out`, prefixed with its length."""
    body = bytearray(1)  # attributes: none are defined
    append_varint(body, timestamp_delta)
    append_varint(body, offset_delta)
    _append_nullable(body, record.key)
    _append_nullable(body, record.value)
    append_varint(body, len(record.headers))
    for key, value in record.headers:
        _append_nullable(body, key)
        _append_nullable(body, value)
    append_varint(out, len(body))
    out += body


def build_batch(  # noqa: PLR0913
    records: Sequence[RecordLike],
    *,
    base_offset: int = 0,
    offsets: Sequence[int] | None = None,
    last_offset: int | None = None,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    append_time: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    delete_horizon: int | None = None,
) -> bytes:
    """One whole batch; any thread.

    Args:
        records: in offset order; none gives the empty batch that compaction leaves (then say `last_offset`).
        base_offset: offset of the first record, or of the first that was there before compaction.
        offsets: one per record, rising, all ≥ base_offset; None for consecutive ones.
        last_offset: the batch's last offset where it is beyond the last record's, as compaction leaves it.
        compression: codec of the records.
        level: for the codec, None for its default.
        timestamp_type: whose clock.
        append_time: ms, the max timestamp of a LOG_APPEND_TIME batch.
        producer_id, producer_epoch, base_sequence: of an idempotent producer.
        is_transactional, is_control: attribute bits.
        partition_leader_epoch: of the leader that appends.
        delete_horizon: ms, takes the base timestamp's place and sets its attribute bit.

    Raises:
        ValueError: offsets out of order or beyond 31 bits of the base offset, or a field beyond its width.
        UnsupportedCompressionError: no such codec.
    """
    if not records and last_offset is None:
        raise ValueError("an empty batch needs its last offset")
    base_timestamp = delete_horizon if delete_horizon is not None else records[0].timestamp if records else NO_TIMESTAMP
    body, previous, max_timestamp = _body(records, base_offset, offsets, base_timestamp)
    last_delta = previous if last_offset is None else last_offset - base_offset
    if not previous <= last_delta < 1 << 31:
        raise ValueError(f"last offset {base_offset + last_delta} does not fit a batch at {base_offset}")
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = append_time
    payload = compress(compression, body, level) if compression is not Compression.NONE and records else body
    attributes = attributes_of(
        compression,
        timestamp_type,
        is_transactional=is_transactional,
        is_control=is_control,
        has_delete_horizon=delete_horizon is not None,
    )
    batch = bytearray(RECORD_BATCH_OVERHEAD + len(payload))
    HEADER.pack_into(
        batch, 0, base_offset, len(batch) - LOG_OVERHEAD, partition_leader_epoch, MAGIC_V2, 0, attributes, last_delta,
        base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, len(records),
    )  # fmt: skip
    batch[RECORD_BATCH_OVERHEAD:] = payload
    seal(batch)
    return bytes(batch)


def _body(
    records: Sequence[RecordLike], base_offset: int, offsets: Sequence[int] | None, base_timestamp: int
) -> tuple[bytearray, int, int]:
    """The records' bytes, the last one's offset delta (-1 without records) and the largest timestamp."""
    body = bytearray()
    previous = -1
    max_timestamp = NO_TIMESTAMP
    for index, record in enumerate(records):
        delta = index if offsets is None else offsets[index] - base_offset
        if delta <= previous:
            raise ValueError(f"offset {base_offset + delta} of record {index} does not rise")
        append_record(body, delta, record.timestamp - base_timestamp, record)
        max_timestamp = max(max_timestamp, record.timestamp)
        previous = delta
    return body, previous, max_timestamp


def recompress(buffer: Bytes, position: int, end: int, compression: Compression, level: int | None = None) -> bytearray:
    """Copy the batch at `position` with its records compressed by another codec, all else unchanged; any thread.

    Raises what `read_batch_header`, `decompress` and `compress` raise.
    """
    header = read_batch_header(buffer, position, end)
    payload, start, stop = payload_of(buffer, header)
    records: Bytes = memoryview(payload)[start:stop]
    if compression is not Compression.NONE and header.record_count:
        records = compress(compression, records, level)
    batch = bytearray(memoryview(buffer)[position : position + RECORD_BATCH_OVERHEAD])
    batch += records
    LENGTH.pack_into(batch, LENGTH_AT, len(batch) - LOG_OVERHEAD)
    ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, (header.attributes & ~COMPRESSION_MASK) | compression)
    seal(batch)
    return batch


def seal(batch: bytearray | memoryview) -> None:
    """Write the checksum of the one batch that fills `batch`."""
    CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))


def _append_nullable(out: bytearray, data: Bytes | None) -> None:
    if data is None:
        out.append(1)  # the varint −1
    else:
        append_varint(out, len(data))
        out += data
