"""JSON by JSON Schemas: what comes out, and the reason where nothing does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.clients.schemas import json_values as module
from tidelog.clients.schemas.exceptions import BadRecordError, SchemaError
from tidelog.clients.schemas.json_values import JsonReader
from tidelog.clients.schemas.shape import Kind, Shape, ValueCount

ORDER = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": ["null", "number"]},
        "paid": {"type": "boolean"},
        "name": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "home": {"$ref": "#/definitions/Address"},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {},
    },
    "definitions": {"Address": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
NOTHING = dict.fromkeys(["price", "paid", "name", "tags", "home", "counts", "any"])


def read(value: Any, schema: Any = ORDER) -> dict[str, Any]:
    return JsonReader(json.dumps(schema)).decode(value if isinstance(value, bytes) else json.dumps(value).encode())


def test_an_object_comes_out_in_its_columns() -> None:
    value = {
        "id": 1, "price": 2, "paid": True, "name": "ä", "tags": ["a", None], "home": {"city": "x", "more": 1},
        "counts": {"a": 1, "b": 2}, "any": {"x": [1, "ä"]}, "unknown": 5,
    }  # fmt: skip
    assert read(value) == {
        "id": 1, "price": 2.0, "paid": True, "name": "ä", "tags": ["a", None], "home": {"city": "x"},
        "counts": [("a", 1), ("b", 2)], "any": '{"x": [1, "ä"]}',
    }  # fmt: skip
    assert read({"id": 5.0}) == {"id": 5, **NOTHING}
    shapes = dict(JsonReader(json.dumps(ORDER)).shape.fields)
    assert {name: shape.kind for name, shape in shapes.items()} == {
        "id": Kind.LONG, "price": Kind.DOUBLE, "paid": Kind.BOOLEAN, "name": Kind.STRING, "tags": Kind.ARRAY,
        "home": Kind.STRUCT, "counts": Kind.MAP, "any": Kind.STRING,
    }  # fmt: skip
    assert shapes["counts"] == Shape(Kind.MAP, key=Shape(Kind.STRING), item=Shape(Kind.LONG))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff{}", "no JSON"),
        (b"[" * 100_000, "no JSON: RecursionError"),
        (b'{"id": NaN}', "NaN is no JSON"),
        (b'{"id": ' + b"9" * 5000 + b"}", "no JSON|has more than 64 bits"),
        ([1], r"no JSON object, but \[1\]"),
        ({}, "the object lacks id"),
        ({"id": True}, "id is no integer: true"),
        ({"id": 1.5}, r"id is no integer: 1\.5"),
        ({"id": 1 << 63}, "id has more than 64 bits"),
        ({"id": 1, "price": "5"}, 'price is no number: "5"'),
        (b'{"id": 1, "price": 1e999}', "price is larger than a double"),
        ({"id": 1, "price": 10**400}, "price is larger than a double"),
        ({"id": 1, "paid": 1}, "paid is no boolean: 1"),
        ({"id": 1, "name": 1}, "name is no string: 1"),
        ({"id": 1, "tags": "a"}, 'tags is no array: "a"'),
        ({"id": 1, "tags": ["a", 1]}, r"tags\[\] is no string: 1"),
        ({"id": 1, "home": []}, r"home is no object: \[\]"),
        ({"id": 1, "home": {"city": ["x" * 100]}}, r'home.city is no string: \["x{38}…'),
        ({"id": 1, "counts": {"a": "b"}}, r'counts\.a is no integer: "b"'),
        ({"id": 1, "counts": []}, "counts is no object"),
    ],
)
def test_what_is_not_by_its_schema_has_a_reason(value: Any, reason: str) -> None:
    with pytest.raises(BadRecordError, match=reason):
        read(value)


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5),
    st.binary(),
)
def test_whatever_comes_is_a_record_or_a_reason(inner: Any, raw: bytes) -> None:
    for value in (
        raw,
        json.dumps({"id": inner}).encode(),
        json.dumps({"id": 1, "tags": inner, "home": inner}).encode(),
    ):
        try:
            assert set(read(value)) == set(ORDER["properties"])  # type: ignore[call-overload]
        except BadRecordError as error:
            assert str(error)


def test_depth_is_a_reason_where_it_can_be_read_and_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python writes JSON with a little less depth than it reads: such a record stopped the read."""

    def too_deep(*_: Any, **__: Any) -> str:
        raise RecursionError

    monkeypatch.setattr(module.json, "dumps", too_deep)
    reader = JsonReader('{"properties": {"x": {}, "n": {"type": "integer"}}}')
    for value in (b'{"x": [[1]]}', b'{"n": [[1]]}'):
        with pytest.raises(BadRecordError, match="it is nested too deeply"):
            reader.decode(value)


