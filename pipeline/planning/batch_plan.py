"""Plan of a batch read: partitions, offsets and splits. Driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..exceptions import CorruptLogError, DataLossError, OptionError
from ..options import EARLIEST, LATEST, KeysStay, Offsets, Options, View
from ..reading.columns import Keeping
from .places import Bounds, OpenPlace, Place, Range, TopicPartition, look, open_place
from .splits import AnySplit, SplitSize, cut, of_topics

#: One split for each partition.
WHOLE = SplitSize(fixed=1 << 62)


class Narrowed(NamedTuple):
    """Limits on partitions, offsets and timestamps (ms) from pushed-down filters; both ends included, None: no limit."""

    least_partition: int | None = None
    most_partition: int | None = None
    least_offset: int | None = None
    most_offset: int | None = None
    least_timestamp: int | None = None

    def clip(self, wanted: Range) -> Range | None:
        """Part of a range within the limits; None if nothing is left."""
        number = wanted.where.partition
        if self.least_partition is not None and number < self.least_partition:
            return None
        if self.most_partition is not None and number > self.most_partition:
            return None
        first = wanted.first if self.least_offset is None else max(wanted.first, self.least_offset)
        end = wanted.end if self.most_offset is None else min(wanted.end, self.most_offset + 1)
        return Range(wanted.where, first, end) if first < end else None


def plan_batch(options: Options, narrowed: Narrowed | None = None, place: OpenPlace | None = None) -> list[AnySplit]:
    """Splits of a batch read. PipelineError. Blocks."""
    with place or open_place(options) as there:
        ranges, topic_ids = _ranges_and_ids(options, there)
        narrowed = narrowed or Narrowed()
        kept = [span for span in (narrowed.clip(span) for span in ranges) if span is not None]
        if options.view is not View.RECORDS:  # a key's records must meet in one task
            return of_topics(there.splits(kept, WHOLE), topic_ids)
        return of_topics(plan_splits(options, there, _since(there, kept, narrowed.least_timestamp)), topic_ids)


def _since(place: Place, ranges: Sequence[Range], timestamp: int | None) -> list[Range]:
    """The ranges from the first record with that timestamp or a later one on. Timestamps are in no order: there may be older
    ones behind it, and nothing tells of the last one below another time.
    """
    if timestamp is None or timestamp <= 0 or not ranges:  # brokers take negative ones for words
        return list(ranges)
    try:
        found = place.offsets_at({span.where: timestamp for span in ranges})
    except CorruptLogError:  # the reader tells it, or leaves it out
        return list(ranges)
    kept = []
    for where, first, end in ranges:
        offset = found[where]
        if offset is not None and offset < end:
            kept.append(Range(where, max(first, offset), end))
    return kept


def plan_view(options: Options, narrowed: Narrowed | None = None) -> list[tuple[AnySplit, Keeping | None]]:
    """The splits, and for `view=latest` how each is reduced. Blocks. PipelineError."""
    if options.view is not View.LATEST:
        return [(split, None) for split in plan_batch(options, narrowed)]
    splits = plan_batch(options, narrowed)
    tombstones = options.keys_stay is KeysStay.FALSE
    if options.keys_stay is not KeysStay.CHECK:
        return [(split, Keeping(tombstones=tombstones)) for split in splits]
    with open_place(options) as place:
        return list(zip(splits, keepings(place, splits, tombstones=tombstones), strict=True))


def keepings(place: Place, splits: Sequence[AnySplit], *, tombstones: bool) -> list[Keeping]:
    """How each split is reduced where every key must be in the partition of Kafka's default partitioner. Asks the place."""
    counts = {topic: len(there) for topic, there in place.partitions(list({made.topic for made in splits})).items()}
    # One partition alone has all there is of a key.
    return [Keeping(counts[split.topic] if counts[split.topic] > 1 else 0, tombstones=tombstones) for split in splits]


def batch_ranges(options: Options, place: Place) -> list[Range]:
    """The offsets of each partition: all at one moment."""
    return _ranges_and_ids(options, place)[0]


def _ranges_and_ids(options: Options, place: Place) -> tuple[list[Range], dict[str, str]]:
    """The offsets of each partition, and whose they are: ids of topics as they were before anything else was asked."""
    bounds, topic_ids = look(place, options)
    starts = starting_offsets(options, place, bounds, EARLIEST)
    ends = _offsets(options.ending, options.ending_timestamp, "ending", place, bounds, LATEST)
    ranges = []
    for where, there in bounds.items():
        first, end = starts[where], ends[where]
        if options.fail_on_data_loss:
            check_start(place, where, first, there)
            if end > there.end:
                raise DataLossError(_above(where, end, there))
        ranges.append(Range(where, max(first, there.start), min(end, there.end)))
    return ranges, topic_ids


