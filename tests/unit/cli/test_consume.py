"""From messages to lines, and when reading ends. librdkafka itself: tests/compat/test_cli.py."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import itertools
import json
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from tidelog.cli.consume import Waiting, _OwnCopy, _run_librdkafka
from tidelog.cli.support import rdkafka_reader
from tidelog.cli.support.kafka_client import KafkaFailure
from tidelog.cli.support.own_consumer import Chunk
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

    class TopicPartition(NamedTuple):
        topic: str
        partition: int
        offset: int = -1001
        error: Any = None


class Consumer:
    """Of the partitions `own`; `group` has what the group has committed."""

    def __init__(self, *batches: list[Message], own: tuple[int, ...] = (0, 1)) -> None:
        self.batches = list(batches)
        self.own = own
        self.group: dict[int, int] = {}
        self.commits = 0
        self.asks = 0

    def assignment(self) -> list[Any]:
        return [Client.TopicPartition("t", partition) for partition in self.own]

    def committed(self, places: list[Any], timeout: float) -> list[Any]:
        self.asks += 1
        return [place._replace(offset=self.group.get(place.partition, -1001)) for place in places]

    def consume(self, count: int, _seconds: float) -> list[Message]:
        if not self.batches:
            return []
        batch = self.batches.pop(0)
        if batch[count:]:
            self.batches.insert(0, batch[count:])
        return batch[:count]

    def commit(self, offsets: list[Any], asynchronous: bool) -> None:
        assert not asynchronous
        self.commits += 1
        self.group.update({place.partition: place.offset for place in offsets})


def read(
    consumer: Consumer, most: int | None, ends: dict[int, int] | None, on_idle: Callable[[], None] = lambda: None
) -> tuple[list[str], Reader]:
    """It is over after 50 looks, half a second apart."""
    out = io.BytesIO()
    text = message_format(as_json=False, separator=b"=")
    reader = Reader(
        Client, consumer, "t", text, out, commits=True, on_idle=on_idle, clock=itertools.count(0.0, 0.5).__next__
    )
    turns = iter(range(50))
    reader.read(most, ends, lambda: next(turns, None) is None)
    return out.getvalue().decode().splitlines(), reader


def test_it_ends_after_so_many_and_commits_what_was_printed() -> None:
    consumer = Consumer([Message(0, 5), Message(0, 6), Message(1, 2)], [Message(0, 7), Message(0, 8)])
    lines, reader = read(consumer, 4, None)
    assert len(lines) == 4
    reader.commit()
    assert consumer.group == {0: 8, 1: 3}


def test_it_ends_where_every_partition_ended_when_it_began() -> None:
    consumer = Consumer(
        [Message(0, 0, value=b"a"), Message(0, 1, error=Error(EOF))],  # more came since: this is not the end yet
        [Message(0, 1, value=b"b"), Message(1, 0, value=b"c")],
        [Message(0, 2, error=Error(EOF)), Message(1, 1, error=Error(EOF))],
        [Message(0, 2, value=b"later")],
    )
    lines, _ = read(consumer, None, {0: 2, 1: 1})
    assert lines == ["null=a", "null=b", "null=c"]


def test_it_ends_when_other_members_of_the_group_have_committed_the_other_ends() -> None:
    consumer = Consumer(
        [Message(0, 0, value=b"a")],
        [Message(0, 1, error=Error(EOF))],
        own=(0,),
    )
    idle = 0

    def on_idle() -> None:
        nonlocal idle
        idle += 1
        if idle == 5:
            assert consumer.group == {0: 1}, "what this one has read is committed: others may wait for it"
            consumer.group[1] = 6
        if idle == 10:
            assert consumer.asks, "the other partition is not read to its end"
            consumer.group[1] = 7

    lines, _ = read(consumer, None, {0: 1, 1: 7}, on_idle)
    assert lines == ["null=a"]
    assert 10 <= idle < 14


def test_a_member_that_has_not_come_to_its_own_end_does_not_look_at_the_others() -> None:
    consumer = Consumer([Message(0, 0)], own=(0,))
    consumer.group = {0: 5, 1: 9}
    assert read(consumer, None, {0: 5, 1: 9})[0] == ["null=v"]
    assert consumer.asks == 0


def test_a_group_that_is_at_the_end_already_needs_no_partition() -> None:
    consumer = Consumer(own=())
    consumer.group = {0: 5, 1: 9}
    assert read(consumer, None, {0: 5, 1: 9})[0] == []
    assert consumer.asks == 1


def test_an_end_without_a_record_is_committed_too() -> None:
    """It may lie behind a marker, or the group has begun there."""
    consumer = Consumer(
        [Message(0, 5)], [Message(0, 7, error=Error(EOF)), Message(1, 3, error=Error(EOF)), Message(1, 3)]
    )
    _, reader = read(consumer, None, {0: 7, 1: 3})
    reader.commit()
    assert consumer.group == {0: 7, 1: 4}


def test_what_was_printed_is_committed_every_five_seconds_once() -> None:
    """The clock goes on by half a second with each look at it."""
    consumer = Consumer(*([Message(0, offset)] for offset in range(30)))
    seen: list[int] = []
    commit = consumer.commit

    def noted(offsets: list[Any], asynchronous: bool) -> None:
        commit(offsets, asynchronous)
        seen.append(offsets[0].offset)

    consumer.commit = noted  # type: ignore[method-assign]
    read(consumer, None, None)
    assert seen == sorted(set(seen))
    assert seen[-1] == 30
    assert 3 <= len(seen) <= 8


class FullDisk(io.BytesIO):
    """Takes `room` writes, and as many flushes."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def _take(self) -> None:
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    def write(self, data: Any) -> int:
        self._take()
        self.room -= 1
        return super().write(data)

    def flush(self) -> None:
        self._take()


