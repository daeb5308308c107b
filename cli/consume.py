"""`tidelog consume TOPIC`: values to standard output, a line each; with --key-separator the key before them.

Through librdkafka: `pip install 'tidelog[cli]'`. Without --group no group is used: every partition is read from its end, or
with --from-beginning from its start. Ends at Ctrl-C, after --max-messages, or with --until-end where the records end.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_BATCH = 10_000
_WAIT_S = 0.1
_FIRST_WAIT_S = 0.005
_NULL = b"null"
#: Of malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3


def add_parser(commands: Subparsers) -> None:
    from .produce import add_property_argument
    from .support.kafka_client import add_bootstrap_argument

    parser = commands.add_parser("consume", help="print the records of a topic", description=__doc__)
    parser.add_argument("topic", metavar="TOPIC[:PARTITION,…]", help="a topic, or some of its partitions")
    parser.add_argument(
        "--from-beginning", action="store_true", help="from the first record on (of a group: where it has none)"
    )
    parser.add_argument("--max-messages", metavar="N", type=int, help="end after so many records")
    parser.add_argument("--until-end", action="store_true", help="end where the records ended when it began")
    parser.add_argument("--group", metavar="G", help="read as a member of this group, and commit")
    parser.add_argument("--key-separator", metavar="SEP", help="print key, separator, value; \\t is a tab")
    parser.add_argument("--committed", action="store_true", help="leave out what transactions have not committed")
    parser.add_argument(
        "--json",
        action="store_true",
        help="one JSON object a record: partition, offset, timestamp, key, value, headers",
    )
    add_property_argument(parser)
    add_bootstrap_argument(parser)
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Prints; returns 0. KafkaFailure when the topic is not there."""
    import signal
    import sys

    from .produce import librdkafka, librdkafka_security, separator_of
    from .support.kafka_client import KafkaFailure, bootstrap_of, client_of, pairs_of
    from .support.offsets import bounds_of, chosen, parse_partition

    client = librdkafka()
    bootstrap = bootstrap_of(options.bootstrap_server)
    if options.max_messages is not None and options.max_messages < 1:
        raise KafkaFailure(f"--max-messages is at least 1, not {options.max_messages}")
    with client_of(options) as admin:  # a topic that is not there is said at once, and none is made
        partitions = chosen(admin, [options.topic])
        bounds = bounds_of(admin, partitions)
    if options.group is not None and parse_partition(options.topic)[1] is not None:
        raise KafkaFailure("--group shares out whole topics: name the topic without partitions")
    config = {
        "bootstrap.servers": bootstrap,
        "client.id": "tidelog-consume",
        "group.id": options.group or "tidelog-consume",  # librdkafka wants one; without --group it is never used
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest" if options.from_beginning else "latest",
        "isolation.level": "read_committed" if options.committed else "read_uncommitted",
        "enable.partition.eof": True,
        "fetch.max.bytes": 64 << 20,
        "max.partition.fetch.bytes": 4 << 20,
        "queued.max.messages.kbytes": 64 << 10,
        "queued.min.messages": 200_000,
        # Librdkafka's second would be most of the time: a full queue is empty again after some milliseconds.
        "fetch.queue.backoff.ms": 2,
        "log_level": 0,
        **librdkafka_security(options),
        **pairs_of(options.property, "--property"),
    }
    keep_freed_memory()
    try:
        consumer = client.Consumer(config)
    except client.KafkaException as error:
        raise KafkaFailure(f"--property: {error.args[0].str()}") from None
    name = partitions[0][0]
    if options.group is None:
        start = client.OFFSET_BEGINNING if options.from_beginning else None
        consumer.assign(
            [client.TopicPartition(t, p, bounds[t, p].end if start is None else start) for t, p in partitions]
        )
    else:
        consumer.subscribe([name])
    # Until the end is a fact about offsets, which no group changes: what is left of each partition that has anything.
    ends = {p: bounds[t, p].end for t, p in partitions if bounds[t, p].end > bounds[t, p].start}
    if options.until_end and not options.from_beginning and options.group is None:
        ends = {}
    text = formatter(options, separator_of(options.key_separator))
    reader = Reader(client, consumer, text, sys.stdout.buffer, commits=options.group is not None)
    stop: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    try:
        reader.read(options.max_messages, ends if options.until_end else None, lambda: bool(stop))
    except KeyboardInterrupt:
        pass  # how one ends it
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.stdout.buffer.flush()
        if options.group is not None:
            reader.commit()
        consumer.close()
    return 0


