"""`tidelog produce TOPIC`: one record for each line of standard input; with --key-separator its key before the separator.

Through librdkafka: `pip install 'tidelog[cli]'`. Ends when the input ends and every record is acknowledged.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_READ_BYTES = 1 << 20
FLUSH_S = 60.0
#: Messages that librdkafka may hold before no more lines are read.
_QUEUED_MESSAGES, _QUEUED_KBYTES = 500_000, 256 << 10
_FULL_WAIT_S = 0.05


def add_parser(commands: Subparsers) -> None:
    from .support.kafka_client import add_bootstrap_argument, add_json_argument

    parser = commands.add_parser("produce", help="write lines of standard input to a topic", description=__doc__)
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--key-separator",
        metavar="SEP",
        help="lines are key, separator, value; \\t is a tab. A line without it has no key",
    )
    parser.add_argument(
        "--null-value",
        metavar="TEXT",
        help="a value that is exactly this becomes null: a tombstone (with --key-separator)",
    )
    parser.add_argument("--partition", metavar="N", type=int, default=-1, help="default: by key, else spread")
    parser.add_argument("--compression", choices=("none", "gzip", "snappy", "lz4", "zstd"), default="none")
    add_property_argument(parser)
    add_bootstrap_argument(parser)
    add_json_argument(parser)
    parser.set_defaults(run=run)


def add_property_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--property",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a setting of librdkafka; may be given again",
    )


def librdkafka() -> Any:
    """The module, or KafkaFailure that says how to get it."""
    from .support.kafka_client import KafkaFailure

    try:
        import confluent_kafka
    except ImportError:
        raise KafkaFailure(
            "records go through librdkafka, which is not installed: pip install 'tidelog[cli]'"
        ) from None
    return confluent_kafka


def librdkafka_security(options: Any) -> dict[str, Any]:
    """Security settings of --command-config, under librdkafka's names. KafkaFailure."""
    from .support.kafka_client import security_of

    security = security_of(options)
    return {} if security is None else security.librdkafka()


def separator_of(text: str | None) -> bytes | None:
    """The separator as bytes; backslash escapes are understood."""
    if text is None:
        return None
    return (
        text.encode("latin-1", "backslashreplace").decode("unicode_escape").encode() if "\\" in text else text.encode()
    )


def lines_of(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Lists of lines without their ends; the last one may lack its end. As soon as there are any, for pipes."""
    rest = b""
    read = getattr(stream, "read1", stream.read)
    while chunk := read(_READ_BYTES):
        *lines, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


def messages_of(lines: list[bytes], separator: bytes | None, null: bytes | None) -> list[dict[str, Any]]:
    """Messages in the form for `produce_batch`. A carriage return at a line's end stays: values are bytes."""
    if separator is None:
        return [{"value": line} for line in lines]
    messages: list[dict[str, Any]] = []
    for line in lines:
        key, found, value = line.partition(separator)
        if not found:
            messages.append({"value": line})
        else:
            messages.append({"key": key, "value": None if null is not None and value == null else value})
    return messages


class Sender:
    """Hands messages to librdkafka and counts what became of them. One thread."""

    def __init__(self, client: Any, producer: Any, topic: str, partition: int) -> None:
        self._client = client
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._taken = 0
        self.failed = 0
        self.first_failure = ""

    @property
    def acknowledged(self) -> int:
        """Once all was flushed: only failures are reported, which saves a call for each record."""
        return self._taken - self.failed

    def send(self, messages: list[dict[str, Any]]) -> None:
        """Waits where librdkafka's queue is full."""
        self._taken += len(messages)
        full = self._client.KafkaError._QUEUE_FULL
        while messages:
            self._producer.produce_batch(self._topic, messages, self._partition, self._delivered)
            self._producer.poll(0)
            left = []
            for message in messages:
                error = message.pop("_error", None)
                if error is None:
                    continue
                if error.code() == full:
                    left.append(message)
                else:
                    self._delivered(error, None)
            messages = left
            if left:
                self._producer.poll(_FULL_WAIT_S)

    def _delivered(self, error: Any, _message: object) -> None:
        if error is not None:
            self.failed += 1
            self.first_failure = self.first_failure or error.str()


def run(options: Any) -> int:
    """0 when every line is acknowledged, 1 when some are not."""
    import json
    import sys

    from .support.kafka_client import KafkaFailure, bootstrap_of, pairs_of
    from .support.output import ProgressBar

    client = librdkafka()
    bootstrap = bootstrap_of(options.bootstrap_server)
    separator, null = separator_of(options.key_separator), options.null_value
    check_there(options)
    config = {
        "bootstrap.servers": bootstrap,
        "client.id": "tidelog-produce",
        "compression.type": options.compression,
        "linger.ms": 5,
        "batch.size": 1 << 20,
        "queue.buffering.max.messages": _QUEUED_MESSAGES,
        "queue.buffering.max.kbytes": _QUEUED_KBYTES,
        "delivery.report.only.error": True,
        "log_level": 0,  # failures are reported below, in one line
        **librdkafka_security(options),
        **pairs_of(options.property, "--property"),
    }
    try:
        producer = client.Producer(config)
    except client.KafkaException as error:
        raise KafkaFailure(f"--property: {error.args[0].str()}") from None
    sender = Sender(client, producer, options.topic, options.partition)
    sent_bytes = 0
    with ProgressBar(f"produce {options.topic}") as bar:
        bar.total(_input_size(sys.stdin.buffer))
        for lines in lines_of(sys.stdin.buffer):
            size = sum(map(len, lines)) + len(lines)
            sender.send(messages_of(lines, separator, None if null is None else null.encode()))
            sent_bytes += size
            bar.done(size)
        left = producer.flush(FLUSH_S)
    if left:
        sender.failed += left
        sender.first_failure = sender.first_failure or f"no acknowledgement within {FLUSH_S:g} s"
    if options.json:
        facts = {"topic": options.topic, "records": sender.acknowledged, "bytes": sent_bytes, "failed": sender.failed}
        print(json.dumps(facts))
    if sender.failed:
        raise KafkaFailure(f"{sender.failed:,} of the records were not written: {sender.first_failure}")
    if sys.stderr.isatty():
        print(f"{sender.acknowledged:,} records, {sent_bytes:,} bytes in {bar.elapsed_s:.1f} s", file=sys.stderr)
    return 0


def check_there(options: Any) -> None:
    """librdkafka tries for ever to reach a daemon that is not there, or lets nobody in: ask first. KafkaFailure."""
    from .support.kafka_client import client_of

    with client_of(options):
        pass


def _input_size(stream: BinaryIO) -> int:
    """Bytes left, where the input is a file; 0 for a pipe."""
    import os
    import stat

    try:
        status = os.fstat(stream.fileno())
        return max(status.st_size - stream.tell(), 0) if stat.S_ISREG(status.st_mode) else 0
    except (OSError, ValueError):
        return 0
