"""What the cleaner's kernel does, said once more in plain Python: the oracle that the tests hold the kernel against.

Nothing in the daemon calls this, and it never stands in for a kernel that failed to build. Same names, arguments, results
and exceptions as `_kernel`; a dict for the map, `record_batch`'s reader for the bytes, and nothing of the kernel's.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tidelog.cleaner.kernel.results import NO_HORIZON, NO_OFFSET, BuildStep, FilterCounts, FilterStep, Stop
from tidelog.protocol.records.attributes import COMPRESSION_MASK, DELETE_HORIZON_MASK, Compression
from tidelog.protocol.records.builder import seal
from tidelog.protocol.records.compression import DEFAULT_MAX_BYTES, compress
from tidelog.protocol.records.crc import crc32c
from tidelog.protocol.records.exceptions import (
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedCompressionError,
    UnsupportedFormatError,
)
from tidelog.protocol.records.record_batch import (
    ATTRIBUTES_AT,
    HEADER,
    HEADER_UP_TO_MAGIC,
    LAST_OFFSET_DELTA_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    MIN_MESSAGE_SIZE,
    NO_TIMESTAMP,
    OVERHEAD,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    RawRecord,
    iterate_raw_records,
    payload_of,
    read_batch_header,
    to_int64,
)
from tidelog.protocol.records.varint import append_varint, read_varint, read_varlong

if TYPE_CHECKING:
    from collections.abc import Iterable

    Buffer = bytes | bytearray | memoryview

ENTRY_SIZE = 24
INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
ABORT, COMMIT = 0, 1
_MARKER = struct.Struct(">hh")  # version, type
_INT32 = struct.Struct(">i")


def _next_header(buffer: Buffer, position: int, end: int, check_crc: bool) -> BatchHeader | tuple[Stop, int]:
    """The sound batch at `position`, or why there is none and how many bytes it would take."""
    if end - position < HEADER_UP_TO_MAGIC:
        return Stop.INPUT, 0
    try:
        header = read_batch_header(buffer, position, end)
    except UnsupportedFormatError:
        return Stop.OLD_FORMAT, 0
    except CorruptRecordError:
        size = LOG_OVERHEAD + OVERHEAD.unpack_from(buffer, position)[1]
        if size >= LOG_OVERHEAD + MIN_MESSAGE_SIZE and size > end - position and buffer[position + 16] <= 2:
            return Stop.INPUT, size
        raise
    if check_crc and crc32c(memoryview(buffer)[position + ATTRIBUTES_AT : position + header.size]) != header.crc:
        raise CorruptRecordError(f"batch at offset {header.base_offset}: its checksum is wrong")
    if not 0 <= header.record_count <= header.last_offset_delta + 1 or header.last_offset_delta < 0:
        raise CorruptRecordError(f"batch at offset {header.base_offset}: its record count or last offset is impossible")
    if header.base_offset < 0 or header.last_offset < header.base_offset or header.last_offset == INT64_MAX:
        raise CorruptRecordError(f"batch at offset {header.base_offset}: its record count or last offset is impossible")
    if header.compression > max(Compression):
        raise UnsupportedCompressionError(f"no compression codec has the id {header.compression}")
    return header


def _records(buffer: Buffer, header: BatchHeader, max_decompressed: int) -> list[RawRecord]:
    """The records of a batch, their offsets rising within its bounds."""
    payload, start, end = payload_of(buffer, header, max_decompressed)
    records = list(iterate_raw_records(payload, header.record_count, start, end))
    previous = -1
    for index, record in enumerate(records):
        if not previous < record.offset_delta <= header.last_offset_delta:
            raise InvalidRecordError(f"batch at offset {header.base_offset}: record {index} is broken", index)
        previous = record.offset_delta
    return records


def check_offsets(buffer: Buffer, start: int, end: int, lowest: int, limit: int) -> int:
    """The offsets of whole batches against their neighbours'. See the kernel's."""
    position = start
    while end - position >= HEADER_UP_TO_MAGIC:
        base, length = OVERHEAD.unpack_from(buffer, position)
        magic = buffer[position + MAGIC_AT]
        size = LOG_OVERHEAD + length
        smallest = RECORD_BATCH_OVERHEAD if magic == MAGIC_V2 else LOG_OVERHEAD + MIN_MESSAGE_SIZE
        if magic > MAGIC_V2 or size < smallest or size > end - position:
            break
        last = base
        if magic == MAGIC_V2:
            last = to_int64(base + _INT32.unpack_from(buffer, position + LAST_OFFSET_DELTA_AT)[0])
        if not lowest <= base <= last < limit:
            raise CorruptRecordError(
                f"batch at offset {base}: it ends at {last} and stands where offsets from {lowest} to {limit - 1} belong"
            )
        lowest = last + 1
        position += size
    return lowest


class Transactions:
    """Which batches were aborted, and whose transaction still has a record. See the kernel's."""

    def __init__(self, aborted: Iterable[tuple[int, int, int]] = ()) -> None:
        self._aborted = sorted(aborted)
        self.live: set[int] = set()
        self.kept: list[tuple[int, int]] = []

    def is_aborted(self, producer_id: int, base_offset: int) -> bool:
        """True if a transactional batch of this producer at this offset was aborted."""
        return any(producer == producer_id and first <= base_offset <= last for producer, first, last in self._aborted)

    def open_producers(self) -> list[int]:
        """Producers of whose transaction a record was kept and no marker seen yet."""
        return sorted(self.live)

    def take_kept_aborts(self) -> list[tuple[int, int, int]]:
        """The aborted transactions whose marker was kept since the last call."""
        taken = [entry for kept in self.kept for entry in self._aborted if (entry[0], entry[2]) == kept]
        self.kept = []
        return taken

    def copy(self) -> Transactions:
        """A copy of its present state."""
        other = Transactions(self._aborted)
        other.live = set(self.live)
        other.kept = list(self.kept)
        return other


