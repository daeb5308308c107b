"""Golden bytes: what librdkafka put into JoinGroup, and SyncGroup handed out, as Apache Kafka 4.3.1 stored them."""

from __future__ import annotations

from tidelog.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from tidelog.protocol.schema import decode_with_version, encode_with_version

SUBSCRIPTION = bytes.fromhex("000300000002000a636c69656e742d6c7a3400056d697865640000000000000000ffffffff0000")
ASSIGNMENT = bytes.fromhex(
    "000000000002000a636c69656e742d6c7a34000000010000000000056d697865640000000300000000000000010000000200000000"
)


def test_a_subscription() -> None:
    message, version = decode_with_version(ConsumerProtocolSubscription, SUBSCRIPTION)
    assert (message, version) == (
        ConsumerProtocolSubscription(topics=["client-lz4", "mixed"], user_data=b"", generation_id=-1, rack_id=""),
        3,
    )
    assert encode_with_version(message, version) == SUBSCRIPTION


def test_an_assignment() -> None:
    message, version = decode_with_version(ConsumerProtocolAssignment, ASSIGNMENT)
    partitions = [
        TopicPartition(topic="client-lz4", partitions=[0]),
        TopicPartition(topic="mixed", partitions=[0, 1, 2]),
    ]
    assert (message, version) == (ConsumerProtocolAssignment(assigned_partitions=partitions, user_data=b""), 0)
    assert encode_with_version(message, version) == ASSIGNMENT
