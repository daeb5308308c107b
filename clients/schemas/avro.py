"""Avro: the shape that a schema has, and values read by their writer's schema into the reader's. fastavro does the reading.

Logical types are ours to convert: fastavro goes by the writer's, so that a number of a writer without `timestamp-millis` would
come out a thousand times too small. Schemas by which few bytes would make many values, or endless depth, are refused.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

from .exceptions import BadRecordError, SchemaError
from .shape import FieldCount, Kind, Shape

#: What turns a value as Avro stores it into one of its shape; None: it is one.
Converter = Callable[[Any], Any] | None

_LOGICAL = "logicalType"
#: What fastavro does not know, and keeps.
_HIDDEN = "tidelog.logicalType"
_PRIMITIVES = {
    "boolean": Kind.BOOLEAN, "int": Kind.INT, "long": Kind.LONG, "float": Kind.FLOAT, "double": Kind.DOUBLE,
    "string": Kind.STRING, "bytes": Kind.BINARY,
}  # fmt: skip
#: Unions of numbers that have one column, as in Spark's from_avro.
_WIDER = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
#: Digits of a decimal in 128 bits.
_MOST_DIGITS = 38
_EXACT = Context(prec=400)


class AvroSchema:
    """A parsed schema. SchemaError: it is none, refers to what is not there, or is of the refused kinds (above)."""

    def __init__(self, text: str, references: Sequence[str] = ()) -> None:
        """`references`: texts of schemas that it refers to, each behind those that it refers to itself."""
        from fastavro import parse_schema
        from fastavro.schema import SchemaParseException, UnknownType

        self.named: dict[str, Any] = {}
        try:
            for one in references:
                parse_schema(_hidden(json.loads(one)), self.named, _write_hint=False)
            #: As fastavro wants it for reading.
            self.parsed: Any = parse_schema(_hidden(_loaded(text)), self.named)
            _check(self.parsed, self.named, (), {})
        except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SchemaError(f"this is no Avro schema: {type(error).__name__}: {str(error)[:300]}") from None
        except RecursionError:
            raise SchemaError("this Avro schema is nested too deeply") from None


class AvroReader:
    """Reads values into one schema's shape. One thread."""

    def __init__(self, schema: AvroSchema) -> None:
        """SchemaError: the schema has no columns."""
        self._schema = schema
        if not isinstance(schema.parsed, dict) or schema.parsed.get("type") != "record":
            raise SchemaError(
                "columns come of an Avro record, and this schema is none; leave decode out and use `value`"
            )
        self.shape, self._convert = _Shapes(schema.named).shape(schema.parsed, "")

    def decode(self, value: bytes, writer: AvroSchema | None = None) -> dict[str, Any]:
        """The record in `value`, which has nothing else; `writer`: the schema that it was written by. BadRecordError."""
        from fastavro import schemaless_reader

        reader = None if writer is None else self._schema.parsed
        stream = io.BytesIO(value)
        try:
            found: Any = schemaless_reader(stream, (writer or self._schema).parsed, reader)
            left = len(value) - stream.tell()
            if left:
                raise BadRecordError(f"{left} bytes are left over behind the record: another schema wrote it")
            converted: dict[str, Any] = found if self._convert is None else self._convert(found)
        except BadRecordError:
            raise
        except (
            Exception
        ) as error:  # fastavro raises what Python happens to raise on such bytes: IndexError, EOFError, …
            raise BadRecordError(f"not by its Avro schema: {_words(error)}") from None
        return converted


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {text}" if text else f"it ends too early ({type(error).__name__})"


def _loaded(text: str) -> Any:
    """A schema may be a bare name, which is no JSON."""
    stripped = text.strip()
    return stripped if stripped in _PRIMITIVES else json.loads(stripped)


