"""JSON: the shape that a JSON Schema has, and values checked against it.

Types and `required` are checked, and nothing else of what a JSON Schema can say. What a schema gives no one type is the text of
its JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from .exceptions import BadRecordError, SchemaError
from .shape import MOST_DEPTH, FieldCount, Kind, Shape, ValueCount, width

_LONG = 1 << 63
#: A value and its path → the value as its shape has it; BadRecordError.
_Check = Callable[[Any, str], Any]
#: Characters of a name in a path: an array behind a long name would else be as many paths of that length.
_MOST_NAME = 60


class JsonReader:
    """Reads values into one schema's shape. One thread."""

    def __init__(self, text: str, references: Mapping[str, str] | None = None) -> None:
        """`references`: texts of schemas by the `$ref` that names them. SchemaError: it is no object's JSON Schema."""
        try:
            document = json.loads(text)
            others = {name: json.loads(other) for name, other in (references or {}).items()}
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"this is no JSON Schema: {str(error)[:300]}") from None
        self._values = ValueCount()
        try:
            shape, self._check = _Shapes(others, self._values).shape(document, document, "", ())
        except RecursionError:
            raise SchemaError("this JSON Schema is nested too deeply") from None
        if shape.kind is not Kind.STRUCT:
            raise SchemaError("columns come of a JSON Schema of an object with properties, and this one is none")
        self.shape = shape

    def decode(self, value: bytes) -> dict[str, Any]:
        """BadRecordError."""
        try:
            found = json.loads(value, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
            raise BadRecordError(f"no JSON: {type(error).__name__}: {str(error)[:200]}") from None
        if not isinstance(found, dict):
            raise BadRecordError(f"no JSON object, but {_shown(found)}")
        self._values.begin(len(value))
        try:
            checked: dict[str, Any] = self._check(found, "")
        except RecursionError:  # what could just be read cannot be written as text
            raise BadRecordError("it is nested too deeply") from None
        return checked


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


class _Shapes:
    """Shapes of the parts of a document and of those that it refers to."""

    def __init__(self, others: Mapping[str, Any], values: ValueCount) -> None:
        """`values` counts the elements when they are checked."""
        self._others = others
        self._values = values
        self._count = FieldCount()

    def shape(self, schema: Any, document: Any, path: str, seen: tuple[str, ...]) -> tuple[Shape, _Check]:
        """`document`: in which `schema` stands. `seen`: references on the way here."""
        self._count.one()
        if len(seen) > MOST_DEPTH or path.count(".") + path.count("[") > MOST_DEPTH:
            raise SchemaError(f"{path[:100]}: nested more than {MOST_DEPTH} deep")
        if not isinstance(schema, dict):
            return _text()
        if "$ref" in schema:
            name = str(schema["$ref"])
            if name in seen:
                raise SchemaError(f"{name} is a type within itself, which has no columns")
            target, place = self._target(name, document)
            return self.shape(target, place, path, (*seen, name))
        some = _one_of(schema)
        if some is not None:
            return self.shape(some, document, path, seen)
        kinds = schema.get("type")
        named = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
        if len(named) != 1:
            return (Shape(Kind.DOUBLE), _number) if named in (["integer", "number"], ["number", "integer"]) else _text()
        kind = named[0] if isinstance(named[0], str) else "object" if "properties" in schema else ""
        if kind == "object":
            return self._object(schema, document, path, seen)
        if kind == "array" and isinstance(schema.get("items"), dict):
            shape, check = self.shape(schema["items"], document, f"{path}[]", seen)
            return Shape(Kind.ARRAY, item=shape), _array(check, width(shape), self._values)
        plain = {
            "string": (Shape(Kind.STRING), _string), "integer": (Shape(Kind.LONG), _integer),
            "number": (Shape(Kind.DOUBLE), _number), "boolean": (Shape(Kind.BOOLEAN), _boolean),
        }  # fmt: skip
        return plain.get(kind) or _text()

    def _object(self, schema: Any, document: Any, path: str, seen: tuple[str, ...]) -> tuple[Shape, _Check]:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            fields = [(name, *self.shape(part, document, f"{path}.{name}", seen)) for name, part in properties.items()]
            required = schema.get("required")
            must = [each for each in required if isinstance(each, str)] if isinstance(required, list) else []
            shape = Shape(Kind.STRUCT, tuple((name, shape) for name, shape, _ in fields))
            return shape, _struct([(name, check) for name, _, check in fields], frozenset(must))
        if isinstance(schema.get("additionalProperties"), dict):
            shape, check = self.shape(schema["additionalProperties"], document, f"{path}[]", seen)
            return Shape(Kind.MAP, key=Shape(Kind.STRING), item=shape), _map(check, 1 + width(shape), self._values)
        return _text()

    def _target(self, name: str, document: Any) -> tuple[Any, Any]:
        """What a `$ref` names, and the document that it stands in."""
        place, _, pointer = name.partition("#")
        found = document if not place else self._others.get(name, self._others.get(place))
        document = found
        for part in pointer.split("/") if found is not None else ():
            part = part.replace("~1", "/").replace("~0", "~")
            if part:
                found = found.get(part) if isinstance(found, dict) else None
        if found is None:
            raise SchemaError(f"$ref {name[:200]} leads nowhere")
        return found, document


def _one_of(schema: Mapping[str, Any]) -> Any:
    """The one branch of oneOf or anyOf that is not null, as generators write what may be missing; None: there is not just one."""
    for word in ("oneOf", "anyOf"):
        branches = schema.get(word)
        if isinstance(branches, list):
            some = [branch for branch in branches if branch != {"type": "null"}]
            return some[0] if len(some) == 1 else None
    return None


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:40] + "…"


