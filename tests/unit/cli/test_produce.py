"""Records to librdkafka, and what becomes of them. librdkafka itself: tests/compat/test_cli.py; input: test_record_input.py."""

from __future__ import annotations

import io
import os
from typing import Any

import pytest
from tidelog.cli.produce import _is_ready
from tidelog.cli.support.kafka_client import KafkaFailure
from tidelog.cli.support.rdkafka import Sender
from tidelog.cli.support.record_input import Rows


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
        _INVALID_DIFFERENT_RECORD = -138


class Producer:
    """Has room for `room` messages, and for as many again at each poll that waits."""

    def __init__(self, room: int) -> None:
        self._all = self._room = room
        self.sent: list[bytes] = []
        self.left: list[int] = []
        self.waiting = 0

    def __len__(self) -> int:
        return self.waiting

    def produce_batch(self, _topic: str, messages: list[dict[str, Any]], _partition: int) -> None:
        for message in messages:
            if message["value"] == b"large":
                message["_error"] = Error(10)
            elif message["value"] == b"other":
                message["_error"] = Error(-138)
            elif self._room == 0:
                message["_error"] = Error(-184)
            else:
                self._room -= 1
                self.sent.append(message["value"])
                message["callback"](None, None)

    def flush(self, _seconds: float) -> int:
        return self.left.pop(0) if self.left else 0

    def poll(self, seconds: float) -> None:
        self._room = self._all if seconds else self._room


def test_a_full_queue_is_waited_for_and_nothing_is_lost_or_swapped() -> None:
    producer = Producer(3)
    sender = Sender(Client, producer, "t", -1)
    values = [b"%d" % number for number in range(10)]
    sender.send(Rows(values))
    assert producer.sent == values
    assert (sender.acknowledged, sender.failed) == (10, 0)


@pytest.mark.parametrize(
    ("values", "failed", "said"),
    [
        ([b"1", b"large", b"2"], 1, "1 of the records were not written: record 2 was refused: error 10"),
        ([b"other", b"large", b"other"], 3, "3 of the records were not written: record 2 was refused: error 10"),
        (
            [b"large", b"1", b"large"],
            2,
            "records 1 to 3 were refused, some of them for others of their batch: error 10",
        ),
    ],
)
def test_what_is_refused_is_counted_and_told_with_its_index_and_cause(
    values: list[bytes], failed: int, said: str
) -> None:
    sender = Sender(Client, Producer(9), "t", -1)
    sender.send(Rows(values))
    with pytest.raises(KafkaFailure) as caught:
        sender.flush()
    assert said in str(caught.value)
    assert (sender.acknowledged, sender.failed) == (len(values) - failed, failed)


def test_acknowledgements_that_do_not_come_are_waited_for_and_told() -> None:
    producer, waits = Producer(9), list[str]()
    producer.left = [5, 5, 2, 0]
    sender = Sender(Client, producer, "t", -1, waits.append)
    sender.send(Rows([b"1"] * 5))
    sender.flush()
    assert waits == [f"no acknowledgement yet of {left} records" for left in (5, 5, 2)]
    producer.left = [3] * 50
    with pytest.raises(KafkaFailure, match="3 of the records were not written: no acknowledgement within 60 s"):
        sender.flush()


def test_what_is_not_acknowledged_yet_counts_as_written_to_nobody() -> None:
    """Ctrl-C ends the command there: it says how many records are written at least."""
    producer = Producer(9)
    sender = Sender(Client, producer, "t", -1)
    sender.send(Rows([b"1", b"large", b"2", b"3"]))
    producer.waiting = 2
    assert sender.acknowledged == 1
    producer.waiting, producer.left = 1, [1] * 50
    with pytest.raises(KafkaFailure, match="2 of the records were not written"):
        sender.flush()
    assert sender.acknowledged == 2


def test_records_for_which_there_was_no_room_yet_count_as_written_to_nobody() -> None:
    class Interrupted(Producer):
        def poll(self, seconds: float) -> None:
            if seconds:
                raise KeyboardInterrupt

    producer = Interrupted(3)
    sender = Sender(Client, producer, "t", -1)
    with pytest.raises(KeyboardInterrupt):
        sender.send(Rows([b"%d" % number for number in range(10)]))
    producer.waiting = 3
    assert (sender.acknowledged, producer.sent) == (0, [b"0", b"1", b"2"])


def test_input_is_waited_for_only_where_there_is_none() -> None:
    read, write = os.pipe()
    with open(read, "rb") as stream:
        assert not _is_ready(stream)
        os.write(write, b"x\n")
        assert _is_ready(stream)
        os.close(write)
    assert _is_ready(io.BytesIO(b"")), "nothing that can be waited for"


def test_what_librdkafka_has_to_tell_of_connections_is_no_record() -> None:
    """Its length counts that until it is polled: `at least -4 records are written` was told of two."""

    class Lost(Producer):
        events = 6

        def __len__(self) -> int:
            return self.events

        def poll(self, seconds: float) -> None:
            super().poll(seconds)
            self.events = 0

    producer = Lost(3)
    sender = Sender(Client, producer, "t", -1)
    sender.send(Rows([b"a", b"b"]))
    producer.events = 6
    assert sender.acknowledged == 2
