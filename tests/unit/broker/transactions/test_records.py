"""Records of `__transaction_state`: what Apache Kafka wrote is read and would be written again, byte for byte."""

from __future__ import annotations

import pytest
from support.kafka_sample import GOLDEN
from tidelog.broker.groups.store.offsets import TopicPartition
from tidelog.broker.transactions.log import (
    TransactionRecordError,
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from tidelog.broker.transactions.states import TransactionMetadata, TransactionState
from tidelog.protocol.records.record_batch import iterate_batches, iterate_records


def test_what_kafka_wrote() -> None:
    count = 0
    for path in sorted((GOLDEN / "__transaction_state-0").glob("*.log")):
        data = path.read_bytes()
        for batch in iterate_batches(data):
            for record in iterate_records(data, batch.position):
                assert record.key is not None
                assert record.value is not None
                name = read_transaction_key(record.key)
                assert name is not None
                assert transaction_key(name) == record.key
                assert transaction_value(read_transaction_value(name, record.value), 1) == record.value
                count += 1
    assert count == 167


def test_below_version_1_there_are_no_tags() -> None:
    places = frozenset(TopicPartition(topic, index) for topic, index in (("b", 3), ("a", 1), ("b", 0)))
    metadata = TransactionMetadata(
        "tx",
        5,
        1,
        100,
        TransactionState.ONGOING,
        7,
        6,
        places,
        previous_producer_id=4,
        next_producer_id=3,
        client_version=2,
    )
    plain = transaction_value(metadata, 0)
    assert plain.hex(" ", 1) == (
        "00 00 00 00 00 00 00 00 00 05 00 01 00 00 00 64 01 00 00 00 02 00 01 61 00 00 00 01 00 00 00 01 00 01 62 "
        "00 00 00 02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 07 00 00 00 00 00 00 00 06"
    )
    read = read_transaction_value("tx", plain)
    assert (read.partitions, read.previous_producer_id, read.next_producer_id, read.client_version) == (
        places,
        -1,
        -1,
        0,
    )
    assert read_transaction_value("tx", transaction_value(metadata, 2)) == metadata


def test_keys_of_kinds_to_come_are_left_alone() -> None:
    assert read_transaction_key(b"\0\1\0\1a") is None


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\0\0\5a"])
def test_broken_keys(key: bytes) -> None:
    with pytest.raises(TransactionRecordError):
        read_transaction_key(key)


@pytest.mark.parametrize("value", [b"", b"\0\2", b"\0\0" + bytes(10), b"\0\0" + bytes(14) + b"\x09" + bytes(20)])
def test_broken_values(value: bytes) -> None:
    with pytest.raises(TransactionRecordError):
        read_transaction_value("tx", value)
