"""Splits over TCP: what brokers answer and what they do meanwhile. Random logs: tests/property/test_pipeline_sources.py."""

from __future__ import annotations

import logging
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import pytest
from support.columns import rows_of
from support.fake_kafka import ADDRESS, FakeKafka, FakeLog
from tidelog.pipeline.exceptions import BrokerError, BrokerUnreachableError, CorruptLogError, DataLossError
from tidelog.pipeline.planning.splits import FetchSplit
from tidelog.pipeline.reading.fetch_reader import read_fetched
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.messages.fetch import FetchRequest, FetchResponse
from tidelog.protocol.messages.metadata import MetadataRequest
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.log.partition_metadata import encode_uuid


def batch(offset: int, **arguments: Any) -> bytes:
    return build_batch([Record(offset, 1, b"%03d" % offset, bytes(50))], base_offset=offset, **arguments)


BATCHES = [batch(offset) for offset in range(40)]
SIZE = len(BATCHES[0])
SMALL = ClientSettings((ADDRESS,), fetch_max_bytes=5 * SIZE, api_timeout_ms=3000)


def offsets(
    kafka: FakeKafka, first: int = 0, end: int = 40, settings: ClientSettings = SMALL, **options: bool
) -> list[int]:
    split = FetchSplit("t", 0, first, end)
    return [
        row.offset
        for columns in read_fetched(split, settings, connect=kafka.client, **options)
        for row in rows_of(columns)
    ]


def fetches(kafka: FakeKafka) -> list[int]:
    asked = [request for _, request in kafka.brokers.log if isinstance(request, FetchRequest)]
    return [request.topics[0].partitions[0].fetch_offset for request in asked]


def test_the_next_fetch_goes_out_before_records_of_this_one_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.pipeline.reading.batch_decoder.ROWS_AT_ONCE", 5)
    monkeypatch.setattr("tidelog.pipeline.reading.fetch_reader._SMALLEST_FETCH", 1)
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES)})
    reading = read_fetched(FetchSplit("t", 0, 0, 40), SMALL, connect=kafka.client)
    next(reading)
    assert fetches(kafka) == [0, 5]
    for _ in reading:
        pass
    assert fetches(kafka) == list(range(0, 40, 5))


def test_ranges_begin_and_end_inside_batches_and_fetches() -> None:
    kafka = FakeKafka({("t", 0): FakeLog([build_batch([Record(i, 1, None, None) for i in range(40)], base_offset=0)])})
    assert offsets(kafka, 13, 27) == list(range(13, 27))
    assert offsets(kafka, 20, 20) == []


def test_a_broken_connection_and_a_leader_that_moved_leave_no_trace() -> None:
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES)})
    failures: list[Any] = [
        ...,
        None,
        ...,
        error(6),
        ...,
        ConnectionResetError(104, "gone"),
        ...,
        FetchResponse(error_code=0),
    ]
    kafka.fail = lambda request: failures.pop(0) if isinstance(request, FetchRequest) and failures else ...
    assert offsets(kafka) == list(range(40))
    assert not failures


@pytest.mark.parametrize("code", [6, 74, 75])
def test_a_leader_of_another_epoch_is_looked_for(code: int) -> None:
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES)})
    failures: list[Any] = [..., ..., error(code), error(code)]
    kafka.fail = lambda request: failures.pop(0) if isinstance(request, FetchRequest) and failures else ...
    assert offsets(kafka) == list(range(40))


def test_a_broker_that_is_gone_for_good_is_told_in_one_sentence() -> None:
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES)})

    def leave(request: Any) -> Any:
        if isinstance(request, FetchRequest) and request.topics[0].partitions[0].fetch_offset >= 10:
            kafka.brokers.handlers.clear()
            return None
        return ...

    kafka.fail = leave
    with pytest.raises(BrokerUnreachableError, match=r"^fake:9092: no connection \(Connection refused\)$"):
        offsets(kafka)
    assert kafka.pauses >= 2, "it was tried again, for as long as default.api.timeout.ms says"


def error(code: int) -> FetchResponse:
    from tidelog.protocol.messages.fetch import FetchableTopicResponse, PartitionData

    return FetchResponse(
        responses=[
            FetchableTopicResponse(topic="t", partitions=[PartitionData(error_code=code, aborted_transactions=None)])
        ]
    )


def test_what_does_not_pass_is_raised() -> None:
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES)})
    kafka.fail = lambda request: error(29) if isinstance(request, FetchRequest) else ...
    with pytest.raises(BrokerError, match="fetching t-0: TOPIC_AUTHORIZATION_FAILED"):
        offsets(kafka)
    kafka = FakeKafka({})
    with pytest.raises(BrokerError, match="topic t: UNKNOWN_TOPIC_OR_PARTITION"):
        offsets(kafka)
    assert sum(isinstance(request, MetadataRequest) for _, request in kafka.brokers.log) > 3, "it may come to be"


def test_gaps_of_compaction_are_no_loss_wherever_they_are() -> None:
    kafka = FakeKafka({("t", 0): FakeLog([*BATCHES[2:6:2], *BATCHES[20:25]], end=40)})
    assert offsets(kafka) == [2, 4, 20, 21, 22, 23, 24]
    assert offsets(kafka, 30, 40) == []


