"""Conversion on append, beyond offset, epoch and time: records get the codec and the message format of the topic, where it
names one; and message sets of formats 0 and 1, checked and given offsets here.

Checking a batch of format 2 and assigning its offsets is the kernel's work (protocol/records): it is the hot path. Under
`compression.type=producer` and the newest `message.format.version`, the defaults, a batch is stored as it came, and nothing
of this module runs. A message set is rare, and plain Python.

    append of       topic's format 2                             topic's format 0 or 1
    format 2        as it came, or in the topic's codec          converted; refused with producer id or transaction
    format 0, 1     one batch of format 2                        in place where format, codec and inner offsets allow it

`validate_message_set` is the lower row, `TargetFormat` the upper one. Fetches convert in `protocol/records/conversion.py`.

Slow cases (all but the first row's first case) can be prepared before their offsets are known: `moved` assigns those later.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records._kernel import validate_and_assign
from ...protocol.records.attributes import Compression, TimestampType
from ...protocol.records.builder import build_batch, recompress
from ...protocol.records.conversion import MAX_CONVERTED_BYTES, convert_batch
from ...protocol.records.crc import crc32c
from ...protocol.records.exceptions import (
    CorruptRecordError,
    FormatLacksFeatureError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordFault,
    RecordTooLargeError,
    timestamp_fault,
)
from ...protocol.records.legacy_record import (
    MAGIC_V0,
    assign_offset,
    assign_timestamp,
    build_legacy_set,
    is_intact,
    iterate_legacy_messages,
    iterate_legacy_records,
    read_legacy_header,
    read_legacy_record,
)
from ...protocol.records.record_batch import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    CRC_AT,
    MAGIC_AT,
    MAGIC_V2,
    MAX_TIMESTAMP_AT,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    PARTITION_LEADER_EPOCH_AT,
    BatchHeader,
    Record,
    read_batch_header,
)
from ..values import MAX_RELATIVE_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...config.log_config import LogConfig
    from ...protocol.records._kernel import BatchInfo
    from ...protocol.records.legacy_record import LegacyRecord
    from ..io.filesystem import Buffer

_OFFSET = struct.Struct(">q")
_TIMESTAMP = struct.Struct(">q")
_CRC = struct.Struct(">I")
_EPOCH = struct.Struct(">i")

_CODECS = {
    "none": Compression.NONE,
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_MAX_FAULTS = 1000

MOST_WRAPPED = 100_000
"""Messages of format 0 or 1 that one wrapper may hold, some 20 µs of Python each: a hundred kilobytes may hold a million, and
whatever waits for the same thread would wait for all of them. Clients split what is too large, or send it one by one."""
LEAST_MESSAGE_BYTES = 26
"""Offset, size, checksum, magic, attributes and two lengths: a set without a wrapper has no more messages than bytes for them."""
"""A refused message set names at most so many of its records, as the kernel does for a batch."""


class TargetCompression(NamedTuple):
    """The codec that a topic wants, and the level for it (None: the codec's default)."""

    codec: Compression
    level: int | None

    @classmethod
    def of(cls, config: LogConfig) -> TargetCompression | None:
        """The topic's codec; None under `producer`: then nothing is recompressed."""
        codec = _CODECS.get(config.compression_type)
        if codec is None:
            return None
        levels = {
            Compression.GZIP: config.compression_gzip_level,
            Compression.LZ4: config.compression_lz4_level,
            Compression.ZSTD: config.compression_zstd_level,
        }
        return cls(codec, levels.get(codec))

    def differs(self, codec: int) -> bool:
        return codec != self.codec

    def recompressed(self, buffer: Buffer, position: int) -> bytearray:
        """The validated and assigned batch at `position`, its records the same, in this codec."""
        return recompress(buffer, position, len(buffer), self.codec, self.level)


class ValidatedRecords(NamedTuple):
    """Records ready to be appended: offsets, times and checksums are as they will stand in the log.

    One batch, one wrapper, or a row of messages that `stand_alone`. `offset_of_max_timestamp` is what a time index entry
    says: the last offset of the batch, the message's own where messages stand alone; −1 where nothing has a timestamp.
    """

    data: Buffer
    magic: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    record_count: int
    stand_alone: bool
    producer_id: int = NO_PRODUCER_ID


class PreparedRecords(NamedTuple):
    """Records made ready for a log by `UnifiedLog.prepare`, at the offset and time that it had then.

    `config` is the one that they were made for; `append_time` −1 under CreateTime; `size` that of what came.
    """

    records: ValidatedRecords
    config: LogConfig
    append_time: int
    size: int


class CheckedBatch(NamedTuple):
    """A client's batch of format 2 that `UnifiedLog.check_batch` found right, as it will stand in the log but for its place.

    `config` is the one that it was checked for; `append_time` −1 under CreateTime; `size` that of what came.
    """

    data: bytearray
    config: LogConfig
    append_time: int
    size: int


def place_batch(data: bytearray, base_offset: int, leader_epoch: int, append_time_ms: int) -> None:
    """Write place and epoch into the valid batch of format 2 in `data`; `append_time_ms` −1 leaves its timestamps."""
    _OFFSET.pack_into(data, BASE_OFFSET_AT, base_offset)
    _EPOCH.pack_into(data, PARTITION_LEADER_EPOCH_AT, leader_epoch)
    if append_time_ms >= 0 and _TIMESTAMP.unpack_from(data, MAX_TIMESTAMP_AT)[0] != append_time_ms:
        _TIMESTAMP.pack_into(data, MAX_TIMESTAMP_AT, append_time_ms)
        with memoryview(data) as view:
            _CRC.pack_into(data, CRC_AT, crc32c(view[ATTRIBUTES_AT:]))


def moved(records: ValidatedRecords, base_offset: int, append_time_ms: int) -> ValidatedRecords | None:
    """The records at another base offset, and under LogAppendTime (`append_time_ms` ≥ 0) at another time.

    None for a wrapper of format 0 at another offset: offsets within are absolute, so it must be made anew.
    """
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


class TargetFormat(NamedTuple):
    """Format of a topic's stored records: the message format, and the codec unless the producer's is kept."""

    magic: int
    compression: TargetCompression | None

    @classmethod
    def of(cls, config: LogConfig) -> TargetFormat:
        return cls(config.message_format, TargetCompression.of(config))

    @property
    def is_as_it_came(self) -> bool:
        """True if a batch of format 2 is stored as it came."""
        return self.magic >= MAGIC_V2 and self.compression is None

    def recompresses(self, codec: int) -> bool:
        """True if a batch of format 2 in `codec` is to be rebuilt in another."""
        return self.compression is not None and self.compression.differs(codec)

    def recompressed(self, data: Buffer, max_message_bytes: int) -> bytearray:
        """Compress the one validated and assigned batch of format 2 in `data` with the topic's codec; RecordTooLargeError."""
        assert self.compression is not None
        batch = self.compression.recompressed(data, 0)
        _check_size(len(batch), max_message_bytes)
        return batch

    def converted(self, data: Buffer, batch: BatchInfo, max_message_bytes: int) -> ValidatedRecords:
        """Convert the one validated and assigned batch of format 2 in `data` to this topic's format 0 or 1.

        Raises:
            FormatLacksFeatureError: it has a producer id, or is transactional.
            UnsupportedCompressionError: zstd.
            RecordTooLargeError: a message is larger than `max_message_bytes` then.
        """
        compression = self.compression
        if batch.producer_id >= 0 or batch.is_transactional:
            raise FormatLacksFeatureError(
                f"a topic in message format {self.magic} takes neither idempotent nor transactional records"
            )
        stored = convert_batch(
            data,
            read_batch_header(data),
            self.magic,
            compression=None if compression is None else compression.codec,
            level=None if compression is None else compression.level,
            max_decompressed=_max_decompressed(max_message_bytes),
        )
        return _describe(stored, self.magic, batch, max_message_bytes)


class AppendRules(NamedTuple):
    """The log's rules for a message set that is to be appended.

    `append_time_ms` is −1 under CreateTime; `earliest` and `latest` are what CreateTime timestamps may be.
    """

    base_offset: int
    leader_epoch: int
    append_time_ms: int
    require_keys: bool
    earliest: int
    latest: int
    max_message_bytes: int


def checked_batch(
    buffer: Buffer, start: int, end: int, config: LogConfig, target: TargetFormat | None, rules: AppendRules
) -> CheckedBatch:
    """A copy of the client's batch in buffer[start:end], checked by `rules`, in the codec of `target`. Any thread.

    Raises as `UnifiedLog.append_as_leader`.
    """
    size = end - start
    if size > rules.max_message_bytes:
        raise RecordTooLargeError(f"a batch of {size} bytes, max.message.bytes is {rules.max_message_bytes}")
    data = bytearray(memoryview(buffer)[start:end])
    batch = _validated(data, rules)
    if target is not None and target.recompresses(batch.compression):
        data = target.recompressed(data, rules.max_message_bytes)
    return CheckedBatch(data, config, rules.append_time_ms, size)


def _validated(data: bytearray, rules: AppendRules) -> BatchInfo:
    """Check a batch of format 2 and fill in what the broker assigns; in place."""
    return validate_and_assign(
        data,
        0,
        len(data),
        rules.base_offset,
        rules.leader_epoch,
        rules.append_time_ms,
        rules.require_keys,
        True,
        rules.earliest,
        rules.latest,
    )


def make_ready(buffer: Buffer, start: int, end: int, target: TargetFormat, rules: AppendRules) -> ValidatedRecords:
    """A message set, or for a topic of format 0 or 1 a batch of format 2, ready to be appended, in new bytes. Takes long.

    Raises as `validate_message_set`; FormatLacksFeatureError: the batch has a producer id, or is transactional.
    """
    if target.magic >= MAGIC_V2 or end - start <= MAGIC_AT or buffer[start + MAGIC_AT] < MAGIC_V2:
        return validate_message_set(buffer, start, end, target, rules)
    _check_came(end - start, rules.max_message_bytes)
    data = bytearray(memoryview(buffer)[start:end])
    batch = _validated(data, rules)
    return target.converted(data, batch, rules.max_message_bytes)


def validate_message_set(
    buffer: Buffer, start: int, end: int, target: TargetFormat, rules: AppendRules
) -> ValidatedRecords:
    """Checks the messages of format 0 or 1 that fill [start, end) and makes them ready to be appended, in new bytes.

    Either any number of plain messages of one format, or one wrapper. Offsets of a producer mean nothing (many leave them
    0), timestamps are checked or replaced as the topic's type says.

    Raises:
        CorruptRecordError: a size, checksum or compressed data are broken.
        InvalidRecordError: several formats or wrappers, a wrapper with a key or within a wrapper, a record without a key
            where `require_keys`; a message that is cut off.
        InvalidTimestampError: a timestamp out of range, or of a type that a producer may not set.
        RecordTooLargeError: a message larger than `max_message_bytes`, as it came or as it would be stored; a wrapper that
            holds more than 32 MiB and than four times that size, or more than `MOST_WRAPPED` messages and than that size has
            room for.
        UnsupportedCompressionError: zstd, or a topic in format 0 or 1 that wants it.
    """
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
    if len(records) - 1 > MAX_RELATIVE_OFFSET:
        raise RecordTooLargeError(f"{len(records)} records in one append")
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
    """The messages as they came, with offset and time of this log; None where that is not enough: within a wrapper of
    format 0 offsets are absolute, and some old clients number what is within one of format 1 in their own way.
    """
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


def _describe(data: Buffer, magic: int, batch: BatchInfo, max_message_bytes: int) -> ValidatedRecords:
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
