"""What converts message formats, in plain Python, a record after the other: the twin of `protocol/records/_conversion.pyx`.

This was the product until the kernel took its place. It stands on `legacy_record`, `builder` and `memory_records`, none of which
knows the kernel, and gives the same bytes, the same errors and the same words.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from tidelog.protocol.records import memory_records
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch, seal
from tidelog.protocol.records.conversion import MAX_CONVERTED_BYTES, ConvertedRecords
from tidelog.protocol.records.crc import crc32c
from tidelog.protocol.records.exceptions import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordError,
    RecordFault,
    RecordTooLargeError,
    UnsupportedCompressionError,
    timestamp_fault,
)
from tidelog.protocol.records.legacy_record import (
    MAGIC_V0,
    LegacyRecord,
    assign_offset,
    assign_timestamp,
    build_legacy_set,
    is_intact,
    iterate_legacy_messages,
    iterate_legacy_records,
    legacy_record_size,
    read_legacy_header,
    read_legacy_record,
)
from tidelog.protocol.records.memory_records import iterate_batches, iterate_records
from tidelog.protocol.records.record_batch import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    CRC_AT,
    HEADER_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    MAX_TIMESTAMP_AT,
    MIN_MESSAGE_SIZE,
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    OVERHEAD,
    BatchHeader,
    Record,
    read_batch_header,
)
from tidelog.storage.log.validator import (
    LEAST_MESSAGE_BYTES,
    MOST_WRAPPED,
    AppendRules,
    TargetFormat,
    ValidatedRecords,
)

if TYPE_CHECKING:
    from tidelog.protocol.records.record_batch import Buffer

_BEFORE_ALL = -1
_MAX_FAULTS = 1000
_OFFSET = struct.Struct(">q")
_TIMESTAMP = struct.Struct(">q")
_CRC = struct.Struct(">I")


def convert_batch(
    buffer: Buffer,
    header: BatchHeader,
    magic: int,
    *,
    compression: Compression | None = None,
    level: int | None = None,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    max_decompressed: int = MAX_CONVERTED_BYTES,
) -> bytes:
    end = header.position + header.size
    if header.magic == magic:
        return bytes(memoryview(buffer)[header.position : end])
    if header.is_control and magic < MAGIC_V2:
        return b""
    compression = _codec_for(magic, header.compression if compression is None else compression)
    _check_checksum(buffer, header)
    records = list(iterate_records(buffer, header.position, end, max_decompressed=max_decompressed))
    return _build(records, header, magic, compression, level, partition_leader_epoch)


def _check_checksum(buffer: Buffer, header: BatchHeader) -> None:
    if not memory_records.is_intact(buffer, header):
        raise CorruptRecordError(f"the checksum of the batch at {header.base_offset} does not match")


def needs_conversion(buffer: Buffer, magic: int) -> bool:
    position, end = 0, len(buffer)
    while end - position >= HEADER_UP_TO_MAGIC:
        _, length = OVERHEAD.unpack_from(buffer, position)
        if length < MIN_MESSAGE_SIZE:
            raise CorruptRecordError(f"a batch of {length} bytes at {position}")
        following = position + LOG_OVERHEAD + length
        if following > end:
            break
        if buffer[position + MAGIC_AT] > magic:
            return True
        position = following
    return False


def down_convert(
    buffer: Buffer,
    magic: int,
    first_offset: int = _BEFORE_ALL,
    *,
    max_bytes: int | None = None,
    max_decompressed: int = MAX_CONVERTED_BYTES,
) -> ConvertedRecords:
    parts: list[bytes] = []
    converted = 0
    next_offset = -1
    left = sys.maxsize if max_bytes is None else max_bytes
    for header in iterate_batches(buffer):
        if left <= 0:
            break
        end = header.position + header.size
        if header.magic <= magic:
            part = bytes(memoryview(buffer)[header.position : end])
        elif header.is_control and magic < MAGIC_V2:
            part = b""
        else:
            try:
                compression = _codec_for(magic, header.compression)
                _check_checksum(buffer, header)
                records = list(iterate_records(buffer, header.position, end, max_decompressed=max_decompressed))
            except RecordError:
                if not parts:
                    raise
                break
            wanted = [record for record in records if record.offset >= first_offset]
            if not wanted:
                records = []  # compaction took the batch's end: a wrapper that ends below what was asked for is no progress
            if compression is not Compression.NONE:
                part = _build(records, header, magic, compression, None, NO_PARTITION_LEADER_EPOCH)
            if compression is Compression.NONE or (len(part) > left and not parts and wanted):
                records = _up_to(left, wanted, magic)
                part = _build(records, header, magic, Compression.NONE, None, NO_PARTITION_LEADER_EPOCH)
            converted += len(records)
        next_offset = header.last_offset + 1
        if part:
            parts.append(part)
            left -= len(part)
    return ConvertedRecords(b"".join(parts), converted, next_offset)


def _up_to(max_bytes: int, records: list[Record], magic: int) -> list[Record]:
    """The first records, until they take `max_bytes` as uncompressed messages."""
    for index, record in enumerate(records):
        max_bytes -= legacy_record_size(magic, record.key, record.value)
        if max_bytes <= 0:
            return records[: index + 1]
    return records


def _codec_for(magic: int, codec: int) -> Compression:
    newest = Compression.ZSTD if magic >= MAGIC_V2 else Compression.LZ4
    if codec > newest:
        raise UnsupportedCompressionError(f"message format {magic} has no codec with the id {int(codec)}")
    return Compression(codec)


def _build(
    records: Sequence[Record],
    header: BatchHeader,
    magic: int,
    compression: Compression,
    level: int | None,
    partition_leader_epoch: int,
) -> bytes:
    if not records:
        return b""
    offsets = [record.offset for record in records]
    if offsets[0] < 0 or any(offset <= before for before, offset in pairwise(offsets)):
        raise InvalidRecordError(f"the offsets of the batch at {header.base_offset} do not rise")
    append_time = header.max_timestamp if header.is_append_time else NO_TIMESTAMP
    if magic < MAGIC_V2:
        return build_legacy_set(
            records,
            magic=magic,
            base_offset=offsets[0],
            offsets=offsets,
            compression=compression,
            level=level,
            timestamp_type=header.timestamp_type,
            append_time=append_time,
        )
    return build_batch(
        records,
        base_offset=offsets[0],
        offsets=offsets,
        compression=compression,
        level=level,
        timestamp_type=header.timestamp_type,
        append_time=append_time,
        partition_leader_epoch=partition_leader_epoch,
    )


def moved(records: ValidatedRecords, base_offset: int, append_time_ms: int) -> ValidatedRecords | None:
    delta = base_offset - records.base_offset
    restamped = append_time_ms >= 0 and append_time_ms != records.max_timestamp and records.magic > MAGIC_V0
    if not delta and not restamped:
        return records
    if delta and records.magic == MAGIC_V0 and not records.stand_alone:
        return None
    data = bytearray(records.data)
    position = 0
    while position < len(data):
        if records.magic >= MAGIC_V2:
            _OFFSET.pack_into(data, BASE_OFFSET_AT, base_offset)
            if restamped:
                _TIMESTAMP.pack_into(data, MAX_TIMESTAMP_AT, append_time_ms)
                with memoryview(data) as view:
                    _CRC.pack_into(data, CRC_AT, crc32c(view[ATTRIBUTES_AT:]))
            break
        message = read_legacy_record(data, position)
        assign_offset(data, position, message.offset + delta)
        if restamped:
            assign_timestamp(data, message, TimestampType.LOG_APPEND_TIME, append_time_ms)
        position += message.size
    offset_of_max = records.offset_of_max_timestamp
    return records._replace(
        data=data,
        base_offset=base_offset,
        last_offset=records.last_offset + delta,
        max_timestamp=append_time_ms if restamped else records.max_timestamp,
        offset_of_max_timestamp=offset_of_max + delta if offset_of_max >= 0 else -1,
    )


def validate_message_set(
    buffer: Buffer, start: int, end: int, target: TargetFormat, rules: AppendRules
) -> ValidatedRecords:
    messages = _read_messages(buffer, start, end, rules.max_message_bytes)
    first = messages[0]
    max_decompressed = _max_decompressed(rules.max_message_bytes)
    most = max(MOST_WRAPPED, rules.max_message_bytes // LEAST_MESSAGE_BYTES)
    found = (
        record
        for message in messages
        for record in iterate_legacy_records(message, from_producer=True, max_decompressed=max_decompressed)
    )
    records = list(islice(found, most + 1))
    if len(records) > most:
        raise RecordTooLargeError(f"more than {most} messages in one append of format {first.magic}")
    _check_records(records, messages, rules)
    compression = target.compression
    codec, level = compression if compression is not None else (Compression(first.compression), None)
    if target.magic == first.magic and codec == first.compression:
        patched = _patched(buffer, start, end, messages, records, rules)
        if patched is not None:
            return _describe_set(patched, first.magic, codec, records, rules)
    is_append_time = rules.append_time_ms >= 0
    timestamp_type = TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME
    data: Buffer
    if target.magic < MAGIC_V2:
        data = build_legacy_set(
            records,
            magic=target.magic,
            base_offset=rules.base_offset,
            compression=codec,
            level=level,
            timestamp_type=timestamp_type,
            append_time=rules.append_time_ms,
        )
    else:
        data = build_batch(
            records,
            base_offset=rules.base_offset,
            compression=codec,
            level=level,
            timestamp_type=timestamp_type,
            append_time=rules.append_time_ms,
            partition_leader_epoch=rules.leader_epoch,
        )
    if len(data) > rules.max_message_bytes:
        for header in _headers(data):
            _check_size(header.size, rules.max_message_bytes)
    return _describe_set(data, target.magic, codec, records, rules)


def _read_messages(buffer: Buffer, start: int, end: int, max_message_bytes: int) -> list[LegacyRecord]:
    """The messages, each sound in itself and of one format; a wrapper comes alone."""
    messages: list[LegacyRecord] = []
    position = start
    for message in iterate_legacy_messages(buffer, start, end):
        _check_came(message.size, max_message_bytes)
        if not is_intact(buffer, message):
            raise CorruptRecordError(
                f"checksum {message.crc:#010x} is not that of the message at byte {message.position}"
            )
        messages.append(message)
        position += message.size
    if position != end or not messages:
        raise InvalidRecordError(f"{end - position} bytes do not hold a whole message")
    first = messages[0]
    if any(message.magic != first.magic for message in messages):
        raise InvalidRecordError("messages of several formats")
    if len(messages) > 1 and any(message.is_wrapper for message in messages):
        raise InvalidRecordError("more than one message beside a wrapper")
    return messages


def _check_records(records: Sequence[Record], messages: Sequence[LegacyRecord], rules: AppendRules) -> None:
    """Keys and timestamps, as the kernel checks them in a batch: one wrong time decides the error of all."""
    faults: list[RecordFault] = []
    wrong_time = -1
    is_append_time = rules.append_time_ms >= 0
    is_wrapper = messages[0].is_wrapper
    for index, record in enumerate(records):
        claims_append_time = messages[0 if is_wrapper else index].is_append_time
        if rules.require_keys and record.key is None:
            fault = "a compacted topic takes no record without a key"
        elif claims_append_time and (is_append_time or record.timestamp == NO_TIMESTAMP):
            fault = "a producer may not set the timestamp type to LogAppendTime"
            wrong_time = index if wrong_time < 0 else wrong_time
        elif (
            not is_append_time
            and record.timestamp != NO_TIMESTAMP
            and not rules.earliest <= record.timestamp <= rules.latest
        ):
            fault = timestamp_fault(record.timestamp, rules.earliest, rules.latest)
            wrong_time = index if wrong_time < 0 else wrong_time
        else:
            continue
        if len(faults) < _MAX_FAULTS:
            faults.append(RecordFault(index, fault))
    if wrong_time >= 0:
        raise InvalidTimestampError(f"the timestamp of record {wrong_time} can't be taken", wrong_time, tuple(faults))
    if faults:
        raise InvalidRecordError(
            f"record {faults[0].record_index}: {faults[0].message}", faults[0].record_index, tuple(faults)
        )


def _patched(
    buffer: Buffer,
    start: int,
    end: int,
    messages: Sequence[LegacyRecord],
    records: Sequence[Record],
    rules: AppendRules,
) -> bytearray | None:
    first = messages[0]
    is_wrapper = first.is_wrapper
    if is_wrapper and (first.magic == MAGIC_V0 or any(record.offset != index for index, record in enumerate(records))):
        return None
    data = bytearray(memoryview(buffer)[start:end])
    is_append_time = rules.append_time_ms >= 0
    timestamp_type = TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME
    for index, message in enumerate(messages):
        moved = message._replace(position=message.position - start)
        assign_offset(data, moved.position, rules.base_offset + (len(records) - 1 if is_wrapper else index))
        if message.magic > MAGIC_V0:
            timestamp = rules.append_time_ms
            if not is_append_time:
                timestamp = max(record.timestamp for record in records) if is_wrapper else records[index].timestamp
            assign_timestamp(data, moved, timestamp_type, timestamp)
    return data


def _headers(data: Buffer) -> Iterator[BatchHeader]:
    """Headers of batches that were built here, and so need no checks."""
    position = 0
    while position < len(data):
        is_legacy = data[position + MAGIC_AT] < MAGIC_V2
        header = read_legacy_header(data, position) if is_legacy else read_batch_header(data, position)
        yield header
        position += header.size


def _max_decompressed(max_message_bytes: int) -> int:
    """Bound on decompressed bytes: above the usual one only where the topic takes such large messages anyway."""
    return max(MAX_CONVERTED_BYTES, 4 * max_message_bytes)


def _check_came(size: int, max_message_bytes: int) -> None:
    if size > max_message_bytes:
        raise RecordTooLargeError(f"{size} bytes, max.message.bytes is {max_message_bytes}")


def _check_size(size: int, max_message_bytes: int) -> None:
    if size > max_message_bytes:
        raise RecordTooLargeError(f"{size} bytes once converted, max.message.bytes is {max_message_bytes}")


def describe(data: Buffer, magic: int, batch: BatchHeader, max_message_bytes: int) -> ValidatedRecords:
    """Describe the messages made of a batch of format 2; their headers say the rest."""
    max_timestamp = offset_of_max = -1
    stand_alone = True
    for header in _headers(data):
        _check_size(header.size, max_message_bytes)
        stand_alone = header.compression == Compression.NONE
        if header.max_timestamp > max_timestamp:
            max_timestamp, offset_of_max = header.max_timestamp, header.last_offset
    return ValidatedRecords(
        data,
        magic,
        batch.base_offset,
        batch.last_offset,
        max_timestamp,
        offset_of_max,
        batch.record_count,
        stand_alone,
    )


def _describe_set(
    data: Buffer, magic: int, codec: Compression, records: Sequence[Record], rules: AppendRules
) -> ValidatedRecords:
    base_offset = rules.base_offset
    last_offset = base_offset + len(records) - 1
    max_timestamp, at = rules.append_time_ms, 0
    if magic == MAGIC_V0:
        max_timestamp = NO_TIMESTAMP
    elif max_timestamp < 0:
        timestamps = [record.timestamp for record in records]
        max_timestamp = max(timestamps)
        at = timestamps.index(max_timestamp)
    stand_alone = magic < MAGIC_V2 and codec is Compression.NONE
    offset_of_max = base_offset + at if stand_alone else last_offset
    return ValidatedRecords(
        data,
        magic,
        base_offset,
        last_offset,
        max_timestamp,
        offset_of_max if max_timestamp >= 0 else -1,
        len(records),
        stand_alone,
    )


def resealed(data: bytes) -> bytes:
    """The outer checksums made right again, as far as sizes tell where they are."""
    out = bytearray(data)
    position = 0
    while len(out) - position >= 26:
        end = position + 12 + int.from_bytes(out[position + 8 : position + 12], "big", signed=True)
        if not position + 26 <= end <= len(out):
            break
        if out[position + 16] == 2 and end - position >= 61:
            seal(memoryview(out)[position:end])
        else:
            out[position + 12 : position + 16] = zlib.crc32(memoryview(out)[position + 16 : end]).to_bytes(4, "big")
        position = end
    return bytes(out)
