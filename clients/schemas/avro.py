"""Avro: the shape that a schema has, and values read by their writer's schema into the reader's. fastavro does the reading.

Logical types are ours to convert: fastavro goes by the writer's, so that a number of a writer without `timestamp-millis` would
come out a thousand times too small. Schemas by which few bytes would make many values, or endless depth, are refused.
"""

from __future__ import annotations

import io
import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, NamedTuple

from .exceptions import BadRecordError, SchemaError
from .shape import MOST_DEPTH, MOST_FIELDS, FieldCount, Kind, Shape

#: What turns a value as Avro stores it into one of its shape; None: it is one.
Converter = Callable[[Any], Any] | None

_LOGICAL = "logicalType"
#: What fastavro does not know, and keeps.
_HIDDEN = "tidelog.logicalType"
#: Of a reader's type: the writer's, whose scale and unit its numbers have.
_WRITTEN = "tidelog.written"
_PRIMITIVES = {
    "boolean": Kind.BOOLEAN, "int": Kind.INT, "long": Kind.LONG, "float": Kind.FLOAT, "double": Kind.DOUBLE,
    "string": Kind.STRING, "bytes": Kind.BINARY,
}  # fmt: skip
#: Unions of numbers that have one column, as in Spark's from_avro.
_WIDER = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
#: Digits of a decimal in 128 bits.
_MOST_DIGITS = 38
_EXACT = Context(prec=_MOST_DIGITS)
#: Fields for each byte that an element of an array has at least: the others are null, or records without fields.
_MOST_WITHOUT_BYTES = 8


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
            _fill_defaults(self.parsed, self.named, set())
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
        self._of_writers: weakref.WeakKeyDictionary[AvroSchema, Converter] = weakref.WeakKeyDictionary()

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
            convert = self._convert if writer is None else self._converter(writer)
            converted: dict[str, Any] = found if convert is None else convert(found)
        except BadRecordError:
            raise
        except (
            Exception
        ) as error:  # fastavro raises what Python happens to raise on such bytes: IndexError, EOFError, …
            raise BadRecordError(f"not by its Avro schema: {_words(error)}") from None
        return converted

    def _converter(self, writer: AvroSchema) -> Converter:
        """Of what that writer's values are resolved to."""
        if writer not in self._of_writers:
            own = _in_units(self._schema.parsed, writer.parsed, self._schema.named, writer.named)
            self._of_writers[writer] = _Shapes(self._schema.named).shape(own, "")[1]
        return self._of_writers[writer]


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


class _Least(NamedTuple):
    """What a value of a type has at least, or of a union's branches at most.

    Attributes:
        fields: those of inner types counted each time. Reading takes time for each, though it may have no bytes.
        depth: types within one another.
    """

    size: int
    fields: int = 1
    depth: int = 0


def _check(schema: Any, named: Mapping[str, Any], path: tuple[str, ...], done: dict[str, _Least]) -> _Least:
    """SchemaError for a type within itself, whose bytes could ask for any depth, for too many fields or too much depth, and for
    arrays of what has no or few bytes, of which ten bytes would be any number. `done`: of records, by name.
    """
    if isinstance(schema, list):
        branches = [_check(branch, named, path, done) for branch in schema]
        return _around(_Least(1), *branches)
    if isinstance(schema, str):
        if schema in _PRIMITIVES or schema == "null":
            return _Least({"null": 0, "float": 4, "double": 8}.get(schema, 1))
        return _check(named[schema], named, path, done)
    kind = schema["type"]
    if kind in ("record", "error"):
        name = schema["name"]
        if name in path:
            raise SchemaError(f"{name} is a type within itself, which has no columns")
        if name not in done:
            inner = [_check(one["type"], named, (*path, name), done) for one in schema["fields"]]
            done[name] = _around(_Least(sum(each.size for each in inner)), *inner)
        return done[name]
    if kind in ("array", "map"):
        inner = [_check(schema["items" if kind == "array" else "values"], named, path, done)]
        size = inner[0].size + (kind == "map")  # a key has one
        if size == 0:
            raise SchemaError(
                "an array of what takes no bytes could have any number of elements; no such schema is read"
            )
        if inner[0].fields > size * _MOST_WITHOUT_BYTES + 1:
            what = f"{'an array' if kind == 'array' else 'a map'} of what has {inner[0].fields} fields in {size} bytes"
            raise SchemaError(f"{what} could have any number of them; no such schema is read")
        return _around(_Least(1), *inner)
    if kind == "fixed":
        return _Least(int(schema["size"]))
    return _Least(1) if kind == "enum" else _check(kind, named, path, done)


