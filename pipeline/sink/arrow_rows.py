"""Arrow record batches into the compiled builder: columns are found, checked and handed over as buffers, without a copy.

value binary or string | key binary or string | headers array<struct<key string, value binary>> | topic string
partition int | timestamp timestamp; others are left alone, as Spark's Kafka sink does. Only value must be there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ..exceptions import OptionError, PipelineError

if TYPE_CHECKING:
    from ...protocol.records._batches import BatchBuilder, Binary, Headers, Numbers

#: Column → the types in Spark's words that it may have.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}


class RowError(PipelineError):
    """A row has no topic, or a header without a key."""


def check_columns(found: Mapping[str, str], topic: str | None) -> None:
    """`found`: columns and their types in Spark's words. OptionError."""
    if "value" not in found:
        raise OptionError(f"there is no column value; the columns are {', '.join(found) or 'none'}")
    if topic is None and "topic" not in found:
        raise OptionError("set the option topic, or give a column topic")
    for name, kinds in COLUMNS.items():
        if name in found and found[name].split("(")[0] not in (*kinds, "void"):
            raise OptionError(f"the column {name} is {found[name]}; it can be {' or '.join(kinds)}")


def by_topic(batch: Any, topic: str | None) -> Iterator[tuple[str, Any]]:
    """The rows of each topic, in order. The option beats the column, as in Spark's Kafka sink. RowError."""
    if topic is not None:
        yield topic, batch
        return
    column = batch.column(batch.schema.get_field_index("topic"))
    if column.null_count:
        raise RowError("a row has no topic: its column topic is null, and there is no option topic")
    for name in pc.unique(column).to_pylist():
        rows = batch.filter(pc.equal(column, name))
        yield name, rows


def add_rows(builder: BatchBuilder, batch: Any, now: int) -> None:
    """RecordTooLargeError, ValueError as the builder; RowError. `now` in ms."""
    names = batch.schema.names

    def column(name: str, make: Callable[[Any], Any]) -> Any:
        if name not in names:
            return None
        found = batch.column(names.index(name))
        return None if pa.types.is_null(found.type) else make(found)

    values = column("value", _binary)
    if values is None:  # void: all null
        values = _binary(pa.nulls(batch.num_rows, pa.binary()))
    builder.add(
        batch.num_rows,
        values,
        keys=column("key", _binary),
        headers=column("headers", _headers),
        timestamps=column("timestamp", _microseconds),
        partitions=column("partition", lambda found: _numbers(found, pa.int32())),
        now=now,
    )


def _binary(array: Any) -> Binary:
    if not (pa.types.is_binary(array.type) or pa.types.is_string(array.type)):
        array = array.cast(pa.binary())
    validity, positions, data = array.buffers()
    if positions is None:  # of no rows
        positions = bytes(4)
    return validity if array.null_count else None, positions, data if data is not None else b"", array.offset


def _numbers(array: Any, kind: Any) -> Numbers:
    if array.type != kind:
        array = array.cast(kind)
    validity, data = array.buffers()
    return validity if array.null_count else None, data if data is not None else b"", array.offset


def _microseconds(array: Any) -> Numbers:
    # Any unit; a zone changes how a moment is shown and not which it is.
    return _numbers(array.cast(pa.timestamp("us", tz=array.type.tz)).view(pa.int64()), pa.int64())


def _headers(array: Any) -> Headers:
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    validity, positions = array.buffers()[:2]
    pairs = array.values
    names, contents = pairs.field(0), pairs.field(1)
    if names.null_count:
        raise RowError("a header has no key: Kafka's headers have one each")
    return (
        validity if array.null_count else None,
        positions if positions is not None else bytes(4),
        array.offset,
        _binary(names),
        _binary(contents),
    )