def test_what_retention_takes_in_mid_read_is_told() -> None:
    log = FakeLog(BATCHES)
    kafka = FakeKafka({("t", 0): log})

    def take(request: Any) -> Any:
        if isinstance(request, FetchRequest) and request.topics[0].partitions[0].fetch_offset >= 5:
            log.start, log.batches = 12, BATCHES[12:]
        return ...

    kafka.fail = take
    with pytest.raises(DataLossError, match="t-0: offsets 5 to 11 are gone: retention or DeleteRecords"):
        offsets(kafka)
    log.start, log.batches = 0, BATCHES
    assert offsets(kafka, fail_on_data_loss=False) == [*range(5), *range(12, 40)]


OLD, NEW = uuid5(NAMESPACE_DNS, "old"), uuid5(NAMESPACE_DNS, "new")


@pytest.mark.parametrize("at", [0, 20, 35])
def test_a_topic_that_is_made_anew_between_plan_and_read_or_in_mid_read_is_told(at: int) -> None:
    """With other records at the same offsets. Fetches know names alone, and no broker says anything."""
    split = FetchSplit("t", 0, 0, 40, encode_uuid(OLD))
    for careful in (True, False):
        kafka = FakeKafka({("t", 0): FakeLog(BATCHES)})
        kafka.topic_ids["t"] = OLD

        def change(request: Any, kafka: FakeKafka = kafka) -> Any:
            if isinstance(request, FetchRequest) and request.topics[0].partitions[0].fetch_offset >= at:
                kafka.topic_ids["t"] = NEW
            return ...

        if at:
            kafka.fail = change
        else:
            kafka.topic_ids["t"] = NEW
        reading = read_fetched(split, SMALL, connect=kafka.client, fail_on_data_loss=careful)
        if careful:
            with pytest.raises(
                DataLossError, match=r"t-0: the topic was deleted and made anew .* before offsets 0 to 39 were read"
            ):
                list(reading)
        elif not at:
            assert list(reading) == []
        else:
            list(reading)
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES)})  # a broker that tells no ids
    assert sum(columns.rows for columns in read_fetched(split, SMALL, connect=kafka.client)) == 40


def test_a_log_that_has_become_shorter_is_told() -> None:
    kafka = FakeKafka({("t", 0): FakeLog(BATCHES[:10])})
    for first in (0, 10, 20):
        with pytest.raises(
            DataLossError, match=f"t-0: offsets {max(first, 10)} to 39 are gone: the log ends at 10 by now"
        ):
            offsets(kafka, first)
    assert offsets(kafka, fail_on_data_loss=False) == list(range(10))
    assert offsets(kafka, 20, fail_on_data_loss=False) == []


@pytest.mark.parametrize("at", [17, 30, 70])
def test_damage_is_told_with_its_place_or_left_out(at: int, caplog: pytest.LogCaptureFixture) -> None:
    for broken in (7, 9):  # in the middle of a fetch, and its last batch
        batches = [bytearray(one) for one in BATCHES]
        batches[broken][at] ^= 0x55
        kafka = FakeKafka({("t", 0): FakeLog([])})
        log = kafka.logs["t", 0]
        log.end = 40
        log.read = lambda offset, limit, most, batches=batches: (  # type: ignore[method-assign,misc]
            b"".join(batches[offset : offset + 5]), offset + 5
        )  # fmt: skip
        with pytest.raises(CorruptLogError, match=f"t-0 of fake:9092: a batch behind offset {broken - 1} is damaged: "):
            offsets(kafka)
        with caplog.at_level(logging.WARNING):
            assert offsets(kafka, skip_corrupt=True) == [offset for offset in range(40) if offset != broken]
        assert "t-0: left out 1 damaged batches" in caplog.text


def test_a_length_that_is_none_cannot_be_skipped() -> None:
    kafka = FakeKafka({("t", 0): FakeLog([], end=40)})
    kafka.logs["t", 0].read = lambda offset, limit, most: (BATCHES[0] + bytes(40), 1)  # type: ignore[method-assign]
    with pytest.raises(CorruptLogError, match="by `path` can go on behind it"):
        offsets(kafka, skip_corrupt=True)


def test_readers_of_committed_data_do_not_see_aborted_transactions() -> None:
    """Producer 7 aborts 2 to 5, commits 8 with 9, aborts 11 to 13; small fetches tell of a transaction more than once."""
    own = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    log = [
        batch(0), batch(2, **own), batch(3, **{**own, "producer_id": 8}), batch(4, **own),
        batch(5, **own, is_control=True), batch(8, **own), batch(9, **own, is_control=True), batch(11, **own), batch(12),
        batch(13, **own, is_control=True), batch(14),
    ]  # fmt: skip
    kafka = FakeKafka({("t", 0): FakeLog(log, aborted=[(7, 2, 5), (7, 11, 13)])})
    for size in (1, 2 * SIZE, 100 * SIZE):
        settings = ClientSettings((ADDRESS,), fetch_max_bytes=size)
        assert offsets(kafka, 0, 15, settings) == [0, 2, 3, 4, 8, 11, 12, 14]
        assert offsets(kafka, 0, 15, settings, read_committed=True) == [0, 3, 8, 12, 14]
        assert offsets(kafka, 4, 12, settings, read_committed=True) == [8]
