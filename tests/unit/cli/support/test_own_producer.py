"""Where a record of the input went to, and columns for the kernel. On the wire: tests/client/test_records.py."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_brokers import FakeBrokers
from tidelog.cli.support.own_producer import Origins, OwnProducer, _binary, _headers, _times
from tidelog.cli.support.record_input import Rows
from tidelog.pipeline.wire.client import KafkaClient
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.protocol.records._batches import BatchBuilder
from tidelog.protocol.records.memory_records import iterate_records
from tidelog.protocol.records.record_batch import Record
from tidelog.protocol.schema import ApiMessage

Texts = st.lists(st.none() | st.binary(max_size=4), max_size=20)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5), st.integers(0, 30)), max_size=30))
def test_origins_are_those_of_a_list(steps: list[tuple[int, int, int]]) -> None:
    origins, model, following, dropped = Origins(), list[int](), 1, 0
    for gap, count, drop in steps:
        following += gap
        origins.add(following, count)
        model += range(following, following + count)
        following += count
        dropped = min(max(dropped, drop), len(model))
        origins.drop(dropped)
        for ordinal in range(dropped, len(model)):
            assert origins.index(ordinal) == model[ordinal]
    with pytest.raises(LookupError):
        origins.index(len(model))


def test_origins_of_what_is_acknowledged_take_no_memory() -> None:
    origins = Origins()
    for number in range(1000):
        origins.add(3 * number)
        origins.drop(number - 4)
    assert len(origins) <= 6
    origins = Origins()
    for number in range(1000):
        origins.add(number)
    assert len(origins) == 1, "records in a row are one entry"


@given(st.data())
def test_columns_come_out_as_the_records_that_went_in(data: st.DataObject) -> None:
    values = data.draw(Texts)
    keys = data.draw(st.lists(st.none() | st.binary(max_size=4), min_size=len(values), max_size=len(values)))
    header = st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=3))
    headers = data.draw(st.lists(st.lists(header, max_size=3), min_size=len(values), max_size=len(values)))
    times = data.draw(st.lists(st.none() | st.integers(0, 1 << 40), min_size=len(values), max_size=len(values)))
    builder = BatchBuilder(1, lambda: 0)
    builder.add(
        len(values), _binary(values), keys=_binary(keys), headers=_headers(headers), timestamps=_times(times),
        partitions=(None, array("i", [0] * len(values)), 0), now=77,
    )  # fmt: skip
    found = [record for _, _, batch in builder.take(everything=True) for record in iterate_records(batch)]
    expected = [
        (value, key, tuple(own), 77 if time is None else time)
        for value, key, own, time in zip(values, keys, headers, times, strict=True)
    ]
    assert [(r.value, r.key, tuple(r.headers), r.timestamp) for r in found] == expected


def test_any_timestamp_of_a_log_can_be_written_again() -> None:
    """Some producers' milliseconds are nanoseconds, some records have none; a restore writes what there was."""
    written: list[Record] = []

    def handle(request: Any, _version: int) -> ApiMessage:
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(producer_id=1, producer_epoch=0)
        if isinstance(request, MetadataRequest):
            topic = MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition(leader_id=1)])
            return MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="a", port=1)], topics=[topic])
        assert isinstance(request, ProduceRequest)
        (part,) = request.topic_data[0].partition_data
        written.extend(iterate_records(bytes(part.records or b"")))
        answer = TopicProduceResponse(name="t", partition_responses=[PartitionProduceResponse()])
        return ProduceResponse(responses=[answer])

    brokers = FakeBrokers({("a", 1): handle})
    times = [5, 1_700_000_000_000_000_000, None, -1, (1 << 63) - 1, -(1 << 62), 6]
    with KafkaClient(ClientSettings((("a", 1),)), connect=brokers.connect) as client:
        producer = OwnProducer(client, "t", clock_ms=lambda: 77)
        producer.send(Rows([b"%d" % at for at in range(len(times))], timestamps=times))
        producer.flush()
    assert [(record.value, record.timestamp) for record in written] == [
        (b"%d" % at, 77 if time is None else time) for at, time in enumerate(times)
    ]
    assert (producer.sent, producer.acknowledged) == (len(times), len(times))
