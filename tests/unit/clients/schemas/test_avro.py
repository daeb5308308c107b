"""Avro against fastavro's own reading: whatever the schema, and whatever the bytes."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tidelog.clients.schemas.avro import AvroReader, AvroSchema
from tidelog.clients.schemas.exceptions import BadRecordError, SchemaError
from tidelog.clients.schemas.shape import MOST_DEPTH, MOST_FIELDS, Kind, Shape

_EPOCH, _DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)
MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


#: A type → values of it as Avro stores them and as they must come out.
Sample = tuple[Any, st.SearchStrategy[tuple[Any, Any]]]


def same(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, Any]]:
    return strategy.map(lambda value: (value, value))


def decimals(scale: int) -> st.SearchStrategy[tuple[Any, Any]]:
    numbers = st.integers(-(10**30), 10**30)
    return numbers.map(lambda n: (n.to_bytes(16, "big", signed=True), Decimal(n).scaleb(-scale)))


PLAIN: list[Sample] = [
    ("boolean", same(st.booleans())),
    ("int", same(st.integers(-(1 << 31), (1 << 31) - 1))),
    ("long", same(st.integers(-(1 << 63), (1 << 63) - 1))),
    ("double", same(st.floats(allow_nan=False))),
    ("float", same(st.floats(allow_nan=False, width=32))),
    ("string", same(st.text(st.characters(exclude_categories=["Cs"])))),
    ("bytes", same(st.binary())),
    ({"type": "fixed", "name": "F", "size": 5}, same(st.binary(min_size=5, max_size=5))),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, same(st.sampled_from("AB"))),
    (logical("int", "date"), same(st.integers(-(1 << 31), (1 << 31) - 1))),
    (logical("long", "timestamp-micros"), same(MICROS)),
    (logical("long", "timestamp-millis"), MICROS.map(lambda us: (us // 1000, us // 1000 * 1000))),
    (logical("long", "local-timestamp-millis"), MICROS.map(lambda us: (us // 1000, us // 1000 * 1000))),
    (logical("bytes", "decimal", precision=38, scale=4), decimals(4)),
    (logical("string", "uuid"), same(st.uuids().map(str))),
    (logical("long", "time-micros"), same(st.integers(0, 86_399_999_999))),
    (logical("long", "of-nobody"), same(st.integers(0, 9))),
]


def samples(depth: int = 2) -> st.SearchStrategy[Sample]:
    plain = st.sampled_from(PLAIN)
    if not depth:
        return plain
    inner = samples(depth - 1)

    def array(one: Sample) -> Sample:
        many = st.lists(one[1], max_size=3)
        return {"type": "array", "items": one[0]}, many.map(
            lambda pairs: tuple(map(list, zip(*pairs, strict=True))) or ([], [])
        )

    def mapped(one: Sample) -> Sample:
        many = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), one[1], max_size=3)
        return {"type": "map", "values": one[0]}, many.map(
            lambda found: ({k: v[0] for k, v in found.items()}, [(k, v[1]) for k, v in found.items()])
        )

    def optional(one: Sample) -> Sample:
        return ["null", one[0]], st.one_of(st.just((None, None)), one[1])

    return st.one_of(plain, inner.map(array), inner.map(mapped), plain.map(optional), records(inner))


@st.composite
def records(draw: st.DrawFn, inner: st.SearchStrategy[Sample]) -> Sample:
    fields = [draw(inner) for _ in range(draw(st.integers(1, 3)))]
    name = draw(st.text("abcdefgh", min_size=8, max_size=8))
    schema = {
        "type": "record",
        "name": f"R{name}",
        "fields": [{"name": f"f{n}", "type": t} for n, (t, _) in enumerate(fields)],
    }
    values = st.tuples(*(strategy for _, strategy in fields)).map(
        lambda row: ({f"f{n}": v[0] for n, v in enumerate(row)}, {f"f{n}": v[1] for n, v in enumerate(row)})
    )
    return schema, values


def named_once(schema: Any, seen: set[str] | None = None) -> bool:
    """A name is defined once in a schema; what draws types does not know."""
    seen = set() if seen is None else seen
    if isinstance(schema, list):
        return all(named_once(each, seen) for each in schema)
    if not isinstance(schema, dict):
        return True
    name = schema.get("name") if schema.get("type") in ("record", "enum", "fixed") else None
    if name is not None and name in seen:
        return False
    if name is not None:
        seen.add(name)
    inner = [schema.get("items"), schema.get("values"), *(field["type"] for field in schema.get("fields", ()))]
    return all(named_once(each, seen) for each in inner)


def bare(schema: Any) -> Any:
    """Without logical types: how values are stored."""
    if isinstance(schema, list):
        return [bare(each) for each in schema]
    if isinstance(schema, dict):
        return {name: bare(value) for name, value in schema.items() if name != "logicalType"}
    return schema


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(bare(schema)), value)
    return out.getvalue()


@given(st.data())
def test_what_was_written_is_read(data: st.DataObject) -> None:
    schema, values = data.draw(records(samples()))
    assume(named_once(schema))
    stored, wanted = data.draw(values)
    reader = AvroReader(AvroSchema(json.dumps(schema)))
    assert reader.decode(written(schema, stored)) == wanted
    assert reader.shape.kind is Kind.STRUCT


@given(st.data())
def test_other_bytes_are_a_record_or_a_reason(data: st.DataObject) -> None:
    schema, values = data.draw(records(samples()))
    assume(named_once(schema))
    reader = AvroReader(AvroSchema(json.dumps(schema)))
    whole = written(schema, data.draw(values)[0])
    cut = data.draw(st.integers(0, len(whole)))
    for value in (whole[:cut], whole + b"\0", data.draw(st.binary()), whole[:cut] + data.draw(st.binary(max_size=9))):
        try:
            found = reader.decode(value)
        except BadRecordError as error:
            assert "\n" not in str(error)
        else:
            assert set(found) == {name for name, _ in reader.shape.fields}
    with pytest.raises(BadRecordError, match="1 bytes are left over"):
        reader.decode(whole + b"\0")


def test_logical_types_are_what_fastavro_reads_them_as() -> None:
    types = {
        "day": logical("int", "date"),
        "ms": logical("long", "timestamp-millis"),
        "us": logical("long", "timestamp-micros"),
        "money": logical("bytes", "decimal", precision=38, scale=3),
    }
    schema = {"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in types.items()]}
    row = {
        "day": date(2026, 5, 6), "ms": datetime(2026, 5, 6, 7, 8, 9, 123000, UTC),
        "us": datetime(1969, 5, 6, 7, 8, 9, 123456, UTC), "money": Decimal("-12345678901234567890123456789012345.678"),
    }  # fmt: skip
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    found = AvroReader(AvroSchema(json.dumps(schema))).decode(out.getvalue())
    micros = {name: round((row[name] - _EPOCH).total_seconds() * 1_000_000) for name in ("ms", "us")}  # type: ignore[operator]
    assert found == {"day": (row["day"] - _DAY).days, **micros, "money": row["money"]}  # type: ignore[operator]


def record(*fields: Any, name: str = "R") -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


def test_a_value_comes_in_the_readers_fields_whoever_wrote_it() -> None:
    reader = AvroReader(
        AvroSchema(
            record(
                {"name": "id", "type": "long"},
                {"name": "at", "type": logical("long", "timestamp-millis"), "default": 5},
                {"name": "raw", "type": "bytes", "default": "\u00ff"},
                {"name": "note", "type": ["null", "string"], "default": None},
            )
        )
    )
    older = AvroSchema(record({"name": "gone", "type": "string"}, {"name": "id", "type": "int"}))
    value = written(
        json.loads(record({"name": "gone", "type": "string"}, {"name": "id", "type": "int"})), {"gone": "x", "id": 7}
    )
    assert reader.decode(value, older) == {"id": 7, "at": 5000, "raw": b"\xff", "note": None}
    # A number of milliseconds that its writer did not say is one.
    plain = record({"name": "id", "type": "long"}, {"name": "at", "type": "long"})
    assert reader.decode(written(json.loads(plain), {"id": 1, "at": 1700}), AvroSchema(plain))["at"] == 1_700_000
    stranger = AvroSchema(record({"name": "id", "type": "string"}))
    with pytest.raises(BadRecordError, match="not by its Avro schema: SchemaResolutionError"):
        reader.decode(b"\x02x", stranger)


MILLIS, MICRO, NANOS = (logical("long", f"timestamp-{unit}") for unit in ("millis", "micros", "nanos"))
TWO, FOUR = (logical("bytes", "decimal", precision=12, scale=scale) for scale in (2, 4))
_1234 = b"\x04\xd2"


@pytest.mark.parametrize(
    ("theirs", "ours", "stored", "value"),
    [
        (MILLIS, MICRO, 1_700, 1_700_000),
        (MICRO, MILLIS, 1_700_001, 1_700_001),
        (NANOS, MICRO, -1_001, -2),
        ("long", MILLIS, 1_700, 1_700_000),
        (logical("long", "of-nobody"), MILLIS, 1_700, 1_700_000),
        (logical("long", "local-timestamp-micros"), logical("long", "local-timestamp-millis"), 17, 17),
        (TWO, FOUR, _1234, Decimal("12.3400")),
        (FOUR, TWO, (123400).to_bytes(3, "big"), Decimal("12.34")),
        ("bytes", TWO, _1234, Decimal("12.34")),
        (logical("bytes", "decimal", precision=0, scale=1), TWO, _1234, Decimal("12.34")),
        (["null", MILLIS], ["null", MICRO], 1_700, 1_700_000),
        (["string", TWO, "int"], ["null", FOUR], _1234, Decimal("12.3400")),
        ({"type": "array", "items": MILLIS}, {"type": "array", "items": MICRO}, [1], [1_000]),
        ({"type": "map", "values": ["null", TWO]}, {"type": "map", "values": FOUR}, {"a": _1234}, [("a", Decimal("12.34"))]),
    ],
)  # fmt: skip
def test_numbers_are_of_their_writers_scale_and_unit(theirs: Any, ours: Any, stored: Any, value: Any) -> None:
    def schema(kind: Any, name: str) -> str:
        inner = {"type": "record", "name": "Inner", "fields": [{"name": name, "type": kind, "aliases": ["old"]}]}
        return record({"name": "first", "type": inner}, {"name": "second", "type": ["null", "Inner"]})

    writer = AvroSchema(schema(theirs, "old"))
    reader = AvroReader(AvroSchema(schema(ours, "new")))
    data = written(json.loads(schema(bare(theirs), "old")), {"first": {"old": stored}, "second": {"old": stored}})
    for _ in range(2):
        assert reader.decode(data, writer) == {"first": {"new": value}, "second": {"new": value}}


def test_of_several_records_in_a_union_the_readers_name_tells_which_units_count() -> None:
    def of(name: str, kind: Any) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [{"name": "at", "type": kind}]}

    writer = record({"name": "a", "type": ["null", of("Other", MICRO), of("Mine", MILLIS)]})
    reader = AvroReader(AvroSchema(record({"name": "a", "type": ["null", of("Mine", MICRO)]})))
    assert reader.decode(b"\x04\x02", AvroSchema(writer)) == {"a": {"at": 1_000}}


def test_a_decimal_that_its_column_has_no_digits_for_is_a_bad_record() -> None:
    schemas = [AvroSchema(record({"name": "p", "type": kind})) for kind in (FOUR, TWO)]
    with pytest.raises(BadRecordError, match="a decimal has more than 2 digits behind its point"):
        AvroReader(schemas[1]).decode(b"\x04" + _1234, schemas[0])


def test_references_are_known_by_their_names() -> None:
    address = '{"type": "record", "name": "Address", "namespace": "of", "fields": [{"name": "city", "type": "string"}]}'
    person = record({"name": "home", "type": "of.Address"}, {"name": "other", "type": ["null", "of.Address"]}, name="P")
    reader = AvroReader(AvroSchema(person, [address]))
    assert reader.decode(b"\x02x\x02\x02y") == {"home": {"city": "x"}, "other": {"city": "y"}}
    with pytest.raises(SchemaError, match=r"this is no Avro schema: UnknownType"):
        AvroSchema(person)


def mostly_null(count: int) -> dict[str, Any]:
    fields = [{"name": "x", "type": "int"}, *({"name": f"n{number}", "type": "null"} for number in range(count))]
    return {"type": "record", "name": "E", "fields": fields}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("", "this is no Avro schema"),
        ("{", "this is no Avro schema"),
        ('{"type": "record"}', "this is no Avro schema"),
        ('{"type": "nothing", "name": "x"}', "this is no Avro schema"),
        ("[" * 100_000, "this is no Avro schema|nested too deeply"),
        ('"string"', "columns come of an Avro record"),
        ('["null", "string"]', "columns come of an Avro record"),
        (record(), "the record has no fields"),
        (record({"name": "u", "type": ["int", "string"]}), "u is a union of int and string"),
        (record({"name": "n", "type": ["null", "R"]}), "R is a type within itself"),
        (
            record({"name": "a", "type": {"type": "array", "items": mostly_null(20)}}),
            "an array of what has 22 fields in 1 bytes",
        ),
        (
            record({"name": "a", "type": {"type": "map", "values": mostly_null(20)}}),
            "a map of what has 22 fields in 2 bytes",
        ),
        (record({"name": "a", "type": {"type": "array", "items": "null"}}), "an array of what takes no bytes"),
        (
            record({"name": "a", "type": {"type": "array", "items": {"type": "record", "name": "E", "fields": []}}}),
            "an array of what takes no bytes",
        ),
    ],
)
def test_what_has_no_columns_is_refused(schema: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        AvroReader(AvroSchema(schema))


def test_types_within_types_have_a_bound() -> None:
    """Thirty types, each with the next one twice, would be a billion columns."""
    levels = [record({"name": "x", "type": "int"}, name="T0")]
    for number in range(1, 30):
        two = [{"name": name, "type": f"T{number - 1}"} for name in "ab"]
        levels.append(record(*two, name=f"T{number}"))
    with pytest.raises(SchemaError, match=f"more than {MOST_FIELDS} fields"):
        AvroReader(AvroSchema(levels[-1], levels[:-1]))


def test_a_writers_types_within_types_have_a_bound() -> None:
    """Of a field without bytes that the reader does not have: each record would be skipped a billion times."""
    levels = [record({"name": "x", "type": "null"}, name="T0")]
    for number in range(1, 30):
        two = [{"name": name, "type": f"T{number - 1}"} for name in "ab"]
        levels.append(record(*two, name=f"T{number}"))
    with pytest.raises(SchemaError, match=f"more than {MOST_FIELDS} fields"):
        AvroSchema(record({"name": "a", "type": "int"}, {"name": "b", "type": "T29"}), levels)


@pytest.mark.parametrize("depth", [MOST_DEPTH, MOST_DEPTH + 1, 300, 2000])
def test_types_within_one_another_have_a_bound(depth: int) -> None:
    levels = [
        record({"name": "x", "type": f"T{number - 1}" if number > 1 else "int"}, name=f"T{number}")
        for number in range(1, depth + 1)
    ]
    if depth > MOST_DEPTH:
        with pytest.raises(SchemaError, match="nested too deeply"):
            AvroReader(AvroSchema(levels[-1], levels[:-1]))
        return
    found: Any = AvroReader(AvroSchema(levels[-1], levels[:-1])).decode(b"\2")
    for _ in range(depth):
        found = found["x"]
    assert found == 1


def test_a_default_is_the_same_for_every_record() -> None:
    """It was converted in place: a thousand times larger with each record."""
    inner = {
        "type": "record",
        "name": "S",
        "fields": [
            {"name": "at", "type": logical("long", "timestamp-millis")},
            {"name": "n", "type": "int", "default": 5},
        ],
    }
    fields: list[dict[str, Any]] = [
        {"name": "a", "type": "int"},
        {"name": "one", "type": inner, "default": {"at": 1}},
        {"name": "many", "type": {"type": "array", "items": "S"}, "default": [{"at": 2}]},
        {"name": "some", "type": ["S", "null"], "default": {"at": 3, "n": 4}},
    ]
    writer, reader = AvroSchema(record(fields[0])), AvroReader(AvroSchema(record(*fields)))
    for _ in range(3):
        assert reader.decode(b"\2", writer) == {
            "a": 1,
            "one": {"at": 1000, "n": 5},
            "many": [{"at": 2000, "n": 5}],
            "some": {"at": 3000, "n": 4},
        }


@pytest.mark.parametrize("size", [17, 1_000_000])
def test_a_decimal_of_too_many_digits_is_a_bad_record(size: int) -> None:
    """A megabyte of them took minutes, and the digits behind the 400th were lost."""
    schema = AvroSchema(record({"name": "d", "type": logical("bytes", "decimal", precision=38, scale=2)}))
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema.parsed, {"d": b"\x11" * size})
    with pytest.raises(BadRecordError, match="a decimal has more than 38 digits"):
        AvroReader(schema).decode(stream.getvalue())
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema.parsed, {"d": (-12345).to_bytes(size, "big", signed=True)})
    assert AvroReader(schema).decode(stream.getvalue()) == {"d": Decimal("-123.45")}


def test_numbers_of_two_widths_are_one_column() -> None:
    reader = AvroReader(
        AvroSchema(record({"name": "n", "type": ["null", "int", "long"]}, {"name": "x", "type": ["float", "double"]}))
    )
    assert dict(reader.shape.fields) == {"n": Shape(Kind.LONG), "x": Shape(Kind.DOUBLE)}