class OffsetMap:
    """Key → last offset, with the room of a table of `memory` bytes."""

    def __init__(self, memory: int, load_factor: float = 0.9) -> None:
        if memory < ENTRY_SIZE:
            raise ValueError(f"{memory} bytes hold no entry: one takes {ENTRY_SIZE}")
        if not 0.0 < load_factor <= 1.0:
            raise ValueError(f"load factor {load_factor} is not within (0, 1]")
        self.memory = memory
        self.load_factor = load_factor
        self.slots = memory // ENTRY_SIZE
        self.capacity = max(1, int(self.slots * load_factor))
        self.latest_offset = NO_OFFSET
        self._limit = 0
        self._offsets: dict[bytes, int] = {}

    @property
    def entries(self) -> int:
        """Distinct keys in it."""
        return len(self._offsets)

    @property
    def utilization(self) -> float:
        """Entries per slot."""
        return len(self._offsets) / self.slots

    def reset(self, secret: bytes, expected: int | None = None) -> None:
        """Empties it; a dict needs no secret."""
        if len(secret) != 16:
            raise ValueError("the secret has 16 bytes")
        wanted = self.slots if expected is None else min(self.slots, max(64, 2 * expected))
        self._limit = min(self.capacity, wanted)
        self.release()

    def release(self) -> None:
        """Empties it."""
        self._offsets.clear()
        self.latest_offset = NO_OFFSET

    def put(self, key: Buffer, offset: int) -> bool:
        """Notes that `key` is at `offset`, unless it is at a larger one already. False when it is new and there is no
        room.
        """
        name = bytes(key)
        if name not in self._offsets and len(self._offsets) >= self._limit:
            return False
        self._offsets[name] = max(offset, self._offsets.get(name, NO_OFFSET))
        self.latest_offset = max(offset, self.latest_offset)
        return True

    def get(self, key: Buffer) -> int:
        """The last offset of `key`, −1 when it is not there."""
        return self._offsets.get(bytes(key), NO_OFFSET)

    def build(
        self,
        buffer: Buffer,
        start: int,
        end: int,
        first_offset: int,
        end_offset: int,
        transactions: Transactions,
        *,
        check_crc: bool = True,
        max_decompressed: int = DEFAULT_MAX_BYTES,
    ) -> BuildStep:
        """Pass 1 over the whole batches in buffer[start:end]."""
        position = start
        records = 0
        while True:
            header = _next_header(buffer, position, end, False)
            if not isinstance(header, BatchHeader):
                return BuildStep(position - start, header[0], header[1], NO_OFFSET, records)
            if header.base_offset >= end_offset:
                return BuildStep(position - start, Stop.END, 0, NO_OFFSET, records)
            _next_header(buffer, position, end, check_crc)
            records += header.record_count
            aborted = header.is_transactional and transactions.is_aborted(header.producer_id, header.base_offset)
            if not aborted and not header.is_control and header.last_offset >= first_offset:
                for record in _records(buffer, header, max_decompressed):
                    offset = header.base_offset + record.offset_delta
                    if record.key is None or not first_offset <= offset < end_offset:
                        continue
                    if not self.put(record.key, offset):
                        return BuildStep(position - start, Stop.MAP_FULL, 0, offset, records)
            position += header.size