def keep_freed_memory() -> None:
    """Lets glibc keep what is freed: librdkafka takes and frees megabytes for each fetch, and fresh pages cost a fifth of the CPU
    otherwise. With another C library it does nothing."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, size in ((_M_MMAP_THRESHOLD, 32 << 20), (_M_TRIM_THRESHOLD, 256 << 20), (_M_TOP_PAD, 4 << 20)):
            mallopt(parameter, size)


Format = Callable[[Sequence[Any]], bytes]


def formatter(options: Any, separator: bytes | None) -> Format:
    """Function that formats messages for printing."""
    if options.json:
        return json_lines
    if separator is None:
        # This is the format that is used for speed.
        return lambda messages: b"\n".join([m.value() or b"" for m in messages]) + b"\n"
    return lambda messages: b"".join(
        [b"%b%b%b\n" % (_or_null(m.key()), separator, _or_null(m.value())) for m in messages]
    )


def _or_null(data: bytes | None) -> bytes:
    return _NULL if data is None else data


def json_lines(messages: Sequence[Any]) -> bytes:
    """Keys and values as text where they are UTF-8, else as {"base64": …}; a timestamp in ms."""
    import json
    from base64 import b64encode

    def shown(data: Any) -> Any:
        if not isinstance(data, bytes):
            return data
        try:
            return data.decode()
        except UnicodeDecodeError:
            return {"base64": b64encode(data).decode()}

    lines = []
    for message in messages:
        headers = message.headers() or []
        content = {
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": message.timestamp()[1],
            "key": shown(message.key()),
            "value": shown(message.value()),
            "headers": [[name, shown(value)] for name, value in headers],
        }
        lines.append(json.dumps(content, ensure_ascii=False))
    return ("\n".join(lines) + "\n").encode()


class Reader:
    """Copies messages from librdkafka to a stream until there are enough. One thread."""

    def __init__(self, client: Any, consumer: Any, text: Format, out: BinaryIO, *, commits: bool) -> None:
        self._commits = commits  # else no note is taken of offsets
        self._client = client
        self._consumer = consumer
        self._text = text
        self._out = out
        self._next: dict[tuple[str, int], int] = {}

    def read(self, most: int | None, ends: dict[int, int] | None, is_stopped: Callable[[], bool]) -> None:
        """Prints at most `most` records; with `ends`, until each of these partitions was read up to its offset."""
        left = most
        waiting = dict(ends) if ends is not None else None
        while left != 0 and waiting != {} and not is_stopped():
            size = _BATCH if left is None else min(left, _BATCH)
            batch = self._consumer.consume(size, _FIRST_WAIT_S)
            if not batch:
                self._out.flush()
                batch = self._consumer.consume(1, _WAIT_S)
            messages = self._sorted_out(batch, waiting)
            if messages:
                self._out.write(self._text(messages))
                if left is not None:
                    left -= len(messages)
        self._out.flush()

    def _sorted_out(self, batch: list[Any], waiting: dict[int, int] | None) -> list[Any]:
        """The records; ends of partitions and errors are taken note of."""
        from .support.kafka_client import KafkaFailure

        messages = [message for message in batch if message.error() is None]
        if len(messages) != len(batch):
            for message in batch:
                error = message.error()
                if error is None:
                    continue
                if error.code() == self._client.KafkaError._PARTITION_EOF:
                    if waiting is not None and message.offset() >= waiting.get(message.partition(), 0):
                        waiting.pop(message.partition(), None)
                elif not error.retriable():
                    raise KafkaFailure(error.str())
        if messages and self._commits:
            for message in _last_of_each(messages):
                self._next[message.topic(), message.partition()] = message.offset() + 1
        return messages

    def commit(self) -> None:
        """Commit the offsets of printed messages. KafkaFailure."""
        from .support.kafka_client import KafkaFailure

        offsets = [self._client.TopicPartition(t, p, offset) for (t, p), offset in self._next.items()]
        if not offsets:
            return
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except self._client.KafkaException as error:
            raise KafkaFailure(f"printed, but not committed: {error.args[0].str()}") from None


def _last_of_each(messages: list[Any]) -> list[Any]:
    """The last message of each partition; librdkafka gives them in runs."""
    last: dict[int, Any] = {}
    for message in reversed(messages):
        last.setdefault(message.partition(), message)
    return list(last.values())
