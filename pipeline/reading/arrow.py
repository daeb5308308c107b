"""Columns as Arrow, in the schema of Spark's Kafka source.

key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int
and with includeHeaders: headers array<struct<key string, value binary>>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .columns import Columns, Wish

if TYPE_CHECKING:
    from ...protocol.records._columns import Binary

_TIMESTAMP = pa.timestamp("us", tz="UTC")


def wish_for(names: Sequence[str], min_timestamp: int | None = None, max_timestamp: int | None = None) -> Wish:
    """Decoding needed for these columns. Timestamps in ms, the end excluded."""
    wish = Wish("key" in names, "value" in names, "headers" in names, timestamps="timestamp" in names)
    if min_timestamp is not None:
        wish = wish._replace(min_timestamp=min_timestamp)
    if max_timestamp is not None:
        wish = wish._replace(max_timestamp=max_timestamp - 1)
    return wish


def record_batch(columns: Columns, names: Sequence[str], topic: str, partition: int) -> Any:
    """A `pyarrow.RecordBatch` with those columns in that order; shares the columns' memory."""
    rows = columns.rows
    made: dict[str, Any] = {}
    for name in names:
        if name == "key":
            made[name] = _binary(rows, columns.keys)
        elif name == "value":
            made[name] = _binary(rows, columns.values)
        elif name == "topic":
            made[name] = pa.repeat(pa.scalar(topic, pa.string()), rows)
        elif name == "partition":
            made[name] = pa.repeat(pa.scalar(partition, pa.int32()), rows)
        elif name == "offset":
            made[name] = pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(columns.offsets)])
        elif name == "timestamp":
            made[name] = pa.Array.from_buffers(_TIMESTAMP, rows, [None, pa.py_buffer(columns.timestamps)])
        elif name == "timestampType":
            made[name] = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(columns.timestamp_types)])
        elif name == "headers":
            made[name] = _headers(columns)
        else:
            raise KeyError(name)
    return pa.RecordBatch.from_arrays(list(made.values()), names=list(made))


def _binary(rows: int, column: Binary | None, kind: Any = None) -> Any:
    assert column is not None
    nulls, validity, positions, data = column
    buffers = [pa.py_buffer(validity) if nulls else None, pa.py_buffer(positions), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind or pa.binary(), rows, buffers, null_count=nulls)


def _headers(columns: Columns) -> Any:
    assert columns.headers is not None
    positions, count, names, values = columns.headers
    # Kafka's names are strings; one that is not UTF-8 shall not make the rest unreadable.
    keys = _binary(count, names)
    try:
        keys = keys.cast(pa.string())
    except pa.ArrowInvalid:
        keys = pa.array([name.decode("utf-8", "replace") for name in keys.to_pylist()], pa.string())
    pairs = pa.StructArray.from_arrays([keys, _binary(count, values)], ["key", "value"])
    at = pa.Array.from_buffers(pa.int32(), columns.rows + 1, [None, pa.py_buffer(positions)])
    lists = pa.ListArray.from_arrays(at, pairs)
    # As Spark's Kafka source: a record without headers has null.
    empty = pa.compute.equal(pa.compute.list_value_length(lists), 0)
    return pa.compute.if_else(empty, pa.scalar(None, lists.type), lists)
