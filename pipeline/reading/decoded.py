"""Values as columns: `record`, a struct by the schema, and `recordError`, why there is none.

A value that is null has neither. Only what a record's bytes are to blame for is a row's reason; a registry that is away stops the
read, for it says nothing of the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from ...clients.schemas.decoder import Decoder, Pinned, pin
from ...clients.schemas.decoder import Decoding as Asked
from ...clients.schemas.exceptions import BadRecordError, RegistryError, SchemaError
from ...clients.schemas.shape import Kind, Shape
from ..decode_options import RECORD, RECORD_ERROR
from ..exceptions import DecodingError, OptionError

#: Characters of a reason.
_MOST_REASON = 500

_PLAIN = {
    Kind.BOOLEAN: pa.bool_(), Kind.INT: pa.int32(), Kind.LONG: pa.int64(), Kind.FLOAT: pa.float32(), Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(), Kind.BINARY: pa.binary(), Kind.DATE: pa.date32(), Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.LOCAL_TIMESTAMP: pa.timestamp("us"),
}  # fmt: skip
#: What Arrow raises for a value that its type does not have: a number too large, a text that is no UTF-8.
_REFUSED = (pa.ArrowException, OverflowError, TypeError, ValueError)


def pinned_schema(asked: Asked) -> Pinned:
    """The schema that a read's values are decoded by, and that it has columns. May ask a registry: blocks. OptionError,
    DecodingError.
    """
    try:
        pinned = pin(asked)
    except ImportError as error:
        raise OptionError(f"decode={asked.form.value} needs {error.name}: pip install 'tidelog[decode]'") from None
    except SchemaError as error:
        raise OptionError(f"decode={asked.form.value}: {error}") from None
    except RegistryError as error:
        raise DecodingError(f"decode={asked.form.value}: {error}") from None
    Decoding(pinned)
    return pinned


def arrow_type(shape: Shape) -> Any:
    """A `pyarrow.DataType`."""
    if shape.kind is Kind.DECIMAL:
        return pa.decimal128(shape.precision, shape.scale)
    if shape.kind is Kind.STRUCT:
        return pa.struct([(name, arrow_type(each)) for name, each in shape.fields])
    if shape.kind is Kind.ARRAY:
        assert shape.item is not None
        return pa.list_(arrow_type(shape.item))
    if shape.kind is Kind.MAP:
        assert shape.key is not None
        assert shape.item is not None
        return pa.map_(arrow_type(shape.key), arrow_type(shape.item))
    return _PLAIN[shape.kind]


class Decoding:
    """Makes both columns of values. One thread; a task has its own."""

    def __init__(self, pinned: Pinned) -> None:
        """OptionError: the schema has no columns."""
        try:
            self._decoder = Decoder(pinned)
        except SchemaError as error:
            raise OptionError(f"decode={pinned.form.value}: {error}") from None
        self.shape = self._decoder.shape
        self._type = arrow_type(self.shape)

    def columns(self, values: Sequence[bytes | None]) -> tuple[Any, Any]:
        """`pyarrow.Array`s of records and of reasons. May ask a registry: blocks. DecodingError."""
        rows: list[Any] = []
        reasons: list[str | None] = []
        for value in values:
            row = reason = None
            try:
                row = None if value is None else self._decoder.decode(value)
            except BadRecordError as error:
                reason = str(error)
            except RegistryError as error:
                raise DecodingError(f"values cannot be decoded: {error}") from None
            rows.append(row)
            reasons.append(reason)
        try:
            records = pa.array(rows, self._type)
        except _REFUSED:
            records = pa.array(self._each(rows, reasons), self._type)
        cut = [None if reason is None else _shown(reason) for reason in reasons]
        return records, pa.array(cut, pa.string())

    def _each(self, rows: list[Any], reasons: list[str | None]) -> list[Any]:
        """The rows that Arrow takes; of the others the reason is noted."""
        for at, row in enumerate(rows):
            try:
                pa.array([row], self._type)
            except _REFUSED as error:
                rows[at], reasons[at] = None, f"its schema's type does not hold a value of it: {error}"
        return rows


def _shown(reason: str) -> str:
    return reason[:_MOST_REASON].encode("utf-8", "replace").decode()


def with_records(batches: Iterable[Any], names: Sequence[str], pinned: Pinned) -> Iterator[Any]:
    """Record batches that have `value` as ones with those columns in that order."""
    decoding = Decoding(pinned)
    for batch in batches:
        made = {name: batch.column(name) for name in batch.schema.names}
        made[RECORD], made[RECORD_ERROR] = decoding.columns(made["value"].to_pylist())
        yield pa.RecordBatch.from_arrays([made[name] for name in names], names=list(names))
