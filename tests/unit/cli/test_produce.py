"""From lines of an input to messages, and what becomes of them. librdkafka itself: tests/compat/test_cli.py."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.cli.produce import Sender, lines_of, messages_of, separator_of


class Trickle(io.RawIOBase):
    """A pipe that gives what it has in pieces of given sizes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data = data
        self._sizes = sizes

    def read1(self, size: int) -> bytes:
        count = min(self._sizes.pop(0) if self._sizes else size, size)
        taken, self._data = self._data[:count], self._data[count:]
        return taken


@given(st.lists(st.binary(max_size=8)), st.booleans(), st.lists(st.integers(1, 9)))
def test_every_line_comes_once_however_it_is_cut(values: list[bytes], is_ended: bool, sizes: list[int]) -> None:
    data = b"\n".join(values) + (b"\n" if is_ended else b"")
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()  # what follows the last line's end is no line
    assert [line for lines in lines_of(Trickle(data, sizes)) for line in lines] == expected  # type: ignore[arg-type]


def test_keys_stand_before_the_first_separator() -> None:
    lines = [b"k\tv\tw", b"no key", b"\tempty key", b"gone\tNULL"]
    assert messages_of(lines, b"\t", b"NULL") == [
        {"key": b"k", "value": b"v\tw"},
        {"value": b"no key"},
        {"key": b"", "value": b"empty key"},
        {"key": b"gone", "value": None},
    ]
    assert messages_of([b"k\tv"], None, None) == [{"value": b"k\tv"}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, None), ("\\t", b"\t"), (":", b":"), ("\t", b"\t"), ("→", "→".encode()), ("\\x00", b"\0")],
)
def test_a_separator_may_be_escaped(text: str | None, expected: bytes | None) -> None:
    assert separator_of(text) == expected


class Error:
    def __init__(self, code: int) -> None:
        self._code = code

    def code(self) -> int:
        return self._code

    def str(self) -> str:
        return f"error {self._code}"


class Client:
    class KafkaError:
        _QUEUE_FULL = -184


class Producer:
    """Has room for `room` messages, and for as many again at each poll that waits."""

    def __init__(self, room: int) -> None:
        self._all = self._room = room
        self.sent: list[bytes] = []

    def produce_batch(self, _topic: str, messages: list[dict[str, Any]], _partition: int, delivered: Any) -> None:
        for message in messages:
            if message["value"] == b"large":
                message["_error"] = Error(10)
            elif self._room == 0:
                message["_error"] = Error(-184)
            else:
                self._room -= 1
                self.sent.append(message["value"])
                delivered(None, None)

    def poll(self, seconds: float) -> None:
        self._room = self._all if seconds else self._room


def test_a_full_queue_is_waited_for_and_nothing_is_lost_or_swapped() -> None:
    producer = Producer(3)
    sender = Sender(Client, producer, "t", -1)
    values = [b"%d" % number for number in range(10)]
    sender.send([{"value": value} for value in values])
    assert producer.sent == values
    assert (sender.acknowledged, sender.failed) == (10, 0)


def test_what_is_refused_is_counted_with_its_first_reason() -> None:
    sender = Sender(Client, Producer(9), "t", -1)
    sender.send([{"value": b"large"}, {"value": b"1"}, {"value": b"large"}])
    assert (sender.acknowledged, sender.failed, sender.first_failure) == (1, 2, "error 10")
