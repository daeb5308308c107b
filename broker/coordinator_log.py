"""Where a coordinator keeps its state: the partitions of an internal topic.

`CoordinatorLog` is what a coordinator needs of it; `PartitionCoordinatorLog` is the real one, on the broker's own
partitions and logs. Appends happen on the loop thread, as all appends do; replay in a pool thread.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..protocol.errors import ErrorCode, ProtocolError
from ..protocol.records.builder import build_batch
from ..protocol.records.crc import crc32c
from ..protocol.records.exceptions import CorruptRecordError, InvalidRecordError, RecordError
from ..protocol.records.record_batch import ATTRIBUTES_AT, BatchHeader, Record, iterate_batches, payload_of
from ..storage.log_values import AppendOrigin

if TYPE_CHECKING:
    import asyncio

    from ..storage.unified_log import UnifiedLog
    from .partition import PartitionTable
    from .topics import TopicRegistry

log = logging.getLogger(__name__)

#: How much of a log a load reads at a time.
READ_BYTES = 1 << 20


class CoordinatorRecord(NamedTuple):
    """What a coordinator writes. A null value is a tombstone."""

    key: bytes
    value: bytes | None


class ReplayBatch(NamedTuple):
    """One batch as it is read back. Records are (offset, key, value)."""

    base_offset: int
    producer_id: int
    is_transactional: bool
    is_control: bool
    records: Sequence[tuple[int, bytes | None, bytes | None]]


class CoordinatorLog(Protocol):
    """State of a coordinator, in partitions."""

    @property
    def partition_count(self) -> int:
        """Partitions of the topic; 0 while there is none. Loop thread."""

    def append(self, partition: int, records: Sequence[CoordinatorRecord], now_ms: int) -> asyncio.Future[None] | None:
        """Appends the records as one batch. Loop thread.

        None: they are written as durably as the topic asks for. Else a future of that, which fails with
        `KafkaStorageError`. Raises what an append raises, and nothing was written then.
        """

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

    def append(self, partition: int, records: Sequence[CoordinatorRecord], now_ms: int) -> asyncio.Future[None] | None:
        found = self._partitions.get(self._topic, partition)
        if found is None:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {self._topic}-{partition}")
        batch = coordinator_batch(records, now_ms)
        info = found.log.append_as_leader(batch, 0, len(batch), origin=AppendOrigin.COORDINATOR)
        found.appended()
        return found.durable(info.last_offset + 1)

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
        last_offset = offset - 1
        for header in iterate_batches(buffer):
            last_offset = header.last_offset
        if last_offset < offset:
            raise CorruptRecordError(f"{log.name}: no whole batch at offset {offset}")
        yield from read_batches(log.name, buffer)
        offset = last_offset + 1


def coordinator_batch(records: Sequence[CoordinatorRecord], now_ms: int) -> bytearray:
    """One batch of `records`, ready to be appended.

    The base sequence is 0, without a producer: so Kafka 4's coordinators write, and nobody reads it.
    """
    return bytearray(build_batch([Record(0, now_ms, key, value) for key, value in records], base_sequence=0))


def read_batches(name: str, buffer: bytes) -> Iterator[ReplayBatch]:
    """The whole batches in `buffer`. What is damaged is passed over with a log line: one lost commit, which sends its
    consumer back to the one before, is better than a group that nobody can use."""
    for header in iterate_batches(buffer):
        try:
            view = memoryview(buffer)[header.position + ATTRIBUTES_AT : header.position + header.size]
            if crc32c(view) != header.crc:
                raise CorruptRecordError("the checksum does not match")
            records = _records(buffer, header) if header.record_count else ()
        except (RecordError, IndexError) as error:
            log.error(
                "%s: the batch at offset %d cannot be read and is passed over: %s", name, header.base_offset, error
            )
            continue
        yield ReplayBatch(header.base_offset, header.producer_id, header.is_transactional, header.is_control, records)


def _records(buffer: bytes, header: BatchHeader) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of each record, by the shortest way through them (see the ruler in `record_batch`)."""
    payload, position, limit = payload_of(buffer, header)
    data = payload if isinstance(payload, bytes) else bytes(payload)
    base_offset = header.base_offset
    records: list[tuple[int, bytes | None, bytes | None]] = []
    for _ in range(header.record_count):
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
    """The rest of a varint, still zigzag-coded: its last bit is the sign."""
    value = first & 0x7F
    for shift in range(7, 35, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise InvalidRecordError("a varint of more than five bytes", -1)
