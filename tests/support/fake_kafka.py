"""A Kafka of one broker made of batches: Metadata, ListOffsets, Fetch and DescribeLogDirs, with failures on demand.

kafka = FakeKafka({("t", 0): FakeLog(batches)})
client = kafka.client()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from support.fake_brokers import Answer, FakeBrokers
from tidelog.pipeline.wire.client import KafkaClient
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tidelog.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.protocol.records.memory_records import iterate_batches, iterate_records

ADDRESS = ("fake", 9092)


@dataclass
class FakeLog:
    """Batches in order of their offsets; `aborted` are (producer id, first offset, offset of the marker)."""

    batches: list[bytes]
    start: int = 0
    end: int | None = None
    stable: int | None = None
    aborted: list[tuple[int, int, int]] = field(default_factory=list)

    def high_watermark(self) -> int:
        if self.end is not None:
            return self.end
        return max((header.last_offset + 1 for one in self.batches for header in iterate_batches(one)), default=0)

    def last_stable_offset(self) -> int:
        return self.high_watermark() if self.stable is None else self.stable

    def read(self, offset: int, limit: int, most: int) -> tuple[bytes, int]:
        """Batches from the one that has `offset` or follows it on, as many bytes (one at least), and the offset behind."""
        found, behind = b"", offset
        for one in self.batches:
            headers = list(iterate_batches(one))
            last = max(header.last_offset for header in headers)
            first = headers[0].base_offset if headers[0].magic >= 2 else min(r.offset for r in iterate_records(one))
            if last < offset:
                continue
            if first >= limit or (found and len(found) + len(one) > most):
                break
            found, behind = found + one, last + 1
        return found, behind


class FakeKafka:
    """`fail`: asked before each request, whose answer stands in for the true one unless it is `...`. Topics have the ids of
    `topic_ids`, or none."""

    def __init__(self, logs: dict[tuple[str, int], FakeLog]) -> None:
        self.logs = logs
        self.topic_ids: dict[str, UUID] = {}
        self.fail: Callable[[Any], Any] = lambda request: ...
        self.brokers = FakeBrokers({ADDRESS: self.handle})
        self.pauses = 0.0

    def client(self, settings: ClientSettings | None = None) -> KafkaClient:
        return KafkaClient(
            settings or ClientSettings((ADDRESS,)),
            connect=self.brokers.connect,
            clock=lambda: self.pauses,
            sleep=self.sleep,
        )

    def sleep(self, seconds: float) -> None:
        self.pauses += seconds

    def handle(self, request: Any, version: int) -> Answer:
        answer = self.fail(request)
        if answer is not ...:
            return answer  # type: ignore[no-any-return]
        if isinstance(request, MetadataRequest):
            return self._metadata(request)
        if isinstance(request, ListOffsetsRequest):
            return self._list_offsets(request)
        if isinstance(request, DescribeLogDirsRequest):
            return self._sizes()
        assert isinstance(request, FetchRequest)
        return self._fetch(request)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        there = {name for name, _ in self.logs}
        wanted = there if request.topics is None else [one.name for one in request.topics]
        topics = []
        for name in sorted(wanted):
            numbers = [number for topic, number in self.logs if topic == name]
            parts = [MetadataResponsePartition(partition_index=number, leader_id=1) for number in numbers]
            topic_id = self.topic_ids.get(name, UUID(int=0)).bytes
            error = 0 if name in there else 3
            topics.append(MetadataResponseTopic(name=name, topic_id=topic_id, error_code=error, partitions=parts))
        broker = MetadataResponseBroker(node_id=1, host=ADDRESS[0], port=ADDRESS[1])
        return MetadataResponse(brokers=[broker], topics=topics)

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            parts = []
            for one in topic.partitions:
                log = self.logs[topic.name, one.partition_index]
                if one.timestamp == -2:
                    offset = log.start
                elif one.timestamp == -1:
                    offset = log.last_stable_offset() if request.isolation_level else log.high_watermark()
                else:
                    records = [
                        r
                        for data in log.batches  # a set of plain messages is several batches
                        for header in iterate_batches(data)
                        for r in iterate_records(data[header.position : header.position + header.size])
                    ]
                    young = [r.offset for r in records if r.timestamp >= one.timestamp and r.offset >= log.start]
                    offset = min(young, default=-1)
                parts.append(ListOffsetsPartitionResponse(partition_index=one.partition_index, offset=offset))
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=parts))
        return ListOffsetsResponse(topics=topics)

    def _sizes(self) -> DescribeLogDirsResponse:
        topics = [
            DescribeLogDirsTopic(
                name=topic,
                partitions=[
                    DescribeLogDirsPartition(partition_index=number, partition_size=sum(map(len, log.batches)))
                ],
            )
            for (topic, number), log in self.logs.items()
        ]
        return DescribeLogDirsResponse(results=[DescribeLogDirsResult(topics=topics)])

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        """Batches of the first partition that has any, and of the others while there is room."""
        (topic,) = request.topics
        parts, room = [], request.max_bytes
        for wanted in topic.partitions:
            parts.append(self._part(topic.topic, wanted, bool(request.isolation_level), room))
            room -= len(parts[-1].records or b"")
        return FetchResponse(responses=[FetchableTopicResponse(topic=topic.topic, partitions=parts)])

    def _part(self, topic: str, wanted: FetchPartition, isolated: bool, room: int) -> PartitionData:
        log = self.logs[topic, wanted.partition]
        offset = wanted.fetch_offset
        data = PartitionData(
            partition_index=wanted.partition,
            high_watermark=log.high_watermark(),
            last_stable_offset=log.last_stable_offset(),
            log_start_offset=log.start,
            aborted_transactions=None,
        )
        if not log.start <= offset <= log.high_watermark():
            data.error_code = 1
        elif room > 0:
            limit = log.last_stable_offset() if isolated else log.high_watermark()
            data.records, behind = log.read(offset, limit, min(wanted.partition_max_bytes, room))
            if isolated:
                data.aborted_transactions = [
                    AbortedTransaction(producer_id=producer, first_offset=first)
                    for producer, first, last in log.aborted
                    if last >= offset and first < behind
                ]
        return data
