"""Messages as data: a class lists its fields, each with the versions it is in, and codecs follow from that.

    class HeartbeatRequest(ApiMessage):
        API_KEY = ApiKey.HEARTBEAT
        VERSIONS = (0, 4)
        FLEXIBLE_FROM = 4

        group_id: str = string()
        generation_id: int = int32()
        member_id: str = string()
        group_instance_id: str | None = string("3+", nullable="3+", default=None)

Names, versions, defaults, tags and what is ignorable are Kafka's (its message definitions, KIP-482 for flexible
versions). Every field may be left out of the constructor and then has its default, as in Kafka.

`decode` and `encode` need a codec for one class in one version. `codec.py` writes it as Python source on first use;
declaring a class costs next to nothing, so a daemon pays only for the versions that its clients speak.

What decoding gives for each field:

    INT8 INT16 UINT16 INT32 INT64 → int      BOOLEAN → bool      FLOAT64 → float      UUID → bytes, 16 of them
    STRING → str      ARRAY → list      struct → that class
    BYTES → bytes (a copy: these outlive their request)
    RECORDS → memoryview of the buffer that was decoded (no copy: may be gigabytes in all; keeps the buffer alive)

Strings that are no UTF-8 are read with U+FFFD for each bad byte, as Kafka does. A field that a version does not have
gets its default. Tagged fields that we don't know are skipped.

Values are mutable and belong to the code that made them. `decode` and `encode` may be called from any thread.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast, dataclass_transform, overload

from . import primitives
from .api_keys import ApiKey
from .errors import ErrorCode, MalformedRequest, ProtocolError
from .primitives import Buffer

ZERO_UUID = bytes(16)
"""Kafka's "no id": 16 zero bytes."""

T = TypeVar("T")
S = TypeVar("S", bound="Struct")
M = TypeVar("M", bound="Message")


class Kind(Generic[T]):
    """A primitive type. `code` is its struct format if it has a fixed size, else ""."""

    __slots__ = ("code", "default", "name")

    def __init__(self, name: str, code: str, default: object) -> None:
        self.name = name
        self.code = code
        self.default = default


INT8: Kind[int] = Kind("INT8", "b", 0)
INT16: Kind[int] = Kind("INT16", "h", 0)
UINT16: Kind[int] = Kind("UINT16", "H", 0)
INT32: Kind[int] = Kind("INT32", "i", 0)
INT64: Kind[int] = Kind("INT64", "q", 0)
FLOAT64: Kind[float] = Kind("FLOAT64", "d", 0.0)
BOOLEAN: Kind[bool] = Kind("BOOLEAN", "?", False)
UUIDS: Kind[bytes] = Kind("UUID", "16s", ZERO_UUID)
STRING: Kind[str] = Kind("STRING", "", "")
BYTES: Kind[bytes] = Kind("BYTES", "", b"")
RECORDS: Kind[Buffer] = Kind("RECORDS", "", b"")

Element = Kind[Any] | type["Struct"]


