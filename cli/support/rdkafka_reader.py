"""Messages of `tidelog consume` by librdkafka: from its queue to a stream, and what became of partitions in between."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

_BATCH = 10_000
_WAIT_S = 0.1
_FIRST_WAIT_S = 0.005
#: How often is looked whether other members of the group have read to the end, and how long the broker has to say so.
_LOOK_S, _ANSWER_S = 1.0, 10.0
_COMMIT_S = 5.0
#: How long an answer to a commit is waited for, at the end and in between, and the group's to a consumer that leaves.
_END_S, _BETWEEN_S, _LEAVE_S = 5.0, 1.0, 3.0
#: Of malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3


def make_consumer(client: Any, bootstrap: str, options: Any) -> Any:
    """librdkafka's consumer. KafkaFailure: a --property is wrong."""
    from .kafka_client import KafkaFailure, pairs_of
    from .rdkafka import security_settings

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
        **security_settings(options),
        **pairs_of(options.property, "--property"),
    }
    keep_freed_memory()
    try:
        return client.Consumer(config)
    except client.KafkaException as error:
        raise KafkaFailure(f"--property: {error.args[0].str()}") from None


def keep_freed_memory() -> None:
    """Lets glibc keep what is freed: librdkafka takes and frees megabytes for each fetch, and fresh pages cost a fifth of the CPU
    otherwise. With another C library it does nothing."""
    import ctypes

    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for parameter, size in ((_M_MMAP_THRESHOLD, 32 << 20), (_M_TRIM_THRESHOLD, 256 << 20), (_M_TOP_PAD, 4 << 20)):
            mallopt(parameter, size)


class Call:
    """A call of librdkafka in a thread of its own: some wait most of a minute for a broker that is away, and no signal comes
    through meanwhile."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="librdkafka", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:
            self._failure = error

    def is_over(self, seconds: float) -> bool:
        """Waits at most so long. Raises what the call has raised."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            return False
        if self._failure is not None:
            raise self._failure
        return True


def close(consumer: Any) -> None:
    """Leave the group, where the broker lets it; else the group notices by itself."""
    Call(consumer.close).is_over(_LEAVE_S)