def test_what_could_not_be_written_is_not_committed() -> None:
    consumer = Consumer([Message(0, 5), Message(1, 1)], [Message(0, 6), Message(0, 7, error=Error(EOF))])
    out = FullDisk(1)
    text = message_format(as_json=False, separator=None)
    reader = Reader(Client, consumer, "t", text, out, commits=True, clock=lambda: 0.0)
    with pytest.raises(OSError, match="No space left"):
        reader.read(None, None, lambda: False)
    with pytest.raises(OSError, match="No space left"):  # the last bytes may be in a buffer
        reader.commit()
    reader.revoked(None, [Client.TopicPartition("t", 1)])
    assert consumer.group == {}
    out.room = 1
    reader.commit()
    assert consumer.group == {0: 6}, "partition 1 is another member's by now"


class Away(Consumer):
    """Of a broker that is away: librdkafka's calls come back when it does."""

    def __init__(self, *batches: list[Message]) -> None:
        super().__init__(*batches)
        self.is_back = threading.Event()

    def commit(self, offsets: list[Any], asynchronous: bool) -> None:
        self.is_back.wait()
        super().commit(offsets, asynchronous)

    def close(self) -> None:
        self.is_back.wait()


def test_a_commit_that_nobody_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It held the program for a minute, and no signal ended that."""
    monkeypatch.setattr(rdkafka_reader, "_BETWEEN_S", 0.0)
    monkeypatch.setattr(rdkafka_reader, "_LEAVE_S", 0.0)
    consumer = Away([Message(0, 5)], *([] for _ in range(40)))
    out = io.BytesIO()
    text = message_format(as_json=False, separator=None)
    reader = Reader(Client, consumer, "t", text, out, commits=True, clock=itertools.count(0.0, 0.5).__next__)
    turns = iter(range(40))
    reader.read(None, None, lambda: next(turns, None) is None)
    with pytest.raises(KafkaFailure, match="printed, but not committed: the group's coordinator does not answer"):
        reader.commit(0.0)
    assert consumer.commits == 0
    rdkafka_reader.close(consumer)
    consumer.is_back.set()
    reader.commit()
    assert consumer.group == {0: 6}
    assert consumer.commits == 2, "one that was begun before, and the last"


def test_partitions_are_given_up_with_a_commit_in_the_callbacks_thread_and_lost_without() -> None:
    """librdkafka answers no other thread's commit while it calls back; what is lost is others' already."""
    consumer = Consumer([Message(0, 5), Message(1, 1)])
    threads: list[int] = []
    commit = consumer.commit
    consumer.commit = lambda **given: (threads.append(threading.get_ident()), commit(**given))  # type: ignore[method-assign]
    reader = Reader(
        Client,
        consumer,
        "t",
        message_format(as_json=False, separator=None),
        io.BytesIO(),
        commits=True,
        clock=lambda: 0.0,
    )
    turns = iter(range(2))
    reader.read(None, None, lambda: next(turns, None) is None)
    reader.lost(None, [Client.TopicPartition("t", 1)])
    reader.revoked(None, [Client.TopicPartition("t", 0), Client.TopicPartition("t", 1)])
    assert (consumer.group, threads) == ({0: 6}, [threading.get_ident()])
    reader.commit()
    assert consumer.commits == 1


def test_a_consumer_is_closed_when_its_output_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer([Message(0, 5)])
    closed: list[bool] = []
    consumer.subscribe = lambda *_args, **_options: None  # type: ignore[attr-defined]
    consumer.close = lambda: closed.append(True)  # type: ignore[attr-defined]
    monkeypatch.setattr("tidelog.cli.support.rdkafka_reader.make_consumer", lambda *_: consumer)
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(FullDisk(0), write_through=True))
    options = argparse.Namespace(bootstrap_server=None, output="text", group="g", max_messages=None)
    with pytest.raises(OSError, match="No space left"):
        _run_librdkafka(Client, options, "t", {0: 0}, None, None, Waiting("t", is_told=False))
    assert (consumer.group, closed) == ({}, [True])


class GoneReader(io.BytesIO):
    """A pipe: it takes what its buffer has room for, whoever reads it, and then tells that its reader has gone."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    def write(self, data: Any) -> int:
        self.writes += 1
        if self.writes > 1:
            raise BrokenPipeError
        return super().write(data)


