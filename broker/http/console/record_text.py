"""Keys and values as people read them: text where it is text, JSON by lines where it is JSON, else hexadecimal; cut where long.

Nothing is changed on the way: JSON keeps its numbers, its double names and their order, and what can't be seen is written out.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from .units import visible

_WHITE = "\n\r\t"
_SHOWN_HEX = 48
_DEEPEST = 32
"""Depth of JSON up to which it is shown indented: deeper JSON would be more indentation than text."""


class Text(NamedTuple):
    """`kind`: null, empty, text, JSON or hex; `text`: what to show; `is_cut`: there is more."""

    kind: str
    text: str
    is_cut: bool = False


def as_text(data: bytes | None) -> str | None:
    """The text that it is; None when it is none."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return (
        text
        if all(character.isprintable() or character in _WHITE or ord(character) > 0x9F for character in text)
        else None
    )


def brief(data: bytes | None, characters: int = 200) -> Text:
    """Text of a key or value in one line."""
    if data is None:
        return Text("null", "null")
    if not data:
        return Text("empty", "empty")
    # A character has at most four bytes; the last one may be cut in two.
    is_cut = len(data) > 4 * characters + 4
    text = as_text(_whole_characters(data[: 4 * characters]) if is_cut else data)
    if text is None:
        shown = data[:_SHOWN_HEX].hex(" ")
        return Text("hex", shown, len(data) > _SHOWN_HEX)
    line = visible(text[:characters].replace("\r\n", " ").replace("\n", " ").replace("\t", " "))
    return Text("text", line, is_cut or len(text) > characters)


def _whole_characters(data: bytes) -> bytes:
    for end in range(len(data), max(0, len(data) - 4), -1):
        if end == len(data) and not data[end - 1] & 0x80:
            return data
        if data[end - 1] & 0xC0 == 0xC0:  # the first byte of the last character
            return data[: end - 1]
    return data


def whole(data: bytes | None, most: int = 64 << 10) -> Text:
    """Text of a key or value as a block, JSON indented; at most `most` bytes of it."""
    if data is None or not data:
        return brief(data)
    is_cut = len(data) > most
    text = as_text(_whole_characters(data[:most]) if is_cut else data)
    if text is None:
        return Text("hex", hex_dump(data[: most // 8]), len(data) > most // 8)
    if not is_cut and (lines := json_lines(text)) is not None:
        return Text("JSON", visible(lines, lines=True))
    return Text("text", visible(text, lines=True), is_cut)


def hex_dump(data: bytes) -> str:
    """Sixteen bytes a line, with their place and what of them is ASCII."""
    lines = []
    for start in range(0, len(data), 16):
        part = data[start : start + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part[:8].hex(' '):<23}  {part[8:].hex(' '):<23}  {letters}")
    return "\n".join(lines)


def json_lines(text: str) -> str | None:
    """An object or array of JSON, a line for each member; None for anything else. Its content is unchanged."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    out: list[str] = []
    depth, place = 0, 0
    while place < len(text):
        character = text[place]
        if character == '"':
            stop = _string_end(text, place)
            out.append(text[place:stop])
            place = stop
            continue
        if character in "{[":
            following = place + 1
            while text[following].isspace():
                following += 1
            if text[following] in "}]":
                out.append(character + text[following])
                place = following + 1
                continue
            depth += 1
            if depth > _DEEPEST:
                return None
            out.append(f"{character}\n{'  ' * depth}")
        elif character in "}]":
            depth -= 1
            out.append(f"\n{'  ' * depth}{character}")
        elif character == ",":
            out.append(f",\n{'  ' * depth}")
        elif character == ":":
            out.append(": ")
        elif not character.isspace():
            out.append(character)
        place += 1
    return "".join(out)


def _string_end(text: str, start: int) -> int:
    place = start + 1
    while text[place] != '"':
        place += 2 if text[place] == "\\" else 1
    return place + 1
