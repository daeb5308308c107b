"""Which schema gives the columns, and how one value is read.

    pinned = pin(Decoding(Form.AVRO, registry=RegistrySettings(("http://localhost:8081",)), subject="orders-value"))
    decoder = Decoder(pinned)
    decoder.shape, decoder.decode(value)

`pin` is said once, where work is planned: the columns are those of the newest version at that time. What it gives is pickled and
is all that a reader needs; with a registry each value begins with a byte 0 and its schema's id (Confluent's wire format), and
schemas of other ids are asked for when they come.
"""

from __future__ import annotations

import base64
import binascii
import functools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from .avro import AvroReader, AvroSchema
from .exceptions import BadRecordError, SchemaError, UnknownSchemaError
from .json_values import JsonReader
from .protobuf import ProtobufReader, ProtobufSchema
from .registry import RegisteredSchema, Registry, RegistrySettings
from .shape import Shape

#: Bytes in front of a value: 0, and the id, big-endian.
_HEADER = 5
#: Ids are ints of Java: of a larger one a registry says that it has no such path, which is no word of a schema.
_MOST_ID = (1 << 31) - 1
#: Writers' schemas that are kept parsed, and bytes of their texts: parsed they are some ten times that.
_MOST_WRITERS, _MOST_WRITERS_BYTES = 200, 16 << 20
#: Numbers that lead to a Protobuf message within its file.
_MOST_DEPTH = 32


class Form(Enum):
    """Forms of values, by the names that the option `decode` has."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"


@dataclass(frozen=True, slots=True)
class Decoding:
    """What is to be decoded, and by which schema: that one, or the newest of a registry's subject.

    Attributes:
        schema: JSON Schema or Avro's JSON as text; for Protobuf a serialized FileDescriptorSet, as
            `protoc --include_imports --descriptor_set_out` writes it: its last file is it.
        message: of Protobuf: name of the message type. None: the first of the schema.
    """

    form: Form
    schema: bytes | None = None
    message: str | None = None
    registry: RegistrySettings | None = None
    subject: str | None = None


class NamedSchema(NamedTuple):
    """A schema by the name that others know it by. Text; of Protobuf a FileDescriptorProto."""

    name: str
    text: bytes


class Pinned(NamedTuple):
    """A reader's schema. Pickled with tasks.

    Attributes:
        schema_id: in the registry; None for one that was given, whose values have nothing in front of them.
        schemas: it, behind those that it refers to.
    """

    form: Form
    schema_id: int | None
    schemas: tuple[NamedSchema, ...]
    message: str | None
    registry: RegistrySettings | None


@functools.lru_cache(maxsize=8)
def registry_of(settings: RegistrySettings, form: Form) -> Registry:
    """This process's client of a registry: what one task has asked for the next one knows."""
    return Registry(settings, serialized=form is Form.PROTOBUF)


def pin(decoding: Decoding, registry: Registry | None = None) -> Pinned:
    """The schema that values will be read into. Asks the registry: blocks. SchemaError, RegistryError.

    `registry`: to ask instead of this process's own.
    """
    form = decoding.form
    if decoding.registry is None:
        if decoding.schema is None:
            raise SchemaError(f"{form.value} needs a schema, or a registry that has one")
        files = _files_of(decoding.schema) if form is Form.PROTOBUF else (NamedSchema("", decoding.schema),)
        return Pinned(form, None, files, decoding.message, None)
    if decoding.subject is None:
        raise SchemaError("a registry has many subjects; say which one the columns come of")
    asked = registry or registry_of(decoding.registry, form)
    newest = asked.latest(decoding.subject)
    return Pinned(form, newest.schema_id, _closure(asked, newest, form), decoding.message, decoding.registry)


def _files_of(serialized: bytes) -> tuple[NamedSchema, ...]:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    try:
        found = FileDescriptorSet.FromString(serialized)
    except Exception as error:  # DecodeError, by the implementation that is there
        raise SchemaError(f"this is no FileDescriptorSet: {error}") from None
    return tuple(NamedSchema(file.name, file.SerializeToString()) for file in found.file)


def _closure(registry: Registry, schema: RegisteredSchema, form: Form) -> tuple[NamedSchema, ...]:
    """It, behind what it refers to. SchemaError: it is of another form."""
    if schema.form != form.name:
        raise SchemaError(f"schema {schema.schema_id} is {schema.form}, and what is read is {form.name}")
    named = [NamedSchema(name, _text(other, form)) for name, other in registry.closure(schema)]
    return (*named, NamedSchema(f"schema-{schema.schema_id}", _text(schema, form)))


def _text(schema: RegisteredSchema, form: Form) -> bytes:
    if form is not Form.PROTOBUF:
        return schema.text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(schema.text, validate=True)
    except (binascii.Error, ValueError):
        raise SchemaError(
            f"schema {schema.schema_id}: the registry gives source text where a descriptor was asked for (format=serialized)"
        ) from None