class VersionRange(NamedTuple):
    """Versions `low` to `high`, both included. Written "3+", "3-5", "3", or "none"."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        if text == "none":
            return cls(1, 0)
        low, dash, high = text.rstrip("+").partition("-")
        if text.endswith("+"):
            return cls(int(low), 0x7FFF)
        return cls(int(low), int(high if dash else low))

    def has(self, version: int) -> bool:
        return self.low <= version <= self.high


class Field(NamedTuple):
    """Declaration of one field; `name` is the attribute."""

    element: Element
    is_array: bool
    versions: str
    nullable: str
    default: object  # of a struct that is not nullable: None, which stands for a new one
    tag: int | None
    ignorable: bool
    name: str = ""


def _field(
    element: Element,
    versions: str,
    default: object,
    tag: int | None,
    ignorable: bool,
    nullable: str = "none",
    is_array: bool = False,
) -> Any:  # Any: a declaration has its type in the class's annotation
    return Field(element, is_array, versions, nullable, default, tag, ignorable)


# `versions`: in which the field is. `nullable`: in which it may be null. `tag`: its tag, if it is a tagged field.
# `ignorable`: a value that a version can't carry is left out; otherwise encoding it is an error.


def int8(versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> int:
    return cast(int, _field(INT8, versions, default, tag, ignorable))


def int16(versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> int:
    return cast(int, _field(INT16, versions, default, tag, ignorable))


def uint16(versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> int:
    return cast(int, _field(UINT16, versions, default, tag, ignorable))


def int32(versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> int:
    return cast(int, _field(INT32, versions, default, tag, ignorable))


def int64(versions: str = "0+", *, default: int = 0, tag: int | None = None, ignorable: bool = False) -> int:
    return cast(int, _field(INT64, versions, default, tag, ignorable))


def float64(versions: str = "0+", *, default: float = 0.0, tag: int | None = None, ignorable: bool = False) -> float:
    return cast(float, _field(FLOAT64, versions, default, tag, ignorable))


def boolean(versions: str = "0+", *, default: bool = False, tag: int | None = None, ignorable: bool = False) -> bool:
    return cast(bool, _field(BOOLEAN, versions, default, tag, ignorable))


def uuid(versions: str = "0+", *, tag: int | None = None, ignorable: bool = False) -> bytes:
    return cast(bytes, _field(UUIDS, versions, ZERO_UUID, tag, ignorable))


@overload
def string(versions: str = ..., *, default: str = ..., tag: int | None = ..., ignorable: bool = ...) -> str: ...
@overload
def string(
    versions: str = ...,
    *,
    nullable: str,
    default: str | None = ...,
    tag: int | None = ...,
    ignorable: bool = ...,
) -> str | None: ...
def string(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: str | None = "",
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    return _field(STRING, versions, default, tag, ignorable, nullable)


@overload
def bytes_(versions: str = ..., *, ignorable: bool = ...) -> bytes: ...
@overload
def bytes_(
    versions: str = ..., *, nullable: str, default: bytes | None = ..., ignorable: bool = ...
) -> bytes | None: ...
def bytes_(
    versions: str = "0+", *, nullable: str = "none", default: bytes | None = b"", ignorable: bool = False
) -> Any:
    return _field(BYTES, versions, default, None, ignorable, nullable)


def records(versions: str = "0+", *, nullable: str, default: bytes | None = None) -> Buffer | None:
    return cast("Buffer | None", _field(RECORDS, versions, default, None, False, nullable))


@overload
def array(element: Kind[T], versions: str = ..., *, tag: int | None = ..., ignorable: bool = ...) -> Sequence[T]: ...
@overload
def array(element: type[S], versions: str = ..., *, tag: int | None = ..., ignorable: bool = ...) -> Sequence[S]: ...
@overload
def array(
    element: Kind[T],
    versions: str = ...,
    *,
    nullable: str,
    default: tuple[()] | None = ...,
    tag: int | None = ...,
    ignorable: bool = ...,
) -> Sequence[T] | None: ...
@overload
def array(
    element: type[S],
    versions: str = ...,
    *,
    nullable: str,
    default: tuple[()] | None = ...,
    tag: int | None = ...,
    ignorable: bool = ...,
) -> Sequence[S] | None: ...
def array(
    element: Element,
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: tuple[()] | None = (),
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    return _field(element, versions, default, tag, ignorable, nullable, is_array=True)


@overload
def structure(element: type[S], versions: str = ..., *, tag: int | None = ..., ignorable: bool = ...) -> S: ...
@overload
def structure(
    element: type[S], versions: str = ..., *, nullable: str, tag: int | None = ..., ignorable: bool = ...
) -> S | None: ...
def structure(
    element: type[S], versions: str = "0+", *, nullable: str = "none", tag: int | None = None, ignorable: bool = False
) -> Any:
    return _field(element, versions, None, tag, ignorable, nullable)


class _StructType(type):
    """Metaclass: takes the Fields out of a class's body and makes slots of them."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _StructType:
        fields = tuple(value._replace(name=attribute) for attribute, value in namespace.items() if type(value) is Field)
        for field in fields:
            del namespace[field.name]
        namespace["__slots__"] = tuple(field.name for field in fields)
        namespace["FIELDS"] = fields
        return super().__new__(mcs, name, bases, namespace)


@dataclass_transform(kw_only_default=True)
class Struct(metaclass=_StructType):
    """A sequence of fields: a message, or an element of an array. Its versions are the message's."""

    FIELDS: ClassVar[tuple[Field, ...]]

    def __init__(self, **values: Any) -> None:
        # A constructor written for the class takes this one's place when the first instance is made.
        cls = type(self)
        cls.__init__ = _constructor(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(getattr(self, field.name), getattr(other, field.name)) for field in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.FIELDS)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """A struct that is encoded on its own, in versions VERSIONS[0] to VERSIONS[1], flexible from FLEXIBLE_FROM on."""

    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE_FROM: ClassVar[int | None]
    MOST_ELEMENTS: ClassVar[int] = primitives.MAX_ELEMENTS
    """Limit on all array elements of a request; lower for messages in which no client has so many and each takes long.
    """


class ApiMessage(Message):
    """Body of a request or a response."""

    API_KEY: ClassVar[ApiKey]


