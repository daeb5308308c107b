"""Records of `tidelog consume` as bytes to print: values, keys and values, or a JSON object each."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...protocol.records.record_batch import Record

_NULL = b"null"

Format = Callable[[int, "Sequence[Record]"], bytes]
"""From a partition and records of it to lines."""


def record_format(*, as_json: bool, separator: bytes | None) -> Format:
    """Function that formats records of our own client."""
    if as_json:
        return lambda partition, records: _lines(
            json_of(partition, record.offset, record.timestamp, record.key, record.value, record.headers)
            for record in records
        )
    if separator is None:
        return lambda _partition, records: b"\n".join([record.value or b"" for record in records]) + b"\n"
    return lambda _partition, records: b"".join(
        [b"%b%b%b\n" % (or_null(record.key), separator, or_null(record.value)) for record in records]
    )


def message_format(*, as_json: bool, separator: bytes | None) -> Callable[[Sequence[Any]], bytes]:
    """Function that formats messages of librdkafka."""
    if as_json:
        return lambda messages: _lines(
            json_of(
                message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value(),
                message.headers() or (),
            )
            for message in messages
        )  # fmt: skip
    if separator is None:
        return lambda messages: b"\n".join([message.value() or b"" for message in messages]) + b"\n"
    return lambda messages: b"".join(
        [b"%b%b%b\n" % (or_null(message.key()), separator, or_null(message.value())) for message in messages]
    )


def _lines(texts: Any) -> bytes:
    return ("\n".join(texts) + "\n").encode()


def or_null(data: bytes | None) -> bytes:
    """The bytes, or the word null."""
    return _NULL if data is None else data


def json_of(
    partition: int, offset: int, timestamp: int, key: Any, value: Any, headers: Sequence[tuple[Any, Any]]
) -> str:
    """A record as JSON: key, value and headers as text where they are UTF-8, else as {"base64": …}; the timestamp in ms."""
    content = {
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp,
        "key": _shown(key),
        "value": _shown(value),
        "headers": [
            [name if isinstance(name, str) else name.decode("utf-8", "replace"), _shown(data)] for name, data in headers
        ],
    }
    return json.dumps(content, ensure_ascii=False)


def _shown(data: Any) -> Any:
    if not isinstance(data, bytes):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
