"""Output of a reader: records of one partition as columns, as in Arrow, and the choice of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ...protocol.records._columns import Binary, Block

#: Rows that are handed on at once: more gain nothing, fewer cost Spark per batch.
ROWS_AT_ONCE = 16_384
#: Bytes after which they are handed on all the same.
BYTES_AT_ONCE = 32 << 20

#: Bytes that a task of `view=latest` has of rows and keys, about, before they go by way of a disk.
LATEST_MEMORY = 512 << 20


class Wish(NamedTuple):
    """Wanted columns and records. Timestamps in ms, both ends included."""

    keys: bool = True
    values: bool = True
    headers: bool = False
    timestamps: bool = True
    min_timestamp: int = -(1 << 63)
    max_timestamp: int = (1 << 63) - 1


EVERYTHING = Wish(headers=True)


class Columns(NamedTuple):
    """`rows` records in order of their offsets; the blocks as `ColumnBuilder.take` gives them. `timestamps` are zeros where
    they were not wished.
    """

    rows: int
    offsets: Block
    timestamps: Block
    timestamp_types: Block
    keys: Binary | None
    values: Binary | None
    headers: tuple[Block, int, Binary, Binary] | None


class Keeping(NamedTuple):
    """Settings of `view=latest`. `partitions`: their number in the topic, if keys must be where its partitioner puts
    them, else 0.
    """

    partitions: int = 0
    tombstones: bool = False