def _around(own: _Least, *inner: _Least) -> _Least:
    """A type with those within it. SchemaError."""
    fields, depth = own.fields + sum(each.fields for each in inner), 1 + max((each.depth for each in inner), default=0)
    if fields > MOST_FIELDS:
        raise SchemaError(f"this schema has more than {MOST_FIELDS} fields, those of inner types counted each time")
    if depth > MOST_DEPTH:
        raise SchemaError(f"this Avro schema is nested too deeply: more than {MOST_DEPTH} types within one another")
    return _Least(own.size, fields, depth)


def _fill_defaults(schema: Any, named: Mapping[str, Any], done: set[str]) -> None:
    """Give the defaults of records the fields that they leave to these fields' own defaults, which fastavro does not do."""
    if isinstance(schema, list):
        for branch in schema:
            _fill_defaults(branch, named, done)
    elif isinstance(schema, str):
        if schema in named and schema not in done:
            _fill_defaults(named[schema], named, done)
    elif schema["type"] in ("record", "error"):
        if schema["name"] in done:
            return
        done.add(schema["name"])
        for one in schema["fields"]:
            _fill_defaults(one["type"], named, done)
            if "default" in one:
                one["default"] = _filled(one["default"], one["type"], named)
    elif schema["type"] in ("array", "map"):
        _fill_defaults(schema.get("items", schema.get("values")), named, done)
    else:
        _fill_defaults(schema["type"], named, done)


def _filled(value: Any, schema: Any, named: Mapping[str, Any]) -> Any:
    """A default of that type, whole. KeyError: a field has none."""
    if isinstance(schema, list):  # the default of a union is one of its first branch, or since Avro 1.12 of any
        kinds = ("array",) if isinstance(value, list) else ("record", "error", "map") if isinstance(value, dict) else ()
        for branch in schema:
            definition = named.get(branch) if isinstance(branch, str) else branch
            if definition is not None and definition["type"] in kinds:
                return _filled(value, definition, named)
        return value
    if isinstance(schema, str):
        return _filled(value, named[schema], named) if schema in named else value
    kind = schema["type"]
    if kind in ("record", "error") and isinstance(value, dict):
        return {
            one["name"]: _filled(value[one["name"]], one["type"], named) if one["name"] in value else one["default"]
            for one in schema["fields"]
        }
    if kind == "array" and isinstance(value, list):
        return [_filled(each, schema["items"], named) for each in value]
    if kind == "map" and isinstance(value, dict):
        return {name: _filled(each, schema["values"], named) for name, each in value.items()}
    return _filled(value, kind, named) if isinstance(kind, dict | list) else value


def _definition(schema: Any, named: Mapping[str, Any]) -> Any:
    """What a name stands for."""
    return named.get(schema, schema) if isinstance(schema, str) else schema


