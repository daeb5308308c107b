"""Reads a split over TCP: large fetches from the partition's leader, the next one on its way while one is decoded.

A broker sends the bytes of its files, so the decoder is the same. A leader that has moved is looked for, a
connection that broke is made anew, and reading goes on where it was: no record twice, none left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple
from uuid import UUID

from ...clients.kafka.connection import Connection
from ...clients.kafka.protocol import Ticket
from ...protocol.messages.fetch import FetchResponse, PartitionData
from ...protocol.primitives import INT32
from ...protocol.records.exceptions import RecordError
from ...protocol.records.memory_records import read_header
from ...protocol.records.record_batch import (
    HEADER_UP_TO_MAGIC,
    LAST_OFFSET_DELTA_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    MIN_MESSAGE_SIZE,
    OVERHEAD,
    RECORD_BATCH_OVERHEAD,
)
from ...storage.log.partition_metadata import encode_uuid
from ..exceptions import BrokerError, BrokerUnreachableError, CorruptLogError, DataLossError
from ..planning.brokers import Brokers
from ..planning.places import TopicPartition
from ..planning.splits import FetchSplit
from ..wire.client import KafkaClient
from ..wire.partitions import Fetch, TopicNow, fetched, leader_in, send_fetch, topic_now
from ..wire.pool import pool
from ..wire.settings import ClientSettings
from .batch_decoder import AbortedAsFetched, BatchDecoder
from .columns import EVERYTHING, Columns, Wish
from .segment_reader import gone_in_mid_read, made_anew

logger = logging.getLogger(__name__)

#: Room in the buffer for what a fetch's answer has beside records.
_ANSWER_OVERHEAD = 4096
#: A fetch for what is left of a split is made no smaller: offsets tell little of bytes.
_SMALLEST_FETCH = 1 << 20
#: Answers without a record, though there should be some, after which a gap reaches to the split's end.
_EMPTY_ANSWERS = 2
#: … and after which a log is taken to be too short: a leader that is new may not know the end yet.
_SHORT_ANSWERS = 20


def read_fetched(
    split: FetchSplit, settings: ClientSettings, wish: Wish = EVERYTHING, *, read_committed: bool = False,
    check_crc: bool = True, fail_on_data_loss: bool = True, skip_corrupt: bool = False,
    connect: Callable[[ClientSettings], AbstractContextManager[KafkaClient]] | None = None,
) -> Iterator[Columns]:  # fmt: skip
    """The split's records in order. Blocks. DataLossError, CorruptLogError, and the client's errors.

    One fetch is on its way while the records of the one before it are taken, and no other before they are: whoever reads
    slowly has two answers in memory. Connections are those of the thread's pool, and go back to it, unless `connect` is given.
    """
    aborted = AbortedAsFetched() if read_committed else None
    decoder = BatchDecoder(
        split.first_offset, split.end_offset, wish, aborted=aborted, check_crc=check_crc, skip_corrupt=skip_corrupt
    )
    with (connect or pool().client)(settings) as client:
        fetcher = _Fetcher(client, split, read_committed=read_committed)
        empty = 0
        while not decoder.is_done:
            data = fetcher.take(decoder.next_offset)
            if made_anew(split, fetcher.topic_id, fail_on_data_loss=fail_on_data_loss):
                break
            if data is None:  # out of range
                decoder.next_offset = _start_after_loss(client, split, decoder.next_offset, fail_on_data_loss)
                decoder.is_done = decoder.next_offset >= split.end_offset
                continue
            records = memoryview(data.records or b"")
            if aborted is not None:
                aborted.start(
                    (transaction.producer_id, transaction.first_offset)
                    for transaction in data.aborted_transactions or ()
                )
            whole = whole_batches(records)
            if whole.next_offset <= decoder.next_offset and not whole.is_broken:
                empty += 1
                limit = data.last_stable_offset if read_committed else data.high_watermark
                if limit >= split.end_offset and empty >= _EMPTY_ANSWERS:
                    break  # a compacted partition may have no record up to its end
                if empty >= _SHORT_ANSWERS:
                    _too_short(split, decoder.next_offset, limit, fail_on_data_loss)
                    break
                continue
            empty = 0
            if decoder.next_offset < whole.next_offset < split.end_offset:
                fetcher.ask(whole.next_offset, whole.end)
            position = 0
            while position < whole.end and not decoder.is_done:
                try:
                    position = decoder.feed(records, position, whole.end)
                except RecordError as error:
                    raise CorruptLogError(_damage(split, settings, decoder.next_offset, error, skip_corrupt)) from error
                if decoder.is_full and (columns := decoder.take()) is not None:
                    yield columns
            decoder.next_offset = max(decoder.next_offset, min(whole.next_offset, split.end_offset))
            decoder.is_done = decoder.next_offset >= split.end_offset
            records.release()
        fetcher.close()
        # Fetches name a topic by its name alone: as long as it is that one in the end, it was all the time.
        made_anew(split, fetcher.topic_id_now(), fail_on_data_loss=fail_on_data_loss)
    if (last := decoder.take()) is not None:
        yield last
    if decoder.skipped:
        logger.warning(
            "%s-%d: left out %d damaged batches between offsets %d and %d",
            split.topic, split.partition, decoder.skipped, split.first_offset, split.end_offset,
        )  # fmt: skip


class _Whole(NamedTuple):
    """Whole batches at the beginning of an answer: where they end, the offset behind them, and whether what follows is none."""

    end: int
    next_offset: int
    is_broken: bool = False


def whole_batches(records: memoryview) -> _Whole:
    position, next_offset = 0, 0
    while len(records) - position >= HEADER_UP_TO_MAGIC:
        base_offset, length = OVERHEAD.unpack_from(records, position)
        following = position + LOG_OVERHEAD + length
        if length < MIN_MESSAGE_SIZE:
            return _Whole(len(records), next_offset, is_broken=True)  # the decoder says what it is
        if following > len(records):
            break
        if records[position + MAGIC_AT] >= MAGIC_V2 and following - position >= RECORD_BATCH_OVERHEAD:
            last_offset = base_offset + INT32.unpack_from(records, position + LAST_OFFSET_DELTA_AT)[0]
        else:
            try:
                last_offset = read_header(records, position, following).last_offset
            except RecordError:
                return _Whole(len(records), next_offset, is_broken=True)
        next_offset = max(next_offset, last_offset + 1)
        position = following
    return _Whole(position, next_offset)


def _damage(split: FetchSplit, settings: ClientSettings, offset: int, cause: Exception, skip_corrupt: bool) -> str:
    servers = ",".join(f"{host}:{port}" for host, port in settings.bootstrap)
    hint = (
        "where the next one begins is not known; reading its files by `path` can go on behind it"
        if skip_corrupt
        else "set corruptBatches to skip to leave out what is damaged"
    )
    return (
        f"{split.topic}-{split.partition} of {servers}: a batch behind offset {offset - 1} is damaged: {cause}; {hint}"
    )


def _start_after_loss(client: KafkaClient, split: FetchSplit, offset: int, fail_on_data_loss: bool) -> int:
    """Offset at which to go on after records were lost. DataLossError."""
    where = TopicPartition(split.topic, split.partition)
    start, end = Brokers(client).bounds([where], read_committed=False)[where]
    if offset < start:
        if fail_on_data_loss:
            raise DataLossError(gone_in_mid_read(split, offset, start))
        return start
    if offset > end:
        _too_short(split, offset, end, fail_on_data_loss)
        return split.end_offset
    return offset  # in range by now


def _too_short(split: FetchSplit, offset: int, end: int, fail_on_data_loss: bool) -> None:
    if fail_on_data_loss:
        raise DataLossError(
            f"{split.topic}-{split.partition}: offsets {max(offset, end)} to {split.end_offset - 1} are gone: the log ends at "
            f"{end} by now, so it was truncated, or the topic was deleted and made anew, while they were to be read; set "
            "failOnDataLoss to false to go on without them"
        )


class _Fetcher:
    """Fetches one request ahead.

    Attributes:
        topic_id: of the topic when its leader was last looked up; empty if the broker tells none.
    """

    def __init__(self, client: KafkaClient, split: FetchSplit, *, read_committed: bool) -> None:
        self._client = client
        self._split = split
        self._read_committed = read_committed
        self._ahead: tuple[int, Connection, Ticket[FetchResponse]] | None = None
        self._node: int | None = None
        self._buffer = bytearray(0)
        self._bytes = 0
        self.topic_id = ""

    def ask(self, offset: int, size: int) -> None:
        """Sends a fetch; a failure shows when its answer is taken. `size`: bytes of the answer before."""
        self._bytes += size
        try:
            self._send(offset)
        except (BrokerError, BrokerUnreachableError):
            self._forget()

    def take(self, offset: int) -> PartitionData | None:
        """The answer to a fetch from `offset`; None: OFFSET_OUT_OF_RANGE. Its records are good until the next call."""
        return self._client.retry(lambda: self._take(offset))

    def _take(self, offset: int) -> PartitionData | None:
        try:
            if self._ahead is None or self._ahead[0] != offset:
                self._forget()
                self._send(offset)
            assert self._ahead is not None
            _, connection, ticket = self._ahead
            self._ahead = None
            most = self._client.settings.fetch_max_bytes + _ANSWER_OVERHEAD
            if len(self._buffer) < most:
                self._buffer = bytearray(most)
            return fetched(connection.receive(ticket, self._buffer), self._split.topic, self._split.partition)
        except (BrokerError, BrokerUnreachableError):
            self._forget()
            self._node = None
            raise

    def _send(self, offset: int) -> None:
        connection = self._leader()
        settings, split = self._client.settings, self._split
        wanted = Fetch(
            split.topic, split.partition, offset, self._size(offset), settings.fetch_wait_ms, settings.fetch_min_bytes,
            self._read_committed,
        )  # fmt: skip
        self._ahead = (offset, connection, send_fetch(connection, wanted))

    def _size(self, offset: int) -> int:
        """Size of the fetch at `offset`: records behind the split's end belong to the next one."""
        most, done = self._client.settings.fetch_max_bytes, offset - self._split.first_offset
        if done <= 0:
            return most
        left = self._bytes * (self._split.end_offset - offset) // done
        return min(most, max(left + left // 4, _SMALLEST_FETCH))

    def topic_id_now(self) -> str:
        """Look the topic's id up. Empty without asking when nobody knows which one it should be."""
        if self._split.topic_id:
            self._client.retry(self._metadata)
        return self.topic_id

    def _metadata(self) -> TopicNow:
        now = topic_now(self._client, self._split.topic)
        self.topic_id = encode_uuid(UUID(bytes=now.topic_id)) if any(now.topic_id) else ""
        return now

    def _leader(self) -> Connection:
        if self._node is None:
            self._node = leader_in(self._metadata(), self._split.topic, self._split.partition)
        return self._client.connection(self._node)

    def close(self) -> None:
        """Closes the connection if an answer is still on its way; the client may go on without it."""
        self._forget()

    def _forget(self) -> None:
        """An answer that nobody takes would be taken for the next one's."""
        if self._ahead is not None:
            self._ahead[1].close()
            self._ahead = None
