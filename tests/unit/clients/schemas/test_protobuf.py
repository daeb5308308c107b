"""Protobuf against protobuf's own JSON and text: messages of types that were drawn, and bytes that are none."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st
from tidelog.clients.schemas.exceptions import BadRecordError, SchemaError
from tidelog.clients.schemas.protobuf import ProtobufReader, ProtobufSchema
from tidelog.clients.schemas.shape import MOST_DEPTH, Kind, Shape

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
F = FieldDescriptorProto
#: Kinds of plain fields: values of it, what they are read as, and the default.
KINDS: dict[int, tuple[st.SearchStrategy[Any], Any, Any]] = {
    F.TYPE_BOOL: (st.booleans(), lambda v: v, False),
    F.TYPE_INT32: (st.integers(-(1 << 31), (1 << 31) - 1), lambda v: v, 0),
    F.TYPE_SINT32: (st.integers(-(1 << 31), (1 << 31) - 1), lambda v: v, 0),
    F.TYPE_FIXED32: (st.integers(0, (1 << 32) - 1), lambda v: v, 0),
    F.TYPE_UINT32: (st.integers(0, (1 << 32) - 1), lambda v: v, 0),
    F.TYPE_INT64: (st.integers(-(1 << 63), (1 << 63) - 1), lambda v: v, 0),
    F.TYPE_UINT64: (st.integers(0, (1 << 64) - 1), Decimal, Decimal(0)),
    F.TYPE_DOUBLE: (st.floats(allow_nan=False), lambda v: v, 0.0),
    F.TYPE_FLOAT: (st.floats(allow_nan=False, width=32), lambda v: v, 0.0),
    F.TYPE_STRING: (TEXT, lambda v: v, ""),
    F.TYPE_BYTES: (st.binary(), lambda v: v, b""),
}


def file_of(
    *messages: DescriptorProto, name: str = "own.proto", package: str = "of", **more: Any
) -> FileDescriptorProto:
    return FileDescriptorProto(name=name, package=package, syntax="proto3", message_type=messages, **more)


def made(file: FileDescriptorProto, name: str) -> Any:
    """A class of protobuf's own for the type."""
    pool = DescriptorPool()
    for each in file.dependency:
        assert each == "google/protobuf/timestamp.proto"
        pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(name))


def reader(file: FileDescriptorProto, message: str | None = None) -> ProtobufReader:
    return ProtobufReader(ProtobufSchema([(file.name, file.SerializeToString())]), message)


@given(st.data())
def test_what_was_set_is_read(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=5))
    wanted: dict[str, Any] = {}
    fields, values = [], {}
    for number, kind in enumerate(kinds, 1):
        strategy, as_read, default = KINDS[kind]
        name = f"f{number}"
        how = data.draw(st.sampled_from(["plain", "optional", "repeated", "unset", "unset optional"]))
        label = F.LABEL_REPEATED if how == "repeated" else F.LABEL_OPTIONAL
        fields.append(F(name=name, number=number, type=kind, label=label))  # type: ignore[arg-type]
        if "optional" in how:
            fields[-1].proto3_optional = True
            fields[-1].oneof_index = sum(one.proto3_optional for one in fields) - 1
        if how == "repeated":
            values[name] = data.draw(st.lists(strategy, max_size=3))
            wanted[name] = [as_read(value) for value in values[name]]
        elif "unset" in how:
            wanted[name] = None if "optional" in how else default
        else:
            values[name] = data.draw(strategy)
            wanted[name] = as_read(values[name])
    message = DescriptorProto(name="M", field=fields)
    for one in fields:
        if one.proto3_optional:
            message.oneof_decl.add(name=f"_{one.name}")
    file = file_of(message)
    value = made(file, "of.M")(**values).SerializeToString()
    one = reader(file)
    assert one.name == "of.M"
    assert one.decode(value) == wanted
    cut = data.draw(st.integers(0, len(value)))
    for damaged in (value[:cut], value[:cut] + data.draw(st.binary(max_size=9)), data.draw(st.binary())):
        try:
            found = one.decode(damaged)
        except BadRecordError as error:
            assert str(error).startswith("no message of.M")
        else:
            assert set(found) == set(wanted)


def orders() -> FileDescriptorProto:
    """message Order { string id; Timestamp at; map<string, Line> lines; Colour colour; Line first; }"""
    line = DescriptorProto(name="Line", field=[F(name="count", number=1, type=F.TYPE_INT64, label=F.LABEL_OPTIONAL)])
    entry = DescriptorProto(
        name="LinesEntry",
        field=[
            F(name="key", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL),
            F(name="value", number=2, type=F.TYPE_MESSAGE, type_name=".of.Order.Line", label=F.LABEL_OPTIONAL),
        ],
    )
    entry.options.map_entry = True
    order = DescriptorProto(
        name="Order",
        nested_type=[line, entry],
        field=[
            F(name="id", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL),
            F(name="at", number=2, type=F.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=F.LABEL_OPTIONAL),
            F(name="lines", number=3, type=F.TYPE_MESSAGE, type_name=".of.Order.LinesEntry", label=F.LABEL_REPEATED),
            F(name="colour", number=4, type=F.TYPE_ENUM, type_name=".of.Colour", label=F.LABEL_OPTIONAL),
            F(name="first", number=5, type=F.TYPE_MESSAGE, type_name=".of.Order.Line", label=F.LABEL_OPTIONAL),
        ],
    )
    file = file_of(
        DescriptorProto(name="Other", field=[F(name="x", number=1, type=F.TYPE_BOOL, label=F.LABEL_OPTIONAL)]), order
    )
    colour = file.enum_type.add(name="Colour")
    colour.value.add(name="RED", number=0)
    colour.value.add(name="BLUE", number=1)
    file.dependency.append("google/protobuf/timestamp.proto")
    return file