def _in_units(schema: Any, written: Any, named: Mapping[str, Any], theirs: Mapping[str, Any]) -> Any:
    """The reader's type, with the writer's beside each part of it that may have a logical type: resolving goes by the numbers
    alone, and a decimal of another scale, or a time in another unit, would be another value.
    """
    schema, written = _definition(schema, named), _definition(written, theirs)
    if isinstance(schema, list):
        return [_in_units(branch, written, named, theirs) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema["type"]
    if isinstance(written, list):
        branches = [_definition(branch, theirs) for branch in written]
        alike = [branch for branch in branches if isinstance(branch, dict) and branch["type"] == kind]
        if len(alike) > 1:  # records or fixed: which one it was only their names tell
            alike = [branch for branch in alike if branch.get("name") == schema.get("name")]
        written = alike[0] if alike else None
    if not isinstance(written, dict) or written["type"] != kind:
        return schema
    if kind in ("record", "error"):
        types = {one["name"]: one["type"] for one in written["fields"]}
        fields = []
        for one in schema["fields"]:
            there = next((name for name in (one["name"], *one.get("aliases", ())) if name in types), None)
            own = one["type"] if there is None else _in_units(one["type"], types[there], named, theirs)
            fields.append({**one, "type": own})
        return {**schema, "fields": fields}
    if kind in ("array", "map"):
        part = "items" if kind == "array" else "values"
        return {**schema, part: _in_units(schema[part], written[part], named, theirs)}
    return {**schema, _WRITTEN: written}


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
    logical, written = schema.get(_HIDDEN), schema.get(_WRITTEN, schema)
    digits = _digits(schema) if kind in ("bytes", "fixed") else None
    if digits is not None:
        precision, scale = digits
        return Shape(Kind.DECIMAL, precision=precision, scale=scale), _decimal(*digits, (_digits(written) or digits)[1])
    if kind == "int" and logical == "date":
        return Shape(Kind.DATE), None
    if kind == "long" and logical in ("timestamp-millis", "timestamp-micros"):
        return Shape(Kind.TIMESTAMP), _time(logical, written)
    if kind == "long" and logical in ("local-timestamp-millis", "local-timestamp-micros"):
        return Shape(Kind.LOCAL_TIMESTAMP), _time(logical, written)
    if kind in ("bytes", "fixed"):
        return Shape(Kind.BINARY), _to_bytes
    return Shape(_PRIMITIVES[kind]), None


def _digits(schema: Mapping[str, Any]) -> tuple[int, int] | None:
    """Precision and scale; None for what is no decimal."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if schema.get(_HIDDEN) != "decimal" or type(precision) is not int or type(scale) is not int:
        return None
    return (precision, scale) if 0 < precision <= _MOST_DIGITS and 0 <= scale <= precision else None


def _time(logical: str, written: Mapping[str, Any]) -> Converter:
    """To µs, out of the writer's unit if it says one."""
    said = str(written.get(_HIDDEN)).removeprefix("local-")
    return _TO_MICROS.get(said, _TO_MICROS[logical.removeprefix("local-")])


def _to_micros(value: int) -> int:
    return 1000 * value


_TO_MICROS: Mapping[str, Converter] = {
    "timestamp-millis": _to_micros, "timestamp-micros": None, "timestamp-nanos": lambda value: value // 1000,
}  # fmt: skip


def _to_bytes(value: bytes | str) -> bytes:
    """A default is a text of characters up to 255."""
    return value.encode("latin-1") if isinstance(value, str) else value


def _decimal(precision: int, scale: int, written_scale: int) -> Callable[[Any], Decimal]:
    end = 10**precision
    more, less = 10 ** max(0, scale - written_scale), 10 ** max(0, written_scale - scale)

    def convert(value: Any) -> Decimal:
        number, rest = divmod(more * int.from_bytes(_to_bytes(value), "big", signed=True), less)
        if rest:
            raise BadRecordError(f"a decimal has more than {scale} digits behind its point")
        if not -end < number < end:  # to make digits of a megabyte takes minutes
            raise BadRecordError(f"a decimal has more than {precision} digits")
        return Decimal(number).scaleb(-scale, _EXACT)

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
        record = dict(record)  # it may be a default, which is the same one for every record
        for name, each in converters.items():
            record[name] = each(record[name])
        return record

    return convert
