"""`tidelog consume TOPIC`: values to standard output, a line each; with --key-separator the key before them, with --output json
all of a record.

Through librdkafka where it is installed, else through our own client (--client). Without --group no group is used: every
partition is read from its end, or from where --from-beginning, --offset or --from-time say. Ends at Ctrl-C, after --max-messages,
or with --until-end where the records end. With --group partitions are shared out among the members of the group; each is read
from where the group has committed, and what was printed is committed every five seconds and at the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .support.kafka_client import KafkaClient
    from .support.offsets import Bounds, Partition
    from .support.own_consumer import Chunk

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: Subparsers) -> None:
    from .support.kafka_client import add_bootstrap_argument
    from .support.rdkafka import add_client_arguments

    parser = commands.add_parser("consume", help="print the records of a topic", description=__doc__)
    parser.add_argument("topic", metavar="TOPIC[:PARTITION,…]", help="a topic, or some of its partitions")
    parser.add_argument(
        "--partition", metavar="N", type=int, action="append", default=[], help="only this one; may be given again"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--from-beginning", action="store_true", help="from the first record on (of a group: where it has none)"
    )
    where.add_argument(
        "--offset",
        metavar="N",
        type=int,
        help="from this offset on, of one partition; --offset=-N: the last N offsets of each",
    )
    where.add_argument(
        "--from-time",
        metavar="TIME",
        help="from the first record at or after it: 2026-01-31T12:00 (UTC, or +01:00), or ms since 1970",
    )
    parser.add_argument("--max-messages", metavar="N", type=int, help="end after so many records")
    parser.add_argument("--until-end", action="store_true", help="end where the records ended when it began")
    parser.add_argument("--group", metavar="G", help="read as a member of this group, and commit what was printed")
    parser.add_argument("--key-separator", metavar="SEP", help="print key, separator, value; \\t is a tab")
    parser.add_argument("--committed", action="store_true", help="leave out what transactions have not committed")
    parser.add_argument(
        "--output",
        choices=("text", "json"),
        default="text",
        help="json: one object a record, with partition, offset, timestamp, key, value, headers",
    )
    parser.add_argument("--json", action="store_const", const="json", dest="output", help="the same as --output json")
    add_client_arguments(parser)
    add_bootstrap_argument(parser)
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Prints; returns 0. KafkaFailure when the topic is not there."""
    import sys

    from .support.kafka_client import KafkaFailure, client_of
    from .support.offsets import bounds_of, chosen, parse_partition
    from .support.rdkafka import chosen_library
    from .support.record_input import separator_of

    library = chosen_library(options)
    if options.max_messages is not None and options.max_messages < 1:
        raise KafkaFailure(f"--max-messages is at least 1, not {options.max_messages}")
    try:
        separator = separator_of(options.key_separator)
    except ValueError as error:
        raise KafkaFailure(str(error)) from None
    topic, named = parse_partition(options.topic)
    if options.partition and named is not None:
        raise KafkaFailure(f"name the partitions by --partition or by {options.topic}, not by both")
    if options.group is not None:
        if named is not None or options.partition:
            raise KafkaFailure("--group shares out whole topics: name the topic without partitions")
        if options.offset is not None or options.from_time is not None:
            raise KafkaFailure("a group begins where it has committed: `tidelog groups reset` moves that")
    wanted = sorted({*options.partition}) if options.partition else named
    text = topic if wanted is None else f"{topic}:{','.join(map(str, wanted))}"
    with client_of(options) as admin:  # a topic that is not there is said at once, and none is made
        partitions = chosen(admin, [text])
        bounds = bounds_of(admin, partitions, committed=options.committed)
        starts = starts_of(admin, options, partitions, bounds)
    ends = {p: bounds[t, p].end for t, p in partitions} if options.until_end else None
    if ends is not None:
        if options.group is None:  # what is left of each partition that has anything
            ends = {p: end for p, end in ends.items() if end > starts[p]}
        else:  # until the end is a fact about offsets, which no group changes
            ends = {p: end for p, end in ends.items() if end > bounds[topic, p].start}
    waiting = Waiting(topic, is_told=ends is None and sys.stderr.isatty())
    if library is None:
        printed = _OwnCopy(options, topic, starts, ends, separator, waiting).run()
    else:
        printed = _run_librdkafka(library, options, topic, starts, ends, separator, waiting)
    if ends is not None and not printed:
        from .support.output import say_empty

        say_empty(f"{options.topic} has no records there")
    return 0


