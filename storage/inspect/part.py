"""Part: one explained stretch of a file, and how its values are written in a line and in JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from ..io.filesystem import Buffer

Value: TypeAlias = "int | str | bool | list[Value] | dict[str, Value] | None"
Fields: TypeAlias = "Mapping[str, Value]"
Decoder: TypeAlias = "Callable[[bytes | None, bytes | None], tuple[str | None, str | None]]"
"""Decodes a record's key and value from their bytes; ValueError (or a subclass) if they can't be decoded."""


class Part(NamedTuple):
    """One stretch of a file, explained.

    Attributes:
        kind: `batch`, `record`, `entry`, `line`, `unused`, `cut off`, `garbage` …
        position, size: where its bytes lie in the file (those of records lie within their batch's); a record in a
            compressed batch has none of its own: −1 and 0.
        text: the line for people.
        fields: the same for programs, and what the line leaves out.
        problem: the damage, empty when there is none.
    """

    kind: str
    position: int
    size: int
    text: str
    fields: Fields
    problem: str = ""


def part_of(kind: str, position: int, size: int, fields: Fields, problem: str = "") -> Part:
    """A part whose line lists its fields in order: `name: value name: value`."""
    text = " ".join(f"{name}: {plain(value)}" for name, value in fields.items())
    return Part(kind, position, size, text, fields, problem)


def plain(value: object) -> str:
    """Format a value for the lines: `true`, `null`, numbers and text as they are."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return printable(value) if isinstance(value, str) else str(value)


def printable(text: str) -> str:
    """`text` on one line and harmless to a terminal: control characters and surrogates are escaped."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c == " " else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def time_name(is_append_time: bool) -> str:
    """DumpLogSegments' name for a kind of timestamp."""
    return "LogAppendTime" if is_append_time else "CreateTime"


def optional(value: int | None) -> str:
    """Format a number that may be missing, as DumpLogSegments does."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def text_of(data: Buffer) -> str:
    """Decode bytes as text; invalid UTF-8 becomes U+FFFD."""
    return bytes(data).decode("utf-8", "replace")


def contents_text(key: Buffer | None, value: Buffer | None) -> str:
    """Key and value for the end of a record's line; null ones are left out."""
    text = "" if key is None else f" key: {printable(text_of(key))}"
    return text if value is None else f"{text} payload: {printable(text_of(value))}"


def contents(key: Buffer | None, value: Buffer | None) -> dict[str, Value]:
    """Key and value for JSON, complete."""
    return content("key", key) | content("value", value)


def content(name: str, data: Buffer | None) -> dict[str, Value]:
    """`{name: text}`, or `{nameBase64: …}` where the bytes are no UTF-8."""
    if data is None:
        return {name: None}
    try:
        return {name: bytes(data).decode()}
    except UnicodeDecodeError:
        return {f"{name}Base64": base64.b64encode(data).decode()}