def _hidden(schema: Any) -> Any:
    """The schema without logical types for fastavro."""
    if isinstance(schema, list):
        return [_hidden(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    found = {(_HIDDEN if name == _LOGICAL else name): value for name, value in schema.items()}
    for name in ("type", "items", "values"):
        if isinstance(found.get(name), dict | list):
            found[name] = _hidden(found[name])
    if isinstance(found.get("fields"), list):
        found["fields"] = [
            {**one, "type": _hidden(one["type"])} if isinstance(one, dict) and "type" in one else one
            for one in found["fields"]
        ]
    return found


def _check(schema: Any, named: Mapping[str, Any], path: tuple[str, ...], done: dict[str, int]) -> int:
    """Bytes that a value has at least. SchemaError for a type within itself, whose bytes could ask for any depth, and for arrays
    of what has no bytes, of which ten bytes would be any number. `done`: of records, by name.
    """
    if isinstance(schema, list):
        for branch in schema:
            _check(branch, named, path, done)
        return 1
    if isinstance(schema, str):
        if schema in _PRIMITIVES or schema == "null":
            return {"null": 0, "float": 4, "double": 8}.get(schema, 1)
        return _check(named[schema], named, path, done)
    kind = schema["type"]
    if kind in ("record", "error"):
        name = schema["name"]
        if name in path:
            raise SchemaError(f"{name} is a type within itself, which has no columns")
        if name not in done:
            done[name] = sum(_check(one["type"], named, (*path, name), done) for one in schema["fields"])
        return done[name]
    if kind == "array":
        if _check(schema["items"], named, path, done) == 0:
            raise SchemaError(
                "an array of what takes no bytes could have any number of elements; no such schema is read"
            )
        return 1
    if kind == "map":
        _check(schema["values"], named, path, done)
        return 1
    if kind == "fixed":
        return int(schema["size"])
    return 1 if kind == "enum" else _check(kind, named, path, done)


class _Shapes:
    """Shapes of a parsed schema's parts. SchemaError names the field that has none."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._count = FieldCount()

    def shape(self, schema: Any, path: str) -> tuple[Shape, Converter]:
        self._count.one()
        if isinstance(schema, list):
            return self._union(schema, path)
        if isinstance(schema, str):
            if schema == "null":
                return Shape(Kind.STRING), None  # always null
            return _primitive(schema, {}) if schema in _PRIMITIVES else self.shape(self._named[schema], path)
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema, path)
        if kind == "array":
            shape, convert = self.shape(schema["items"], f"{path}[]")
            return Shape(Kind.ARRAY, item=shape), None if convert is None else _each(convert)
        if kind == "map":
            shape, convert = self.shape(schema["values"], f"{path}{{}}")
            return Shape(Kind.MAP, key=Shape(Kind.STRING), item=shape), _pairs(convert)
        if kind == "enum":
            return Shape(Kind.STRING), None
        if isinstance(kind, str) and (kind in _PRIMITIVES or kind == "fixed"):
            return _primitive(kind, schema)
        return self.shape(kind, path)

    def _record(self, schema: Any, path: str) -> tuple[Shape, Converter]:
        fields = [(one["name"], *self.shape(one["type"], f"{path}.{one['name']}")) for one in schema["fields"]]
        if not fields:
            raise SchemaError(f"{path.lstrip('.') or 'the record'} has no fields, so it has no columns")
        shape = Shape(Kind.STRUCT, tuple((name, shape) for name, shape, _ in fields))
        return shape, _struct_converter({name: convert for name, _, convert in fields if convert is not None})

    def _union(self, branches: Sequence[Any], path: str) -> tuple[Shape, Converter]:
        some = [branch for branch in branches if branch != "null"]
        if not some:
            return Shape(Kind.STRING), None
        if len(some) == 1:
            shape, convert = self.shape(some[0], path)
            return shape, None if convert is None else _unless_none(convert)
        names = frozenset(branch if isinstance(branch, str) else str(branch.get("type")) for branch in some)
        if all(isinstance(branch, str) for branch in some) and names in _WIDER:
            return _primitive(_WIDER[names], {})
        raise SchemaError(
            f"{path.lstrip('.') or 'the record'} is a union of {' and '.join(sorted(names))}, which is no one column: only null "
            "and one type, or int and long, or float and double"
        )


def _primitive(kind: str, schema: Mapping[str, Any]) -> tuple[Shape, Converter]:
    """A logical type that does not fit its type is none, as Avro has it."""
    logical = schema.get(_HIDDEN)
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if type(precision) is int and type(scale) is int and 0 < precision <= _MOST_DIGITS and 0 <= scale <= precision:
            return Shape(Kind.DECIMAL, precision=precision, scale=scale), _decimal(scale)
    if kind == "int" and logical == "date":
        return Shape(Kind.DATE), None
    if kind == "long" and logical in ("timestamp-millis", "timestamp-micros"):
        return Shape(Kind.TIMESTAMP), _to_micros if logical == "timestamp-millis" else None
    if kind == "long" and logical in ("local-timestamp-millis", "local-timestamp-micros"):
        return Shape(Kind.LOCAL_TIMESTAMP), _to_micros if logical == "local-timestamp-millis" else None
    if kind in ("bytes", "fixed"):
        return Shape(Kind.BINARY), _to_bytes
    return Shape(_PRIMITIVES[kind]), None


def _to_micros(value: int) -> int:
    return 1000 * value


def _to_bytes(value: bytes | str) -> bytes:
    """A default is a text of characters up to 255."""
    return value.encode("latin-1") if isinstance(value, str) else value


def _decimal(scale: int) -> Callable[[Any], Decimal]:
    def convert(value: Any) -> Decimal:
        return Decimal(int.from_bytes(_to_bytes(value), "big", signed=True)).scaleb(-scale, _EXACT)

    return convert


def _unless_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _each(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: [convert(value) for value in values]


def _pairs(convert: Converter) -> Callable[[Any], Any]:
    if convert is None:
        return lambda values: list(values.items())
    return lambda values: [(key, convert(value)) for key, value in values.items()]


def _struct_converter(converters: Mapping[str, Callable[[Any], Any]]) -> Converter:
    if not converters:
        return None

    def convert(record: dict[str, Any]) -> dict[str, Any]:
        for name, each in converters.items():
            record[name] = each(record[name])
        return record

    return convert