def test_messages_maps_enums_and_timestamps() -> None:
    file = orders()
    order = made(file, "of.Order")(id="a", colour=1)
    order.at.seconds, order.at.nanos = -1, 5_999
    order.lines["x"].count = 7
    one = reader(file, "Order")
    found = one.decode(order.SerializeToString())
    assert found == {
        "id": "a", "at": -1_000_000 + 5, "lines": [("x", {"count": 7})], "colour": "BLUE", "first": None,
    }  # fmt: skip
    assert dict(one.shape.fields)["lines"].key == Shape(Kind.STRING)
    assert dict(one.shape.fields)["at"] == Shape(Kind.TIMESTAMP)
    order.colour = 9  # of a newer schema
    assert one.decode(order.SerializeToString())["colour"] == "9"
    assert reader(file, "of.Order").name == "of.Order"
    assert reader(file).name == "of.Other", "the first"


def test_a_message_of_another_file_and_one_with_options_of_confluents() -> None:
    line = DescriptorProto(name="Line", field=[F(name="n", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)])
    other = file_of(line, name="line.proto", package="")
    own = file_of(
        DescriptorProto(
            name="M", field=[F(name="l", number=1, type=F.TYPE_MESSAGE, type_name=".Line", label=F.LABEL_OPTIONAL)]
        ),
        dependency=["confluent/meta.proto", "line.proto"],
    )
    files = [("line.proto", other.SerializeToString()), ("own.proto", own.SerializeToString())]
    one = ProtobufReader(ProtobufSchema(files), None)
    assert one.decode(b"\x0a\x02\x08\x05") == {"l": {"n": 5}}
    with pytest.raises(SchemaError, match="this is no Protobuf schema"):
        ProtobufSchema(files[1:])


def test_a_required_field_that_is_missing_is_told() -> None:
    file = file_of(DescriptorProto(name="M", field=[F(name="id", number=1, type=F.TYPE_INT32, label=F.LABEL_REQUIRED)]))
    file.syntax = "proto2"
    assert reader(file).decode(b"\x08\x05") == {"id": 5}
    with pytest.raises(BadRecordError, match=r"no message of\.M"):
        reader(file).decode(b"")


def test_types_without_columns_are_refused() -> None:
    itself = DescriptorProto(
        name="Node", field=[F(name="next", number=1, type=F.TYPE_MESSAGE, type_name=".of.Node", label=F.LABEL_OPTIONAL)]
    )
    with pytest.raises(SchemaError, match=r"of\.Node is a message within itself"):
        reader(file_of(itself))
    with pytest.raises(SchemaError, match=r"of\.Empty has no fields"):
        reader(file_of(DescriptorProto(name="Empty")))
    with pytest.raises(SchemaError, match=r"has no message$"):
        reader(file_of())
    with pytest.raises(SchemaError, match="has no message Ordr; there are Other, Order"):
        reader(orders(), "Ordr")
    with pytest.raises(SchemaError, match="this is no Protobuf schema"):
        ProtobufSchema([("x", b"\xff\xff")])
    with pytest.raises(SchemaError, match="there is no Protobuf schema"):
        ProtobufSchema([])


@pytest.mark.parametrize("depth", [MOST_DEPTH, MOST_DEPTH + 1, 2000])
def test_messages_within_one_another_have_a_bound(depth: int) -> None:
    messages = [DescriptorProto(name="T1", field=[F(name="x", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)])]
    for number in range(2, depth + 1):
        inner = F(name="x", number=1, type=F.TYPE_MESSAGE, type_name=f".of.T{number - 1}", label=F.LABEL_OPTIONAL)
        messages.append(DescriptorProto(name=f"T{number}", field=[inner]))
    if depth > MOST_DEPTH:
        with pytest.raises(SchemaError, match=f"of.T{depth} has more than {MOST_DEPTH} messages within one another"):
            reader(file_of(*messages), f"T{depth}")
    else:
        assert reader(file_of(*messages), f"T{depth}").decode(b"") == {"x": None}


def test_elements_that_have_everything_missing_are_counted() -> None:
    """Two bytes each, they would become a hundred fields each."""
    row = DescriptorProto(
        name="Row",
        field=[F(name=f"f{n}", number=n, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL) for n in range(1, 101)],
    )
    rows = F(name="rows", number=1, type=F.TYPE_MESSAGE, type_name=".of.Row", label=F.LABEL_REPEATED)
    one = reader(file_of(row, DescriptorProto(name="Rows", field=[rows])), "Rows")
    for _ in range(2):
        assert len(one.decode(b"\x0a\0" * 9_000)["rows"]) == 9_000
    with pytest.raises(BadRecordError, match="it has more than 1000000 fields and elements"):
        one.decode(b"\x0a\0" * 11_000)


def test_a_text_of_proto2_that_is_none_is_a_bad_record() -> None:
    text = F(name="name", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
    file = file_of(DescriptorProto(name="T", field=[text]))
    file.syntax = "proto2"
    with pytest.raises(BadRecordError):
        reader(file, "T").decode(b"\x0a\1\xff")


def test_types_within_types_have_a_bound() -> None:
    messages = [DescriptorProto(name="T0", field=[F(name="x", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)])]
    for number in range(1, 30):
        fields = [
            F(name=name, number=at, type=F.TYPE_MESSAGE, type_name=f".of.T{number - 1}", label=F.LABEL_OPTIONAL)
            for at, name in enumerate("ab", 1)
        ]
        messages.append(DescriptorProto(name=f"T{number}", field=fields))
    with pytest.raises(SchemaError, match="more than 10000 fields"):
        reader(file_of(*messages), "T29")