def starts_of(
    client: KafkaClient, options: Any, partitions: list[Partition], bounds: dict[Partition, Bounds]
) -> dict[int, int]:
    """The offset at which each partition is begun. KafkaFailure: there is none such."""
    from .support.kafka_client import KafkaFailure
    from .support.offsets import offsets_at

    if options.from_beginning:
        return {place[1]: bounds[place].start for place in partitions}
    if options.from_time is not None:
        moment = _moment(options.from_time)
        at = offsets_at(client, dict.fromkeys(partitions, moment))
        return {place[1]: at[place] if at[place] >= 0 else bounds[place].end for place in partitions}
    if options.offset is None:
        return {place[1]: bounds[place].end for place in partitions}
    if options.offset < 0:
        return {place[1]: max(bounds[place].end + options.offset, bounds[place].start) for place in partitions}
    if len(partitions) > 1:
        raise KafkaFailure(f"--offset {options.offset} is of one partition: say which with --partition N")
    ((topic, partition),) = partitions
    start, end = bounds[topic, partition]
    if not start <= options.offset <= end:
        there = "is empty" if start == end else f"has offsets {start} to {end - 1}"
        raise KafkaFailure(f"{topic}-{partition} has no offset {options.offset}: it {there}, and the next is {end}")
    return {partition: options.offset}


def _moment(text: str) -> int:
    """Milliseconds of a time. KafkaFailure."""
    from .groups import parse_time

    return int(text) if text.isdecimal() and len(text) > _YEAR_DIGITS else parse_time(text)


#: A number of more digits is no year, which ISO's short form might be (20260131).
_YEAR_DIGITS = 8


class Waiting:
    """What is done whenever nothing is there to print: standard output is looked after, and the wait told of, once."""

    def __init__(self, topic: str, *, is_told: bool) -> None:
        self._topic = topic
        self._is_told = is_told

    def idle(self) -> None:
        """BrokenPipeError: nobody reads what is printed."""
        import contextlib
        import io
        import select
        import sys

        poll = select.poll()
        with contextlib.suppress(io.UnsupportedOperation):  # no file
            poll.register(sys.stdout, 0)
        if any(event & select.POLLERR for _, event in poll.poll(0)):
            raise BrokenPipeError
        if self._is_told:
            self._is_told = False
            print(f"waiting for records of {self._topic}; Ctrl-C ends", file=sys.stderr)


