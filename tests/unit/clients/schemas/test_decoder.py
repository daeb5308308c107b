"""Values of a topic by a registry: schemas that change, records of others, and a registry that is away."""

from __future__ import annotations

import base64
import io
import json
import pickle
import struct
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from hypothesis import given
from hypothesis import strategies as st
from support.schema_registry import SchemaRegistry
from tidelog.clients.schemas import decoder as module
from tidelog.clients.schemas.decoder import Decoder, Decoding, Form, message_path, pin
from tidelog.clients.schemas.exceptions import BadRecordError, RegistryError, SchemaError
from tidelog.clients.schemas.registry import Registry, RegistrySettings
from tidelog.clients.schemas.shape import Kind

F = FieldDescriptorProto


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as one:
        yield one


def record(*fields: tuple[str, Any]) -> str:
    found = []
    for name, kind in fields:
        found.append({"name": name, "type": kind, **({"default": None} if isinstance(kind, list) else {})})
    return json.dumps({"type": "record", "name": "Order", "fields": found})


def framed(schema_id: int, body: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + body


def written(schema_id: int, schema: str, value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return framed(schema_id, out.getvalue())


def opened(server: SchemaRegistry, form: Form, message: str | None = None) -> Decoder:
    settings = RegistrySettings((server.url,), patience_s=0.0)
    asking = Registry(settings, serialized=form is Form.PROTOBUF)
    pinned = pin(Decoding(form, message=message, registry=settings, subject="orders-value"), asking)
    return Decoder(pickle.loads(pickle.dumps(pinned)), asking)


def test_records_of_every_version_come_in_the_newest_ones_columns(server: SchemaRegistry) -> None:
    old, new = record(("id", "int"), ("gone", "string")), record(("id", "long"), ("note", ["null", "string"]))
    first, second = server.register("orders-value", old), server.register("orders-value", new)
    decoder = opened(server, Form.AVRO)
    assert [name for name, _ in decoder.shape.fields] == ["id", "note"]
    values = [written(first, old, {"id": 1, "gone": "x"}), written(second, new, {"id": 2, "note": "y"})]
    assert [decoder.decode(value) for value in values * 3] == [{"id": 1, "note": None}, {"id": 2, "note": "y"}] * 3
    third = server.register("orders-value", record(("id", "long"), ("note", ["null", "string"]), ("more", "int")))
    newest = written(third, server.schemas[third].text, {"id": 3, "note": None, "more": 5})
    assert decoder.decode(newest) == {"id": 3, "note": None}, "the columns of a read do not change"
    asked = [path for path in server.asked if "/schemas/ids/" in path]
    assert asked == [f"/schemas/ids/{first}", f"/schemas/ids/{third}"]


def test_references_are_asked_for(server: SchemaRegistry) -> None:
    address = '{"type": "record", "name": "of.Address", "fields": [{"name": "city", "type": "string"}]}'
    server.register("address", address)
    number = server.register("orders-value", record(("home", "of.Address")), references=[("of.Address", "address", 1)])
    assert opened(server, Form.AVRO).decode(framed(number, b"\x02x")) == {"home": {"city": "x"}}


def test_bad_records_have_reasons(server: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    text = record(("id", "int"))
    number = server.register("orders-value", text)
    other = server.register("else", '{"type": "object"}', "JSON")
    broken = server.register("else", "{")
    decoder = opened(server, Form.AVRO)
    for value, reason in (
        (b"", "no byte 0 and schema id in front; it begins with nothing"),
        (b"\0\0\0\0", "no byte 0 and schema id in front; it begins with 00 00 00 00"),
        (b'{"id": 1}', "no byte 0 and schema id in front; it begins with 7b 22 69 64 22"),
        (framed(number, b""), "not by its Avro schema"),
        (framed(number, b"\2\2"), "1 bytes are left over"),
        (framed(999, b"\2"), "by schema 999: the registry has no schema 999"),
        (framed(other, b"\2"), f"by schema {other}: schema {other} is JSON, and what is read is AVRO"),
        (framed(broken, b"\2"), f"by schema {broken}: this is no Avro schema"),
    ):
        for _ in range(2):
            with pytest.raises(BadRecordError, match=reason):
                decoder.decode(value)
    assert decoder.decode(framed(number, b"\2")) == {"id": 1}
    assert len(server.asked) == len(set(server.asked)), "what is no schema is asked for once"
    monkeypatch.setattr(module, "_MOST_WRITERS", 1)
    for _ in range(3):
        assert decoder.decode(framed(server.register("else", text), b"\2")) == {"id": 1}
    assert len(decoder._writers) == 1
    monkeypatch.undo()
    monkeypatch.setattr(module, "_MOST_WRITERS_BYTES", 3 * len(text))
    for _ in range(5):
        assert decoder.decode(framed(server.register("else", text), b"\2")) == {"id": 1}
    assert len(decoder._writers) == 3


@pytest.mark.parametrize("number", [1 << 31, (1 << 32) - 1])
def test_a_number_that_is_no_id_is_the_records_fault(server: SchemaRegistry, number: int) -> None:
    server.register("orders-value", record(("id", "int")))
    decoder = opened(server, Form.AVRO)
    before = list(server.asked)
    with pytest.raises(BadRecordError, match=f"by schema {number}: no schema has such an id"):
        decoder.decode(framed(number, b"\2"))
    assert server.asked == before, "a registry would say that it has no such path"


def test_a_registry_that_is_away_is_no_fault_of_the_record(server: SchemaRegistry) -> None:
    text = record(("id", "int"))
    number = server.register("orders-value", text)
    decoder = opened(server, Form.AVRO)
    other = server.register("orders-value", text)
    server.fail = lambda path: (503, b"", {})
    assert decoder.decode(framed(number, b"\2")) == {"id": 1}
    with pytest.raises(RegistryError, match=f"schema {other} cannot be had"):
        decoder.decode(framed(other, b"\2"))
    server.fail = lambda path: None
    assert decoder.decode(framed(other, b"\2")) == {"id": 1}


def file_of(*names: str, nested: str | None = None) -> bytes:
    messages = [
        DescriptorProto(name=name, field=[F(name="id", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)])
        for name in names
    ]
    if nested is not None:
        messages[0].nested_type.add(
            name=nested, field=[F(name="n", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)]
        )
    return FileDescriptorProto(syntax="proto3", message_type=messages).SerializeToString()


def test_protobuf_comes_by_the_place_of_its_message(server: SchemaRegistry) -> None:
    number = server.register("orders-value", file_of("Order", "Refund", nested="Line"), "PROTOBUF")
    order, refund, line = opened(server, Form.PROTOBUF), opened(server, Form.PROTOBUF, "Refund"), None
    line = opened(server, Form.PROTOBUF, "Order.Line")
    assert order.decode(framed(number, b"\0\x08\x05")) == {"id": 5}
    assert order.decode(framed(number, b"\x02\0\x08\x05")) == {"id": 5}, "the first, said in full"
    assert refund.decode(framed(number, b"\x02\x02\x08\x05")) == {"id": 5}
    assert line.decode(framed(number, b"\x04\0\0\x08\x05")) == {"n": 5}
    newer = server.register("orders-value", file_of("New", "Order"), "PROTOBUF")
    assert order.decode(framed(newer, b"\x02\x02\x08\x05")) == {"id": 5}, "by its name, wherever it stands"
    for value, reason in (
        (framed(number, b"\x02\x02\x08\x05"), "it is a Refund, and what is read is Order"),
        (framed(newer, b"\0\x08\x05"), "it is a New, and what is read is Order"),
        (framed(number, b"\x02\x12\x08\x05"), r"has no message at \[9\]"),
        (framed(number, b""), "ends too early"),
        (framed(number, b"\x01"), "-1 numbers deep"),
        (framed(number, b"\x02\x01"), "it has the number -1"),
        (framed(number, b"\xff\xff\xff\xff\xff\xff"), "ends too early"),
        (framed(number, b"\0\xff"), "no message Order"),
    ):
        with pytest.raises(BadRecordError, match=reason):
            order.decode(value)


def test_a_registry_that_gives_source_text_is_refused(server: SchemaRegistry) -> None:
    server.register("orders-value", 'syntax = "proto3"; message Order {}', "PROTOBUF")
    with pytest.raises(SchemaError, match=r"gives source text where a descriptor was asked for \(format=serialized\)"):
        opened(server, Form.PROTOBUF)


def test_json_comes_by_the_newest_schema(server: SchemaRegistry) -> None:
    text = '{"type": "object", "properties": {"home": {"$ref": "a.json"}}}'
    server.register("a", '{"type": "object", "properties": {"city": {"type": "string"}}}', "JSON")
    number = server.register("orders-value", text, "JSON", [("a.json", "a", 1)])
    assert opened(server, Form.JSON).decode(framed(number, b'{"home": {"city": "x"}}')) == {"home": {"city": "x"}}


def test_a_schema_at_hand_needs_no_registry() -> None:
    files = FileDescriptorSet(file=[FileDescriptorProto.FromString(file_of("Order"))])
    files.file[0].name = "order.proto"
    for form, schema, value in (
        (Form.AVRO, record(("id", "int")).encode(), b"\x0a"),
        (Form.JSON, b'{"type": "object", "properties": {"id": {"type": "integer"}}}', b'{"id": 5}'),
        (Form.PROTOBUF, files.SerializeToString(), b"\x08\x05"),
    ):
        decoder = Decoder(pickle.loads(pickle.dumps(pin(Decoding(form, schema)))))
        assert decoder.decode(value) == {"id": 5}
        assert decoder.shape.kind is Kind.STRUCT


@pytest.mark.parametrize(
    ("form", "schema", "message"),
    [
        (Form.AVRO, None, "avro needs a schema"),
        (Form.AVRO, b"\xff", "the schema is no text"),
        (Form.PROTOBUF, b"\xff", "this is no FileDescriptorSet"),
        (Form.PROTOBUF, b"", "there is no Protobuf schema"),
    ],
)
def test_what_is_no_schema_is_refused(form: Form, schema: bytes | None, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Decoder(pin(Decoding(form, schema)))


def test_a_subject_must_be_named(server: SchemaRegistry) -> None:
    with pytest.raises(SchemaError, match="say which one the columns come of"):
        pin(Decoding(Form.AVRO, registry=RegistrySettings((server.url,))))


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(SchemaError, match=r"decode=avro needs fastavro: pip install 'tidelog\[decode\]'"):
        Decoder(pin(Decoding(Form.AVRO, b"{}")))


@given(st.lists(st.integers(0, (1 << 31) - 1), min_size=1, max_size=32), st.binary())
def test_places_of_messages_are_read_as_they_are_written(path: list[int], behind: bytes) -> None:
    def varint(number: int) -> bytes:
        number <<= 1
        out = b""
        while number >= 0x80:
            out += bytes([number & 0x7F | 0x80])
            number >>= 7
        return out + bytes([number])

    head = varint(len(path)) + b"".join(map(varint, path))
    assert message_path(head + behind) == (path, len(head))
    try:
        found, at = message_path(behind)
    except BadRecordError:
        return
    assert found
    assert 0 < at <= len(behind)


def test_base64_of_a_descriptor_is_what_the_registry_is_asked_for(server: SchemaRegistry) -> None:
    server.register("orders-value", base64.b64encode(file_of("Order")).decode(), "PROTOBUF")
    opened(server, Form.PROTOBUF)
    assert server.asked == ["/subjects/orders-value/versions/latest?format=serialized"]
