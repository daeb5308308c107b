"""Views of one partition: the latest row of each key, or every row with what it changes. In Arrow and a kernel; no Spark.

`view=latest` keeps the rows that are the last of their key so far and drops the others, so that memory follows the keys
and not the log; where there are too many keys for it, rows go by way of a disk, divided by their keys (`spill.py`). Rows
without a key belong to no key, and are in no view of the latest. A key may be in two partitions when
producers have a partitioner of their own or the number of partitions has changed: nobody's metadata tells of that, but
the keys do. Each row's key is held against Kafka's default partitioner, which puts a key into one partition only; one that is
somewhere else ends the read, with what to do.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from ...protocol.records._batches import first_elsewhere
from ..exceptions import PipelineError
from ._key_table import KeyTable
from .arrow import record_batch
from .columns import BYTES_AT_ONCE, LATEST_MEMORY, ROWS_AT_ONCE, Keeping
from .spill import BUCKETS, Spill

if TYPE_CHECKING:
    from ...protocol.records._columns import Binary
    from .columns import Columns

logger = logging.getLogger(__name__)

#: Rows that may be kept although they are nobody's latest any more, beside as many as there are keys.
SPARE_ROWS = 1 << 18

INSERT, UPDATE, DELETE = 0, 1, 2
_OPERATIONS = ("insert", "update", "delete")


class KeysMoveError(PipelineError):
    """A key is where the default partitioner would not put it: it may be in two partitions."""


class _Block(NamedTuple):
    """Rows that are kept, and the number of each since the beginning."""

    rows: Any
    numbers: Any


#: Beside the rows' own columns: whether the row is a tombstone.
_GONE = "_gone"


def latest(
    parts: Iterator[Columns], names: Sequence[str], topic: str, partition: int, keeping: Keeping,
    memory: int = LATEST_MEMORY,
) -> Iterator[Any]:  # fmt: skip
    """`pyarrow.RecordBatch`es with one row per key, without keys whose last row is a tombstone, unless those are kept: in the
    order of offsets, or in none where the rows of the keys take more than about `memory` bytes and go by way of a disk.
    `parts` have keys and values. KeysMoveError, SpillError, and whatever the parts raise.
    """
    plain = [*names] if "key" in names else [*names, "key"]

    def made() -> Iterator[Any]:
        for columns in parts:
            assert columns.keys is not None
            assert columns.values is not None
            if keeping.partitions:
                _check_place(columns, topic, partition, keeping.partitions)
            rows = record_batch(columns, plain, topic, partition)
            gone = pa.array(~_valid(columns.rows, columns.values))
            yield pa.RecordBatch.from_arrays([*rows.columns, gone], names=[*plain, _GONE])

    for rows in _newest(made(), tombstones=keeping.tombstones, memory=memory):
        yield rows.select(list(names))


def _newest(parts: Iterator[Any], *, tombstones: bool, memory: int) -> Iterator[Any]:
    """The last row of each key, of batches in order with `key` and `_GONE`."""
    secret = os.urandom(16)
    table = KeyTable(secret)
    blocks: list[_Block] = []
    counted, stored, superseded, held = 0, 0, 0, 0
    is_last: Any = np.zeros(ROWS_AT_ONCE, dtype=bool)
    with Spill() as spill:
        for made in parts:
            rows = made.num_rows
            if not rows:
                continue
            keys = _column(made.column("key"))
            numbers: Any = np.arange(counted, counted + rows, dtype=np.int64)
            previous: Any = np.empty(rows, dtype=np.int64)
            table.replace(rows, keys, numbers, previous)
            counted += rows
            if len(is_last) < counted:
                is_last = np.concatenate([is_last, np.zeros(max(len(is_last), rows), dtype=bool)])
            shown = _valid(rows, keys)
            if not (tombstones or spill.is_used):  # those that are on disk must still be taken away
                shown &= ~made.column(_GONE).to_numpy(zero_copy_only=False)
            is_last[counted - rows : counted] = shown
            replaced = previous[previous >= 0]
            is_last[replaced] = False
            blocks.append(_Block(made, numbers))
            stored, held = stored + rows, held + made.nbytes
            superseded += len(replaced) + rows - int(np.count_nonzero(shown))
            is_full = held + table.memory > memory
            if is_full or superseded > stored // 2 + SPARE_ROWS:
                blocks = _kept(blocks, is_last)
                stored, superseded = sum(block.rows.num_rows for block in blocks), 0
                held = sum(block.rows.nbytes for block in blocks)
            # Half of it: what is just below would be looked through for each part that comes.
            if is_full and stored > 1 and held + table.memory > memory // 2:
                _put_away(blocks, table, spill)
                table, blocks = KeyTable(secret), []
                counted, stored, held = 0, 0, 0
        blocks = _kept(blocks, is_last)
        if not spill.is_used:
            for block in blocks:
                yield block.rows
            return
        _put_away(blocks, table, spill)
        blocks, table = [], KeyTable(secret)
        logger.info("the newest rows of a partition went by way of a disk: %d bytes", spill.bytes)
        for part in spill.parts():
            yield from _newest(part, tombstones=tombstones, memory=memory)


def _put_away(blocks: list[_Block], table: KeyTable, spill: Spill) -> None:
    for block in blocks:
        rows = block.rows.num_rows
        buckets: Any = np.empty(rows, dtype=np.int64)
        table.buckets(rows, _column(block.rows.column("key")), BUCKETS, buckets)
        spill.add(block.rows, buckets)


def _column(keys: Any) -> Binary:
    """Arrow's keys as `ColumnBuilder.take` gives a column."""
    assert keys.offset == 0
    validity, positions, data = keys.buffers()
    column: Any = (keys.null_count, validity or b"\xff" * (len(keys) // 8 + 1), positions, data or b"")
    found: Binary = column
    return found


def changelog(parts: Iterator[Columns], names: Sequence[str], topic: str, partition: int) -> Iterator[Any]:
    """Every row, with `_op` (insert, update, delete) and `_previous_offset`, of the row of the same key before it, if there
    is one in what is read. A row without a key is an insert.
    """
    table = KeyTable(os.urandom(16))
    plain = [name for name in names if not name.startswith("_")]
    words = pa.array(_OPERATIONS, pa.string())
    for columns in parts:
        rows = columns.rows
        assert columns.keys is not None
        assert columns.values is not None
        is_delete = ~_valid(rows, columns.values)
        said = np.frombuffer(columns.offsets, dtype=np.int64) * 2 + is_delete
        previous: Any = np.empty(rows, dtype=np.int64)
        table.replace(rows, columns.keys, said, previous)
        operation = np.where((previous >= 0) & (previous % 2 == 0), UPDATE, INSERT)
        operation[is_delete & _valid(rows, columns.keys)] = DELETE
        made = record_batch(columns, plain, topic, partition)
        arrays = dict(zip(plain, made.columns, strict=True))
        arrays["_op"] = words.take(pa.array(operation))
        arrays["_previous_offset"] = pa.array(previous // 2, pa.int64(), mask=previous < 0)
        yield pa.RecordBatch.from_arrays([arrays[name] for name in names], names=list(names))


def _check_place(columns: Columns, topic: str, partition: int, partitions: int) -> None:
    row = first_elsewhere(columns.rows, columns.keys, partition, partitions)
    if row < 0:
        return
    assert columns.keys is not None
    _, _, positions, data = columns.keys
    start, end = np.frombuffer(positions, dtype=np.int32)[row : row + 2]
    offset = int(np.frombuffer(columns.offsets, dtype=np.int64)[row])
    key = bytes(memoryview(data)[start : min(end, start + 40)])
    raise KeysMoveError(
        f"{topic}-{partition}: the key {key!r} at offset {offset} is not where Kafka's default partitioner puts it in "
        f"{partitions} partitions, so it may be in two of them; use tidelog.pipeline.latest(…) with keysStayInPartition=false, "
        "which compares partitions, or say keysStayInPartition=true if your producers choose partitions by the key in their own "
        "way and their number never changed"
    )


def _valid(rows: int, column: Any) -> Any:
    nulls, validity, _, _ = column
    if not nulls:
        return np.ones(rows, dtype=bool)
    bits = np.unpackbits(np.frombuffer(validity, dtype=np.uint8), count=rows, bitorder="little")
    return bits.astype(bool)


def _kept(blocks: list[_Block], is_last: Any) -> list[_Block]:
    """The rows that are still somebody's latest, in blocks of a good size."""
    found: list[_Block] = []
    group: list[_Block] = []
    size = bytes_ = 0
    for block in blocks:
        mask = is_last[block.numbers]
        left = block if mask.all() else _Block(block.rows.filter(pa.array(mask)), block.numbers[mask])
        if not left.rows.num_rows:
            continue
        group.append(left)
        size, bytes_ = size + left.rows.num_rows, bytes_ + left.rows.nbytes
        if size >= ROWS_AT_ONCE or bytes_ >= BYTES_AT_ONCE:
            found.append(_joined(group))
            group, size, bytes_ = [], 0, 0
    if group:
        found.append(_joined(group))
    return found


def _joined(group: list[_Block]) -> _Block:
    if len(group) == 1:
        return group[0]
    (rows,) = pa.Table.from_batches([block.rows for block in group]).combine_chunks().to_batches()
    return _Block(rows, np.concatenate([block.numbers for block in group]))