class EncodedOnce(tuple[S, ...]):
    """Structs of an array field that many messages share unchanged: the bytes are kept from the first encoding on.

    For fields of the message itself (arrays within arrays are written as ever). Nobody may change an element afterwards.

    Attributes:
        kept: (class and field, version) → the elements' bytes, without their count; `codec` fills it. Any thread: what two
            threads write is the same.
    """

    kept: dict[tuple[str, int], bytes]

    def __new__(cls, elements: Iterable[S]) -> EncodedOnce[S]:
        made = super().__new__(cls, elements)
        made.kept = {}
        return made


class EncodedStruct(bytes):
    """Bytes of a struct, in the form of the message's version, that stand for it in a nullable field: the encoder copies them. It
    believes them: they are of a struct that was encoded here.
    """

    __slots__ = ()


Decoder = Callable[[memoryview, int, int], tuple[Any, int]]
Encoder = Callable[[Any, bytearray], None]
_decoders: dict[tuple[type[Message], int], Decoder] = {}
_encoders: dict[tuple[type[Message], int], Encoder] = {}


def decode(cls: type[M], version: int, buffer: Buffer, position: int = 0) -> tuple[M, int]:
    """Decode a `cls` in `version` from `buffer` at `position`: (message, its end).

    Bytes after the end are the caller's business (Kafka ignores bytes behind a request's body). Raises MalformedRequest
    when the bytes are no such message, before memory is taken for counts and lengths that they can't hold, and
    ProtocolError UNSUPPORTED_VERSION when the class has no such version.
    """
    decoder = _decoders.get((cls, version))
    if decoder is None:
        _check_version(cls, version)
        from .codec import compile_decoder

        decoder = _decoders[cls, version] = compile_decoder(cls, version)
    view = memoryview(buffer)
    try:
        return decoder(view, position, len(view))
    except (IndexError, struct.error):
        raise MalformedRequest(f"{cls.__name__} version {version} is cut off") from None


def encode(message: Message, version: int) -> bytes:
    """Encode `message` in `version`. See `encode_into` for errors."""
    out = bytearray()
    encode_into(message, version, out)
    return bytes(out)


def encode_into(message: Message, version: int, out: bytearray) -> None:
    """Append `message`, encoded in `version`, to `out`, which may hold a size and a header already.

    Raises UnsupportedFieldError when a field that is not ignorable has another value than its default and the version
    does not have the field, or when it is None and the version can't say null; ProtocolError UNSUPPORTED_VERSION when
    the class has no such version. A number that its type can't hold is the caller's bug: struct.error or ValueError.
    `out` holds part of the message then.
    """
    encoder = _encoders.get((type(message), version))
    if encoder is None:
        _check_version(type(message), version)
        from .codec import compile_encoder

        encoder = _encoders[type(message), version] = compile_encoder(type(message), version)
    encoder(message, out)


def encode_with_version(message: Message, version: int) -> bytes:
    """Encode `message` behind an INT16 with its version, the form of keys and values in internal topics."""
    out = bytearray(primitives.INT16.pack(version))
    encode_into(message, version, out)
    return bytes(out)


def decode_with_version(cls: type[M], buffer: Buffer) -> tuple[M, int]:
    """Decode the output of `encode_with_version`: (message, version). Errors as `decode`."""
    if len(buffer) < 2:
        raise MalformedRequest(f"{cls.__name__} lacks its version")
    version: int = primitives.INT16.unpack_from(buffer)[0]
    return decode(cls, version, buffer, 2)[0], version


def _check_version(cls: type[Message], version: int) -> None:
    low, high = cls.VERSIONS
    if not low <= version <= high:
        raise ProtocolError(
            ErrorCode.UNSUPPORTED_VERSION, f"{cls.__name__} has versions {low} to {high}, {version} was asked for"
        )


def _same(one: object, other: object) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


def _constructor(cls: type[Struct]) -> Callable[..., None]:
    """Make `__init__` with a keyword for each field. Generated source: a loop over fields takes five times as long."""
    namespace: dict[str, Any] = {}
    parameters, lines = ["self"], []
    for field in cls.FIELDS:
        name = field.name
        if isinstance(field.element, type) and not field.is_array and field.nullable == "none":
            namespace[f"new_{name}"] = field.element
            lines.append(f" self.{name} = new_{name}() if {name} is None else {name}")
            namespace[f"default_{name}"] = None
        else:
            lines.append(f" self.{name} = {name}")
            namespace[f"default_{name}"] = field.default
        parameters.append(f"{name}=default_{name}")
    if cls.FIELDS:
        parameters.insert(1, "*")
    source = f"def __init__({', '.join(parameters)}):\n" + ("\n".join(lines) or " pass")
    exec(compile(source, f"<{cls.__name__}.__init__>", "exec"), namespace)  # noqa: S102 (source is made of FIELDS alone)
    constructor: Callable[..., None] = namespace["__init__"]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor
