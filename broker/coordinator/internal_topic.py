"""Logs of a coordinator: the partitions of the internal topic that keeps its state.

`CoordinatorLog` is what a coordinator needs of it; `PartitionCoordinatorLog` is the real one, on the broker's own
partitions and logs. Appends happen on the loop thread, to a slow directory too: what a coordinator has written it acts on at
once, and a write that fails is refused before anything has changed. Replay happens in a pool thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.records._kernel import crc32c
from ...protocol.records.attributes import COMPRESSION_MASK, CONTROL_MASK, TRANSACTIONAL_MASK
from ...protocol.records.builder import build_batch
from ...protocol.records.exceptions import CorruptRecordError, InvalidRecordError, RecordError
from ...protocol.records.legacy_record import LEGACY_HEADER_SIZE, read_legacy_header
from ...protocol.records.memory_records import is_intact, iterate_records
from ...protocol.records.record_batch import (
    ATTRIBUTES_AT,
    HEADER,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    RECORD_BATCH_OVERHEAD,
    Record,
    payload_of,
    read_batch_header,
)
from ...storage.values import AppendOrigin

if TYPE_CHECKING:
    import asyncio

    from ...storage.log.unified_log import UnifiedLog
    from ..metadata.topics import TopicRegistry
    from ..partitions.partition import Partition, PartitionTable

log = logging.getLogger(__name__)

#: Bytes of a log that a load reads at a time.
READ_BYTES = 1 << 20


class CoordinatorRecord(NamedTuple):
    """Key and value of a record that a coordinator writes. A null value is a tombstone."""

    key: bytes
    value: bytes | None


class ReplayBatch(NamedTuple):
    """One batch as it is read back. Records are (offset, key, value)."""

    base_offset: int
    producer_id: int
    is_transactional: bool
    is_control: bool
    records: Sequence[tuple[int, bytes | None, bytes | None]]


def with_pauses(batches: Iterable[ReplayBatch], records: int) -> Iterator[ReplayBatch]:
    """Yield the batches of a load; after about each `records` records, let the loop thread have the interpreter. Pool thread."""
    since_pause = 0
    for batch in batches:
        yield batch
        since_pause += len(batch.records)
        if since_pause >= records:
            since_pause = 0
            time.sleep(0)


class CoordinatorLog(Protocol):
    """State of a coordinator, in partitions."""

    @property
    def partition_count(self) -> int:
        """Partitions of the topic; 0 while there is none. Loop thread."""

    def append(
        self,
        partition: int,
        records: Sequence[CoordinatorRecord],
        now_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> tuple[int, asyncio.Future[None] | None]:
        """Appends the records as one batch; with a producer, inside its transaction: they count when its marker commits them.
        Loop thread.

        Returns the offset of the first record, and None where the records are written as durably as the topic asks for, else a
        future of that, which fails with `KafkaStorageError`. Raises what an append raises, and nothing was written then.
        """

    def sync_again(self, partition: int) -> asyncio.Future[None] | None:
        """The durability of all that was appended, as `append` returns it, after a sync that failed: it is tried once more.
        Raises what an append raises. Loop thread."""

    def epoch(self, partition: int) -> int:
        """The epoch of the partition's log, which rises with each start: markers carry it. Loop thread."""

    def end_offset(self, partition: int) -> int:
        """Offset of the next record. Loop thread."""

    def durable_offset(self, partition: int) -> int:
        """All records below are on disk, whatever the topic is asked to be. Loop thread."""

    def begin_sync(self, partition: int) -> None:
        """Have `durable_offset` move to the present end, by and by. Loop thread."""

    def delete_before(self, partition: int, offset: int) -> None:
        """Allow the records below `offset` to be deleted: the start of the log outlives a power cut. Loop thread."""

    def is_empty(self, partition: int) -> bool:
        """True if there is nothing to replay. Loop thread."""

    def replay(self, partition: int) -> Iterator[ReplayBatch]:
        """All batches, oldest first. Pool thread; nobody appends meanwhile."""

    def ensure_topic(self) -> Awaitable[None]:
        """Makes the topic if there is none. Loop thread."""


