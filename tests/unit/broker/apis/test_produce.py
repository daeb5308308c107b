from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from tidelog.broker.apis.produce import produce
from tidelog.broker.connection import ConnectionAborted
from tidelog.broker.metrics import RequestCounters
from tidelog.config.log_config import LogConfig
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.schema import decode, encode
from tidelog.storage.log_values import LogAppendInfo

VERSION = 9


class FakePartition:
    """Takes every batch, at offset 0."""

    def __init__(self, config: LogConfig) -> None:
        self.log = SimpleNamespace(config=config, high_watermark=1)
        self.directory = SimpleNamespace(engaged=False)
        self.appended = 0

    def append(self, _buffer: bytearray, start: int, end: int) -> LogAppendInfo:
        self.appended += 1
        return LogAppendInfo(0, 0, -1, 0, 1, end - start, False)


def ask(partition: FakePartition, acks: int, topic: str = "t", client_id: bytes | None = None) -> Any:
    broker: Any = SimpleNamespace(
        counters=RequestCounters(), partitions=SimpleNamespace(get=lambda topic, index: partition)
    )
    request = ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=1,
        topic_data=[TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(61))])],
    )
    client = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    header = struct.pack(">hhi", 0, VERSION, 7) + client + b"\0"  # no tagged fields
    frame = bytearray(header + encode(request, VERSION))
    answer = produce(broker, frame, 0, len(frame), VERSION, 7, SimpleNamespace())  # type: ignore[arg-type]
    if answer is None:
        return None
    assert isinstance(answer, bytes)
    response, _ = decode(ProduceResponse, VERSION, answer, 9)  # size, correlation id, tagged fields
    return response.responses[0].partition_responses[0]


@pytest.mark.parametrize(("acks", "code"), [(-1, ErrorCode.NOT_ENOUGH_REPLICAS), (1, ErrorCode.NONE)])
def test_min_insync_replicas_above_one_refuses_acks_all_alone(acks: int, code: ErrorCode) -> None:
    """As a Kafka does when one broker is left: the setting is about acks=all."""
    partition = FakePartition(LogConfig(min_insync_replicas=2))
    assert ask(partition, acks).error_code == code
    assert partition.appended == (code is ErrorCode.NONE)
    assert ask(FakePartition(LogConfig()), acks).error_code == ErrorCode.NONE


def test_acks_0_has_no_answer() -> None:
    partition = FakePartition(LogConfig(min_insync_replicas=2))
    assert ask(partition, 0) is None
    assert partition.appended == 1


@pytest.mark.parametrize("acks", [2, -2])
def test_other_acks_are_refused(acks: int) -> None:
    assert ask(FakePartition(LogConfig()), acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_an_error_with_acks_0_closes_the_connection() -> None:
    partition = FakePartition(LogConfig())
    partition.append = lambda *_: (_ for _ in ()).throw(OSError("disk"))  # type: ignore[method-assign]
    with pytest.raises(ConnectionAborted, match="acks=0 failed: t-0: KAFKA_STORAGE_ERROR"):
        ask(partition, 0)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_for_coordinators(topic: str) -> None:
    """And for Kafka's own tools, by the client id that they have."""
    partition = FakePartition(LogConfig())
    assert ask(partition, 1, topic, b"anybody").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert ask(partition, 1, topic).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert partition.appended == 0
    assert ask(partition, 1, topic, b"__admin_client").error_code == ErrorCode.NONE
    assert partition.appended == 1
