"""Our own consumer: what brokers do meanwhile, and not a record twice or left out. A daemon: tests/client/test_records.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.fake_kafka import ADDRESS, FakeKafka, FakeLog
from tidelog.cli.support.kafka_client import KafkaFailure
from tidelog.cli.support.own_consumer import Chunk, OwnConsumer
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record


def batch(offset: int, count: int = 1, **arguments: Any) -> bytes:
    records = [Record(offset + at, 1, None, b"%03d" % (offset + at)) for at in range(count)]
    return build_batch(records, base_offset=offset, **arguments)


def marker(offset: int, producer_id: int) -> bytes:
    record = Record(offset, 1, b"\0\0\0\0", bytes(6))
    return build_batch([record], base_offset=offset, is_control=True, is_transactional=True, producer_id=producer_id)


BATCHES = [batch(offset) for offset in range(40)]
SIZE = len(BATCHES[0])
SMALL = ClientSettings((ADDRESS,), fetch_max_bytes=5 * SIZE, api_timeout_ms=3000)


class Reading:
    """Runs a consumer over a fake Kafka; `told` and `waits` are what users see."""

    def __init__(self, kafka: FakeKafka, first: int = 0, end: int | None = 40, **options: Any) -> None:
        self.told: list[str] = []
        self.waits: list[str] = []
        ends = None if end is None else {0: end}
        self.client = kafka.client(SMALL)
        consumer = OwnConsumer(
            self.client, "t", {0: first}, ends=ends, tell=self.told.append, on_wait=self.waits.append,
            clock=lambda: kafka.pauses, sleep=kafka.sleep, **options,
        )  # fmt: skip
        self.chunks: Iterator[Chunk | None] = consumer.read()

    def offsets(self) -> list[int]:
        return [record.offset for chunk in self.chunks if chunk is not None for record in chunk.records]


def fetches(kafka: FakeKafka) -> list[int]:
    asked = [request for _, request in kafka.brokers.log if isinstance(request, FetchRequest)]
    return [request.topics[0].partitions[0].fetch_offset for request in asked]


def test_the_next_fetch_goes_out_before_records_of_this_one_are_given() -> None:
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES)})
    reading = Reading(kafka)
    next(reading.chunks)
    assert fetches(kafka) == [0, 5]
    assert reading.offsets() == list(range(1, 40))
    assert fetches(kafka) == list(range(0, 40, 5)), "none beyond the end"


@pytest.mark.parametrize("codec", list(Compression))
def test_it_begins_and_ends_inside_batches_whatever_their_codec(codec: Compression) -> None:
    kafka = FakeKafka({("t", 0): FakeLog([batch(0, 20, compression=codec), batch(20, 20, compression=codec)])})
    assert Reading(kafka, 13, 27).offsets() == list(range(13, 27))
    assert Reading(kafka, 20, 20).offsets() == []


@pytest.mark.parametrize("failing", range(1, 8))
@pytest.mark.parametrize("how", ["broken", "moved", "retriable"])
def test_a_failure_at_any_fetch_loses_and_repeats_nothing(failing: int, how: str) -> None:
    """The fetch ahead may fail before the records of the one before were given."""
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES)})
    count = 0

    def fail(request: Any) -> Any:
        nonlocal count
        if not isinstance(request, FetchRequest):
            return ...
        count += 1
        if count != failing:
            return ...
        if how == "broken":
            return None
        code = 6 if how == "moved" else 5
        part = PartitionData(
            partition_index=0, error_code=code, high_watermark=-1, aborted_transactions=None, records=None
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])

    kafka.fail = fail
    reading = Reading(kafka)
    assert reading.offsets() == list(range(40))
    assert len(reading.waits) == 1


def test_a_send_that_fails_ahead_keeps_the_records_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES)})
    reading = Reading(kafka)
    from tidelog.clients.kafka.connection import Connection
    from tidelog.pipeline.exceptions import BrokerUnreachableError

    send, fetched = Connection.send, 0

    def failing(self: Connection, request: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal fetched
        fetched += isinstance(request, FetchRequest)
        if isinstance(request, FetchRequest) and fetched == 2:
            self.close()
            raise BrokerUnreachableError("the connection broke")
        return send(self, request, *arguments, **options)

    monkeypatch.setattr(Connection, "send", failing)
    assert reading.offsets() == list(range(40))
    assert reading.waits == ["the connection broke"]


@pytest.mark.parametrize("magic", [0, 1])
def test_it_begins_and_ends_inside_wrappers_of_old_formats(magic: int) -> None:
    """Whose headers do not say where they begin."""
    records = [Record(offset, 1, None, b"%03d" % offset) for offset in range(10)]
    sets = [
        build_legacy_set(records, magic=magic, base_offset=base, compression=Compression.GZIP) for base in (0, 10, 20)
    ]
    kafka = FakeKafka({("t", 0): FakeLog(sets)})
    assert Reading(kafka, 5, 23).offsets() == list(range(5, 23))


def test_control_batches_and_aborted_records_are_left_out() -> None:
    batches = [
        batch(0, 2, is_transactional=True, producer_id=7, producer_epoch=0, base_sequence=0),
        batch(2, 2, is_transactional=True, producer_id=8, producer_epoch=0, base_sequence=0),
        marker(4, 7),
        marker(5, 8),
        batch(6, 1),
        batch(7, 1, is_transactional=True, producer_id=9, producer_epoch=0, base_sequence=0),
    ]
    log = FakeLog(batches, aborted=[(7, 0, 4)], stable=7)
    assert Reading(FakeKafka({("t", 0): log}), 0, 8).offsets() == [0, 1, 2, 3, 6, 7]
    assert Reading(FakeKafka({("t", 0): log}), 0, 7, committed=True).offsets() == [2, 3, 6]


def test_a_gap_of_compaction_up_to_the_end_is_the_end() -> None:
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES[:3], end=40)})
    assert Reading(kafka).offsets() == [0, 1, 2]


def test_records_that_retention_took_are_told_and_reading_goes_on() -> None:
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES[10:], start=10)})
    reading = Reading(kafka, 4)
    assert reading.offsets() == list(range(10, 40))
    assert reading.told == ["t-0: offsets 4 to 9 were deleted meanwhile; going on at 10"]


def test_records_that_retention_took_are_told_while_another_broker_s_answer_is_to_come() -> None:
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES), ("t", 1): FakeLog(BATCHES[10:], start=10)})
    other = ("other", 9092)
    kafka.brokers.handlers[other] = kafka.handle
    brokers = [
        MetadataResponseBroker(node_id=node, host=host, port=port) for node, (host, port) in ((1, ADDRESS), (2, other))
    ]
    parts = [MetadataResponsePartition(partition_index=number, leader_id=number + 1) for number in range(2)]
    metadata = MetadataResponse(brokers=brokers, topics=[MetadataResponseTopic(name="t", partitions=parts)])
    kafka.fail = lambda request: metadata if isinstance(request, MetadataRequest) else ...
    told: list[str] = []
    consumer = OwnConsumer(kafka.client(SMALL), "t", {0: 0, 1: 4}, ends={0: 40, 1: 40}, tell=told.append)
    found = sorted((chunk.partition, r.offset) for chunk in consumer.read() if chunk for r in chunk.records)
    assert found == [(0, offset) for offset in range(40)] + [(1, offset) for offset in range(10, 40)]
    assert told == ["t-1: offsets 4 to 9 were deleted meanwhile; going on at 10"]


def test_a_log_that_was_cut_off_is_told() -> None:
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES[:10])})
    with pytest.raises(KafkaFailure, match="t-0: the log ends at 10 by now, and 20 was next"):
        Reading(kafka, 20, None).offsets()


@pytest.mark.parametrize("position", [SIZE - 1, 2 * SIZE + 30])
def test_damage_is_told_and_what_came_before_is_given(position: int) -> None:
    log = bytearray(b"".join(BATCHES[:5]))
    log[position] ^= 1
    batches = [bytes(log[at * SIZE : (at + 1) * SIZE]) for at in range(5)]
    reading = Reading(FakeKafka({("t", 0): FakeLog(batches)}), 0, 5)
    found: list[int] = []

    def read() -> None:
        for chunk in reading.chunks:
            found.extend(record.offset for record in chunk.records if chunk is not None) if chunk is not None else None

    with pytest.raises(KafkaFailure, match="t-0: a batch behind offset -1 is damaged: the checksum"):
        read()
    assert found == list(range(position // SIZE))


def test_a_topic_that_is_deleted_meanwhile_ends_it() -> None:
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES[:3])})
    reading = Reading(kafka, 0, None)
    assert next(reading.chunks) is not None

    def fail(request: Any) -> Any:
        if isinstance(request, FetchRequest):
            return None
        if isinstance(request, MetadataRequest):
            del kafka.logs[next(iter(kafka.logs))]
            kafka.logs["other", 0] = FakeLog([])
            kafka.fail = lambda _request: ...
        return ...

    kafka.fail = fail
    with pytest.raises(KafkaFailure, match="topic t is gone"):
        reading.offsets()


def test_a_daemon_that_does_not_come_back_ends_a_read_until_the_end_and_no_tail() -> None:
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES)})
    reading = Reading(kafka)
    kafka.fail = lambda _request: OSError(104, "reset")
    with pytest.raises(KafkaFailure, match="reset"):
        reading.offsets()
    assert 60 < kafka.pauses < 80
    tail = Reading(kafka, 0, None)
    before = kafka.pauses
    for _ in range(100):
        assert next(tail.chunks) is None
    assert kafka.pauses - before > 90
    kafka.fail = lambda _request: ...
    chunk = next(tail.chunks)
    assert chunk is not None
    assert chunk.records[0].offset == 0


@pytest.mark.parametrize("ends", [None, {0: 40, 1: 40}])
def test_a_partition_without_a_leader_holds_up_no_other(ends: dict[int, int] | None) -> None:
    """As one whose disk has failed: it is read on where it is led again."""
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES), ("t", 1): FakeLog(BATCHES)})
    led = [1, -1]

    def metadata(request: Any) -> Any:
        if not isinstance(request, MetadataRequest):
            return ...
        parts = [MetadataResponsePartition(partition_index=number, leader_id=node) for number, node in enumerate(led)]
        broker = MetadataResponseBroker(node_id=1, host=ADDRESS[0], port=ADDRESS[1])
        return MetadataResponse(brokers=[broker], topics=[MetadataResponseTopic(name="t", partitions=parts)])

    kafka.fail = metadata
    found: dict[int, list[int]] = {0: [], 1: []}
    waits: list[str] = []
    consumer = OwnConsumer(
        kafka.client(SMALL), "t", {0: 0, 1: 0}, ends=ends, on_wait=waits.append, clock=lambda: kafka.pauses,
        sleep=kafka.sleep,
    )  # fmt: skip
    for chunk in consumer.read():
        if chunk is None:
            kafka.sleep(0.5)  # as a fetch waits
            if len(found[0]) == 40 and kafka.pauses > 20:
                led[1] = 1
            if kafka.pauses > 50:
                break
        else:
            found[chunk.partition] += [record.offset for record in chunk.records]
    assert found == {0: list(range(40)), 1: list(range(40))}
    assert any("t-1" in why for why in waits)


@pytest.mark.parametrize("most", [SIZE, 3 * SIZE])
def test_partitions_for_which_an_answer_has_no_room_are_not_taken_for_gaps(most: int) -> None:
    """Records of the last of many large partitions were left out: answers full of others' had none of theirs, twice in a row."""
    kafka = FakeKafka({("t", number): FakeLog(BATCHES[:10]) for number in range(6)})
    consumer = OwnConsumer(
        kafka.client(ClientSettings((ADDRESS,), fetch_max_bytes=most, api_timeout_ms=3000)),
        "t", dict.fromkeys(range(6), 0), ends=dict.fromkeys(range(6), 10), clock=lambda: kafka.pauses, sleep=kafka.sleep,
    )  # fmt: skip
    found = [(chunk.partition, record.offset) for chunk in consumer.read() if chunk for record in chunk.records]
    assert sorted(found) == [(partition, offset) for partition in range(6) for offset in range(10)]
