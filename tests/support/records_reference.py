"""What the compiled kernel does, said once more in plain Python: the oracle that the tests hold the kernel against.

Nothing in the daemon calls this, and it never stands in for a kernel that failed to build. Each function takes the
kernel's arguments, raises the kernel's exceptions, and is written for the reader, on top of `record_batch`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from tidelog.protocol.records.attributes import TIMESTAMP_TYPE_MASK, Compression
from tidelog.protocol.records.compression import DEFAULT_MAX_BYTES
from tidelog.protocol.records.crc import crc32c
from tidelog.protocol.records.exceptions import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordFault,
    UnsupportedCompressionError,
)
from tidelog.protocol.records.legacy_record import read_legacy_header
from tidelog.protocol.records.memory_records import is_intact
from tidelog.protocol.records.record_batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER,
    HEADER_UP_TO_MAGIC,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    MAX_TIMESTAMP_AT,
    MIN_MESSAGE_SIZE,
    NO_TIMESTAMP,
    OVERHEAD,
    PARTITION_LEADER_EPOCH_AT,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    iterate_raw_records,
    iterate_records,
    payload_of,
    read_batch_header,
    to_int64,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.protocol.records.record_batch import Buffer

INT32_MAX = 0x7FFF_FFFF
INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
INT64_MIN = -INT64_MAX - 1
MAX_FAULTS = 1000

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class Validated(NamedTuple):
    """What `validate_and_assign` returns: the header as patched, and what the records said."""

    header: BatchHeader
    records_max_timestamp: int
    records_min_timestamp: int
    max_timestamp_delta: int


def _check_range(buffer: Buffer, position: int, end: int) -> None:
    if position < 0 or end > len(buffer) or position > end:
        raise ValueError(f"bytes {position} to {end} are not within a buffer of {len(buffer)}")


def read_header(buffer: Buffer, position: int, end: int) -> BatchHeader:
    """As the kernel's."""
    _check_range(buffer, position, end)
    return read_batch_header(buffer, position, end)


def _is_right(buffer: Buffer, header: BatchHeader) -> bool:
    counted = memoryview(buffer)[header.position + ATTRIBUTES_AT : header.position + header.size]
    return crc32c(counted) == header.crc


def validate_and_assign(  # noqa: PLR0913
    buffer: bytearray | memoryview,
    position: int,
    end: int,
    base_offset: int,
    leader_epoch: int,
    append_time_ms: int,
    require_keys: bool,
    from_client: bool = True,
    earliest_timestamp: int = INT64_MIN,
    latest_timestamp: int = INT64_MAX,
    max_decompressed: int = DEFAULT_MAX_BYTES,
    is_due: Callable[[], bool] | None = None,
) -> Validated:
    """As the kernel's."""
    _check_range(buffer, position, end)
    header = _read_only_batch(buffer, position, end)
    if not _is_right(buffer, header):
        raise CorruptRecordError(f"checksum {header.crc:#010x} is not the batch's")
    _check_rules(header, from_client, append_time_ms)
    if append_time_ms >= 0:
        earliest_timestamp, latest_timestamp = INT64_MIN, INT64_MAX

    timestamps: list[int] = []
    faults: list[RecordFault] = []
    wrong_times: list[int] = []
    payload, start, stop = payload_of(buffer, header, max_decompressed, is_due)
    for index, record in enumerate(iterate_raw_records(payload, header.record_count, start, stop)):
        if record.offset_delta != index:
            raise InvalidRecordError(f"record {index} has the offset delta {record.offset_delta}", index)
        timestamp = to_int64(header.base_timestamp + record.timestamp_delta)
        timestamps.append(timestamp)
        if require_keys and record.key is None:
            faults.append(RecordFault(index, "no key"))
        elif timestamp != NO_TIMESTAMP and not earliest_timestamp <= timestamp <= latest_timestamp:
            faults.append(RecordFault(index, f"timestamp {timestamp}"))
            wrong_times.append(index)
    if wrong_times:
        raise InvalidTimestampError("timestamps out of range", wrong_times[0], tuple(faults[:MAX_FAULTS]))
    if faults:
        raise InvalidRecordError("no key", faults[0].record_index, tuple(faults[:MAX_FAULTS]))

    records_max = max(NO_TIMESTAMP, *timestamps)
    real = [timestamp for timestamp in timestamps if timestamp != NO_TIMESTAMP]
    _INT64.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + PARTITION_LEADER_EPOCH_AT, leader_epoch)
    if append_time_ms >= 0:
        attributes, max_timestamp = header.attributes | TIMESTAMP_TYPE_MASK, append_time_ms
    else:
        attributes, max_timestamp = header.attributes & ~TIMESTAMP_TYPE_MASK, records_max
    if (attributes, max_timestamp) != (header.attributes, header.max_timestamp):
        struct.pack_into(">h", buffer, position + ATTRIBUTES_AT, attributes)
        _INT64.pack_into(buffer, position + MAX_TIMESTAMP_AT, max_timestamp)
        crc = crc32c(memoryview(buffer)[position + ATTRIBUTES_AT : end])
        struct.pack_into(">I", buffer, position + CRC_AT, crc)
    return Validated(
        read_batch_header(buffer, position, end),
        records_max,
        min(real, default=NO_TIMESTAMP),
        timestamps.index(records_max) if records_max in timestamps else 0,
    )


