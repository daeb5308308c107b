"""`tidelog produce TOPIC`: one record for each line of standard input; with --key-separator its key before the separator, with
--input json an object with key, value, headers, partition and timestamp.

Through librdkafka where it is installed, else through our own client (--client). Ends when the input ends and every record is
acknowledged; our own client ends at the first record that is refused. A topic that is not there is made, where the daemon makes
topics (auto.create.topics.enable) and none has nearly that name.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from .support.kafka_client import KafkaClient
    from .support.record_input import Rows

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

#: Our own client waits so long for more lines before it sends a batch that is not full.
_LINGER_S = 0.005
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_DEFAULT_MAX_BYTES = 1048588


def add_parser(commands: Subparsers) -> None:
    from .support.kafka_client import add_bootstrap_argument, add_json_argument
    from .support.rdkafka import add_client_arguments

    parser = commands.add_parser("produce", help="write lines of standard input to a topic", description=__doc__)
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--input",
        choices=("lines", "json"),
        default="lines",
        help='json: each line is {"key": …, "value": …, "headers": …, "partition": …, "timestamp": ms}, of which any may be '
        'left out; {"base64": …} stands for bytes. What `consume --output json` prints goes in again',
    )
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
    parser.add_argument(
        "--header", metavar="NAME=VALUE", action="append", default=[], help="of every record; may be given again"
    )
    parser.add_argument("--partition", metavar="N", type=int, default=-1, help="default: by key, else spread")
    parser.add_argument("--compression", choices=_CODECS, default="none")
    add_client_arguments(parser)
    add_bootstrap_argument(parser)
    add_json_argument(parser)
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """0 when every record is acknowledged. KafkaFailure when one is not, with its index and the cause."""
    import sys

    from .support.kafka_client import KafkaFailure, bootstrap_of, client_of
    from .support.offsets import no_partition
    from .support.rdkafka import chosen_library, make_producer
    from .support.record_input import headers_of, row_maker, separator_of
    from .support.waiting import Notices

    library = chosen_library(options)
    if options.input == "json" and (options.key_separator is not None or options.null_value is not None):
        raise KafkaFailure("--input json has keys and nulls of its own: leave out --key-separator and --null-value")
    if options.partition < -1:
        raise KafkaFailure(f"--partition is 0 or more, not {options.partition}")
    try:
        make_rows = row_maker(
            as_json=options.input == "json",
            separator=separator_of(options.key_separator),
            null=None if options.null_value is None else options.null_value.encode("utf-8", "surrogateescape"),
            headers=headers_of(options.header),
        )
    except ValueError as error:
        raise KafkaFailure(str(error)) from None
    with client_of(options) as admin:  # librdkafka tries for ever to reach a daemon that is not there: ask first
        partitions = topic_there(admin, options.topic)
        if options.partition >= partitions:
            raise KafkaFailure(no_partition(options.topic, options.partition, partitions))
        most_bytes = _max_message_bytes(admin, options.topic)
    if sys.stdin.isatty():
        print("reading records from the terminal, one a line; Ctrl-D ends", file=sys.stderr)
    notices = Notices()
    if library is not None:
        from .support.rdkafka import Sender

        producer = make_producer(library, bootstrap_of(options.bootstrap_server), options, most_bytes)
        return _copy(options, make_rows, Sender(library, producer, options.topic, options.partition, notices.wait))

    from .support.own_client import own_client
    from .support.own_producer import OwnProducer

    with own_client(options, "tidelog-produce", notices.wait) as client:
        sink = OwnProducer(
            client,
            options.topic,
            partition=None if options.partition < 0 else options.partition,
            codec=_CODECS.index(options.compression),
            most_bytes=most_bytes,
            on_wait=notices.wait,
        )
        return _copy(options, make_rows, sink)


class Sink(Protocol):
    """Where records go. Attributes: `acknowledged` and `failed` records, `sent`: taken so far."""

    @property
    def sent(self) -> int: ...
    @property
    def acknowledged(self) -> int: ...

    def send(self, rows: Rows) -> None:
        """Takes records; may raise KafkaFailure."""

    def pause(self) -> None:
        """No more lines are there at the moment."""

    def flush(self) -> None:
        """Waits until all that was taken is acknowledged. KafkaFailure when something was not."""


def _copy(options: Any, make_rows: Callable[[list[bytes], int], Rows], sink: Sink) -> int:
    """Copies standard input to `sink`, and tells what became of it."""
    import sys

    from .support.kafka_client import KafkaFailure
    from .support.output import ProgressBar, plural, written
    from .support.record_input import InputError, lines_of

    stream = sys.stdin.buffer
    taken_bytes = 0
    with ProgressBar(f"produce {options.topic}") as bar:
        try:
            bar.total(_input_size(stream))
            try:
                for lines in lines_of(stream):
                    size = sum(map(len, lines)) + len(lines)
                    sink.send(make_rows(lines, sink.sent + 1))
                    if not _is_ready(stream):
                        sink.pause()
                    taken_bytes += size
                    bar.done(size)
                sink.flush()
            except InputError as error:
                if error.rows is not None:
                    sink.send(error.rows)
                sink.flush()
                raise KafkaFailure(f"{error}; {written(sink.acknowledged)} before it") from None
        except KeyboardInterrupt:
            bar.clear()
            print(f"tidelog: interrupted; at least {written(sink.acknowledged)}", file=sys.stderr)
            return 130
        finally:
            if options.json:
                failed = sink.sent - sink.acknowledged
                facts = {"topic": options.topic, "records": sink.acknowledged, "bytes": taken_bytes, "failed": failed}
                print_json_line(facts)
    if sys.stderr.isatty():
        records, taken = plural(sink.acknowledged, "record"), plural(taken_bytes, "byte")
        print(f"{records}, {taken} in {bar.elapsed_s:.1f} s", file=sys.stderr)
    return 0


def print_json_line(facts: object) -> None:
    """Print an object on one line."""
    import json

    print(json.dumps(facts))


def topic_there(client: KafkaClient, topic: str) -> int:
    """The topic's number of partitions. One that is not there is made, where the daemon makes topics and none has nearly that
    name. KafkaFailure."""
    import sys

    from ..protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
    from .support.kafka_client import KafkaFailure, patiently
    from .support.missing import check_topic, topic_failure, topic_names
    from .support.nearest import nearest
    from .support.output import plural

    def ask(*, make: bool) -> int:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=make)
        (found,) = client.ask(request, MetadataResponse).topics
        if make and found.error_code:
            check_topic(client, topic, found.error_code)
        return len(found.partitions) if not found.error_code else -found.error_code

    there = ask(make=False)
    if there > 0:
        return there
    failed = topic_failure(client, topic, -there)
    if failed.code not in ("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"):
        raise failed
    if nearest(topic, topic_names(client)) is not None:
        raise KafkaFailure(f"{failed} If not: `tidelog topics create {topic}` makes it")
    made: int = patiently(lambda: ask(make=True))
    if failed.code == "UNKNOWN_TOPIC_OR_PARTITION":
        print(f"tidelog: made topic {topic}, with {plural(made, 'partition')}", file=sys.stderr)
    return made


def _max_message_bytes(client: KafkaClient, topic: str) -> int:
    """The topic's max.message.bytes, or Kafka's default where this user may not read it."""
    from .configs import RESOURCES, described
    from .support.kafka_client import KafkaFailure

    try:
        ((entry,),) = described(client, [(RESOURCES["topic"], topic)], ["max.message.bytes"])
        return int(entry.value or _DEFAULT_MAX_BYTES)
    except (KafkaFailure, ValueError):
        return _DEFAULT_MAX_BYTES


def _is_ready(stream: BinaryIO) -> bool:
    """True if more input comes within some milliseconds."""
    import select

    try:
        return bool(select.select([stream], [], [], _LINGER_S)[0])
    except (OSError, ValueError):  # no file with a descriptor
        return True


def _input_size(stream: BinaryIO) -> int:
    """Bytes left, where the input is a file; 0 for a pipe."""
    import os
    import stat

    try:
        status = os.fstat(stream.fileno())
        return max(status.st_size - stream.tell(), 0) if stat.S_ISREG(status.st_mode) else 0
    except (OSError, ValueError):
        return 0