def test_a_long_name_is_not_copied_for_each_element() -> None:
    """An array behind a name of a megabyte took a megabyte's copy for each element."""
    made: list[int] = []

    def check(value: Any, path: str) -> Any:
        made.append(len(path))
        return value

    count = ValueCount()
    count.begin(0)
    each = module._map(module._array(check, 1, count), 1, count)
    assert each({"k" * 100_000: [1, 2]}, ".m") == [("k" * 100_000, [1, 2])]
    assert max(made) < 100
    reader = JsonReader(
        '{"properties": {"x": {"additionalProperties": {"items": {"type": "integer"}, "type": "array"}, "type": "object"}}}'
    )
    with pytest.raises(BadRecordError, match=r"^x\.k{60}\[\] is no integer: true$"):
        reader.decode(json.dumps({"x": {"k" * 1000: [True]}}).encode())


def test_elements_that_have_everything_missing_are_counted() -> None:
    """Three bytes each, they would become a hundred fields each."""
    item = {"type": "object", "properties": {f"f{number}": {"type": "integer"} for number in range(100)}}
    reader = JsonReader(json.dumps({"properties": {"rows": {"type": "array", "items": item}}}))
    for _ in range(2):
        assert len(reader.decode(b'{"rows": [' + b"{}," * 9_000 + b"{}]}")["rows"]) == 9_001
    with pytest.raises(BadRecordError, match="it has more than 1000000 fields and elements"):
        reader.decode(b'{"rows": [' + b"{}," * 11_000 + b"{}]}")


def test_other_documents_are_known_by_the_names_of_references() -> None:
    schema = {"type": "object", "properties": {"home": {"$ref": "address.json#/definitions/A"}, "b": {"$ref": "whole"}}}
    address = {
        "definitions": {"A": {"properties": {"city": {"$ref": "#/definitions/City"}}}, "City": {"type": "string"}}
    }
    reader = JsonReader(json.dumps(schema), {"address.json": json.dumps(address), "whole": '{"type": "integer"}'})
    assert reader.decode(b'{"home": {"city": "x"}, "b": 5}') == {"home": {"city": "x"}, "b": 5}


def nested(depth: int) -> Any:
    return {"type": "object", "properties": {"x": nested(depth - 1) if depth else {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "this is no JSON Schema"),
        ("[" * 100_000, "this is no JSON Schema"),
        ("5", "columns come of a JSON Schema of an object"),
        ('{"type": "array", "items": {"type": "string"}}', "columns come of a JSON Schema of an object"),
        ('{"type": "object"}', "columns come of a JSON Schema of an object"),
        ('{"properties": {"x": {"$ref": "#/nowhere"}}}', "\\$ref #/nowhere leads nowhere"),
        ('{"properties": {"x": {"$ref": "other.json"}}}', "\\$ref other.json leads nowhere"),
        ('{"properties": {"x": {"$ref": "#"}}}', "# is a type within itself"),
        (json.dumps(nested(60)), "nested more than 50 deep"),
        ('{"properties": {"x": {"type": "array", "items": 5}}, "required": [[1]], "type": "array"}', "columns come of"),
    ],
)
def test_what_has_no_columns_is_refused(schema: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        JsonReader(schema)


def test_types_within_types_have_a_bound() -> None:
    definitions: dict[str, Any] = {"T0": {"type": "string"}}
    for number in range(1, 30):
        inner = {"$ref": f"#/definitions/T{number - 1}"}
        definitions[f"T{number}"] = {"type": "object", "properties": {"a": inner, "b": inner}}
    with pytest.raises(SchemaError, match="more than 10000 fields"):
        JsonReader(json.dumps({**definitions["T29"], "definitions": definitions}))
