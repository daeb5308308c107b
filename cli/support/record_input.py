"""Records of `tidelog produce`, read from lines of an input: plain ones, keys before a separator, or a JSON object each.

    {"key": "ann", "value": "1", "headers": [["h", "x"]], "partition": 0, "timestamp": 1700000000000}

Each field may be left out. A text is its UTF-8, {"base64": "/w=="} is those bytes, null is null; any other value is written as
its JSON. Headers may be an object too. `topic` and `offset` are taken and mean nothing, so that what `tidelog consume --output
json` prints goes in again.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

from .output import plural

READ_BYTES = 1 << 20
#: A line beyond it is no record: the daemon's socket.request.max.bytes is 100 MiB by default.
MOST_LINE_BYTES = 64 << 20
_FIELDS = ("key", "value", "headers", "partition", "timestamp", "topic", "offset")
#: The largest timestamp in ms that has a number of microseconds.
LAST_MS = (1 << 63) // 1000 - 1

Header = tuple[bytes, bytes | None]


class InputError(Exception):
    """A line is no record: `problem` says why. `index` counts records from 1; the `rows` before it are good."""

    def __init__(self, index: int, problem: str, rows: Rows | None = None) -> None:
        super().__init__(f"line {index:,}: {problem}")
        self.rows = rows

    def __reduce__(self) -> tuple[object, ...]:
        return Exception, self.args


class Rows(NamedTuple):
    """Records as columns; a column is None where no record has anything in it, and so is an item."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    headers: Sequence[Sequence[Header]] | None = None
    partitions: Sequence[int | None] | None = None
    timestamps: Sequence[int | None] | None = None

    def until(self, end: int) -> Rows:
        """The records before index `end`."""
        return self.between(0, end)

    def between(self, start: int, end: int) -> Rows:
        """The records from index `start` on, before `end`."""
        columns: Any = (None if column is None else column[start:end] for column in self)
        return Rows(*columns)

    def messages(self) -> list[dict[str, Any]]:
        """The records as dicts by librdkafka's names; what a record has not is left out."""
        named: tuple[tuple[str, Sequence[Any] | None], ...] = (
            ("key", self.keys), ("headers", self.headers), ("partition", self.partitions), ("timestamp", self.timestamps),
        )  # fmt: skip
        columns = [(name, column) for name, column in named if column is not None]
        if not columns:
            return [{"value": value} for value in self.values]
        found: list[dict[str, Any]] = []
        for index, value in enumerate(self.values):
            message: dict[str, Any] = {"value": value}
            for name, column in columns:
                if column[index] is not None:
                    message[name] = column[index]
            found.append(message)
        return found


def lines_of(stream: BinaryIO, most_bytes: int = MOST_LINE_BYTES) -> Iterator[list[bytes]]:
    """Lists of lines without their ends; the last one may lack its end. As soon as there are any, for pipes.

    InputError for a line beyond `most_bytes`, once the lines before it were given: memory is bounded by it.
    """
    begun: list[bytes] = []
    held = count = 0
    read = getattr(stream, "read1", stream.read)
    while chunk := read(READ_BYTES):
        first, *lines = chunk.split(b"\n")
        begun.append(first)
        held += len(first)
        if lines:
            lines = [b"".join(begun), *lines]
            rest = lines.pop()
            if held > most_bytes:
                break
            yield lines
            count += len(lines)
            begun, held = [rest], len(rest)
        if held > most_bytes:
            break
    if held > most_bytes:
        raise InputError(count + 1, f"it is longer than {plural(most_bytes, 'byte')}, which no record can be")
    if held:
        yield [b"".join(begun)]


def row_maker(
    *, as_json: bool, separator: bytes | None, null: bytes | None, headers: Sequence[Header]
) -> Callable[[list[bytes], int], Rows]:
    """The function from lines, and the index of the first of them, to records. InputError. `headers`: of every record."""
    own = list(headers)
    if as_json:
        return lambda lines, first: _json_rows(lines, first, own)
    if separator is None:
        return lambda lines, _first: Rows(lines, None, [own] * len(lines) if own else None)
    return lambda lines, _first: _keyed_rows(lines, separator, null, own)


def _keyed_rows(lines: list[bytes], separator: bytes, null: bytes | None, headers: list[Header]) -> Rows:
    """A carriage return at a line's end stays: values are bytes."""
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    for line in lines:
        key, found, value = line.partition(separator)
        keys.append(key if found else None)
        values.append(line if not found else None if null is not None and value == null else value)
    return Rows(values, keys, [headers] * len(lines) if headers else None)


def _json_rows(lines: list[bytes], first: int, common: list[Header]) -> Rows:
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[list[Header]] = []
    partitions: list[int | None] = []
    timestamps: list[int | None] = []
    rows = Rows(values, keys, headers, partitions, timestamps)
    for index, line in enumerate(lines, first):
        try:
            record = _parsed(line)
            row = (
                bytes_of(record.get("key")),
                bytes_of(record.get("value")),
                [*_headers_of(record.get("headers")), *common],
                _number(record, "partition", (1 << 31) - 1),
                _number(record, "timestamp", LAST_MS),
            )
        except ValueError as error:
            raise InputError(index, str(error), rows) from None
        keys.append(row[0])
        values.append(row[1])
        headers.append(row[2])
        partitions.append(row[3])
        timestamps.append(row[4])
    return rows


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:  # UnicodeDecodeError is of this kind
        raise ValueError(f"it is no JSON: {error}") from None
    if not isinstance(record, dict):
        raise ValueError('it is no JSON object, as {"key": "k", "value": "v"} is')
    for name in record:
        if name not in _FIELDS:
            from .nearest import did_you_mean

            raise ValueError(f"a record has no {name}{did_you_mean(name, _FIELDS) or '; it has ' + ', '.join(_FIELDS)}")
    return record


def bytes_of(value: Any) -> bytes | None:
    """The bytes that a JSON value stands for. ValueError."""
    if value is None:
        return None
    if isinstance(value, str):
        return _utf8(value)
    if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"its base64 is none: {error}") from None
    return _utf8(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError("it has half of a surrogate pair, which no UTF-8 has") from None


def _headers_of(given: Any) -> list[Header]:
    if given is None:
        return []
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
    ):
        raise ValueError('headers are [["name", "value"], …] or {"name": "value", …}')
    return [(_utf8(name), bytes_of(value)) for name, value in pairs]


def _number(record: dict[str, Any], name: str, most: int) -> int | None:
    """None for null, and for the −1 that is Kafka's word for none."""
    value = record.get(name)
    if value is None or (type(value) is int and value == -1):
        return None
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{name} is a number from 0 to {most}, not {json.dumps(value)}")
    return value


def headers_of(texts: Sequence[str]) -> list[Header]:
    """NAME=VALUE arguments as headers. ValueError for one without `=`."""
    found: list[Header] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"--header takes NAME=VALUE, not {text!r}")
        found.append((name.encode("utf-8", "surrogateescape"), value.encode("utf-8", "surrogateescape")))
    return found


def separator_of(text: str | None) -> bytes | None:
    """The separator as bytes; backslash escapes are understood. ValueError: it is empty."""
    if text is None:
        return None
    if not text:
        raise ValueError("--key-separator is empty")
    if "\\" not in text:
        return text.encode()
    try:
        return text.encode("latin-1", "backslashreplace").decode("unicode_escape").encode()
    except ValueError:
        raise ValueError(f"--key-separator {text!r} ends within an escape") from None