def starting_offsets(
    options: Options, place: Place, bounds: Mapping[TopicPartition, Bounds], otherwise: int
) -> dict[TopicPartition, int]:
    """Start offset of each partition. `otherwise`: EARLIEST or LATEST, the default."""
    found = _offsets(options.starting, options.starting_timestamp, "starting", place, bounds, otherwise, options)
    if options.starting_ids and options.starting_timestamp is None:
        now = place.topic_ids({where.topic for where in bounds} & set(options.starting_ids))
        anew = made_anew(options, options.starting_ids, now)
        found |= {where: there.start for where, there in bounds.items() if where.topic in anew}
    return found


def made_anew(options: Options, known: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """Topics that have other ids now than are known of them; DataLossError for the first, unless nobody wants to know."""
    found = {topic for topic, topic_id in known.items() if topic in now and now[topic] != topic_id}
    if found and options.fail_on_data_loss:
        topic = min(found)
        raise DataLossError(
            f"{topic}: deleted and made anew (it had the id {known[topic]}, and has {now[topic]}), with "
            "the records that were to be read; set failOnDataLoss to false to read the new one from its beginning"
        )
    return found


def check_start(place: Place, where: TopicPartition, offset: int, bounds: Bounds) -> None:
    """DataLossError when `offset` lies outside of what there is. Gaps between are compaction's, and no loss."""
    if offset < bounds.start:
        raise DataLossError(
            f"{where}: offset {offset} was asked for, and the log starts at {bounds.start}: "
            f"{place.why_gone(where, bounds.start)} what lies before; set failOnDataLoss to false to read what there is"
        )
    if offset > bounds.end:
        raise DataLossError(_above(where, offset, bounds))


def plan_splits(options: Options, place: Place, ranges: Sequence[Range]) -> list[AnySplit]:
    """Splits of the size, the number and the offsets that are wished."""
    splits = place.splits(ranges, SplitSize(options.split_bytes, options.min_partitions, options.cores))
    most = options.max_records_per_partition
    if 0 < len(splits) < options.min_partitions:  # sizes are not known: even numbers of offsets
        offsets = sum(made.end_offset - made.first_offset for made in splits)
        even = max(1, offsets // options.min_partitions)
        most = even if most is None else min(most, even)
    return splits if most is None else [part for split in splits for part in cut(split, most)]


def _above(where: TopicPartition, offset: int, bounds: Bounds) -> str:
    return (
        f"{where}: offset {offset} was asked for, and the log ends at {bounds.end}: it was truncated, or the topic was "
        "deleted and made anew, or these are newer records than can be read yet; set failOnDataLoss to false to read what "
        "there is"
    )


def _offsets(
    said: Offsets | int | None, timestamps: Offsets | int | None, bound: str, place: Place,
    bounds: Mapping[TopicPartition, Bounds], otherwise: int, options: Options | None = None,
) -> dict[TopicPartition, int]:  # fmt: skip
    """`options`: of a start, which can be too young."""
    if timestamps is not None:
        name = f"{bound}Timestamp" if isinstance(timestamps, int) else f"{bound}OffsetsByTimestamp"
        _refuse_strangers(timestamps, name, bounds)
        times = {where: _wanted(timestamps, name, where) for where in bounds}
        found = place.offsets_at(times)
        missing = [where for where, offset in found.items() if offset is None]
        if missing and options is not None and not options.latest_if_too_young:
            raise OptionError(
                f"{name}: {missing[0]} has no record of {times[missing[0]]} or later; set "
                "startingOffsetsByTimestampStrategy to latest to begin at its end"
            )
        return {
            where: there.end if (offset := found[where]) is None else min(max(offset, there.start), there.end)
            for where, there in bounds.items()
        }
    _refuse_strangers(said, f"{bound}Offsets", bounds)
    result = {}
    for where, there in bounds.items():
        offset = otherwise if said is None else _wanted(said, f"{bound}Offsets", where)
        result[where] = there.start if offset == EARLIEST else there.end if offset == LATEST else offset
    return result


def _refuse_strangers(said: Offsets | int | None, name: str, bounds: Mapping[TopicPartition, Bounds]) -> None:
    """A typing error is not passed over: OptionError for a partition that is not among those that are read."""
    if not isinstance(said, Mapping):
        return
    named = [TopicPartition(topic, number) for topic, numbers in said.items() for number in numbers]
    strangers = [str(where) for where in named if where not in bounds]
    if strangers:
        raise OptionError(f"{name} names {', '.join(strangers[:5])}, which is not among what is read")


def _wanted(numbers: Offsets | int, name: str, where: TopicPartition) -> int:
    if isinstance(numbers, int):
        return numbers
    try:
        return numbers[where.topic][where.partition]
    except KeyError:
        raise OptionError(f"{name} says nothing of {where}; it must of every partition that is read") from None