def _read_only_batch(buffer: Buffer, position: int, end: int) -> BatchHeader:
    """The header of the batch that fills [position, end); a batch cut off is the client's error, not damage."""
    available = end - position
    if available < HEADER_UP_TO_MAGIC:
        raise InvalidRecordError("no whole batch")
    _, length = OVERHEAD.unpack_from(buffer, position)
    possible = length >= MIN_MESSAGE_SIZE and buffer[position + MAGIC_AT] <= MAGIC_V2
    if possible and LOG_OVERHEAD + length > available:
        raise InvalidRecordError("no whole batch")
    header = read_batch_header(buffer, position, end)
    if header.size != available:
        raise InvalidRecordError("more than one batch")
    return header


def _check_rules(header: BatchHeader, from_client: bool, append_time_ms: int) -> None:
    if header.compression > Compression.ZSTD:
        raise UnsupportedCompressionError(f"no compression codec has the id {header.compression}")
    if header.record_count <= 0:
        raise InvalidRecordError(f"a batch of {header.record_count} records")
    if header.last_offset_delta != header.record_count - 1:
        raise InvalidRecordError(f"last offset delta {header.last_offset_delta} of {header.record_count} records")
    if from_client:
        if header.base_offset != 0:
            raise InvalidRecordError(f"base offset {header.base_offset}")
        if header.is_control:
            raise InvalidRecordError("control records")
        if header.has_delete_horizon:
            raise InvalidRecordError("delete horizon")
        if header.producer_id >= 0 and header.base_sequence < 0:
            raise InvalidRecordError(f"sequence {header.base_sequence} with a producer id")
    if header.is_append_time and (append_time_ms >= 0 or header.max_timestamp == NO_TIMESTAMP):
        raise InvalidTimestampError("LogAppendTime from a producer")


def find_batch(buffer: Buffer, position: int, end: int, target_offset: int) -> tuple[int, int, int] | None:
    """As the kernel's."""
    for at, size, last in _walk_headers(buffer, position, end):
        if last >= target_offset and target_offset != INT64_MAX:  # no log holds that offset
            return at, size, last
    return None


def next_batch_position(buffer: Buffer, position: int, end: int) -> int:
    """As the kernel's."""
    for at, size, _ in _walk_headers(buffer, position, end):
        position = at + size
    return position


def count_records(buffer: Buffer, position: int, end: int, limit_offset: int) -> tuple[int, int, bool]:
    """As the kernel's."""
    _check_range(buffer, position, end)
    records = 0
    while end - position > HEADER_UP_TO_MAGIC:
        offset, length = OVERHEAD.unpack_from(buffer, position)
        magic = buffer[position + MAGIC_AT]
        if length < MIN_MESSAGE_SIZE or (magic == MAGIC_V2 and LOG_OVERHEAD + length < RECORD_BATCH_OVERHEAD):
            raise CorruptRecordError(f"batch size {length}")
        if magic > MAGIC_V2:
            raise CorruptRecordError(f"magic {magic}")
        if magic == MAGIC_V2:
            if end - position < RECORD_BATCH_OVERHEAD:
                break
            # The batch itself may lie behind the end of what was read.
            base_offset, size, *rest = HEADER.unpack_from(buffer, position)
            header = BatchHeader(position, LOG_OVERHEAD + size, base_offset, *rest)
            if header.last_offset >= limit_offset:
                break
            records += 0 if header.is_control else max(0, header.record_count)
        else:
            if offset >= limit_offset:
                break
            if buffer[position + HEADER_UP_TO_MAGIC] & 7:
                return records, position, True
            records += 1
        position += LOG_OVERHEAD + length
    return records, position, False


def _walk_headers(buffer: Buffer, position: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(position, size, last offset) of the batches of any format whose header up to there is before `end`."""
    _check_range(buffer, position, end)
    while end - position >= HEADER_UP_TO_MAGIC:
        offset, length = OVERHEAD.unpack_from(buffer, position)
        magic = buffer[position + MAGIC_AT]
        if magic == MAGIC_V2 and end - position < LAST_OFFSET_DELTA_AT + 4:
            return
        if length < MIN_MESSAGE_SIZE:
            raise CorruptRecordError(f"batch size {length}")
        if magic == MAGIC_V2:
            if LOG_OVERHEAD + length < RECORD_BATCH_OVERHEAD:
                raise CorruptRecordError(f"batch size {length}")
            (delta,) = _INT32.unpack_from(buffer, position + LAST_OFFSET_DELTA_AT)
            offset = to_int64(offset + delta)
        elif magic > MAGIC_V2:
            raise CorruptRecordError(f"magic {magic}")
        yield position, LOG_OVERHEAD + length, offset
        position += LOG_OVERHEAD + length


def find_timestamp(
    buffer: Buffer,
    position: int,
    end: int,
    target_timestamp: int,
    starting_offset: int = INT64_MIN,
    max_decompressed: int = DEFAULT_MAX_BYTES,
) -> tuple[int, int] | None:
    """As the kernel's, but that the whole batch must be sound, not only what precedes the answer."""
    _check_range(buffer, position, end)
    for record in list(iterate_records(buffer, position, end, max_decompressed=max_decompressed)):
        if record.timestamp >= target_timestamp and record.offset >= starting_offset:
            return record.timestamp, record.offset
    return None


def max_timestamp_record(
    buffer: Buffer, position: int, end: int, max_decompressed: int = DEFAULT_MAX_BYTES
) -> tuple[int, int] | None:
    """As the kernel's."""
    _check_range(buffer, position, end)
    records = list(iterate_records(buffer, position, end, max_decompressed=max_decompressed))
    if not records:
        return None
    first = max(records, key=lambda record: record.timestamp)
    return first.timestamp, first.offset


class BatchScanner:
    """As the kernel's, whose docstring describes the attributes."""

    def __init__(self, index_interval_bytes: int, base_offset: int, check_crc: bool = True) -> None:
        self._interval = index_interval_bytes
        self._base_offset = base_offset
        self._check_crc = check_crc
        self._started = False
        self._last_indexed = 0
        self._last_time_entry = NO_TIMESTAMP
        self.valid_bytes = 0
        self.next_offset = base_offset
        self.max_timestamp = self.offset_of_max_timestamp = self.first_timestamp = -1
        self.batch_count = self.record_count = self.needed = 0
        self.leader_epoch = -1
        self.offset_index_entries = bytearray()
        self.time_index_entries = bytearray()
        self.leader_epochs: list[tuple[int, int]] = []
        self.stateful_batches: list[BatchHeader] = []
        self.stopped: str | None = None

    def feed(self, buffer: Buffer, start: int, end: int, file_position: int) -> int:
        """As the kernel's."""
        if self.stopped is not None:
            return 0
        if not self._started:
            self._started = True
            self.valid_bytes = self._last_indexed = file_position
        elif file_position != self.valid_bytes:
            raise ValueError(f"the next byte wanted is at {self.valid_bytes}, not at {file_position}")
        _check_range(buffer, start, end)
        at = start
        while True:
            self.needed = 0
            available = end - at
            if available < HEADER_UP_TO_MAGIC:
                self.needed = HEADER_UP_TO_MAGIC if available else 0
                break
            (length,) = _INT32.unpack_from(buffer, at + LENGTH_AT)
            if length < MIN_MESSAGE_SIZE:
                self.stopped = "impossible batch size"
            elif buffer[at + MAGIC_AT] > MAGIC_V2:
                self.stopped = "impossible magic"
            elif LOG_OVERHEAD + length > available:
                self.needed = LOG_OVERHEAD + length
                break
            if self.stopped is None:
                try:
                    is_legacy = buffer[at + MAGIC_AT] < MAGIC_V2
                    header = read_legacy_header(buffer, at) if is_legacy else read_batch_header(buffer, at, end)
                except CorruptRecordError:
                    self.stopped = "impossible batch size"
            if self.stopped is None:
                self.stopped = self._fault(buffer, header)
            if self.stopped is not None:
                break
            self._take(header)
            at += header.size
        return at - start

    def _fault(self, buffer: Buffer, header: BatchHeader) -> str | None:
        if self._check_crc and not is_intact(buffer, header):
            return "wrong checksum"
        if header.magic == MAGIC_V2 and not -1 <= header.record_count - 1 <= header.last_offset_delta:
            return "impossible record count"
        if header.last_offset_delta < 0:
            return "impossible record count"
        # Behind the greatest offset there is none: not a segment that is too wide, which recovery splits.
        if not self.next_offset <= header.base_offset <= header.last_offset < INT64_MAX:
            return "offsets out of order"
        if header.last_offset - self._base_offset > INT32_MAX:
            return "offset too far from the segment's base offset"
        if self.valid_bytes + header.size > INT32_MAX:
            return "segment beyond 2 GiB"
        return None

    def _take(self, header: BatchHeader) -> None:
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.offset_of_max_timestamp = header.last_offset
        if self.batch_count == 0:
            self.first_timestamp = header.max_timestamp
        if self.valid_bytes - self._last_indexed > self._interval:
            self.offset_index_entries += _OFFSET_ENTRY.pack(header.last_offset - self._base_offset, self.valid_bytes)
            self._last_indexed = self.valid_bytes
            if self.max_timestamp > self._last_time_entry:
                relative = self.offset_of_max_timestamp - self._base_offset
                self.time_index_entries += _TIME_ENTRY.pack(self.max_timestamp, relative)
                self._last_time_entry = self.max_timestamp
        if header.partition_leader_epoch > self.leader_epoch:
            self.leader_epoch = header.partition_leader_epoch
            self.leader_epochs.append((self.leader_epoch, header.base_offset))
        if header.producer_id >= 0 or header.is_control:
            self.stateful_batches.append(header._replace(position=self.valid_bytes))
        self.next_offset = header.last_offset + 1
        self.batch_count += 1
        self.record_count += abs(header.record_count)  # −1, not known, for a wrapper
        self.valid_bytes += header.size
