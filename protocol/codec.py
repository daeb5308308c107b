"""Generates the codec of one message class in one version, as Python source; called by `schema`.

The source has no loop over fields and no test of versions; what a version can't have is not in it. Runs of fields of
fixed size, together with the length that follows them, are one struct call. Nested structs are inlined: Kafka's
messages never contain themselves, so the depth of the source, and of any decoding, is that of the declaration. For
HeartbeatRequest version 2 the decoder is

    def decode(b, p, n):
     m1 = new(HeartbeatRequest)
     x2, = s1(b, p)
     p += 2
     if not 0 <= x2 <= n - p: fail("HeartbeatRequest.group_id", x2, n - p)
     e = p + x2
     m1.group_id = str(b[p:e], "utf-8", "replace")
     p = e
     m1.generation_id, x3, = s2(b, p)
     ...
     return m1, p

Rules that keep any input harmless: a length or count is compared with the bytes that are left, an element taking at
least its smallest size, before anything is allocated for it, and the counts of a request's arrays add up to its
`MOST_ELEMENTS` at most, since an element takes many times its bytes, those of its tags to `MAX_TAGS`; positions only grow;
what reads behind the end raises IndexError or struct.error, which `schema.decode` turns into MalformedRequest. Answers and
records, which were asked for, are bounded as in Kafka 4.4: each array and each section of tagged fields for itself.

Pure functions; any thread. `source_of` is for those who want to read what runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct as Layout
from struct import pack as _pack
from struct import unpack_from as _unpack_from
from typing import Any

from .errors import MalformedRequest, UnsupportedFieldError
from .primitives import (
    MAX_ELEMENTS_OF_ANSWERS,
    MAX_STRING,
    MAX_TAGS,
    read_unsigned_varint,
    skip_tagged_fields,
    unsigned_varint,
)
from .schema import (
    BYTES,
    RECORDS,
    STRING,
    Decoder,
    Element,
    EncodedOnce,
    EncodedStruct,
    Encoder,
    Field,
    Message,
    Struct,
    VersionRange,
)


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    """Make a function (view, position, end) → (message, its end). Takes about a millisecond."""
    decoder: Decoder = _DecoderSource(cls, version).compile("decode")
    return decoder


def compile_encoder(cls: type[Message], version: int) -> Encoder:
    """Make a function (message, bytearray) that appends to the bytearray. Takes about a millisecond."""
    encoder: Encoder = _EncoderSource(cls, version).compile("encode")
    return encoder


def source_of(cls: type[Message], version: int) -> tuple[str, str]:
    """The decoder and the encoder as text."""
    return _DecoderSource(cls, version).text(), _EncoderSource(cls, version).text()


def smallest_size(cls: type[Struct], version: int, flexible: bool) -> int:
    """Bytes of the shortest encoding of `cls` in `version`."""
    size = 1 if flexible else 0  # the count of tagged fields
    for field in cls.FIELDS:
        if field.tag is not None or not VersionRange.parse(field.versions).has(version):
            continue
        if field.is_array:
            size += 1 if flexible else 4
        elif VersionRange.parse(field.nullable).has(version) and isinstance(field.element, type):
            size += 1
        else:
            size += _smallest_element(field.element, version, flexible)
    return size


def _smallest_element(element: Element, version: int, flexible: bool) -> int:
    if isinstance(element, type):
        return max(1, smallest_size(element, version, flexible))
    if element.code:
        return Layout(">" + element.code).size
    return 1 if flexible else 2 if element is STRING else 4


def _fail_length(what: str, length: int, left: int) -> None:
    if length < 0:
        raise MalformedRequest(f"{what} can't be null or have length {length}")
    raise MalformedRequest(f"{what} claims {length} bytes or elements, {left} bytes are left")


def _fail_elements(what: str, most: int) -> None:
    raise MalformedRequest(f"{what}: more than {most} elements in all arrays of one request")


def _fail_array(what: str, count: int) -> None:
    raise MalformedRequest(f"{what}: an array of {count} elements; it may have {MAX_ELEMENTS_OF_ANSWERS}")


def _fail_tags(what: str, count: int) -> None:
    raise MalformedRequest(
        f"{what}: {count} tagged fields; a request may have {MAX_TAGS} in all, and each struct of an answer"
    )


def _fail_size(what: str) -> None:
    raise MalformedRequest(f"tagged field {what} has another size than its contents")


def _fail_field(what: str, version: int, reason: str) -> None:
    raise UnsupportedFieldError(f"{what} {reason} in version {version}")


def _fail_string(what: str, size: int) -> None:
    raise ValueError(f"{what} takes {size} bytes, a string can have {MAX_STRING}")


class _Source:
    """Lines of Python at the current depth, and the names that they use."""

    def __init__(self, cls: type[Message], version: int) -> None:
        self.cls = cls
        self.version = version
        self.flexible = cls.FLEXIBLE_FROM is not None and version >= cls.FLEXIBLE_FROM
        self.names: dict[str, Any] = {}
        self._layouts: dict[str, str] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._count = 0

    def text(self) -> str:
        if not self._lines:
            self.write()
        return "\n".join(self._lines)

    def write(self) -> None:
        raise NotImplementedError

    def compile(self, name: str) -> Any:
        code = compile(self.text(), f"<{name} {self.cls.__name__} {self.version}>", "exec")
        exec(code, self.names)  # noqa: S102 (the source is made of the class's declaration alone)
        return self.names[name]

    def line(self, text: str) -> None:
        self._lines.append(" " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def new_name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def layout(self, codes: str, method: str) -> str:
        """The name of the bound method of a struct."""
        name = self._layouts.get(codes)
        if name is None:
            name = self._layouts[codes] = f"s{len(self._layouts) + 1}"
            self.names[name] = getattr(Layout(">" + codes), method)
        return name

    def has(self, field: Field) -> bool:
        return VersionRange.parse(field.versions).has(self.version)

    def is_nullable(self, field: Field) -> bool:
        return VersionRange.parse(field.nullable).has(self.version)


class _DecoderSource(_Source):
    """Names in the source: b buffer, p position, n end of the buffer, k elements and g tags that may come in a request, e end of
    a value, m… structs, x… other values."""

    def write(self) -> None:
        self.names.update(
            new=object.__new__,
            varint=read_unsigned_varint,
            skip_tagged_fields=skip_tagged_fields,
            fail=_fail_length,
            fail_array=_fail_array,
            fail_elements=_fail_elements,
            fail_size=_fail_size,
            fail_tags=_fail_tags,
        )
        self._codes = ""
        self._targets: list[str] = []
        self._is_request = self.cls.__name__.endswith("Request")
        with self.block("def decode(b, p, n):"):
            if self._is_request:
                self.line(f"k = {self.cls.MOST_ELEMENTS}")
                if self.flexible:
                    self.line(f"g = {MAX_TAGS}")
            message = self.struct(self.cls)
            self.line(f"return {message}, p")

    def fixed(self, code: str, target: str) -> None:
        """Add a field of fixed size to the next struct call."""
        self._codes += code
        self._targets.append(target)

    def flush(self) -> None:
        """Write the struct call for the fields added so far."""
        if self._codes:
            codes, targets = self._codes, self._targets
            self._codes, self._targets = "", []
            self.line(f"{', '.join(targets)}, = {self.layout(codes, 'unpack_from')}(b, p)")
            self.line(f"p += {Layout('>' + codes).size}")

    def struct(self, cls: type[Struct]) -> str:
        """Write the reading of a struct; returns the variable that holds it. Struct calls never span two structs."""
        self.flush()
        variable = self.new_name("m")
        self.names[cls.__name__] = cls
        self.line(f"{variable} = new({cls.__name__})")
        tagged = []
        for field in cls.FIELDS:
            what = f"{cls.__name__}.{field.name}"
            target = f"{variable}.{field.name}"
            if not self.has(field):
                self.default(field, target)
            elif field.tag is not None:
                tagged.append(field)
                self.default(field, target)
            else:
                self.value(field, target, what)
        self.flush()
        if self.flexible:
            self.tagged_fields(tagged, cls.__name__, variable)
        return variable

    def default(self, field: Field, target: str) -> None:
        """Write the line that sets a default; it waits behind a pending struct call, so that lines stay in order."""
        if isinstance(field.element, type) and not field.is_array and field.nullable == "none":
            self.names[field.element.__name__] = field.element
            value = f"{field.element.__name__}()"
        elif field.default is None or isinstance(field.default, bool | int | float | str | bytes | tuple):
            value = repr(field.default)
        else:
            value = self.new_name("d")
            self.names[value] = field.default
        self.line(f"{target} = {value}")

    def value(self, field: Field, target: str, what: str) -> None:
        nullable = self.is_nullable(field)
        element = field.element
        if field.is_array:
            self.array(element, target, what, nullable)
        elif isinstance(element, type):
            if not nullable:
                self.line(f"{target} = {self.struct(element)}")
                return
            flag = self.new_name("x")
            self.fixed("b", flag)
            self.flush()
            with self.block(f"if {flag} < 0:"):
                self.line(f"{target} = None")
            with self.block("else:"):
                self.line(f"{target} = {self.struct(element)}")
        elif element.code:
            self.fixed(element.code, target)
        else:
            length = self.length("h" if element is STRING else "i")
            if element is STRING:
                expression = 'str(b[p:e], "utf-8", "replace")'
                limit = f" or {length} > {MAX_STRING}" if self.flexible else ""
            else:
                expression = "b[p:e]" if element is RECORDS else "b[p:e].tobytes()"
                limit = ""
            with self.null_or(length, target, nullable):
                self.line(f'if not 0 <= {length} <= n - p{limit}: fail("{what}", {length}, n - p)')
                self.line(f"e = p + {length}")
                self.line(f"{target} = {expression}")
                self.line("p = e")

    def length(self, code: str) -> str:
        """Write the reading of a length or count, null as a negative number; returns its variable."""
        variable = self.new_name("x")
        if not self.flexible:
            self.fixed(code, variable)
            self.flush()
            return variable
        self.flush()
        self.varint(variable)
        self.line(f"{variable} -= 1")
        return variable

    def varint(self, variable: str) -> None:
        self.line(f"{variable} = b[p]")
        self.line("p += 1")
        self.line(f"if {variable} > 127: {variable}, p = varint(b, p - 1)")

    @contextmanager
    def null_or(self, length: str, target: str, nullable: bool) -> Iterator[None]:
        if not nullable:
            yield
            return
        with self.block(f"if {length} < 0:"):
            self.line(f"{target} = None")
        with self.block("else:"):
            yield

    def array(self, element: Element, target: str, what: str, nullable: bool) -> None:
        count = self.length("i")
        smallest = _smallest_element(element, self.version, self.flexible)
        left = "n - p" if smallest == 1 else f"(n - p) // {smallest}"
        with self.null_or(count, target, nullable):
            self.line(f'if not 0 <= {count} <= {left}: fail("{what}", {count}, n - p)')
            if self._is_request:
                self.line(f"k -= {count}")
                self.line(f'if k < 0: fail_elements("{what}", {self.cls.MOST_ELEMENTS})')
            else:
                self.line(f'if {count} > {MAX_ELEMENTS_OF_ANSWERS}: fail_array("{what}", {count})')
            if not isinstance(element, type) and element.code and element.code != "16s":
                self.names["unpack_from"] = _unpack_from
                self.line(f'{target} = list(unpack_from(f">{{{count}}}{element.code}", b, p))')
                self.line(f"p += {smallest} * {count}")
                return
            items = self.new_name("x")
            self.line(f"{target} = {items} = []")
            with self.block(f"for _ in range({count}):"):
                if isinstance(element, type):
                    item = self.struct(element)
                else:
                    item = self.new_name("x")
                    self.value(Field(element, False, "0+", "none", None, None, False), item, what)
                    self.flush()
                self.line(f"{items}.append({item})")

    def tagged_fields(self, fields: list[Field], cls_name: str, variable: str) -> None:
        if not fields:
            call = "p, g = skip_tagged_fields(b, p, g)" if self._is_request else "p, _ = skip_tagged_fields(b, p)"
            self.line(f"if b[p]: {call}")
            self.line("else: p += 1")
            return
        count, tag, size, end = (self.new_name("x") for _ in range(4))
        self.varint(count)
        if self._is_request:
            self.line(f"g -= {count}")
            self.line(f'if g < 0: fail_tags("{cls_name}", {count})')
        else:
            self.line(f'if {count} > {MAX_TAGS}: fail_tags("{cls_name}", {count})')
        with self.block(f"for _ in range({count}):"):
            self.varint(tag)
            self.varint(size)
            self.line(f"{end} = p + {size}")
            self.line(f'if {end} > n: fail("{cls_name} tagged field", {size}, n - p)')
            branch = "if"
            for field in fields:
                what = f"{cls_name}.{field.name}"
                with self.block(f"{branch} {tag} == {field.tag}:"):
                    self.value(field, f"{variable}.{field.name}", what)
                    self.flush()
                    self.line(f'if p != {end}: fail_size("{what}")')
                branch = "elif"
            with self.block("else:"):
                self.line(f"p = {end}")


class _EncoderSource(_Source):
    """Names in the source: o… bytearrays, m… structs, v… values, x… other variables."""

    def write(self) -> None:
        self.names.update(
            one=[bytes((value,)) for value in range(128)],
            varint=unsigned_varint,
            fail=_fail_field,
            fail_string=_fail_string,
        )
        self._codes = ""
        self._arguments: list[str] = []
        with self.block("def encode(m0, o0):"):
            self.struct(self.cls, "m0", "o0")
            self.line("return")

    def fixed(self, code: str, argument: str) -> None:
        self._codes += code
        self._arguments.append(argument)

    def flush(self, out: str, more: str = "") -> None:
        """Write the struct call for the values added so far, then append the bytes in `more`."""
        if self._codes:
            call = f"{self.layout(self._codes, 'pack')}({', '.join(self._arguments)})"
            self._codes, self._arguments = "", []
            more = f"{call} + {more}" if more else call
        if more:
            self.line(f"{out} += {more}")

    def struct(self, cls: type[Struct], variable: str, out: str) -> None:
        tagged = []
        for field in cls.FIELDS:
            what = f"{cls.__name__}.{field.name}"
            if not self.has(field):
                if not field.ignorable:
                    with self.block(f"if {self.differs(field, f'{variable}.{field.name}')}:"):
                        self.line(f'fail("{what}", {self.version}, "can not be sent")')
            elif field.tag is not None:
                tagged.append(field)
            else:
                self.value(field, f"{variable}.{field.name}", what, out)
        self.flush(out)
        if self.flexible:
            self.tagged_fields(sorted(tagged, key=lambda field: field.tag or 0), cls.__name__, variable, out)

    def differs(self, field: Field, value: str) -> str:
        """A condition in source: the field's value is not its default."""
        if field.is_array and field.default is not None:
            return f"{value} is None or len({value})" if field.nullable != "none" else f"len({value})"
        if field.default is None:
            if isinstance(field.element, type) and not field.is_array and field.nullable == "none":
                return " or ".join(self.differs(inner, f"{value}.{inner.name}") for inner in field.element.FIELDS)
            return f"{value} is not None"
        if isinstance(field.default, bool):
            return f"not {value}" if field.default else value
        if isinstance(field.default, int | float | str | bytes):
            return f"{value} != {field.default!r}"
        default = self.new_name("d")
        self.names[default] = field.default
        return f"{value} != {default}"

    def value(self, field: Field, source: str, what: str, out: str) -> None:
        element = field.element
        nullable = self.is_nullable(field)
        if not isinstance(element, type) and element.code and not field.is_array:
            self.fixed(element.code, source)
        elif isinstance(element, type) and not field.is_array and not nullable and field.nullable == "none":
            variable = self.new_name("m")
            self.flush(out)
            self.line(f"{variable} = {source}")
            self.struct(element, variable, out)
        else:
            variable = self.new_name("v")
            self.line(f"{variable} = {source}")
            if nullable:
                # Write the gathered fields before the two branches.
                self.flush(out)
                with self.block(f"if {variable} is None:"):
                    self.null(field, out)
                with self.block("else:"):
                    self.content(field, variable, what, out, nullable)
                    self.flush(out)
            else:
                if field.nullable != "none":
                    self.line(f'if {variable} is None: fail("{what}", {self.version}, "can not be null")')
                self.content(field, variable, what, out, nullable)

    def null(self, field: Field, out: str) -> None:
        if isinstance(field.element, type) and not field.is_array:
            null = b"\xff"
        elif self.flexible:
            null = b"\0"
        else:
            null = b"\xff" * (2 if field.element is STRING and not field.is_array else 4)
        self.line(f"{out} += {null!r}")

    def content(self, field: Field, variable: str, what: str, out: str, nullable: bool) -> None:
        """Write a value that is not null and has no fixed size."""
        element = field.element
        if field.is_array:
            self.array(element, variable, what, out)
        elif isinstance(element, type):
            if not nullable:
                self.struct(element, variable, out)
                return
            self.names["EncodedStruct"] = EncodedStruct
            with self.block(f"if type({variable}) is EncodedStruct:"):
                self.line(f"{out} += b'\\x01' + {variable}")
            with self.block("else:"):
                self.fixed("b", "1")
                self.struct(element, variable, out)
                self.flush(out)
        elif element is STRING:
            data, size = self.new_name("x"), self.new_name("x")
            self.line(f"{data} = {variable}.encode()")
            self.line(f"{size} = len({data})")
            self.line(f'if {size} > {MAX_STRING}: fail_string("{what}", {size})')
            self.length("h", size, out, data)
        else:
            assert element in (BYTES, RECORDS)
            self.length("i", f"len({variable})", out)
            self.flush(out)
            self.line(f"{out} += {variable}")

    def length(self, code: str, expression: str, out: str, data: str = "") -> None:
        """Write a length or count, and the data behind it."""
        if not self.flexible:
            self.fixed(code, expression)
            if data:
                self.flush(out, data)
            return
        self.flush(out)
        size = self.new_name("x")
        self.line(f"{size} = {expression} + 1")
        self.line(f"{out} += one[{size}] if {size} < 128 else varint({size})")
        if data:
            self.line(f"{out} += {data}")

    def array(self, element: Element, variable: str, what: str, out: str) -> None:
        self.length("i", f"len({variable})", out)
        self.flush(out)
        if not isinstance(element, type) and element.code and element.code != "16s":
            self.names["pack"] = _pack
            self.line(f'{out} += pack(f">{{len({variable})}}{element.code}", *{variable})')
            return
        if not isinstance(element, type) or self._depth > 1:
            self.elements(element, variable, what, out)
            return
        # A field of the message itself, which may be `EncodedOnce`.
        self.names["EncodedOnce"] = EncodedOnce
        known, begin, key = self.new_name("x"), self.new_name("x"), (what, self.version)
        self.line(f"{known} = {variable}.kept.get({key!r}) if type({variable}) is EncodedOnce else None")
        with self.block(f"if {known} is not None:"):
            self.line(f"{out} += {known}")
        with self.block("else:"):
            self.line(f"{begin} = len({out})")
            self.elements(element, variable, what, out)
            self.line(f"if type({variable}) is EncodedOnce: {variable}.kept[{key!r}] = bytes({out}[{begin}:])")

    def elements(self, element: Element, variable: str, what: str, out: str) -> None:
        """Write the elements of an array, one after the other."""
        item = self.new_name("m")
        with self.block(f"for {item} in {variable}:"):
            if isinstance(element, type):
                self.struct(element, item, out)
            else:
                self.value(Field(element, False, "0+", "none", None, None, False), item, what, out)
                self.flush(out)
            self.line("pass")

    def tagged_fields(self, fields: list[Field], cls_name: str, variable: str, out: str) -> None:
        if not fields:
            self.line(f"{out} += {bytes(1)!r}")
            return
        count, section = self.new_name("x"), self.new_name("o")
        self.line(f"{count} = 0")
        self.line(f"{section} = bytearray()")
        for field in fields:
            source = f"{variable}.{field.name}"
            with self.block(f"if {self.differs(field, source)}:"):
                value = self.new_name("o")
                self.line(f"{count} += 1")
                self.line(f"{value} = bytearray()")
                self.value(field, source, f"{cls_name}.{field.name}", value)
                self.flush(value)
                self.line(f"{section} += {unsigned_varint(field.tag or 0)!r}")
                self.line(f"{section} += varint(len({value}))")
                self.line(f"{section} += {value}")
        self.line(f"{out} += varint({count})")
        self.line(f"{out} += {section}")
