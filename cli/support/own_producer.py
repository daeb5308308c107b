"""Records onto the wire by our own client: in order, each once, and with the index of the one that is refused.

Batches are made by the kernel and sent by the pipeline's producer (a producer id, up to five requests in flight, repeated
where a reason passes). Here it is chosen which partition a record goes to, and remembered where each record in flight came
from: at most what five requests to each broker and the open batches hold.
"""

from __future__ import annotations

import random
import re
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ...pipeline.exceptions import PipelineError
from ...pipeline.sink.producer import Producer, RefusedError, init_producer
from ...protocol.records._batches import BatchBuilder, murmur2
from ...protocol.records.exceptions import RecordTooLargeError
from .kafka_client import KafkaFailure
from .offsets import no_partition
from .output import plural, written
from .record_input import LAST_MS

if TYPE_CHECKING:
    from ...pipeline.wire.client import KafkaClient
    from .record_input import Header, Rows

BATCH_BYTES = 512 << 10
#: Bytes of a batch beside its records, and more than a record has beside its fields.
_BATCH_OVERHEAD, _RECORD_OVERHEAD = 61, 48
#: A record that is to be compressed may be larger than the topic's max.message.bytes; no request takes one beyond this.
_MOST_COMPRESSED = 64 << 20
#: Bytes of records in batches that are not full, of all partitions: beyond it they are sent as they are.
_MOST_OPEN_BYTES = 32 << 20
#: What the daemon's messages begin with: the index in the batch, which is nothing to the user.
_INDEX_IN_BATCH = re.compile(r"^record \d+:? ")
_POSITIVE = 0x7FFFFFFF


class Origins:
    """For each record of a partition, in the order of sending, its index in the input. Acknowledged ones go."""

    def __init__(self) -> None:
        self._ranges: deque[tuple[int, int]] = deque()  # index of the first record, count
        self._before = 0  # records that were dropped

    def add(self, first: int, count: int = 1) -> None:
        """The next `count` records of the partition are those from index `first` on."""
        if self._ranges:
            last, size = self._ranges[-1]
            if last + size == first:
                self._ranges[-1] = (last, size + count)
                return
        self._ranges.append((first, count))

    def drop(self, ordinal: int) -> None:
        """The records below `ordinal`, which counts from the partition's first, are not asked for any more."""
        while self._ranges and self._before + self._ranges[0][1] <= ordinal:
            self._before += self._ranges.popleft()[1]

    def index(self, ordinal: int) -> int:
        """The index in the input of the partition's record `ordinal`."""
        before = self._before
        for first, count in self._ranges:
            if ordinal < before + count:
                return first + ordinal - before
            before += count
        raise LookupError(ordinal)

    def __len__(self) -> int:
        return len(self._ranges)


