"""Protobuf: the shape that a message type has, and messages read into it, by descriptors: nothing is compiled.

A field that has no presence (proto3's plain ones) is there with its default; one that has some is None where it was not set.
Enums are names, or the number where there is none; uint64 is a decimal, google.protobuf.Timestamp a timestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from importlib import import_module
from typing import Any

from .exceptions import BadRecordError, SchemaError
from .shape import MOST_DEPTH, FieldCount, Kind, Shape, ValueCount, width

_TIMESTAMP = "google.protobuf.Timestamp"
#: Files that everybody has and no registry gives.
_COMMON = {
    f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2"
    for name in ("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
                 "wrappers")
}  # fmt: skip
#: Of Confluent's own; its options change nothing of a message.
_WITHOUT_MEANING = frozenset({"confluent/meta.proto"})


class ProtobufSchema:
    """Types of one file. SchemaError: it is no descriptor, or an import is missing."""

    def __init__(self, files: Sequence[tuple[str, bytes]]) -> None:
        """`files`: names, as imports have them, and serialized FileDescriptorProtos, each behind its imports; the last is it."""
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.descriptor_pool import DescriptorPool

        if not files:
            raise SchemaError("there is no Protobuf schema")
        self._pool = DescriptorPool()
        self._added: set[str] = set()
        proto = FileDescriptorProto()
        try:
            for name, serialized in files:
                proto = FileDescriptorProto.FromString(serialized)
                proto.name = name
                wanted = [each for each in proto.dependency if each not in _WITHOUT_MEANING]
                if len(wanted) < len(proto.dependency):
                    del proto.dependency[:], proto.public_dependency[:], proto.weak_dependency[:]
                    proto.dependency.extend(wanted)
                for each in wanted:
                    self._add_common(each)
                if name not in self._added:
                    self._pool.AddSerializedFile(proto.SerializeToString())
                    self._added.add(name)
        except Exception as error:  # DecodeError, TypeError, KeyError, by the implementation that is there
            raise SchemaError(f"this is no Protobuf schema: {' '.join(str(error).split())[:300]}") from None
        self._file = proto

    def _add_common(self, name: str) -> None:
        if name in self._added or name not in _COMMON:
            return
        self._added.add(name)
        file = import_module(_COMMON[name]).DESCRIPTOR
        for imported in file.dependencies:
            self._add_common(imported.name)
        self._pool.AddSerializedFile(file.serialized_pb)

    def message_at(self, path: Sequence[int]) -> str:
        """Full name of the message at that place: its number in the file, then in the message around it. BadRecordError."""
        try:
            found = self._file.message_type[path[0]]
            names = [self._file.package] if self._file.package else []
            names.append(found.name)
            for number in path[1:]:
                found = found.nested_type[number]
                names.append(found.name)
        except IndexError:
            raise BadRecordError(f"its schema has no message at {list(path)}") from None
        return ".".join(names)

    def descriptor(self, message: str | None) -> Any:
        """Of that message, by its full name or its name in the file; by default of the first. SchemaError."""
        if message is None:
            if not self._file.message_type:
                raise SchemaError("this Protobuf schema has no message")
            message = self.message_at([0])
        for name in (message, f"{self._file.package}.{message}"):
            try:
                return self._pool.FindMessageTypeByName(name)
            except KeyError:
                continue
        there = ", ".join(each.name for each in self._file.message_type)
        raise SchemaError(f"this Protobuf schema has no message {message}; there are {there[:300]}")


class ProtobufReader:
    """Reads messages of one type. One thread."""

    def __init__(self, schema: ProtobufSchema, message: str | None) -> None:
        """SchemaError: the type has no columns."""
        from google.protobuf.message_factory import GetMessageClass

        descriptor = schema.descriptor(message)
        self.name = str(descriptor.full_name)
        self._values = ValueCount()
        self.shape, self._convert = _Shapes(self._values).message(descriptor, ())
        self._class = GetMessageClass(descriptor)  # which recurses through all types, and has no bound

    def decode(self, value: bytes) -> dict[str, Any]:
        """BadRecordError."""
        from google.protobuf.message import DecodeError

        try:
            message = self._class.FromString(value)
        except (DecodeError, RuntimeError, ValueError) as error:
            raise BadRecordError(f"no message {self.name}: {' '.join(str(error).split())[:200]}") from None
        if not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors())
            raise BadRecordError(f"no message {self.name}: it lacks {missing[:200]}")
        self._values.begin(len(value))
        found: dict[str, Any] = self._convert(message)
        return found


class _Shapes:
    """Shapes of message types, and what makes values of them."""

    def __init__(self, values: ValueCount) -> None:
        """`values` counts the elements when they are made."""
        self._values = values
        self._count = FieldCount()

    def message(self, descriptor: Any, path: tuple[str, ...]) -> tuple[Shape, Callable[[Any], Any]]:
        """Shape of a message type, and what makes a value of it of a message. SchemaError."""
        if descriptor.full_name == _TIMESTAMP:
            return Shape(Kind.TIMESTAMP), lambda value: value.seconds * 1_000_000 + value.nanos // 1000
        if descriptor.full_name in path:
            raise SchemaError(f"{descriptor.full_name} is a message within itself, which has no columns")
        if not descriptor.fields:
            raise SchemaError(f"{descriptor.full_name} has no fields, so it has no columns")
        path = (*path, descriptor.full_name)
        if len(path) > MOST_DEPTH:
            raise SchemaError(f"{path[0]} has more than {MOST_DEPTH} messages within one another")
        fields = [(field.name, *self._field(field, path)) for field in descriptor.fields]
        getters = [(name, get) for name, _, get in fields]

        def convert(message: Any) -> dict[str, Any]:
            return {name: get(message) for name, get in getters}

        return Shape(Kind.STRUCT, tuple((name, shape) for name, shape, _ in fields)), convert

    def _field(self, field: Any, path: tuple[str, ...]) -> tuple[Shape, Callable[[Any], Any]]:
        """Shape, and what takes the field out of its message."""
        name, more = field.name, self._values.more
        if _is_repeated(field):
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                key, item = (field.message_type.fields_by_name[each] for each in ("key", "value"))
                key_shape, take_key = self._value(key, path)
                item_shape, take = self._value(item, path)
                item_width = 1 + width(item_shape)

                def pairs(message: Any) -> list[tuple[Any, Any]]:
                    found = getattr(message, name)
                    more(len(found) * item_width)
                    return [(take_key(each), take(value)) for each, value in found.items()]

                return Shape(Kind.MAP, key=key_shape, item=item_shape), pairs
            shape, take = self._value(field, path)
            each_width = width(shape)

            def elements(message: Any) -> list[Any]:
                found = getattr(message, name)
                more(len(found) * each_width)
                return [take(value) for value in found]

            return Shape(Kind.ARRAY, item=shape), elements
        shape, take = self._value(field, path)
        if field.has_presence:
            return shape, lambda message: take(getattr(message, name)) if message.HasField(name) else None
        return shape, lambda message: take(getattr(message, name))

    def _value(self, field: Any, path: tuple[str, ...]) -> tuple[Shape, Callable[[Any], Any]]:
        """One value of a field."""
        self._count.one()
        if field.message_type is not None:
            return self.message(field.message_type, path)
        if field.enum_type is not None:
            names: Mapping[int, Any] = field.enum_type.values_by_number
            return Shape(Kind.STRING), lambda value: names[value].name if value in names else str(value)
        kinds = {
            field.CPPTYPE_BOOL: Kind.BOOLEAN, field.CPPTYPE_INT32: Kind.INT, field.CPPTYPE_INT64: Kind.LONG,
            field.CPPTYPE_UINT32: Kind.LONG, field.CPPTYPE_FLOAT: Kind.FLOAT, field.CPPTYPE_DOUBLE: Kind.DOUBLE,
        }  # fmt: skip
        if field.cpp_type == field.CPPTYPE_UINT64:
            return Shape(Kind.DECIMAL, precision=20), Decimal
        if field.type == field.TYPE_BYTES:
            return Shape(Kind.BINARY), _same
        if field.cpp_type == field.CPPTYPE_STRING:
            return Shape(Kind.STRING), _text_of(field.name)
        return Shape(kinds[field.cpp_type]), _same


def _is_repeated(field: Any) -> bool:
    known = getattr(field, "is_repeated", None)  # from protobuf 6.31 on, which warns of `label`
    return bool(known) if known is not None else field.label == field.LABEL_REPEATED


def _same(value: Any) -> Any:
    return value


def _text_of(name: str) -> Callable[[Any], str]:
    def text(value: Any) -> str:
        if isinstance(value, str):
            return value
        raise BadRecordError(f"{name} is no UTF-8")  # proto2 checks nothing, and gives such a text as bytes

    return text
