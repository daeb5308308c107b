"""Offsets of a stream: where it begins, how far a trigger goes, what it reads. The driver's; knows nothing of Spark.

An offset is what comes next in each partition, as Spark's Kafka source writes it: {"orders": {"0": 23, "1": 345}}. Beside that it
says which topic each name was: a topic that was deleted and made anew has other records at the same offsets. It holds all that a
restart needs: the end of a query's first batch says where that began, since Spark keeps ends alone, and asks anew for the
beginning when it plans such a batch, and when it reads it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..exceptions import DataLossError, OptionError
from ..options import FIRST_OFFSETS, LATEST, TOPIC_IDS, KeysStay, Options, View
from ..reading.columns import Keeping
from .batch_plan import WHOLE, check_start, keepings, made_anew, plan_splits, starting_offsets
from .places import Bounds, Place, Range, TopicPartition, look, open_place
from .splits import AnySplit, of_topics

#: As JSON: topic → partition, in decimal → offset; `TOPIC_IDS` → topic → its id; `FIRST_OFFSETS` → as the topics.
StreamOffset = dict[str, Any]
Vector = dict[TopicPartition, int]


class Position(NamedTuple):
    """A stream's offset. A topic whose id is not known (brokers before Kafka 2.8, older checkpoints) has none here.

    Attributes:
        first: where the batch begins that ends here, of a query's first one; else None.
    """

    offsets: Vector
    topic_ids: Mapping[str, str]
    first: Vector | None = None


def to_json(position: Position) -> StreamOffset:
    """In order of topics and partitions."""
    found = _told(position.offsets)
    if position.topic_ids:
        found[TOPIC_IDS] = dict(sorted(position.topic_ids.items()))
    if position.first is not None:
        found[FIRST_OFFSETS] = _told(position.first)
    return found


def _told(offsets: Vector) -> StreamOffset:
    found: StreamOffset = {}
    for where in sorted(offsets):
        found.setdefault(where.topic, {})[str(where.partition)] = offsets[where]
    return found


def from_json(offset: object) -> Position:
    """OptionError: a checkpoint holds something else."""
    try:
        assert isinstance(offset, dict)
        topic_ids = offset.get(TOPIC_IDS, {})
        assert all(isinstance(each, str) for each in topic_ids.values())
        offsets = _vector({topic: told for topic, told in offset.items() if topic not in (TOPIC_IDS, FIRST_OFFSETS)})
        first = _vector(offset[FIRST_OFFSETS]) if FIRST_OFFSETS in offset else None
    except (AssertionError, AttributeError, OverflowError, TypeError, ValueError):
        raise OptionError(
            f"the checkpoint's offset is {offset!r}, which is none of this source: a query keeps its source; take a new "
            "checkpointLocation"
        ) from None
    return Position(offsets, topic_ids, first)


def _vector(told: StreamOffset) -> Vector:
    return {
        TopicPartition(topic, int(number)): int(value)
        for topic, partitions in told.items()
        for number, value in partitions.items()
    }


class StreamPlan:
    """Plan of one streaming query; lives in the driver while it runs. One thread at a time; blocks; PipelineError.

    Partitions and bounds are looked at with each trigger, so that new partitions are found; those begin with their first
    record.
    """

    def __init__(
        self, options: Options, clock: Callable[[], float] = time.monotonic, place: Place | None = None
    ) -> None:
        self._options = options
        self._clock = clock
        self._place = place or open_place(options).__enter__()
        self._target: Vector | None = None
        self._initial: Position | None = None
        self._last_trigger = clock()

    def close(self) -> None:
        self._place.close()

    def initial(self) -> Position:
        """Position at which a new query begins: by default the latest."""
        bounds, topic_ids = look(self._place, self._options)
        offsets = starting_offsets(self._options, self._place, bounds, LATEST)
        for where, there in bounds.items():
            if self._options.fail_on_data_loss:
                check_start(self._place, where, offsets[where], there)
            offsets[where] = min(max(offsets[where], there.start), there.end)
        self._initial = Position(offsets, topic_ids)
        return self._initial

    def stop_at_present(self) -> None:
        """Fix the end of the query at the present ends of the partitions (`availableNow`)."""
        self._target = self.available().offsets

    def available(self) -> Position:
        """Present ends of the partitions that the query reads. Asks the place: blocks, PipelineError."""
        bounds, topic_ids = look(self._place, self._options)
        return Position({where: there.end for where, there in bounds.items()}, topic_ids)

    def next(self, start: Position, *, is_limited: bool = True) -> Position:
        """End of the next trigger; `start` itself if there is nothing, or not enough, to read. Of the first one with `first`.

        `is_limited`: whether maxOffsetsPerTrigger and minOffsetsPerTrigger hold.
        """
        bounds, topic_ids = look(self._place, self._options)
        begin = self._begin(start, topic_ids, bounds)
        ends = {where: there.end for where, there in bounds.items()}
        if self._target is not None:
            ends = {where: min(ends[where], self._target[where]) for where in ends if where in self._target}
            begin = {where: offset for where, offset in begin.items() if where in ends}
        sizes = {where: max(0, ends[where] - begin[where]) for where in ends}
        total = sum(sizes.values())
        if is_limited and self._should_wait(total):
            return self._end(start, start, start.offsets)
        if total:
            self._last_trigger = self._clock()
        most = self._options.max_offsets_per_trigger if is_limited else None
        if most is not None and total > most:
            sizes = share(sizes, most)
        return self._end(start, Position({where: begin[where] + sizes[where] for where in ends}, topic_ids), begin)

    def _end(self, start: Position, end: Position, begin: Vector) -> Position:
        """The end with what a checkpoint is to have of it. Without news it is `start`, by whose text Spark sees that."""
        if start == self._initial:
            return end._replace(first=begin)
        return start if end[:2] == start[:2] else end

    def splits(self, start: Position, end: Position) -> list[AnySplit]:
        """Splits between two positions, made when the query comes to read them. A first batch begins where its end says."""
        if end.first is not None:
            start = Position(end.first, end.topic_ids)
        bounds, topic_ids = look(self._place, self._options)
        self._check_there(end, bounds)  # also what was new to this batch when it was planned
        bounds = {where: there for where, there in bounds.items() if where in end.offsets}
        begin = self._begin(start, topic_ids, bounds)
        anew = self._made_anew(end, topic_ids)
        ranges = []
        for where, there in bounds.items():
            if where.topic in anew:
                continue  # its records are gone with the old topic; the next trigger begins with the new one
            first, last = begin[where], end.offsets[where]
            if last > there.end and self._options.fail_on_data_loss:
                check_start(self._place, where, last, there)
            if min(last, there.end) > first:
                ranges.append(Range(where, first, min(last, there.end)))
        if self._options.view is View.LATEST:  # a key's records of this trigger must meet in one task
            return of_topics(self._place.splits(ranges, WHOLE), topic_ids)
        return of_topics(plan_splits(self._options, self._place, ranges), topic_ids)

    def keepings(self, splits: Sequence[AnySplit]) -> list[Keeping | None]:
        """For `view=latest` how each split is reduced: tombstones stay, since what came with an earlier trigger is to go."""
        if self._options.view is not View.LATEST:
            return [None] * len(splits)
        if self._options.keys_stay is not KeysStay.CHECK:
            return [Keeping(tombstones=True)] * len(splits)
        return list(keepings(self._place, splits, tombstones=True))

    def _made_anew(self, position: Position, topic_ids: Mapping[str, str]) -> set[str]:
        """Topics that are others than the position's; DataLossError for the first, unless nobody wants to know."""
        return made_anew(self._options, position.topic_ids, topic_ids)

    def _begin(self, start: Position, topic_ids: Mapping[str, str], bounds: Mapping[TopicPartition, Bounds]) -> Vector:
        """Position at which each existing partition goes on; loss of data is reported unless that is switched off."""
        careful = self._options.fail_on_data_loss
        self._check_there(start, bounds)
        anew = self._made_anew(start, topic_ids)
        begin: Vector = {}
        for where, there in bounds.items():
            offset = None if where.topic in anew else start.offsets.get(where)
            if offset is None:
                if careful and there.start > 0:
                    raise DataLossError(
                        f"{where}: a new partition, and the log starts at {there.start} already: "
                        f"{self._place.why_gone(where, there.start)} what lies before; set failOnDataLoss to false to go on "
                        "without"
                    )
                offset = there.start
            elif careful:
                check_start(self._place, where, offset, there)
            # Without care a log that became shorter is read on from its end.
            begin[where] = min(max(offset, there.start), max(there.end, there.start))
        return begin

    def _check_there(self, position: Position, bounds: Mapping[TopicPartition, Bounds]) -> None:
        """DataLossError for partitions of the position that are gone, unless nobody wants to know."""
        gone = [where for where in position.offsets if where not in bounds]
        if gone and self._options.fail_on_data_loss:
            raise DataLossError(
                f"{', '.join(map(str, gone))}: gone; the topic was deleted, or is not among those that are read any more; set "
                "failOnDataLoss to false to go on without"
            )

    def _should_wait(self, total: int) -> bool:
        """True if minOffsetsPerTrigger is not reached; never with availableNow, which would not come to an end."""
        least = self._options.min_offsets_per_trigger
        if least is None or total >= least or self._target is not None:
            return False
        return (self._clock() - self._last_trigger) * 1000 < self._options.max_trigger_delay_ms


def share(sizes: Mapping[TopicPartition, int], most: int) -> Vector:
    """`most` offsets (fewer than there are) over partitions in proportion to what each has; one at least, if `most` allows."""
    waiting = sorted((where for where, size in sizes.items() if size), key=lambda where: (-sizes[where], where))[:most]
    found = dict.fromkeys(sizes, 0) | dict.fromkeys(waiting, 1)
    left = most - len(waiting)
    more = {where: sizes[where] - 1 for where in waiting}
    total = max(1, sum(more.values()))
    for where in waiting:
        found[where] += more[where] * left // total
    left = most - sum(found.values())
    for where in waiting:  # remainder of rounding: less than one for each
        extra = min(left, 1, sizes[where] - found[where])
        found[where] += extra
        left -= extra
    return found