class _OwnCopy:
    """Prints what our own client reads. `run` once."""

    def __init__(
        self,
        options: Any,
        topic: str,
        starts: dict[int, int],
        ends: dict[int, int] | None,
        separator: bytes | None,
        waiting: Waiting,
    ) -> None:
        import sys

        from .support.record_output import record_format
        from .support.waiting import Notices

        self._options = options
        self._topic = topic
        self._positions = {partition: starts[partition] for partition in (starts if ends is None else ends)}
        self._ends = ends
        self._waiting = waiting
        self._notices = Notices()
        self._text = record_format(as_json=options.output == "json", separator=separator)
        self._out = sys.stdout.buffer
        self._printed = 0
        self._is_printing = False
        self._stop: list[int] = []

    def run(self) -> int:
        """The number of records that were printed."""
        if self._options.group is None:
            _until_told(self._copy, self._stop, waits=lambda: not self._is_printing)
        elif self._ends != {}:
            _until_told(self._copy_as_member, self._stop, waits=lambda: not self._is_printing)
        return self._printed

    def _on_wait(self, why: str) -> None:
        """BrokerUnreachableError, once it was told to stop: what has failed is not tried again then."""
        from ..pipeline.exceptions import BrokerUnreachableError

        if self._stop:
            raise BrokerUnreachableError(why)
        self._notices.wait(why)

    def _print(self, chunks: Iterator[Chunk | None], is_stopped: Callable[[], bool]) -> Iterator[Chunk]:
        """Gives each chunk with what of it was printed."""
        most = self._options.max_messages
        for chunk in chunks:
            if is_stopped():
                return
            if chunk is None:
                self._out.flush()
                self._waiting.idle()
                continue
            records = chunk.records if most is None else chunk.records[: most - self._printed]
            self._is_printing = True
            self._out.write(self._text(chunk.partition, records))
            self._printed += len(records)
            yield chunk._replace(records=records)
            self._is_printing = False
            if self._printed == most:
                return

    def _copy(self, is_stopped: Callable[[], bool]) -> None:
        from .support.own_client import own_client
        from .support.own_consumer import OwnConsumer

        with own_client(self._options, "tidelog-consume", self._on_wait) as client:
            consumer = OwnConsumer(
                client, self._topic, self._positions, committed=self._options.committed, ends=self._ends,
                on_wait=self._on_wait, tell=_tell,
            )  # fmt: skip
            for _ in self._print(consumer.read(), is_stopped):
                pass

    def _copy_as_member(self, is_stopped: Callable[[], bool]) -> None:
        from ..pipeline.exceptions import PipelineError
        from .support.group_member import GroupMember
        from .support.group_reader import GroupReader
        from .support.kafka_client import KafkaFailure
        from .support.own_client import own_client

        options, on_wait = self._options, self._on_wait
        with (
            own_client(options, "tidelog-consume", on_wait) as client,
            own_client(options, "tidelog-consume", on_wait) as coordinator,
        ):
            member = GroupMember(
                coordinator, options.group, self._topic, committed_only=options.committed, tell=_tell, on_wait=on_wait
            )
            reader = GroupReader(
                client, member, self._topic, from_beginning=options.from_beginning, ends=self._ends,
                tell=_tell, on_wait=on_wait,
            )  # fmt: skip
            is_printed, has_reader = False, True
            try:
                for chunk in self._print(reader.read(), is_stopped):
                    reader.printed(chunk.partition, chunk.records[-1].offset + 1)
            except BrokenPipeError:
                has_reader = False  # nor has anybody read what lies in the pipe
                raise
            finally:
                try:
                    self._out.flush()  # BrokenPipeError: nobody has read it
                    is_printed = has_reader
                finally:
                    try:
                        reader.close(commits=is_printed)
                    except PipelineError as error:
                        raise KafkaFailure(f"printed, but not committed: {error}") from None


def _tell(text: str) -> None:
    import sys

    print(f"tidelog: {text}", file=sys.stderr)


def _run_librdkafka(
    library: Any,
    options: Any,
    topic: str,
    starts: dict[int, int],
    ends: dict[int, int] | None,
    separator: bytes | None,
    waiting: Waiting,
) -> int:
    """The number of records that were printed."""
    import sys

    from .support.kafka_client import bootstrap_of
    from .support.rdkafka_reader import Reader, close, make_consumer
    from .support.record_output import message_format

    consumer = make_consumer(library, bootstrap_of(options.bootstrap_server), options)
    text = message_format(as_json=options.output == "json", separator=separator)
    commits = options.group is not None
    reader = Reader(library, consumer, topic, text, sys.stdout.buffer, commits=commits, on_idle=waiting.idle)
    if options.group is None:
        consumer.assign([library.TopicPartition(topic, partition, offset) for partition, offset in starts.items()])
    else:
        consumer.subscribe([topic], on_revoke=reader.revoked, on_lost=reader.lost)
    try:
        _until_told(lambda is_stopped: reader.read(options.max_messages, ends, is_stopped))
    except BrokenPipeError:
        commits = False  # nobody has read what lies in the pipe
        raise
    finally:
        try:
            if commits:
                reader.commit()
        finally:
            close(consumer)
    return reader.printed


def _until_told(
    copy: Callable[[Callable[[], bool]], None], stop: list[int] | None = None, waits: Callable[[], bool] = lambda: False
) -> None:
    """Runs `copy` until it ends, or SIGTERM or Ctrl-C end it; what was printed is flushed.

    `stop` is empty until it was told. `waits`: it may be where it does not ask for minutes whether it was.
    """
    import signal
    import sys

    told: list[int] = [] if stop is None else stop

    def on_signal(number: int, _frame: object) -> None:
        told.append(number)
        if number == signal.SIGINT or waits():
            raise KeyboardInterrupt

    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else ignored, as in a shell's background jobs
        numbers.append(signal.SIGINT)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        copy(lambda: bool(told))
    except KeyboardInterrupt:
        pass  # how one ends it
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.stdout.buffer.flush()