class Reader:
    """Copies messages of one topic from librdkafka to a stream until there are enough. One thread.

    With `commits` it is a member of a group, whose other members may read partitions of the topic.
    """

    def __init__(
        self, client: Any, consumer: Any, topic: str, text: Callable[[Sequence[Any]], bytes], out: BinaryIO, *,
        commits: bool, on_idle: Callable[[], None] = lambda: None, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.printed = 0
        self._topic = topic
        self._clock = clock
        self._look_at = clock()
        self._commit_at = clock() + _COMMIT_S
        self._on_idle = on_idle
        self._commits = commits  # else no note is taken of offsets
        self._client = client
        self._consumer = consumer
        self._text = text
        self._out = out
        self._next: dict[tuple[str, int], int] = {}
        self._committed: dict[tuple[str, int], int] = {}
        self._commit_under_way: Call | None = None

    def read(self, most: int | None, ends: dict[int, int] | None, is_stopped: Callable[[], bool]) -> None:
        """Prints at most `most` records; with `ends`, until each of these partitions was read up to its offset, by this member
        or by others of its group."""
        left = most
        waiting = dict(ends) if ends is not None else None
        while left != 0 and waiting != {} and not is_stopped():
            size = _BATCH if left is None else min(left, _BATCH)
            batch = self._consumer.consume(size, _FIRST_WAIT_S)
            if not batch:
                self._out.flush()
                self._on_idle()
                if waiting and self._commits:
                    self._leave_out_others(waiting)
                batch = self._consumer.consume(1, _WAIT_S)
            messages, ends_seen = self._sorted_out(batch, waiting)
            if messages:
                self._out.write(self._text(messages))
                self.printed += len(messages)
                if left is not None:
                    left -= len(messages)
            if self._commits:  # only now: what could not be written is not to be committed
                self._note(messages, ends_seen)
                if self._clock() >= self._commit_at:
                    self._commit_in_between()
        self._out.flush()

    def _commit_in_between(self) -> None:
        """Commit what was printed so far, as far as a rebalance lets it; what fails for good is told at the end."""
        from .kafka_client import KafkaFailure

        self._commit_at = self._clock() + _COMMIT_S
        with contextlib.suppress(KafkaFailure):
            self.commit(_BETWEEN_S)

    def _leave_out_others(self, waiting: dict[int, int]) -> None:
        """Take partitions out of `waiting` whose ends the group has committed, where none of the rest is this member's.

        What this member has read is committed first: others may wait for that.
        """
        own = {partition.partition for partition in self._consumer.assignment()}
        if self._clock() < self._look_at or not own.isdisjoint(waiting):
            return
        self._look_at = self._clock() + _LOOK_S
        places = [self._client.TopicPartition(self._topic, partition) for partition in waiting]
        self._commit_in_between()
        try:
            found = self._consumer.committed(places, timeout=_ANSWER_S)
        except self._client.KafkaException:
            return  # a rebalance, or a broker that is away: it is looked again
        for place in found:
            if place.error is None and place.offset >= waiting[place.partition]:
                del waiting[place.partition]

    def revoked(self, _consumer: Any, partitions: Sequence[Any]) -> None:
        """librdkafka's callback: others go on behind what was printed of these partitions, if it is committed by then."""
        gone = {(partition.topic, partition.partition) for partition in partitions}
        with contextlib.suppress(
            OSError, self._client.KafkaException
        ):  # too late: they are printed again, as after any failure
            self._out.flush()
            offsets = self._offsets({place: offset for place, offset in self._next.items() if place in gone})
            if offsets:  # in this thread: a callback's consumer has no ear for another
                self._consumer.commit(offsets=offsets, asynchronous=False)
        self.lost(_consumer, partitions)

    def lost(self, _consumer: Any, partitions: Sequence[Any]) -> None:
        """librdkafka's callback: the group has given them to others without this member."""
        for place in [(partition.topic, partition.partition) for partition in partitions]:
            self._next.pop(place, None)
            self._committed.pop(place, None)

    def _sorted_out(self, batch: list[Any], waiting: dict[int, int] | None) -> tuple[list[Any], list[Any]]:
        """The records, and the messages that tell of ends of partitions. KafkaFailure for errors."""
        from .kafka_client import KafkaFailure

        messages = [message for message in batch if message.error() is None]
        ends_seen = []
        if len(messages) != len(batch):
            for message in batch:
                error = message.error()
                if error is None:
                    continue
                if error.code() == self._client.KafkaError._PARTITION_EOF:
                    ends_seen.append(message)
                    if waiting is not None and message.offset() >= waiting.get(message.partition(), 0):
                        waiting.pop(message.partition(), None)
                elif not error.retriable():
                    raise KafkaFailure(error.str())
        return messages, ends_seen

    def _note(self, messages: list[Any], ends_seen: list[Any]) -> None:
        for message in ends_seen:  # there may be no record before it, or a marker that is none
            self._next[message.topic(), message.partition()] = message.offset()
        for message in _last_of_each(messages):
            place = message.topic(), message.partition()
            self._next[place] = max(message.offset() + 1, self._next.get(place, 0))

    def commit(self, seconds: float = _END_S) -> None:
        """Commit the offsets of printed messages that are not yet. KafkaFailure, also where no answer comes within so long;
        OSError, where they can't be printed."""
        self._out.flush()
        changed = {place: offset for place, offset in self._next.items() if self._committed.get(place) != offset}
        self._commit(changed, seconds)
        self._committed |= changed

    def _commit(self, places: Mapping[tuple[str, int], int], seconds: float) -> None:
        from .kafka_client import KafkaFailure

        offsets = self._offsets(places)
        if not offsets:
            return
        until = time.monotonic() + seconds
        with contextlib.suppress(self._client.KafkaException):  # that of before: its offsets are among these
            if self._commit_under_way is not None and not self._commit_under_way.is_over(seconds):
                raise KafkaFailure("printed, but not committed: the group's coordinator does not answer")
        self._commit_under_way = Call(lambda: self._consumer.commit(offsets=offsets, asynchronous=False))
        try:
            if not self._commit_under_way.is_over(max(0.0, until - time.monotonic())):
                raise KafkaFailure("printed, but not committed: the group's coordinator does not answer")
        except self._client.KafkaException as error:
            raise KafkaFailure(f"printed, but not committed: {error.args[0].str()}") from None

    def _offsets(self, places: Mapping[tuple[str, int], int]) -> list[Any]:
        return [self._client.TopicPartition(t, p, offset) for (t, p), offset in places.items()]


def _last_of_each(messages: list[Any]) -> list[Any]:
    """The last message of each partition; librdkafka gives them in runs."""
    last: dict[int, Any] = {}
    for message in reversed(messages):
        last.setdefault(message.partition(), message)
    return list(last.values())
