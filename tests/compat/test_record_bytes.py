"""aiokafka's two record builders (compiled and plain) against ours and the kernel; no broker.

Here and not among the property tests, because aiokafka comes with the compat extra. kafka-python's are held against ours in
tests/property/test_records_against_clients.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import (
    DefaultRecordBatch,
    DefaultRecordBatchBuilder,
    _DefaultRecordBatchBuilderPy,
)
from hypothesis import assume, given, settings
from support.record_strategies import batch_arguments, records
from tidelog.protocol.records import _kernel as kernel
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record, read_batch_header

BUILDERS = [DefaultRecordBatchBuilder, _DefaultRecordBatchBuilderPy]


def built_by(builder_class: Any, content: list[Record], arguments: dict[str, Any]) -> bytes:
    if builder_class is DefaultRecordBatchBuilder:
        assume(content[0].timestamp != -1)  # the compiled one takes that for "no record yet"
    builder = builder_class(
        2,
        int(arguments["compression"]),
        int(arguments["is_transactional"]),
        arguments["producer_id"],
        arguments["producer_epoch"],
        arguments["base_sequence"],
        1 << 30,
    )
    for record in content:
        headers = [(key.decode(), value) for key, value in record.headers]
        builder.append(record.offset, record.timestamp, record.key, record.value, headers)
    return bytes(builder.build())


@pytest.mark.parametrize("builder_class", BUILDERS)
@settings(max_examples=60, deadline=None)
@given(records(), batch_arguments())
def test_same_bytes_uncompressed(builder_class: Any, content: list[Record], arguments: dict[str, Any]) -> None:
    arguments["compression"] = Compression.NONE
    theirs = built_by(builder_class, content, arguments)
    leader_epoch = read_batch_header(theirs).partition_leader_epoch
    assert build_batch(content, partition_leader_epoch=leader_epoch, **arguments) == theirs


@pytest.mark.parametrize("builder_class", BUILDERS)
@settings(max_examples=60, deadline=None)
@given(records(), batch_arguments())
def test_the_kernel_takes_and_reads_theirs(
    builder_class: Any, content: list[Record], arguments: dict[str, Any]
) -> None:
    batch = bytearray(built_by(builder_class, content, arguments))
    assert kernel.decode_records(batch, 0, len(batch)) == content
    info = kernel.validate_and_assign(batch, 0, len(batch), 70, 1, -1, False)
    assert info.last_offset == 70 + len(content) - 1


@settings(max_examples=60, deadline=None)
@given(records(), batch_arguments())
def test_theirs_reads_ours(content: list[Record], arguments: dict[str, Any]) -> None:
    batch = DefaultRecordBatch(build_batch(content, **arguments))
    assert batch.validate_crc()
    read = [
        (
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            [(key.encode(), value) for key, value in record.headers],
        )
        for record in batch
    ]
    assert read == [(*record[:4], list(record.headers)) for record in content]
