"""Golden bytes: values of records that Apache Kafka 4.3.1 wrote to `__cluster_metadata-0`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tidelog.protocol.config_resources import ConfigResourceType
from tidelog.protocol.errors import ErrorCode, MalformedRequest, ProtocolError
from tidelog.protocol.metadata_records import (
    ConfigRecord,
    MetadataRecordType,
    PartitionChangeRecord,
    TopicRecord,
    decode_record,
    encode_record,
)
from tidelog.protocol.records.record_batch import iterate_batches, iterate_records

LOG = Path(__file__).parents[3] / "golden" / "kafka-data" / "data" / "__cluster_metadata-0" / f"{0:020d}.log"
NO_OP = bytes.fromhex("01140000")


def values() -> list[bytes]:
    data = LOG.read_bytes()
    return [
        record.value or b""
        for batch in iterate_batches(data)
        if not batch.is_control
        for record in iterate_records(data, batch.position)
    ]


def test_what_kafka_wrote_is_written_the_same() -> None:
    seen = set()
    for value in values():
        record_type, version, message = decode_record(value)
        assert record_type in set(MetadataRecordType)
        if message is not None:
            assert encode_record(message, version) == value
            seen.add(type(message).__name__)
    assert seen == {
        "BeginTransactionRecord", "ConfigRecord", "EndTransactionRecord", "FeatureLevelRecord", "PartitionChangeRecord",
        "PartitionRecord", "ProducerIdsRecord", "RegisterBrokerRecord", "TopicRecord",
    }  # fmt: skip


def test_the_first_setting_of_kafkas() -> None:
    messages = [decode_record(value).message for value in values()]
    assert next(one for one in messages if isinstance(one, ConfigRecord)) == ConfigRecord(
        resource_type=ConfigResourceType.BROKER, resource_name="", name="min.insync.replicas", value="1"
    )


def test_bytes_of_a_topic() -> None:
    topic = TopicRecord(name="t", topic_id=bytes(range(16)))
    assert encode_record(topic, 0).hex() == "010200" + "0274" + bytes(range(16)).hex() + "00"


def test_a_change_says_only_what_changes() -> None:
    change = PartitionChangeRecord(partition_id=3, topic_id=bytes(16), isr=[], leader=-1)
    decoded = decode_record(encode_record(change, 2)).message
    assert decoded == change
    assert isinstance(decoded, PartitionChangeRecord)
    assert (decoded.replicas, decoded.directories, decoded.leader_recovery_state) == (None, None, -1)


def test_a_type_without_a_declaration() -> None:
    assert decode_record(NO_OP) == (MetadataRecordType.NO_OP, 0, None)
    assert decode_record(bytes.fromhex("01e80700")) == (1000, 0, None)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"", "cut off"),
        (bytes.fromhex("00020000"), "version 0, not 1"),
        (bytes.fromhex("01"), "cut off"),
        (bytes.fromhex("0102000974"), "TopicRecord"),
        (encode_record(TopicRecord(name="t", topic_id=bytes(16)), 0) + b"\0", "1 bytes are left over"),
    ],
)
def test_what_is_no_record(value: bytes, problem: str) -> None:
    with pytest.raises(MalformedRequest, match=problem):
        decode_record(value)


def test_a_version_of_a_newer_kafka() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_record(bytes.fromhex("010207"))
    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
