"""Both walks of a pass over logs that hold messages of formats 0 and 1, alone or among batches of format 2.

`build` and `MixedFilter` stand where `OffsetMap.build` and `RecordFilter` do, take the same arguments and give the same
results; they hand every batch of format 2 to the kernel and do the older messages themselves, in plain Python: such logs
are few, and no longer written.

A message keeps its format, and what survives within a wrapper keeps its bytes. That is right for offsets, too: within a
wrapper they are absolute (format 0) or count back from the wrapper's own offset (format 1), which becomes that of the last
survivor. A wrapper of which everything survives is copied as it is; of the others the codec stays, and the timestamp of
one of format 1 is the greatest of the survivors', or the append time.

These formats have no transactions, no producers, no empty batches and no room for a delete horizon. So a tombstone stays
while `retain_deletes` says so, which the caller tells from the age of the segment's file, and the record at
`keep_last_offset` stays as it is, since nothing else can hold its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.records.attributes import Compression
from ...protocol.records.compression import DEFAULT_MAX_BYTES, compress
from ...protocol.records.exceptions import CorruptRecordError
from ...protocol.records.legacy_record import (
    MAGIC_V0,
    append_legacy_record,
    is_intact,
    iterate_legacy_messages,
    iterate_legacy_records,
    read_legacy_record,
    unwrap,
)
from ...protocol.records.lz4_header import with_historical_check
from ...protocol.records.record_batch import NO_TIMESTAMP, Record
from .results import NO_OFFSET, BuildStep, FilterCounts, FilterStep, Stop

if TYPE_CHECKING:
    from ...protocol.records.legacy_record import LegacyRecord
    from ._kernel import OffsetMap, RecordFilter, Transactions

    Buffer = bytes | bytearray | memoryview


def build(
    offset_map: OffsetMap,
    buffer: Buffer,
    start: int,
    end: int,
    first_offset: int,
    end_offset: int,
    transactions: Transactions,
    *,
    max_decompressed: int = DEFAULT_MAX_BYTES,
) -> BuildStep:
    """`OffsetMap.build` for a buffer that may hold messages of any format; never stops at OLD_FORMAT."""
    position = start
    records = 0
    while True:
        step = offset_map.build(
            buffer, position, end, first_offset, end_offset, transactions, max_decompressed=max_decompressed
        )
        position += step.consumed
        records += step.records
        if step.stopped is not Stop.OLD_FORMAT:
            return step._replace(consumed=position - start, records=records)
        message = _sound_message(buffer, position, end)
        if message.offset >= first_offset:  # of a wrapper that is the last offset
            for index, record in enumerate(iterate_legacy_records(message, max_decompressed=max_decompressed)):
                if record.offset >= end_offset:
                    if index == 0:
                        return BuildStep(position - start, Stop.END, 0, NO_OFFSET, records)
                    break
                records += 1
                if record.key is None or record.offset < first_offset:
                    continue
                if not offset_map.put(record.key, record.offset):
                    return BuildStep(position - start, Stop.MAP_FULL, 0, record.offset, records)
        position += message.size


class MixedFilter:
    """`RecordFilter` for logs that may hold messages of any format; never stops at OLD_FORMAT. One thread at a time.

    Attributes:
        retain_deletes: whether tombstones of formats 0 and 1 stay; set for each segment before it is filtered.
    """

    def __init__(
        self,
        record_filter: RecordFilter,
        offset_map: OffsetMap,
        map_end: int,
        *,
        keep_last_offset: int = NO_OFFSET,
        log_start_offset: int = 0,
        max_decompressed: int = DEFAULT_MAX_BYTES,
    ) -> None:
        """Takes the same arguments that `record_filter` was made with."""
        self.retain_deletes = True
        self._filter = record_filter
        self._map = offset_map
        self._map_end = map_end
        self._keep_last = keep_last_offset
        self._log_start = log_start_offset
        self._max_decompressed = max_decompressed
        self._counts = FilterCounts()

    def counts(self) -> FilterCounts:
        """Counts of all formats since the last `take_counts`."""
        return self._counts.plus(self._filter.counts())

    def take_counts(self) -> FilterCounts:
        """Return `counts` and reset them to zero."""
        counts, self._counts = self._counts.plus(self._filter.take_counts()), FilterCounts()
        return counts

    def filter(self, buffer: Buffer, start: int, end: int, output: bytearray | memoryview) -> FilterStep:
        """Filter one stretch of messages of any format, as `RecordFilter.filter`."""
        position = start
        produced = 0
        room = memoryview(output)
        while True:
            step = self._filter.filter(buffer, position, end, room[produced:])
            position += step.consumed
            produced += step.produced
            if step.stopped is not Stop.OLD_FORMAT:
                needed = 0 if step.stopped is Stop.OUTPUT and produced else step.needed
                return FilterStep(position - start, produced, step.stopped, needed)
            message = _sound_message(buffer, position, end)
            survivor, counts = self._one_message(buffer, message)
            if len(survivor) > len(room) - produced:
                return FilterStep(position - start, produced, Stop.OUTPUT, 0 if produced else len(survivor))
            room[produced : produced + len(survivor)] = survivor
            produced += len(survivor)
            position += message.size
            self._counts = self._counts.plus(counts)

    def _one_message(self, buffer: Buffer, message: LegacyRecord) -> tuple[Buffer, FilterCounts]:
        """Survivors of a message or wrapper as bytes, and its counts."""
        records = list(iterate_legacy_records(message, max_decompressed=self._max_decompressed))
        causes = [self._cause(record) for record in records]
        survivors = [record for record, cause in zip(records, causes, strict=True) if cause is None]
        counts = FilterCounts(
            records_read=len(records),
            bytes_read=message.size,
            batches_read=1,
            **{cause: causes.count(cause) for cause in set(causes) if cause is not None},
        )
        if not survivors:
            return b"", counts
        max_timestamp = max(NO_TIMESTAMP, *(record.timestamp for record in survivors))
        kept: Buffer
        if len(survivors) == len(records):
            kept = memoryview(buffer)[message.position : message.position + message.size]
        else:
            kept = self._rewrapped(message, [cause is None for cause in causes], survivors[-1].offset, max_timestamp)
        return kept, counts._replace(
            records_kept=len(survivors),
            bytes_kept=len(kept),
            batches_kept=1,
            batches_copied=int(len(survivors) == len(records)),
            tombstones_kept=sum(record.key is not None and record.value is None for record in survivors),
            last_offset=survivors[-1].offset,
            max_timestamp=max_timestamp,
            offset_of_max_timestamp=survivors[-1].offset if max_timestamp != NO_TIMESTAMP else NO_OFFSET,
        )

    def _cause(self, record: Record) -> str | None:
        """The cause that removes a record, as a field name of FilterCounts; None when the record stays."""
        if record.offset < self._log_start:
            return "below_start"
        if record.offset >= self._map_end or record.offset == self._keep_last:
            return None
        if record.key is None:
            return "keyless"
        if self._map.get(record.key) > record.offset:
            return "superseded"
        if record.value is None and not self.retain_deletes:
            return "tombstones_expired"
        return None

    def _rewrapped(self, wrapper: LegacyRecord, stays: list[bool], last_offset: int, max_timestamp: int) -> bytearray:
        """A new wrapper around the inner messages that stay, each one unchanged."""
        data = unwrap(wrapper, self._max_decompressed)
        inner = b"".join(
            data[message.position : message.position + message.size]
            for message, stay in zip(iterate_legacy_messages(data), stays, strict=True)
            if stay
        )
        stream = compress(wrapper.compression, inner)
        if wrapper.compression == Compression.LZ4 and wrapper.magic == MAGIC_V0:
            stream = with_historical_check(stream)
        timestamp = wrapper.timestamp if wrapper.is_append_time else max_timestamp
        out = bytearray()
        append_legacy_record(out, wrapper.magic, last_offset, timestamp, None, stream, wrapper.attributes)
        return out


def _sound_message(buffer: Buffer, position: int, end: int) -> LegacyRecord:
    """Read the message at `position` and verify its checksum. CorruptRecordError."""
    message = read_legacy_record(buffer, position, end)
    if not is_intact(buffer, message):
        raise CorruptRecordError(f"message at offset {message.offset}: its checksum is wrong")
    return message
