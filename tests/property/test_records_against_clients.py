"""Our builder and reader against kafka-python's, which share no line with them."""

from __future__ import annotations

import warnings
from typing import Any

from hypothesis import given, settings
from support.record_strategies import batch_arguments, records
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record, iterate_records, read_batch_header

with warnings.catch_warnings():
    # kafka-python loads its schemas through a function that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder


def built_by_kafka_python(content: list[Record], arguments: dict[str, Any]) -> bytes:
    builder = DefaultRecordBatchBuilder(
        2,
        int(arguments["compression"]),
        arguments["is_transactional"],
        arguments["producer_id"],
        arguments["producer_epoch"],
        arguments["base_sequence"],
        1 << 30,
    )
    for record in content:
        headers = [(key.decode(), value) for key, value in record.headers]
        assert builder.append(record.offset, record.timestamp, record.key, record.value, headers) is not None
    return bytes(builder.build())


@settings(max_examples=60, deadline=None)
@given(records(), batch_arguments())
def test_same_bytes_as_kafka_python(content: list[Record], arguments: dict[str, Any]) -> None:
    arguments["compression"] = Compression.NONE
    theirs = built_by_kafka_python(content, arguments)
    leader_epoch = read_batch_header(theirs).partition_leader_epoch
    assert build_batch(content, partition_leader_epoch=leader_epoch, **arguments) == theirs


@settings(max_examples=60, deadline=None)
@given(records(), batch_arguments())
def test_reads_what_kafka_python_built(content: list[Record], arguments: dict[str, Any]) -> None:
    theirs = built_by_kafka_python(content, arguments)
    assert list(iterate_records(theirs)) == content


@settings(max_examples=60, deadline=None)
@given(records(), batch_arguments())
def test_kafka_python_reads_what_we_built(content: list[Record], arguments: dict[str, Any]) -> None:
    batch = DefaultRecordBatch(build_batch(content, base_offset=0, **arguments))
    assert batch.validate_crc()
    read = [
        Record(
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            tuple((key.encode(), value) for key, value in record.headers),
        )
        for record in batch
    ]
    assert read == content
