"""Records of one topic's partitions by our own client: fetched from each leader, the next fetch on its way while one is printed.

Control batches and, where only committed records are wanted, those of aborted transactions are left out; checksums are looked
at. A leader that has moved is looked for, a connection that broke is made anew, and reading goes on where it was. Memory: one
answer (16 MiB, or the one batch that is larger) for each broker, and the records of one batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...pipeline.exceptions import BrokerError, BrokerUnreachableError
from ...pipeline.planning.brokers import Brokers
from ...pipeline.planning.places import TopicPartition
from ...pipeline.reading.batch_decoder import AbortedAsFetched
from ...pipeline.reading.fetch_reader import whole_batches
from ...pipeline.wire.client import leaders
from ...pipeline.wire.errors import check
from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ...protocol.records.exceptions import CorruptRecordError, RecordError
from ...protocol.records.memory_records import is_intact, iterate_records, read_header
from ...protocol.records.record_batch import MAGIC_V2
from .kafka_client import KafkaFailure

if TYPE_CHECKING:
    from ...clients.kafka.connection import Connection
    from ...clients.kafka.protocol import Ticket
    from ...pipeline.wire.client import KafkaClient
    from ...protocol.records.record_batch import Record

#: Room in a buffer for what an answer has beside records.
_ANSWER_OVERHEAD = 4096
#: Versions from 13 on name topics by id, those below 4 know no transactions.
_FETCH_VERSIONS = (4, 12)
_WAIT_MS = 500
#: Answers without a record of any partition, though the log reaches further, after which a gap of compaction reaches to the end.
_EMPTY_ANSWERS = 2
_GIVE_UP_S = 60.0
#: How often is looked whether a partition that has no leader has one again.
_LOOK_S = 2.0


class Chunk(NamedTuple):
    """Records of one batch of a partition."""

    partition: int
    records: list[Record]


def iterate_batch_records(
    buffer: memoryview, end: int, first: int, aborted: AbortedAsFetched | None = None
) -> Iterator[list[Record]]:
    """The records from offset `first` on of each whole batch of buffer[:end]. RecordError: one is damaged.

    `aborted`: None to give all that was written; control batches are never given.
    """
    position = 0
    while position < end:
        header = read_header(buffer, position, end)
        if header.is_control:
            if aborted is not None:
                aborted.end(header.producer_id, header.base_offset)
        elif header.last_offset >= first and not (
            header.is_transactional and aborted is not None and aborted.has(header.producer_id, header.base_offset)
        ):
            if not is_intact(buffer, header):
                raise CorruptRecordError(f"the checksum of the batch at offset {header.base_offset} is wrong")
            records = list(iterate_records(buffer, position, position + header.size))
            # The header of a wrapper of formats 0 and 1 has its last offset alone.
            is_wanted = header.magic >= MAGIC_V2 and header.base_offset >= first
            yield records if is_wanted else [each for each in records if each.offset >= first]
        position += header.size


class _Flight(NamedTuple):
    connection: Connection
    ticket: Ticket[FetchResponse]


class OwnConsumer:
    """Reads from `positions` (partition → offset) on; one thread.

    `ends`: where reading ends, by partition; None: never. `tell` is called with what users should know, `on_wait` with what is
    waited for.
    """

    def __init__(
        self, client: KafkaClient, topic: str, positions: Mapping[int, int], *, committed: bool = False,
        ends: Mapping[int, int] | None = None, tell: Callable[[str], None] = lambda _text: None,
        on_wait: Callable[[str], None] = lambda _why: None, clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._client = client
        self._topic = topic
        self._first = dict(positions)
        self._positions = dict(positions)
        self._ends = None if ends is None else dict(ends)
        self._aborted = {partition: AbortedAsFetched() for partition in positions} if committed else {}
        self._committed = committed
        self._tell = tell
        self._on_wait = on_wait
        self._clock = clock
        self._sleep = sleep
        self._leaders: dict[int, list[int]] = {}
        #: When leaders are looked for that some partitions do not have.
        self._look_at = float("inf")
        self._flights: dict[int, _Flight] = {}
        self._buffers: dict[int, bytearray] = {}
        self._empty: dict[int, int] = dict.fromkeys(positions, 0)
        self._ended: dict[int, int] = {}
        self._failure: Exception | None = None

    def read(self) -> Iterator[Chunk | None]:
        """Chunks as they come; None whenever there is nothing to print. Ends where `ends` are reached. KafkaFailure."""
        self._drop_ended()
        failed_since: float | None = None
        pause = self._client.settings.backoff_ms / 1000
        while self._positions:
            try:
                for node in self._look_up():
                    for data, size in self._answer(node):
                        yield from self._chunks(data, size)
                    if (failure := self._failure) is not None:
                        self._failure = None
                        raise failure
                failed_since, pause = None, self._client.settings.backoff_ms / 1000
                if self._positions:
                    yield None
            except (BrokerError, BrokerUnreachableError) as error:
                self._forget()
                now = self._clock()
                failed_since = now if failed_since is None else failed_since
                passes = not isinstance(error, BrokerError) or error.retriable
                if not passes or (self._ends is not None and now - failed_since > _GIVE_UP_S):
                    raise KafkaFailure(str(error)) from None
                self._on_wait(str(error))
                yield None
                self._sleep(pause)
                pause = min(2 * pause, self._client.settings.max_backoff_ms / 1000)

    @property
    def positions(self) -> dict[int, int]:
        """What is next of each partition, its end where that was reached. All before was given when `read` gives None or ends."""
        return self._ended | self._positions

    def close(self) -> None:
        """Answers that are on their way are given up; nothing is read any more."""
        self._forget()

    # -- fetches

    def _look_up(self) -> list[int]:
        """Brokers that lead what is left, each with a fetch on its way."""
        if not any(self._leaders.values()) or self._clock() >= self._look_at:
            self._find_leaders()
        for node, partitions in self._leaders.items():
            if partitions and node not in self._flights:
                self._send(node)
        return list(self._flights)

    def _find_leaders(self) -> None:
        """Find those of partitions that have none yet. BrokerError where nothing is led of what is left."""
        answer = self._client.metadata([self._topic])
        for topic in answer.topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise KafkaFailure(f"topic {self._topic} is gone")
            check(topic.error_code, f"topic {self._topic}")
        found = leaders(answer)
        led = {partition for partitions in self._leaders.values() for partition in partitions}
        leaderless = []
        for partition in sorted(self._positions.keys() - led):
            leader = found.get((self._topic, partition))
            if leader is None or leader.node_id < 0:
                leaderless.append(partition)
            else:
                self._leaders.setdefault(leader.node_id, []).append(partition)
        self._look_at = float("inf")
        if leaderless:
            if not any(self._leaders.values()):
                check(ErrorCode.LEADER_NOT_AVAILABLE, f"{self._topic}-{min(leaderless)}")
            self._on_wait(f"{self._topic}-{min(leaderless)} has no leader")
            self._look_at = self._clock() + _LOOK_S

    def _send(self, node: int) -> None:
        """Ask a broker for all of its partitions. The first one is the last one of the next time, so that none is starved."""
        partitions = self._leaders[node]
        partitions.append(partitions.pop(0))
        most = self._client.settings.fetch_max_bytes
        request = FetchRequest(
            max_wait_ms=_WAIT_MS if len(self._leaders) == 1 else _WAIT_MS // 5,
            min_bytes=1,
            max_bytes=most,
            isolation_level=int(self._committed),
            topics=[
                FetchTopic(
                    topic=self._topic,
                    partitions=[
                        FetchPartition(
                            partition=partition, fetch_offset=self._positions[partition], partition_max_bytes=most
                        )
                        for partition in partitions
                    ],
                )
            ],
        )
        low, high = _FETCH_VERSIONS
        connection = self._client.connection(node)
        ticket = connection.send(request, FetchResponse, up_to=high, at_least=low)
        self._flights[node] = _Flight(connection, ticket)

    def _answer(self, node: int) -> list[tuple[PartitionData, _Batches]]:
        """What a broker answers; positions are behind it then, and the next fetch is on its way.

        What fails from then on is raised once these records were given: nobody asks for them again.
        """
        flight = self._flights.pop(node)
        buffer = self._buffers.setdefault(node, bytearray(self._client.settings.fetch_max_bytes + _ANSWER_OVERHEAD))
        answer = flight.connection.receive(flight.ticket, buffer)
        check(answer.error_code, f"fetching {self._topic}")
        found = []
        # One that has records may have had no room for those of other partitions: it says nothing of these.
        has_records = any(data.records for topic in answer.responses for data in topic.partitions)
        for topic in answer.responses:
            for data in topic.partitions:
                try:
                    batches = self._advance(data, has_records=has_records)
                except (BrokerError, BrokerUnreachableError, KafkaFailure) as error:
                    self._failure = error
                else:
                    found += [(data, batches)] if batches is not None else []
        self._drop_ended()
        if self._leaders.get(node) and self._failure is None:
            try:
                self._send(node)
            except (BrokerError, BrokerUnreachableError) as error:
                self._failure = error
        return found

    def _advance(self, data: PartitionData, *, has_records: bool) -> _Batches | None:
        """Moves the partition's position behind an answer's whole batches; None: there are none."""
        partition = data.partition_index
        where = f"{self._topic}-{partition}"
        position = self._positions.get(partition)
        if position is None:
            return None
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._positions[partition] = self._back_in_range(partition, position)
            return None
        check(data.error_code, f"fetching {where}")
        records = memoryview(data.records or b"")
        whole = whole_batches(records)
        if whole.is_broken:
            raise KafkaFailure(f"{where}: behind offset {position - 1} is no batch of records: the answer is damaged")
        if whole.next_offset > position:
            self._positions[partition] = whole.next_offset
            self._empty[partition] = 0
            return _Batches(records, whole.end, position)
        limit = data.last_stable_offset if self._committed else data.high_watermark
        if has_records:
            return None
        self._empty[partition] += 1
        end = None if self._ends is None else self._ends[partition]
        if end is not None and limit >= end and self._empty[partition] >= _EMPTY_ANSWERS:
            self._positions[partition] = end
        return None

    def _back_in_range(self, partition: int, position: int) -> int:
        """Offset at which to go on when there is none like `position`. KafkaFailure: the log is shorter by now."""
        place = TopicPartition(self._topic, partition)
        start, end = Brokers(self._client).bounds([place], read_committed=False)[place]
        if position > end:
            raise KafkaFailure(
                f"{place}: the log ends at {end} by now, and {position} was next: it was cut off, or the topic was made anew"
            )
        if position < start:
            self._tell(f"{place}: offsets {position} to {start - 1} were deleted meanwhile; going on at {start}")
        return max(position, start)

    def _drop_ended(self) -> None:
        for partition, end in (self._ends or {}).items():
            if partition in self._positions and self._positions[partition] >= end:
                del self._positions[partition]
                self._ended[partition] = max(end, self._first[partition])
                for partitions in self._leaders.values():
                    if partition in partitions:
                        partitions.remove(partition)

    def _forget(self) -> None:
        """An answer that nobody takes would be taken for the next one's."""
        for flight in self._flights.values():
            flight.connection.close()
        self._flights.clear()
        self._leaders.clear()

    # -- records

    def _chunks(self, data: PartitionData, batches: _Batches) -> Iterator[Chunk]:
        partition = data.partition_index
        aborted = self._aborted.get(partition)
        if aborted is not None:
            told = data.aborted_transactions or ()
            aborted.start((transaction.producer_id, transaction.first_offset) for transaction in told)
        end = None if self._ends is None else self._ends[partition]
        try:
            for records in iterate_batch_records(batches.records, batches.end, batches.first, aborted):
                if end is not None and records and records[-1].offset >= end:
                    records = [record for record in records if record.offset < end]
                if records:
                    yield Chunk(partition, records)
        except RecordError as error:
            raise KafkaFailure(
                f"{self._topic}-{partition}: a batch behind offset {batches.first - 1} is damaged: {error}"
            ) from None


class _Batches(NamedTuple):
    """Whole batches in an answer: up to where, and the offset that was asked for."""

    records: memoryview
    end: int
    first: int
