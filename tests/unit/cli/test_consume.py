"""From messages to lines, and when reading ends. librdkafka itself: tests/compat/test_cli.py."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from tidelog.cli.support.kafka_client import KafkaFailure
from tidelog.cli.support.rdkafka_reader import Reader, keep_freed_memory
from tidelog.cli.support.record_output import message_format, record_format
from tidelog.protocol.records.record_batch import Record

EOF = -191


class Message:
    def __init__(
        self, partition: int, offset: int, key: bytes | None = None, value: bytes | None = b"v", error: Any = None
    ) -> None:
        self._parts = (partition, offset, key, value, error)

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._parts[0]

    def offset(self) -> int:
        return self._parts[1]

    def key(self) -> bytes | None:
        return self._parts[2]

    def value(self) -> bytes | None:
        return self._parts[3]

    def error(self) -> Any:
        return self._parts[4]

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000

    def headers(self) -> list[tuple[str, bytes | None]]:
        return [("h", b"\xff"), ("n", None)]


class Error:
    def __init__(self, code: int, *, retriable: bool = False) -> None:
        self._code, self._retriable = code, retriable

    def code(self) -> int:
        return self._code

    def retriable(self) -> bool:
        return self._retriable

    def str(self) -> str:
        return f"error {self._code}"


class Client:
    class KafkaError:
        _PARTITION_EOF = EOF

    class KafkaException(Exception):
        pass

    class TopicPartition(tuple[str, int, int]):
        def __new__(cls, *parts: Any) -> Client.TopicPartition:
            return super().__new__(cls, parts)


class Consumer:
    def __init__(self, *batches: list[Message]) -> None:
        self.batches = list(batches)
        self.committed: list[Any] = []

    def consume(self, count: int, _seconds: float) -> list[Message]:
        if not self.batches:
            return []
        batch = self.batches.pop(0)
        if batch[count:]:
            self.batches.insert(0, batch[count:])
        return batch[:count]

    def commit(self, offsets: list[Any], asynchronous: bool) -> None:
        assert not asynchronous
        self.committed = sorted(offsets)


def read(consumer: Consumer, most: int | None, ends: dict[int, int] | None) -> tuple[list[str], Reader]:
    out = io.BytesIO()
    text = message_format(as_json=False, separator=b"=")
    reader = Reader(Client, consumer, text, out, commits=True)
    turns = iter(range(50))
    reader.read(most, ends, lambda: next(turns, None) is None)
    return out.getvalue().decode().splitlines(), reader


def test_it_ends_after_so_many_and_commits_what_was_printed() -> None:
    consumer = Consumer([Message(0, 5), Message(0, 6), Message(1, 2)], [Message(0, 7), Message(0, 8)])
    lines, reader = read(consumer, 4, None)
    assert len(lines) == 4
    reader.commit()
    assert consumer.committed == [("t", 0, 8), ("t", 1, 3)]


def test_it_ends_where_every_partition_ended_when_it_began() -> None:
    consumer = Consumer(
        [Message(0, 0, value=b"a"), Message(0, 1, error=Error(EOF))],  # more came since: this is not the end yet
        [Message(0, 1, value=b"b"), Message(1, 0, value=b"c")],
        [Message(0, 2, error=Error(EOF)), Message(1, 1, error=Error(EOF))],
        [Message(0, 2, value=b"later")],
    )
    lines, _ = read(consumer, None, {0: 2, 1: 1})
    assert lines == ["null=a", "null=b", "null=c"]


def test_nothing_to_read_is_the_end_at_once() -> None:
    assert read(Consumer([Message(0, 0)]), None, {})[0] == []


def test_an_error_that_does_not_pass_is_told() -> None:
    assert read(Consumer([Message(0, 0, error=Error(1, retriable=True))], [Message(0, 0)]), 1, None)[0] == ["null=v"]
    with pytest.raises(KafkaFailure, match="error 29"):
        read(Consumer([Message(0, 0, error=Error(29))]), 1, None)


def test_formats() -> None:
    messages = [Message(0, 1, b"k", "é".encode()), Message(0, 2, None, None), Message(0, 3, b"\xff", b"")]
    assert message_format(as_json=False, separator=None)(messages) == "é\n\n\n".encode()
    keyed = message_format(as_json=False, separator=b"\t")(messages)
    assert keyed == "k\té\nnull\tnull\n".encode() + b"\xff\t\n"
    lines = message_format(as_json=True, separator=None)(messages)
    first, second, third = (json.loads(line) for line in lines.splitlines())
    headers = [["h", {"base64": "/w=="}], ["n", None]]
    assert first == {"partition": 0, "offset": 1, "timestamp": 1000, "key": "k", "value": "é", "headers": headers}
    assert (second["key"], second["value"]) == (None, None)
    assert (third["key"], third["value"]) == ({"base64": "/w=="}, "")


@pytest.mark.parametrize(("as_json", "separator"), [(False, None), (False, b"\t"), (True, None)])
def test_both_clients_print_the_same(as_json: bool, separator: bytes | None) -> None:
    messages = [Message(0, 1, b"k", "é".encode()), Message(0, 2, None, None), Message(0, 3, b"\xff", b"")]
    records = [
        Record(m.offset(), 1000, m.key(), m.value(), tuple((name.encode(), data) for name, data in m.headers()))
        for m in messages
    ]
    expected = message_format(as_json=as_json, separator=separator)(messages)
    assert record_format(as_json=as_json, separator=separator)(0, records) == expected


def test_memory_is_kept_where_the_c_library_lets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[int, int]] = []
    library = type("Library", (), {"mallopt": lambda _, parameter, size: said.append((parameter, size))})
    monkeypatch.setattr("ctypes.CDLL", lambda _name: library())
    keep_freed_memory()
    assert [parameter for parameter, _ in said] == [-3, -1, -2], "M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD"
    monkeypatch.setattr("ctypes.CDLL", lambda _name: object())
    keep_freed_memory()