def _wrong(value: Any, path: str, what: str) -> BadRecordError:
    return BadRecordError(f"{path.lstrip('.')} is no {what}: {_shown(value)}")


def _text() -> tuple[Shape, _Check]:
    return Shape(Kind.STRING), lambda value, path: None if value is None else json.dumps(value, ensure_ascii=False)


def _string(value: Any, path: str) -> Any:
    if value is not None and not isinstance(value, str):
        raise _wrong(value, path, "string")
    return value


def _boolean(value: Any, path: str) -> Any:
    if value is not None and not isinstance(value, bool):
        raise _wrong(value, path, "boolean")
    return value


def _integer(value: Any, path: str) -> Any:
    """5.0 is an integer in JSON Schema."""
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        value = int(value)
    if type(value) is not int:
        raise _wrong(value, path, "integer")
    if not -_LONG <= value < _LONG:
        raise BadRecordError(f"{path.lstrip('.')} has more than 64 bits")
    return value


def _number(value: Any, path: str) -> Any:
    if value is None:
        return None
    if type(value) not in (int, float):
        raise _wrong(value, path, "number")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if math.isinf(found):
        raise BadRecordError(f"{path.lstrip('.')} is larger than a double")
    return found


def _below(path: str, name: str) -> str:
    return f"{path}.{name[:_MOST_NAME]}"


def _array(check: _Check, each_width: int, values: ValueCount) -> _Check:
    def each(value: Any, path: str) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise _wrong(value, path, "array")
        values.more(len(value) * each_width)
        inner = f"{path}[]"
        return [check(one, inner) for one in value]

    return each


def _map(check: _Check, pair_width: int, values: ValueCount) -> _Check:
    def each(value: Any, path: str) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _wrong(value, path, "object")
        values.more(len(value) * pair_width)
        return [(name, check(one, _below(path, name))) for name, one in value.items()]

    return each


def _struct(fields: list[tuple[str, _Check]], must: frozenset[str]) -> _Check:
    def each(value: Any, path: str) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _wrong(value, path, "object")
        for name in must:
            if name not in value:
                raise BadRecordError(f"{path.lstrip('.') or 'the object'} lacks {name}")
        return {name: check(value.get(name), _below(path, name)) for name, check in fields}

    return each