def test_what_lies_in_a_pipe_whose_reader_has_gone_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tidelog consume --group g t | head -2`."""
    consumer = Consumer([Message(0, 5)], [Message(0, 6)])
    consumer.subscribe = lambda *_args, **_options: None  # type: ignore[attr-defined]
    consumer.close = lambda: None  # type: ignore[attr-defined]
    monkeypatch.setattr("tidelog.cli.support.rdkafka_reader.make_consumer", lambda *_: consumer)
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(GoneReader(), write_through=True))
    options = argparse.Namespace(bootstrap_server=None, output="text", group="g", max_messages=None, committed=False)
    options.from_beginning = True
    with pytest.raises(BrokenPipeError):
        _run_librdkafka(Client, options, "t", {0: 0}, None, None, Waiting("t", is_told=False))
    assert consumer.group == {}
    closed: list[bool] = []

    class Group:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def read(self) -> Iterator[Chunk]:
            for offset in range(3):
                yield Chunk(0, [Record(offset, 1, None, b"v")])

        def printed(self, _partition: int, _offset: int) -> None:
            pass

        def close(self, *, commits: bool = True) -> None:
            closed.append(commits)

    monkeypatch.setattr("tidelog.cli.support.group_member.GroupMember", Group)
    monkeypatch.setattr("tidelog.cli.support.group_reader.GroupReader", Group)
    monkeypatch.setattr("tidelog.cli.support.own_client.own_client", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(GoneReader(), write_through=True))
    with pytest.raises(BrokenPipeError):
        _OwnCopy(options, "t", {0: 0}, None, None, Waiting("t", is_told=False)).run()
    assert closed == [False]


OWN = argparse.Namespace(
    bootstrap_server=None, output="text", group=None, max_messages=None, committed=False, from_beginning=True
)


class Waits:
    """An own client's readers while no daemon answers: told to stop where it would be waited for a minute."""

    def __init__(self, *_: Any, on_wait: Callable[[str], None], **__: Any) -> None:
        self.on_wait = on_wait
        self.printed_to: list[int] = []

    def read(self) -> Iterator[Chunk]:
        yield Chunk(0, [Record(1, 1, None, b"v")])
        signal.raise_signal(self.number)
        pytest.fail("it goes on waiting")

    def printed(self, _partition: int, next_offset: int) -> None:
        self.printed_to.append(next_offset)

    def close(self, *, commits: bool = True) -> None:
        assert (self.printed_to, commits) == ([2], True)
        self.on_wait("no connection")
        pytest.fail("it is tried again, for a minute")


@pytest.fixture
def _heard() -> Iterator[None]:
    """A shell starts its background jobs, and what they start, with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_heard")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("group", [None, "g"])
def test_what_waits_for_a_daemon_ends_at_once_when_it_is_told(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, group: str | None
) -> None:
    monkeypatch.setattr(Waits, "number", number, raising=False)
    monkeypatch.setattr("tidelog.cli.support.own_consumer.OwnConsumer", Waits)
    monkeypatch.setattr("tidelog.cli.support.group_member.GroupMember", Waits)
    monkeypatch.setattr("tidelog.cli.support.group_reader.GroupReader", Waits)
    monkeypatch.setattr("tidelog.cli.support.own_client.own_client", lambda *_: contextlib.nullcontext())
    out = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(out, write_through=True))
    options = argparse.Namespace(**{**vars(OWN), "group": group})
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    failure = pytest.raises(KafkaFailure, match="printed, but not committed: no connection")
    with contextlib.nullcontext() if group is None else failure:
        assert _OwnCopy(options, "t", {0: 0}, None, None, Waiting("t", is_told=False)).run() == 1
    assert out.getvalue() == b"v\n"
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_line_that_is_being_printed_is_printed_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Out(io.BytesIO):
        def write(self, data: Any) -> int:
            signal.raise_signal(signal.SIGTERM)
            return super().write(data)

    class Reads(Waits):
        def read(self) -> Iterator[Chunk]:
            yield from (Chunk(0, [Record(offset, 1, None, b"v")]) for offset in range(3))

    monkeypatch.setattr("tidelog.cli.support.own_consumer.OwnConsumer", Reads)
    monkeypatch.setattr("tidelog.cli.support.own_client.own_client", lambda *_: contextlib.nullcontext())
    out = Out()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(out, write_through=True))
    assert _OwnCopy(OWN, "t", {0: 0}, None, None, Waiting("t", is_told=False)).run() == 1
    assert out.getvalue() == b"v\n"


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