class OwnProducer:
    """Writes records to one topic; one thread. Each call may raise KafkaFailure, which says what was refused and why; then
    nothing more may be sent.

    Attributes:
        sent: records that were handed over so far.
    """

    def __init__(
        self, client: KafkaClient, topic: str, *, partition: int | None = None, codec: int = 0, most_bytes: int = 1 << 20,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        choose: Callable[[int], int] = random.randrange,
        on_wait: Callable[[str], None] = lambda _why: None,
    ) -> None:  # fmt: skip
        """`most_bytes`: the topic's max.message.bytes. `partition`: where records go that name none; None: by key, else any."""
        self.sent = 0
        self._topic = topic
        self._partition = partition
        self._clock_ms = clock_ms
        self._choose = choose
        try:
            self._producer = Producer(client, init_producer(client, None), on_wait=on_wait)
            self._partitions = self._producer.partitions(topic)
        except PipelineError as error:
            raise KafkaFailure(str(error)) from None
        if partition is not None and partition >= self._partitions:
            raise KafkaFailure(no_partition(topic, partition, self._partitions))
        stamp = self._producer.producer
        self._builder = BatchBuilder(
            self._partitions,
            lambda: 0,  # not asked: every record names its partition
            batch_bytes=max(min(BATCH_BYTES, most_bytes - _BATCH_OVERHEAD), 1),
            max_record=most_bytes if not codec else max(most_bytes, _MOST_COMPRESSED),
            codec=codec,
            producer_id=stamp.id,
            epoch=stamp.epoch,
        )
        self._most_bytes = most_bytes
        self._origins = [Origins() for _ in range(self._partitions)]

    @property
    def acknowledged(self) -> int:
        """Records that are in the log."""
        return sum(self._producer.acknowledged.values())

    def send(self, rows: Rows) -> None:
        """Takes records; blocks while enough is in flight. KafkaFailure."""
        wrong = next(
            (at for at, part in enumerate(rows.partitions or ()) if part is not None and part >= self._partitions), None
        )
        if wrong is not None:
            assert rows.partitions is not None
            self.send(rows.until(wrong))
            self.flush()
            where = no_partition(self._topic, rows.partitions[wrong] or 0, self._partitions)
            raise KafkaFailure(f"record {self.sent + 1:,}: {where}; {written(self.acknowledged)}")
        for run, now in _runs(rows, self._clock_ms()):
            self._send(run, now)

    def _send(self, rows: Rows, now: int) -> None:
        """`now`: ms, of rows that have no timestamp."""
        count = len(rows.values)
        placed = self._placed(rows, count)
        before = self._builder.rows
        large: RecordTooLargeError | None = None
        try:
            self._builder.add(
                count,
                _binary(rows.values),
                keys=None if rows.keys is None else _binary(rows.keys),
                headers=None if rows.headers is None else _headers(rows.headers),
                timestamps=None if rows.timestamps is None else _times(rows.timestamps),
                partitions=(None, placed, 0),
                now=now,
            )
        except RecordTooLargeError as error:
            large = error
        self.sent += self._builder.rows - before
        self._hand_over(everything=False)
        if large is not None:
            self.flush()
            row = self._builder.rows - before
            size = sum(len(part) for part in (rows.values[row], rows.keys[row] if rows.keys else None) if part)
            raise KafkaFailure(
                f"record {self.sent + 1:,} is not written: it has {plural(size, 'byte')}, and max.message.bytes of "
                f"{self._topic} is {self._most_bytes:,}; {written(self.sent)}"
            )

    def pause(self) -> None:
        """No more records are there at the moment: what is held is sent, and its answers are waited for. KafkaFailure."""
        self.flush()

    def flush(self) -> None:
        """Returns when all that was taken is in the log. KafkaFailure."""
        self._hand_over(everything=True)

    def _hand_over(self, *, everything: bool) -> None:
        try:
            taken = self._builder.take(everything or self._builder.open_bytes > _MOST_OPEN_BYTES)
            self._producer.send(self._topic, taken)
            if everything:
                self._producer.flush()
        except RefusedError as error:
            self._producer.settle()
            raise self._refused(error) from None
        except PipelineError as error:
            raise KafkaFailure(f"{error}; {written(self.acknowledged)}") from None
        for (_, partition), count in self._producer.acknowledged.items():
            self._origins[partition].drop(count)

    def _placed(self, rows: Rows, count: int) -> array[int]:
        """The partition of each record, and a note of where it came from.

        Keyless ones of one call go together, to one that is drawn: their batches are the larger.
        """
        drawn = self._partition if self._partition is not None else self._choose(self._partitions)
        first = self.sent + 1
        if rows.partitions is None and (rows.keys is None or self._partition is not None):
            self._origins[drawn].add(first, count)
            return array("i", (drawn,)) * count
        named: Sequence[int | None] = rows.partitions or (None,) * count
        keys: Sequence[bytes | None] = rows.keys or (None,) * count
        placed = array("i")
        for index, (partition, key) in enumerate(zip(named, keys, strict=True), first):
            if partition is None:
                by_key = key is not None and self._partition is None
                partition = (murmur2(key) & _POSITIVE) % self._partitions if by_key and key is not None else drawn
            placed.append(partition)
            self._origins[partition].add(index)
        return placed

    def _refused(self, error: RefusedError) -> KafkaFailure:
        """The failure with the indexes of the records that are to blame, or else of those that were refused together."""
        from .kafka_client import failure

        acknowledged = self._producer.acknowledged.get(error.place, 0)
        origins = self._origins[error.place[1]]
        why = str(failure("", error.code, error.why or None)).removeprefix(": ")
        if error.record_errors:
            index, text = error.record_errors[0]
            more = len(error.record_errors) - 1
            text = _INDEX_IN_BATCH.sub("", text)
            what = f"record {origins.index(acknowledged + index):,} was refused: {text or why}"
            what += f" (and {more:,} more)" if more else ""
            if error.records > 1:
                good = error.records - 1 - more
                what += f"; {good:,} good one{' was' if good == 1 else 's were'} in its batch and not written either"
        elif error.records == 1:
            what = f"record {origins.index(acknowledged):,} was refused: {why}"
        else:
            ends = origins.index(acknowledged), origins.index(acknowledged + error.records - 1)
            what = f"records {min(ends):,} to {max(ends):,} were refused: {why}"
        return KafkaFailure(f"{what}; {written(self.acknowledged)}")


def _runs(rows: Rows, now: int) -> Iterator[tuple[Rows, int]]:
    """Rows in runs, each with the time of those that have none. Alone goes what a column of microseconds can't say, such as a
    timestamp in nanoseconds.
    """
    start = 0
    for at, time_ms in enumerate(rows.timestamps or ()):
        if time_ms is not None and abs(time_ms) > LAST_MS:
            if start < at:
                yield rows.between(start, at), now
            yield rows.between(at, at + 1)._replace(timestamps=None), time_ms
            start = at + 1
    if start < len(rows.values):
        yield (rows.between(start, len(rows.values)) if start else rows), now


def _binary(items: Sequence[bytes | None]) -> tuple[Any, Any, Any, int]:
    """A column of texts for the builder: validity bits, positions, bytes, first row."""
    validity = None
    if None in items:
        validity = _bits([item is not None for item in items])
        items = [item or b"" for item in items]
    there: Sequence[bytes] = items  # type: ignore[assignment]
    return validity, array("i", accumulate(map(len, there), initial=0)), b"".join(there), 0


def _headers(rows: Sequence[Sequence[Header]]) -> tuple[Any, Any, int, Any, Any]:
    flat = [header for headers in rows for header in headers]
    positions = array("i", accumulate(map(len, rows), initial=0))
    return None, positions, 0, _binary([name for name, _ in flat]), _binary([value for _, value in flat])


def _times(items: Sequence[int | None]) -> tuple[Any, Any, int]:
    """Timestamps in ms as a column, which is in µs."""
    validity = _bits([item is not None for item in items]) if None in items else None
    return validity, array("q", [0 if item is None else item * 1000 for item in items]), 0


def _bits(flags: Sequence[bool]) -> bytes:
    """Bits in Arrow's order: the first in the lowest of the first byte."""
    number = int("".join("1" if flag else "0" for flag in reversed(flags)) or "0", 2)
    return number.to_bytes((len(flags) + 7) // 8 or 1, "little")
