"""Values of topics by their schemas, as any producer writes them, and what else comes as JSON: a stream's offsets, what the
process of a pass says, the key of a backup's secrets."""

from __future__ import annotations

import io
import json
import os
import struct
from collections.abc import Iterator
from typing import Any, cast

import fastavro
from fuzz.target import target
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from tidelog.backup.formats.secrets import SecretsError, read_key
from tidelog.cleaner.kernel.results import FilterCounts
from tidelog.cleaner.process.messages import (
    HEAD,
    Began,
    Done,
    Failed,
    Go,
    Limit,
    Message,
    Orders,
    Progress,
    ProtocolError,
    Ready,
    decode,
    encode,
)
from tidelog.cleaner.walk import BuildReport, FilterOrder, GroupReport, SegmentPart, WalkPlan
from tidelog.clients.schemas.avro import AvroReader, AvroSchema
from tidelog.clients.schemas.decoder import Decoder, Form, NamedSchema, Pinned
from tidelog.clients.schemas.exceptions import BadRecordError, SchemaError, UnknownSchemaError
from tidelog.clients.schemas.json_values import JsonReader
from tidelog.clients.schemas.registry import Registry
from tidelog.pipeline.progress.lag import read_position
from tidelog.storage.index.time_index import TimestampOffset
from tidelog.storage.index.transaction_index import AbortedTxn
from tidelog.storage.segment.swap import CleanedSegment

_ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["a"]},
        {"name": "counts", "type": {"type": "map", "values": ["null", "int"]}},
        {"name": "homes", "type": {"type": "array", "items": _ADDRESS}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, "default": "B"},
        {"name": "raw", "type": {"type": "fixed", "name": "Raw", "size": 3}},
    ],
}
WRITER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "gone", "type": ["null", _ADDRESS, "double"]},
        {"name": "id", "type": "int"},
        {"name": "at", "type": "long"},
        {"name": "price", "type": "null"},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "homes", "type": {"type": "array", "items": "Address"}},
        {"name": "raw", "type": {"type": "fixed", "name": "Raw", "size": 3}},
    ],
}
JSON = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": ["null", "number"]},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "home": {"$ref": "#/definitions/Address"},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {},
    },
    "definitions": {"Address": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
_F = FieldDescriptorProto
PROTOBUF = FileDescriptorProto(
    name="own.proto",
    package="of",
    syntax="proto3",
    message_type=[
        DescriptorProto(
            name="Order",
            field=[
                _F(name="id", number=1, type=_F.TYPE_INT64, label=_F.LABEL_OPTIONAL),
                _F(name="name", number=2, type=_F.TYPE_STRING, label=_F.LABEL_OPTIONAL),
                _F(name="prices", number=3, type=_F.TYPE_DOUBLE, label=_F.LABEL_REPEATED),
                _F(name="raw", number=4, type=_F.TYPE_BYTES, label=_F.LABEL_OPTIONAL),
                _F(name="homes", number=5, type=_F.TYPE_MESSAGE, label=_F.LABEL_REPEATED, type_name=".of.Address"),
            ],
        ),
        DescriptorProto(
            name="Address", field=[_F(name="city", number=1, type=_F.TYPE_STRING, label=_F.LABEL_OPTIONAL)]
        ),
    ],
)
OWN_ID = 7


class NoRegistry:
    """Knows no schema."""

    def by_id(self, schema_id: int) -> Any:
        raise UnknownSchemaError(f"there is no schema {schema_id}")


def decoder_of(form: Form, text: bytes) -> Decoder:
    pinned = Pinned(form, OWN_ID, (NamedSchema("own.proto", text),), None, None)
    return Decoder(pinned, cast(Registry, NoRegistry()))


DECODERS = (
    decoder_of(Form.AVRO, json.dumps(AVRO).encode()),
    decoder_of(Form.JSON, json.dumps(JSON).encode()),
    decoder_of(Form.PROTOBUF, PROTOBUF.SerializeToString()),
)
READER, BY_ANOTHER = AvroReader(AvroSchema(json.dumps(AVRO))), AvroSchema(json.dumps(WRITER))


def _avro(schema: Any, value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


ORDER = {
    "id": 5, "at": 1_700_000_000_000, "price": None, "tags": ["a", "b"], "counts": {"x": 1, "y": None},
    "homes": [{"city": "here"}, {"city": ""}], "kind": "A", "raw": b"abc",
}  # fmt: skip
BY_WRITER = {"gone": {"city": "x"}, "id": 5, "at": 7, "price": None, "counts": {"x": 1}, "homes": [], "raw": b"abc"}


def values() -> Iterator[bytes]:
    head = struct.pack(">bI", 0, OWN_ID)
    yield b"\0" + head + _avro(AVRO, ORDER)
    yield b"\3" + _avro(WRITER, BY_WRITER)
    order = {
        "id": 5,
        "price": 2.5,
        "tags": ["a", None],
        "home": {"city": "x"},
        "counts": {"a": 1},
        "any": [{"x": None}],
    }
    yield b"\1" + head + json.dumps(order).encode()
    yield b"\2" + head + b"\0" + bytes.fromhex("0805120161") + b"\x1a\x08" + bytes(8) + bytes.fromhex("2a030a0178")
    yield b"\2" + head + bytes.fromhex("02020a0178")
    yield b"\1" + struct.pack(">bI", 0, OWN_ID + 1) + b"{}"


@target(BadRecordError, seeds=values, growth=4000, large=256 << 10, cpu_us=20.0)
def decoded_values(data: bytes) -> None:
    """By the first byte: in Confluent's framing by Avro, JSON or Protobuf, or by Avro as another schema wrote it."""
    if not data:
        return
    form, value = data[0] & 3, data[1:]
    found = READER.decode(value, BY_ANOTHER) if form == 3 else DECODERS[form].decode(value)
    shape = READER.shape if form == 3 else DECODERS[form].shape
    assert found.keys() == {name for name, _ in shape.fields}


def schemas() -> Iterator[bytes]:
    yield b"\0" + json.dumps(AVRO).encode()
    yield b'\0 "string"'
    yield b"\0long"
    yield b"\1" + json.dumps(JSON).encode()


@target(SchemaError, seeds=schemas, growth=4000, extra=8 << 20, large=64 << 10, cpu_us=100.0)
def schema_texts(data: bytes) -> None:
    """Texts of schemas, as a registry gives them: Avro's, or JSON Schema."""
    if not data:
        return
    text = data[1:].decode("utf-8", "replace")
    if data[0] & 1:
        JsonReader(text)
    else:
        AvroReader(AvroSchema(text))


def said() -> Iterator[bytes]:
    order = FilterOrder(5, 9, 8, 0, -1, [(1, 2, 3)])
    messages: tuple[Message, ...] = (
        Ready(), Began(), Progress(1, 2, 3, 4, -1, 0.5, True), Orders(None), Orders(order), Go(-1), Limit(5), Done(),
        BuildReport(9, False, 3, 10, 0.3),
        GroupReport(0, 2, FilterCounts(*range(7)), [CleanedSegment(0, 100, 5, TimestampOffset(7, 3), 90)], 100),
        WalkPlan("t-0", "/d/t-0", [SegmentPart(0, 100, 50)], 5, 40, 60, [AbortedTxn(1, 2, 3, 4)], b"s" * 16, 1, 2, 3, 4, 5),
        Failed.of(OSError(28, "No space left", "x.log"), "/d"),
        Failed.of(MemoryError("much"), "/d"),
    )  # fmt: skip
    for message in messages:
        yield encode(message)[HEAD.size :]


@target(ProtocolError, seeds=said, growth=2000, large=256 << 10, cpu_us=20.0)
def messages_of_passes(data: bytes) -> None:
    """What the process of a pass says, or its daemon, without the length in front."""
    message = decode(data)
    if isinstance(message, Failed):
        assert isinstance(message.error(), Exception)


def offsets() -> Iterator[bytes]:
    yield json.dumps({"orders": {"0": 5, "1": 7}}).encode()
    yield json.dumps({"orders": {"0": 5}, "other": {"3": 0}}).encode()
    yield b"null"


@target(seeds=offsets, growth=2000, large=256 << 10, cpu_us=20.0)
def offsets_of_progress(data: bytes) -> None:
    """`endOffset` of a query's progress, of whatever source: what is no offset of a topic counts as none."""
    text = data.decode("utf-8", "replace")
    read_position({"sources": [{"endOffset": text}]})


def keys() -> Iterator[bytes]:
    yield b"0123456789abcdef" * 4 + b"\n"
    yield b"0123456789ABCDEF" * 4
    yield b"0123"


@target(SecretsError, seeds=keys)
def secret_keys(data: bytes) -> None:
    """The file of the key that seals a backup's secrets."""
    descriptor = os.memfd_create("key")
    try:
        os.write(descriptor, data)
        key = read_key(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    assert len(key.secret) == 32