class RecordFilter:
    """Pass 2: what survives. See the kernel's."""

    def __init__(  # noqa: PLR0913
        self,
        offset_map: OffsetMap,
        map_end: int,
        transactions: Transactions,
        now_ms: int,
        delete_retention_ms: int,
        *,
        keep_last_offset: int = NO_OFFSET,
        producers: Iterable[tuple[int, int, int]] = (),
        log_start_offset: int = 0,
        check_crc: bool = True,
        max_decompressed: int = DEFAULT_MAX_BYTES,
    ) -> None:
        if now_ms < 0 or delete_retention_ms < 0:
            raise ValueError("times are not negative")
        self._map = offset_map
        self._map_end = map_end
        self._transactions = transactions
        self._now = now_ms
        self._horizon = min(now_ms + delete_retention_ms, INT64_MAX)
        self._keep_last = keep_last_offset if keep_last_offset >= 0 else INT64_MAX
        self._producers = {producer: (last, epoch) for producer, last, epoch in producers}
        self._log_start = log_start_offset
        self._check_crc = check_crc
        self._max_decompressed = max_decompressed
        self._counts = FilterCounts()

    def counts(self) -> FilterCounts:
        """Since the last `take_counts`."""
        return self._counts

    def take_counts(self) -> FilterCounts:
        """`counts`, which begin anew."""
        counts, self._counts = self._counts, FilterCounts()
        return counts

    def filter(self, buffer: Buffer, start: int, end: int, output: bytearray | memoryview) -> FilterStep:
        """Pass 2 over the whole batches in buffer[start:end]."""
        position = start
        produced = 0
        while True:
            header = _next_header(buffer, position, end, self._check_crc)
            if not isinstance(header, BatchHeader):
                return FilterStep(position - start, produced, *header)
            batch = bytes(memoryview(buffer)[position : position + header.size])
            saved = self._transactions.copy()
            survivor, counts = self._one_batch(batch, header)
            if len(survivor) > len(output) - produced:
                self._transactions.live, self._transactions.kept = saved.live, saved.kept
                return FilterStep(position - start, produced, Stop.OUTPUT, 0 if produced else len(survivor))
            output[produced : produced + len(survivor)] = survivor
            produced += len(survivor)
            position += header.size
            self._count(batch, header, survivor, counts)

    def _one_batch(self, batch: bytes, header: BatchHeader) -> tuple[bytes, dict[str, int]]:
        """What remains of a batch, perhaps nothing, and what is to be counted."""
        count = header.record_count
        beyond = header.base_offset >= self._map_end
        aborted = (
            header.is_transactional
            and not header.is_control
            and self._transactions.is_aborted(header.producer_id, header.base_offset)
        )
        if count == 0:
            if not beyond and not self._must_stay(header):
                return b"", {}
            self._stays_empty(header)
            return batch, {}
        if beyond and not header.is_control:
            if header.is_transactional and not aborted:
                self._transactions.live.add(header.producer_id)
            return batch, {"horizon": 1}
        if aborted and header.base_offset >= self._log_start:
            return self._emptied(header), {"aborted": count}
        # The marker of a batch that stays, though empty, stays with it: the log's start may step back after a crash.
        is_needed = header.is_control and header.producer_id in self._transactions.live
        if header.last_offset < self._log_start and not is_needed:
            if header.is_control:
                self._transactions.live.discard(header.producer_id)
            return self._emptied(header), {"below_start": count}
        if header.is_control:
            return self._marker(batch, header, beyond)
        return self._data(batch, header, aborted)

    def _marker(self, batch: bytes, header: BatchHeader, beyond: bool) -> tuple[bytes, dict[str, int]]:
        records = _records(batch, header._replace(position=0), self._max_decompressed)
        key = records[0].key
        type_ = _MARKER.unpack_from(key)[1] if len(records) == 1 and key is not None and len(key) >= 4 else None
        if type_ not in (ABORT, COMMIT):
            return batch, {"markers_kept": len(records), "horizon": int(beyond)}
        has_records = header.producer_id in self._transactions.live
        self._transactions.live.discard(header.producer_id)
        if not beyond and not has_records and header.has_delete_horizon and header.base_timestamp <= self._now:
            return self._emptied(header), {"markers_expired": 1}
        if type_ == ABORT:
            self._transactions.kept.append((header.producer_id, header.last_offset))
        if beyond or has_records:
            return batch, {"markers_kept": 1, "horizon": int(beyond)}
        if not header.has_delete_horizon:
            batch = self._rebuilt(batch, header, records, header.max_timestamp, stamp=True)
        return batch, {"markers_kept": 1, "horizon": 1}

    def _data(self, batch: bytes, header: BatchHeader, aborted: bool) -> tuple[bytes, dict[str, int]]:
        due = header.has_delete_horizon and header.base_timestamp <= self._now
        counts = {"superseded": 0, "tombstones_expired": 0, "keyless": 0, "below_start": 0, "aborted": 0}
        survivors = []
        for record in _records(batch, header._replace(position=0), self._max_decompressed):
            offset = header.base_offset + record.offset_delta
            if offset < self._log_start:
                counts["below_start"] += 1
            elif aborted:
                counts["aborted"] += 1
            elif offset >= self._map_end:
                survivors.append(record)
            elif record.key is None:
                counts["keyless"] += 1
            elif self._map.get(record.key) > offset:
                counts["superseded"] += 1
            elif record.value is None and due:
                counts["tombstones_expired"] += 1
            else:
                survivors.append(record)
        if not survivors:
            return self._emptied(header), counts
        if header.is_transactional:
            self._transactions.live.add(header.producer_id)
        tombstones = sum(record.key is not None and record.value is None for record in survivors)
        counts["tombstones_kept"] = tombstones
        counts["horizon"] = tombstones
        stamp = tombstones > 0 and not header.has_delete_horizon and header.last_offset < self._map_end
        if len(survivors) == header.record_count and not stamp:
            return batch, counts
        if header.is_append_time:
            max_timestamp = header.max_timestamp
        else:
            times = (to_int64(header.base_timestamp + record.timestamp_delta) for record in survivors)
            max_timestamp = max(NO_TIMESTAMP, *times)
        return self._rebuilt(batch, header, survivors, max_timestamp, stamp=stamp), counts

    def _must_stay(self, header: BatchHeader) -> bool:
        if header.last_offset >= self._keep_last:
            return True
        if header.producer_id not in self._producers:
            return False
        last, epoch = self._producers[header.producer_id]
        return header.last_offset == last if last >= 0 else header.is_control and header.producer_epoch == epoch

    def _emptied(self, header: BatchHeader) -> bytes:
        """A batch of which no record survives: nothing, or a header without records where it must stay."""
        if not self._must_stay(header):
            return b""
        self._stays_empty(header)
        return _batch(
            header._replace(
                attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_MASK),
                base_timestamp=NO_TIMESTAMP,
                record_count=0,
            ),
            b"",
        )

    def _stays_empty(self, header: BatchHeader) -> None:
        """Whoever rebuilds its producer's state must find the marker of its transaction."""
        if header.is_transactional and not header.is_control:
            self._transactions.live.add(header.producer_id)

    def _rebuilt(
        self, batch: bytes, header: BatchHeader, survivors: list[RawRecord], max_timestamp: int, *, stamp: bool
    ) -> bytes:
        """The batch with these records only, with a horizon where `stamp` says. All else of a record stays as it stands."""
        base = self._horizon if stamp else header.base_timestamp
        payload = bytes(payload_of(batch, header._replace(position=0), self._max_decompressed)[0])
        body = bytearray()
        for raw in survivors:
            if not stamp:
                body += payload[raw.start : raw.end]
                continue
            _, attributes_at = read_varint(payload, raw.start, raw.end)
            _, rest_at = read_varlong(payload, attributes_at + 1, raw.end)
            timestamp = to_int64(header.base_timestamp + raw.timestamp_delta)
            record = bytearray(payload[attributes_at : attributes_at + 1])
            append_varint(record, to_int64(timestamp - base))
            record += payload[rest_at : raw.end]
            append_varint(body, len(record))
            body += record
        codec = Compression(header.compression)
        header = header._replace(
            attributes=header.attributes | (DELETE_HORIZON_MASK if stamp else 0),
            base_timestamp=base,
            max_timestamp=max_timestamp,
            record_count=len(survivors),
        )
        return _batch(header, bytes(body) if codec is Compression.NONE else compress(codec, body))

    def _count(self, batch: bytes, header: BatchHeader, survivor: bytes, counts: dict[str, int]) -> None:
        horizon_counts = counts.pop("horizon", 0)
        before = self._counts
        totals = {name: getattr(before, name) + value for name, value in counts.items()}
        now = before._replace(
            records_read=before.records_read + header.record_count,
            bytes_read=before.bytes_read + header.size,
            batches_read=before.batches_read + 1,
            **totals,
        )
        if survivor:
            left = read_batch_header(survivor)
            now = now._replace(
                records_kept=now.records_kept + left.record_count,
                bytes_kept=now.bytes_kept + left.size,
                batches_kept=now.batches_kept + 1,
                batches_copied=now.batches_copied + (survivor == batch),
                last_offset=left.last_offset,
            )
            if left.max_timestamp > now.max_timestamp:
                now = now._replace(max_timestamp=left.max_timestamp, offset_of_max_timestamp=left.last_offset)
            if horizon_counts and left.has_delete_horizon:
                known, horizon = now.earliest_horizon, max(0, left.base_timestamp)
                now = now._replace(earliest_horizon=horizon if known == NO_HORIZON else min(known, horizon))
        self._counts = now


def _batch(header: BatchHeader, body: bytes) -> bytes:
    """The whole batch with these fields and this body."""
    fields = header._replace(crc=0)[2:]
    batch = bytearray(HEADER.pack(fields[0], RECORD_BATCH_OVERHEAD + len(body) - LOG_OVERHEAD, *fields[1:]))
    batch += body
    seal(batch)
    return bytes(batch)