class PartitionCoordinatorLog:
    """The partitions of `topic` in this broker."""

    __slots__ = ("_partitions", "_topic", "_topics")

    def __init__(self, topic: str, partitions: PartitionTable, topics: TopicRegistry) -> None:
        self._topic = topic
        self._partitions = partitions
        self._topics = topics

    @property
    def partition_count(self) -> int:
        topic = self._topics.get(self._topic)
        return 0 if topic is None else topic.partition_count

    def append(
        self,
        partition: int,
        records: Sequence[CoordinatorRecord],
        now_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> tuple[int, asyncio.Future[None] | None]:
        batch = coordinator_batch(records, now_ms, producer_id, producer_epoch)
        found = self._found(partition)
        info = found.log.append_as_leader(batch, 0, len(batch), origin=AppendOrigin.COORDINATOR)
        found.appended()
        return info.first_offset, found.durable(info.last_offset + 1)

    def sync_again(self, partition: int) -> asyncio.Future[None] | None:
        found = self._found(partition)
        return found.durable(found.log.log_end_offset)

    def _found(self, partition: int) -> Partition:
        found = self._partitions.get(self._topic, partition)
        if found is None:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {self._topic}-{partition}")
        return found

    def epoch(self, partition: int) -> int:
        """The epoch of the partition's log, which rises with each start; 0 without one."""
        log = self._topics.log(self._topic, partition)
        return 0 if log is None else log.leader_epoch

    def end_offset(self, partition: int) -> int:
        """Offset of the next record; 0 without a log."""
        log = self._topics.log(self._topic, partition)
        return 0 if log is None else log.log_end_offset

    def durable_offset(self, partition: int) -> int:
        """The log's recovery point; 0 without a log."""
        log = self._topics.log(self._topic, partition)
        return 0 if log is None else min(log.recovery_point, log.high_watermark)

    def begin_sync(self, partition: int) -> None:
        found = self._partitions.get(self._topic, partition)
        if found is not None:
            found.sync()

    def delete_before(self, partition: int, offset: int) -> None:
        """Move the log's start to `offset`. Retention deletes the segments. Raises as the log's `increment_log_start_offset`."""
        log = self._topics.log(self._topic, partition)
        if log is not None:
            log.increment_log_start_offset(offset)

    def is_empty(self, partition: int) -> bool:
        log = self._topics.log(self._topic, partition)
        return log is None or log.log_start_offset == log.log_end_offset

    def replay(self, partition: int) -> Iterator[ReplayBatch]:
        log = self._topics.log(self._topic, partition)
        return iter(()) if log is None else replay_log(log)

    async def ensure_topic(self) -> None:
        await self._topics.ensure(self._topic)


def replay_log(log: UnifiedLog) -> Iterator[ReplayBatch]:
    """All batches of a log, oldest first, read in chunks. Pool thread."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, READ_BYTES)
        if data.file is None:
            return
        try:
            buffer = data.file.pread(data.size, data.position)
        finally:
            data.release()
        reader = BatchReader(log.name, buffer)
        yield from reader
        if reader.next_offset <= offset:
            raise CorruptRecordError(f"{log.name}: no whole batch at offset {offset}")
        offset = reader.next_offset


def coordinator_batch(
    records: Sequence[CoordinatorRecord], now_ms: int, producer_id: int = -1, producer_epoch: int = -1
) -> bytearray:
    """Encode `records` as one batch, ready to be appended; with a producer, as part of its transaction.

    The base sequence is 0, always: so Kafka 4's coordinators write, and nobody reads it.
    """
    return bytearray(
        build_batch(
            [Record(0, now_ms, key, value) for key, value in records],
            base_sequence=0,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_transactional=producer_id >= 0,
        )
    )


class BatchReader:
    """Iterates over the whole batches in `buffer`, by the shortest way through them (the ruler is in `record_batch`).

    Damaged batches are passed over with a log line: one lost commit, which sends its consumer back to the one before, is
    better than a group that nobody can use. A size that cannot be ends the walk: CorruptRecordError.
    """

    __slots__ = ("_buffer", "_name", "next_offset")

    def __init__(self, name: str, buffer: bytes) -> None:
        self._name = name
        self._buffer = buffer
        #: Behind the last whole batch that was met; -1 before the first.
        self.next_offset = -1

    def __iter__(self) -> Iterator[ReplayBatch]:
        buffer = self._buffer
        view = memoryview(buffer)
        size = len(buffer)
        position = 0
        unpack = HEADER.unpack_from
        while size - position >= LEGACY_HEADER_SIZE:
            if buffer[position + MAGIC_AT] < MAGIC_V2:
                end = yield from self._message(position)
                if end > size:
                    return
                position = end
                continue
            if size - position < RECORD_BATCH_OVERHEAD:
                return
            base_offset, length, _, magic, crc, attributes, last_delta, _, _, producer_id, _, _, count = unpack(
                buffer, position
            )
            end = position + LOG_OVERHEAD + length
            if magic != MAGIC_V2 or length < RECORD_BATCH_OVERHEAD - LOG_OVERHEAD:
                raise CorruptRecordError(
                    f"no batch of format 2 begins at byte {position}: {length} bytes, magic {magic}"
                )
            if end > size:
                return
            try:
                if crc32c(view[position + ATTRIBUTES_AT : end]) != crc:
                    raise CorruptRecordError("the checksum does not match")
                if attributes & COMPRESSION_MASK:
                    payload, start, limit = payload_of(buffer, read_batch_header(buffer, position))
                    data = payload if isinstance(payload, bytes) else bytes(payload)
                else:
                    data, start, limit = buffer, position + RECORD_BATCH_OVERHEAD, end
                records = _records(data, start, limit, base_offset, count)
            except (RecordError, IndexError) as error:
                log.error(
                    "%s: the batch at offset %d cannot be read and is passed over: %s", self._name, base_offset, error
                )
            else:
                yield ReplayBatch(
                    base_offset,
                    producer_id,
                    bool(attributes & TRANSACTIONAL_MASK),
                    bool(attributes & CONTROL_MASK),
                    records,
                )
            self.next_offset = base_offset + last_delta + 1
            position = end

    def _message(self, position: int) -> Generator[ReplayBatch, None, int]:
        """The message or wrapper of format 0 or 1 there, as Kafka before 0.11 left it; returns where it ends."""
        buffer = self._buffer
        header = read_legacy_header(buffer, position)
        end = position + header.size
        if end > len(buffer):
            return end
        try:
            if not is_intact(buffer, header):
                raise CorruptRecordError("the checksum does not match")
            records = [(record.offset, record.key, record.value) for record in iterate_records(buffer, position, end)]
        except RecordError as error:
            log.error(
                "%s: the message at offset %d cannot be read and is passed over: %s",
                self._name,
                header.last_offset,
                error,
            )
        else:
            yield ReplayBatch(records[0][0], header.producer_id, False, False, records)
        self.next_offset = header.last_offset + 1
        return end


def _records(
    data: bytes, position: int, limit: int, base_offset: int, count: int
) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of the records in data[position:limit]."""
    records: list[tuple[int, bytes | None, bytes | None]] = []
    if count == 0:  # compaction leaves an empty batch if its header must stay
        return records
    for _ in range(count):
        size = data[position]
        position += 1
        if size >= 0x80:
            size, position = _varint(data, size, position)
        end = position + (size >> 1)
        position += 1  # attributes
        while data[position] >= 0x80:  # the timestamp is not asked for
            position += 1
        position += 1
        delta = data[position]
        position += 1
        if delta >= 0x80:
            delta, position = _varint(data, delta, position)
        size = data[position]
        position += 1
        if size >= 0x80:
            size, position = _varint(data, size, position)
        key = value = None
        if size != 1:
            key = data[position : position + (size >> 1)]
            position += size >> 1
        size = data[position]
        position += 1
        if size >= 0x80:
            size, position = _varint(data, size, position)
        if size != 1:
            value = data[position : position + (size >> 1)]
            position += size >> 1
        if position >= end or end > limit:  # at least the header count comes behind the value
            raise InvalidRecordError(f"record {len(records)} is longer than it says", len(records))
        position = end
        records.append((base_offset + (delta >> 1), key, value))
    if position != limit:
        raise InvalidRecordError("bytes are left over behind the records", len(records))
    return records


def _varint(data: bytes, first: int, position: int) -> tuple[int, int]:
    """Read the remaining bytes of a varint. The result is still zigzag-coded: its last bit is the sign."""
    value = first & 0x7F
    for shift in range(7, 35, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise InvalidRecordError("a varint of more than five bytes", -1)