class Decoder:
    """Reads values. One thread; asks the registry for ids that are new, which blocks.

    Attributes:
        shape: of every value, a STRUCT.
    """

    def __init__(self, pinned: Pinned, registry: Registry | None = None) -> None:
        """SchemaError: the schema is none, or has no columns. `registry`: instead of this process's own."""
        self._pinned = pinned
        self._registry = registry or (None if pinned.registry is None else registry_of(pinned.registry, pinned.form))
        #: By id: the schema or why there is none, and bytes of its texts.
        self._writers: OrderedDict[int, tuple[Any, int]] = OrderedDict()
        self._writers_bytes = 0
        makers = {Form.JSON: self._open_json, Form.AVRO: self._open_avro, Form.PROTOBUF: self._open_protobuf}
        self._read: Callable[[int | None, bytes], dict[str, Any]]
        try:
            self.shape, self._read = makers[pinned.form]()
        except ImportError as error:
            raise SchemaError(f"decode={pinned.form.value} needs {error.name}: pip install 'tidelog[decode]'") from None

    def decode(self, value: bytes) -> dict[str, Any]:
        """The record in a value. BadRecordError: it is none; RegistryError: nobody tells its schema, whatever it is."""
        if self._pinned.schema_id is None:
            return self._read(None, value)
        if len(value) < _HEADER or value[0] != 0:
            raise BadRecordError(
                f"no byte 0 and schema id in front; it begins with {value[:_HEADER].hex(' ') or 'nothing'}"
            )
        return self._read(int.from_bytes(value[1:_HEADER], "big"), value[_HEADER:])

    # -- forms: each gives the shape, and what reads a value by its schema's id (None: the reader's)

    def _open_json(self) -> tuple[Shape, Callable[[int | None, bytes], dict[str, Any]]]:
        *others, own = self._pinned.schemas
        reader = JsonReader(_utf8(own), {other.name: _utf8(other) for other in others})
        return reader.shape, lambda _, value: reader.decode(value)

    def _open_avro(self) -> tuple[Shape, Callable[[int | None, bytes], dict[str, Any]]]:
        own = _avro(self._pinned.schemas)
        reader = AvroReader(own)
        return reader.shape, lambda number, value: reader.decode(value, self._writer(number, _avro))

    def _open_protobuf(self) -> tuple[Shape, Callable[[int | None, bytes], dict[str, Any]]]:
        own = _protobuf(self._pinned.schemas)
        reader = ProtobufReader(own, self._pinned.message)
        if self._pinned.schema_id is None:
            return reader.shape, lambda _, value: reader.decode(value)

        def read(number: int | None, value: bytes) -> dict[str, Any]:
            path, behind = message_path(value)
            name = (self._writer(number, _protobuf) or own).message_at(path)
            if name != reader.name:
                raise BadRecordError(f"it is a {name}, and what is read is {reader.name}")
            return reader.decode(value[behind:])

        return reader.shape, read

    def _writer(self, number: int | None, parse: Callable[[tuple[NamedSchema, ...]], Any]) -> Any:
        """The parsed schema of that id; None if it is the reader's. BadRecordError: there is none, or none that is read."""
        if number is None or number == self._pinned.schema_id:
            return None
        found, size = self._writers.get(number, (None, 0))
        if found is None:
            assert self._registry is not None  # there are ids
            if number > _MOST_ID:
                raise BadRecordError(f"by schema {number}: no schema has such an id")
            try:
                schemas = _closure(self._registry, self._registry.by_id(number), self._pinned.form)
                found, size = parse(schemas), sum(len(each.text) for each in schemas)
            except UnknownSchemaError as error:  # which may be there soon: the registry's client remembers for a while
                raise BadRecordError(f"by schema {number}: {error}") from None
            except SchemaError as error:
                found = error
            self._writers[number] = found, size
            self._writers_bytes += size
            while len(self._writers) > 1 and (
                len(self._writers) > _MOST_WRITERS or self._writers_bytes > _MOST_WRITERS_BYTES
            ):
                self._writers_bytes -= self._writers.popitem(last=False)[1][1]
        self._writers.move_to_end(number)
        if isinstance(found, SchemaError):
            raise BadRecordError(f"by schema {number}: {found}")
        return found


def message_path(value: bytes) -> tuple[list[int], int]:
    """Which message of its file follows, as the wire format has it in front of Protobuf, and where it begins. BadRecordError."""
    count, at = _zigzag(value, 0)
    if count == 0:
        return [0], at  # short for the first one
    if not 0 < count <= _MOST_DEPTH:
        raise BadRecordError(f"no place of a message in front: {count} numbers deep")
    path = []
    for _ in range(count):
        number, at = _zigzag(value, at)
        if number < 0:
            raise BadRecordError(f"no place of a message in front: it has the number {number}")
        path.append(number)
    return path, at


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while shift < 35:
        if at >= len(value):
            break
        found |= (value[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if value[at - 1] < 0x80:
            return (found >> 1) ^ -(found & 1), at
    raise BadRecordError("no place of a message in front: it ends too early")


def _avro(schemas: tuple[NamedSchema, ...]) -> AvroSchema:
    *others, own = schemas
    return AvroSchema(_utf8(own), [_utf8(other) for other in others])


def _utf8(schema: NamedSchema) -> str:
    try:
        return schema.text.decode()
    except UnicodeDecodeError as error:
        raise SchemaError(f"{schema.name or 'the schema'} is no text: {error}") from None


def _protobuf(schemas: tuple[NamedSchema, ...]) -> ProtobufSchema:
    return ProtobufSchema(schemas)
