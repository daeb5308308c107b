"""One broker's connection: versions, order of answers, and what is said when bytes or brokers fail."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from support.fake_brokers import FakeBrokers, FakeTransport
from tidelog.clients.kafka.connection import Connection
from tidelog.pipeline.exceptions import BrokerUnreachableError, UnsupportedBrokerError
from tidelog.pipeline.wire.client import KafkaClient
from tidelog.pipeline.wire.errors import explain
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic

HERE = ("one", 9092)
SETTINGS = ClientSettings((HERE,))


def connection(answer: Any, **options: Any) -> tuple[Connection, FakeBrokers]:
    brokers = FakeBrokers({HERE: lambda request, version: answer(request, version)}, **options)
    return Connection(HERE, SETTINGS, explain=explain, connect=brokers.connect), brokers


def told(request: MetadataRequest, version: int) -> MetadataResponse:
    return MetadataResponse(cluster_id=f"version {version}")


def test_the_highest_version_that_all_three_know_is_used() -> None:
    one, _ = connection(told, versions={ApiKey.METADATA: (2, 9)})
    assert one.request(MetadataRequest(topics=[]), MetadataResponse, up_to=12).cluster_id == "version 9"
    assert one.request(MetadataRequest(topics=[]), MetadataResponse, up_to=4).cluster_id == "version 4"
    with pytest.raises(UnsupportedBrokerError, match=r"one:9092: .* versions 2 to 9 of it, and METADATA 10 to 12 is"):
        one.request(MetadataRequest(topics=[]), MetadataResponse, up_to=12, at_least=10)
    assert one.is_open


def test_a_broker_of_before_2_4_is_asked_again() -> None:
    brokers = FakeBrokers({HERE: told})
    brokers.oldest_api_versions = True
    assert Connection(HERE, SETTINGS, explain=explain, connect=brokers.connect).version_of(MetadataRequest, 12) == 12


def test_answers_come_in_the_order_of_requests() -> None:
    one, brokers = connection(lambda request, _: MetadataResponse(cluster_id=request.topics[0].name))
    tickets = [one.send(asked(name), MetadataResponse, up_to=5) for name in "abc"]
    assert [one.receive(ticket).cluster_id for ticket in tickets] == ["a", "b", "c"]
    assert len(brokers.log) == 3


def asked(name: str) -> MetadataRequest:
    from tidelog.protocol.messages.metadata import MetadataRequestTopic

    return MetadataRequest(topics=[MetadataRequestTopic(name=name)])


def test_an_answer_may_look_into_a_buffer_of_the_callers() -> None:
    one, _ = connection(told)
    buffer = bytearray(10_000)
    one.receive(one.send(MetadataRequest(topics=[]), MetadataResponse, up_to=5), buffer)
    assert b"version 5" in buffer


def test_memory_for_an_answer_follows_what_came_and_not_what_was_announced() -> None:
    announced = (1_000_000_000).to_bytes(4, "big") + b"\0\0\0\x02"
    one, _ = connection(lambda *_: announced)
    tracemalloc.start()
    try:
        with pytest.raises(BrokerUnreachableError, match="closed the connection before it answered"):
            one.request(MetadataRequest(topics=[]), MetadataResponse, up_to=5)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_large_answer_comes_whole_through_buffers_that_grow() -> None:
    names = [f"{'topic' * 40}-{number}" for number in range(12_000)]
    topics = [MetadataResponseTopic(name=name) for name in names]
    one, _ = connection(lambda *_: MetadataResponse(topics=topics))
    answer = one.request(MetadataRequest(topics=[]), MetadataResponse, up_to=5)
    assert [topic.name for topic in answer.topics] == names


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "one:9092: the broker closed the connection before it answered"),
        (ConnectionResetError(104, "Connection reset by peer"), r"no answer \(Connection reset by peer\)"),
        (TimeoutError("timed out"), r"no answer \(timed out\)"),
        (b"HTTP/1.1 400 Bad Request", "an answer of 1213486160 bytes is announced; is this a Kafka listener"),
        (b"\0\0\0\x08\0\0\0\x09\0\0\0\0", "answer 9 came for request 2"),
        (b"\0\0\0\x06\0\0\0\x02\xff\xff", "an answer cannot be read"),
    ],
)
def test_what_fails_is_said_and_closes_it(answer: Any, message: str) -> None:
    one, _ = connection(lambda *_: answer)
    with pytest.raises(BrokerUnreachableError, match=message):
        one.request(MetadataRequest(topics=[]), MetadataResponse, up_to=5)
    assert not one.is_open
    with pytest.raises(BrokerUnreachableError, match="closed"):
        one.request(MetadataRequest(topics=[]), MetadataResponse, up_to=5)


@pytest.mark.parametrize("call", ["sendall", "recv_into"])
def test_an_interrupt_closes_it(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    brokers = FakeBrokers({HERE: told})
    with KafkaClient(SETTINGS, connect=brokers.connect) as client:
        client.request(MetadataRequest(topics=[]), MetadataResponse, up_to=5)
        with monkeypatch.context() as patch:
            patch.setattr(FakeTransport, call, interrupted)
            with pytest.raises(KeyboardInterrupt):
                client.request(MetadataRequest(topics=[]), MetadataResponse, up_to=5)
        answer = client.request(MetadataRequest(topics=[]), MetadataResponse, up_to=5)
    assert (answer.cluster_id, brokers.connects) == ("version 5", 2)


def test_a_broker_that_is_not_there_is_said() -> None:
    with pytest.raises(BrokerUnreachableError, match=r"two:1: no connection \(Connection refused\)"):
        Connection(("two", 1), SETTINGS, explain=explain, connect=FakeBrokers({}).connect)
