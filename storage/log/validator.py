"""Conversion on append, beyond offset, epoch and time: records get the codec and the message format of the topic, where it
names one; and message sets of formats 0 and 1, checked and given offsets here.

Checking a batch of format 2 and assigning its offsets is the kernel's work (protocol/records): it is the hot path. Under
`compression.type=producer` and the newest `message.format.version`, the defaults, a batch is stored as it came, and nothing
of this module runs. A message set is rare; its records are read and written by the kernel of conversions.

    append of       topic's format 2                             topic's format 0 or 1
    format 2        as it came, or in the topic's codec          converted; refused with producer id or transaction
    format 0, 1     one batch of format 2                        in place where format, codec and inner offsets allow it

`validate_message_set` is the lower row, `TargetFormat` the upper one. Fetches convert in `protocol/records/conversion.py`.

Slow cases (all but the first row's first case) can be prepared before their offsets are known: `moved` assigns those later.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records._kernel import validate_and_assign
from ...protocol.records.attributes import COMPRESSION_MASK, Compression, TimestampType
from ...protocol.records.builder import recompress
from ...protocol.records.conversion import MAX_CONVERTED_BYTES, batch_of, convert_batch, messages_of, open_wrapper
from ...protocol.records.crc import crc32c
from ...protocol.records.exceptions import (
    CorruptRecordError,
    FormatLacksFeatureError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordFault,
    RecordTooLargeError,
    UnsupportedCompressionError,
    timestamp_fault,
)
from ...protocol.records.legacy_record import ATTRIBUTES_AT as LEGACY_ATTRIBUTES_AT
from ...protocol.records.legacy_record import MAGIC_V0, assign_offset, assign_timestamp, read_legacy_record
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
    read_batch_header,
)

if TYPE_CHECKING:
    from ...config.log_config import LogConfig
    from ...protocol.records._conversion import Records
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

_FAULTS = {
    1: "a compacted topic takes no record without a key",
    2: "a producer may not set the timestamp type to LogAppendTime",
}
"""By `NO_KEY_FAULT` and `APPEND_TIME_FAULT` of the kernel; the other one names the timestamp."""

MOST_WRAPPED = 100_000
"""Messages of format 0 or 1 that one wrapper may hold: a hundred kilobytes may hold a million, and whatever waits for the same
thread would wait for all of them. Clients split what is too large, or send it one by one."""
LEAST_MESSAGE_BYTES = 26
"""Offset, size, checksum, magic, attributes and two lengths: a set without a wrapper has no more messages than bytes for them."""


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
    data: Buffer
    if records.magic >= MAGIC_V2:
        data = bytearray(records.data)
        _OFFSET.pack_into(data, BASE_OFFSET_AT, base_offset)
        if restamped:
            _TIMESTAMP.pack_into(data, MAX_TIMESTAMP_AT, append_time_ms)
            with memoryview(data) as view:
                _CRC.pack_into(data, CRC_AT, crc32c(view[ATTRIBUTES_AT:]))
    else:
        from ...protocol.records._conversion import patched

        data = patched(
            records.data,
            0,
            len(records.data),
            delta=delta,
            sets_time=restamped,
            is_append_time=True,
            timestamp=append_time_ms,
        )
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
    first, count = _read_messages(buffer, start, end, rules.max_message_bytes)
    most = max(MOST_WRAPPED, rules.max_message_bytes // LEAST_MESSAGE_BYTES)
    if first.is_wrapper:
        max_decompressed = _max_decompressed(rules.max_message_bytes)
        records = open_wrapper(first, from_producer=True, max_decompressed=max_decompressed, most=most + 1)
        count = records.count
    if count > most:
        raise RecordTooLargeError(f"more than {most} messages in one append of format {first.magic}")
    if not first.is_wrapper:
        records = _open_messages(buffer, start, end, first.magic)
    append_time = rules.append_time_ms if rules.append_time_ms >= 0 else None
    _check_records(records, rules)
    compression = target.compression
    codec, level = compression if compression is not None else (Compression(first.compression), None)
    if target.magic == first.magic and codec == first.compression:
        as_it_came = _patched(buffer, start, end, first, records, append_time, rules)
        if as_it_came is not None:
            return _describe_set(as_it_came, first.magic, codec, records, rules)
    data: Buffer
    if target.magic < MAGIC_V2:
        if codec > Compression.LZ4:
            raise UnsupportedCompressionError(f"message format {target.magic} knows no codec with the id {int(codec)}")
        data = messages_of(records, target.magic, codec, level, first_offset=rules.base_offset, append_time=append_time)
    else:
        data = batch_of(
            records, codec, level, rules.leader_epoch, first_offset=rules.base_offset, append_time=append_time
        )
    if len(data) > rules.max_message_bytes:
        larger = _look_at(data, rules.max_message_bytes)[0] if target.magic < MAGIC_V2 else len(data)
        _check_size(larger, rules.max_message_bytes)
    return _describe_set(data, target.magic, codec, records, rules)


def _read_messages(buffer: Buffer, start: int, end: int, max_message_bytes: int) -> tuple[LegacyRecord, int]:
    """The first message, and how many there are: each sound in itself and of one format; a wrapper comes alone."""
    from ...protocol.records._conversion import walk_messages

    stop, is_faulty, count, is_mixed, has_wrapper = walk_messages(buffer, start, end, max_message_bytes)
    if is_faulty:
        message = read_legacy_record(buffer, stop, end)
        _check_came(message.size, max_message_bytes)
        raise CorruptRecordError(f"checksum {message.crc:#010x} is not that of the message at byte {message.position}")
    if stop != end or not count:
        raise InvalidRecordError(f"{end - stop} bytes do not hold a whole message")
    if is_mixed:
        raise InvalidRecordError("messages of several formats")
    if count > 1 and has_wrapper:
        raise InvalidRecordError("more than one message beside a wrapper")
    return read_legacy_record(buffer, start, end), count


def _open_messages(buffer: Buffer, start: int, end: int, magic: int) -> Records:
    from ...protocol.records._conversion import open_messages

    return open_messages(buffer, start, end, magic)


def _look_at(data: Buffer, max_message_bytes: int) -> tuple[int, int, int]:
    from ...protocol.records._conversion import look_at_messages

    return look_at_messages(data, max_message_bytes)


def _check_records(records: Records, rules: AppendRules) -> None:
    """Keys and timestamps, as the kernel checks them in a batch: one wrong time decides the error of all."""
    refused = records.refused(rules.require_keys, rules.append_time_ms >= 0, rules.earliest, rules.latest)
    if refused is None:
        return
    wrong_time, found = refused
    faults = tuple(
        RecordFault(index, _FAULTS.get(fault) or timestamp_fault(timestamp, rules.earliest, rules.latest))
        for index, fault, timestamp in found
    )
    if wrong_time >= 0:
        raise InvalidTimestampError(f"the timestamp of record {wrong_time} can't be taken", wrong_time, faults)
    first = faults[0]
    raise InvalidRecordError(f"record {first.record_index}: {first.message}", first.record_index, faults)


def _patched(
    buffer: Buffer,
    start: int,
    end: int,
    first: LegacyRecord,
    records: Records,
    append_time: int | None,
    rules: AppendRules,
) -> Buffer | None:
    """The messages as they came, with offset and time of this log; None where that is not enough: within a wrapper of
    format 0 offsets are absolute, and some old clients number what is within one of format 1 in their own way.
    """
    is_append_time = append_time is not None
    if not first.is_wrapper:
        from ...protocol.records._conversion import patched

        return patched(
            buffer,
            start,
            end,
            first_offset=rules.base_offset,
            sets_time=True,
            is_append_time=is_append_time,
            timestamp=rules.append_time_ms,
        )
    if first.magic == MAGIC_V0 or not records.counts_from_zero:
        return None
    data = bytearray(memoryview(buffer)[start:end])
    assign_offset(data, 0, rules.base_offset + records.count - 1)
    kind = TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME
    timestamp = records.max_timestamp if append_time is None else append_time
    assign_timestamp(data, first._replace(position=0), kind, timestamp)
    return data


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
    larger, max_timestamp, offset_of_max = _look_at(data, max_message_bytes)
    _check_size(larger, max_message_bytes)
    stand_alone = not len(data) or not data[LEGACY_ATTRIBUTES_AT] & COMPRESSION_MASK
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
    data: Buffer, magic: int, codec: Compression, records: Records, rules: AppendRules
) -> ValidatedRecords:
    base_offset = rules.base_offset
    last_offset = base_offset + records.count - 1
    max_timestamp, at = rules.append_time_ms, 0
    if magic == MAGIC_V0:
        max_timestamp = NO_TIMESTAMP
    elif max_timestamp < 0:
        max_timestamp, at = records.max_timestamp, records.index_of_max
    stand_alone = magic < MAGIC_V2 and codec is Compression.NONE
    offset_of_max = base_offset + at if stand_alone else last_offset
    return ValidatedRecords(
        data,
        magic,
        base_offset,
        last_offset,
        max_timestamp,
        offset_of_max if max_timestamp >= 0 else -1,
        records.count,
        stand_alone,
    )
