"""Golden bytes: each record that Apache Kafka 4.3.1 wrote to `__transaction_state` in the sample directory."""

from __future__ import annotations

from collections import Counter

from support.kafka_sample import GOLDEN
from tidelog.protocol.messages.transaction_state import PartitionsSchema, TransactionLogKey, TransactionLogValue
from tidelog.protocol.records.record_batch import Record, iterate_batches, iterate_records
from tidelog.protocol.schema import decode_with_version, encode_with_version


def kafkas_records() -> list[Record]:
    logs = [path.read_bytes() for path in sorted((GOLDEN / "__transaction_state-0").glob("*.log"))]
    return [
        record for data in logs for batch in iterate_batches(data) for record in iterate_records(data, batch.position)
    ]


def test_what_kafka_wrote() -> None:
    states: Counter[int] = Counter()
    for record in kafkas_records():
        assert record.key is not None
        assert record.value is not None
        for cls, data in ((TransactionLogKey, record.key), (TransactionLogValue, record.value)):
            message, version = decode_with_version(cls, data)
            assert encode_with_version(message, version) == data
        states[decode_with_version(TransactionLogValue, record.value)[0].transaction_status] += 1
    assert states == {0: 4, 1: 55, 2: 36, 3: 18, 4: 36, 5: 18}


def test_one_of_them_field_by_field() -> None:
    record = kafkas_records()[5]
    assert record.value is not None
    assert decode_with_version(TransactionLogValue, record.value) == (
        TransactionLogValue(
            producer_id=11,
            previous_producer_id=11,
            producer_epoch=0,
            transaction_timeout_ms=60_000,
            transaction_status=3,
            transaction_partitions=[PartitionsSchema(topic="txn", partition_ids=[0])],
            transaction_last_update_timestamp_ms=1795253425789,
            transaction_start_timestamp_ms=1795253425748,
        ),
        1,
    )


def test_all_tags_of_version_1() -> None:
    value = TransactionLogValue(
        producer_id=1, previous_producer_id=2, next_producer_id=3, producer_epoch=4, next_producer_epoch=5,
        transaction_partitions=None, client_transaction_version=2,
    )  # fmt: skip
    data = encode_with_version(value, 1)
    assert data.hex(" ", 1).endswith(
        "04 00 08 00 00 00 00 00 00 00 02 01 08 00 00 00 00 00 00 00 03 02 02 00 02 03 02 00 05"
    )
    assert decode_with_version(TransactionLogValue, encode_with_version(value, 0))[0].next_producer_id == -1
