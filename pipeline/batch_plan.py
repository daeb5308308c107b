"""What a batch read of log directories comes to: which partitions, between which offsets, in which splits. Driver."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .exceptions import DataLossError, OptionError
from .log_directory import Bounds, LogDirectories
from .options import EARLIEST, LATEST, Offsets, Options
from .splits import Split, plan


def plan_batch(options: Options) -> list[Split]:
    """DirectoryError, OptionError, DataLossError. Blocks."""
    directories = LogDirectories(options.paths)
    ranges = []
    for topic, partition in _partitions(options, directories):
        bounds = directories.bounds(topic, partition, read_committed=options.read_committed)
        ranges.append((topic, partition, _range(options, topic, partition, bounds)))
    segments = {(topic, partition): directories.segments(topic, partition) for topic, partition, _ in ranges}
    split_bytes = options.split_bytes
    while True:
        splits = [
            split
            for topic, partition, (first, end) in ranges
            for split in plan(topic, partition, segments[topic, partition], first, end, split_bytes)
        ]
        if len(splits) >= options.min_partitions or split_bytes < 4096:
            return splits
        split_bytes //= 2


def _partitions(options: Options, directories: LogDirectories) -> Iterator[tuple[str, int]]:
    if options.assigned is not None:
        for topic, numbers in options.assigned.items():
            there = directories.partitions(topic)
            for number in numbers:
                if number not in there:
                    raise OptionError(f"assign: there is no {topic}-{number}; {topic} has {', '.join(map(str, there))}")
                yield topic, number
        return
    topics = options.topics
    if options.pattern is not None:
        topics = tuple(topic for topic in directories.topics if re.fullmatch(options.pattern, topic))
    for topic in topics:
        for partition in directories.partitions(topic):
            yield topic, partition


def _range(options: Options, topic: str, partition: int, bounds: Bounds) -> tuple[int, int]:
    """Offsets [first, end) of what was asked for and is there."""
    first = _wanted(options.starting, "startingOffsets", topic, partition)
    end = _wanted(options.ending, "endingOffsets", topic, partition)
    first = bounds.start if first == EARLIEST else first
    end = bounds.end if end == LATEST else end
    if options.fail_on_data_loss:
        if first < bounds.start:
            raise DataLossError(
                f"{topic}-{partition}: offset {first} was asked for, and the log starts at {bounds.start}: retention or "
                "DeleteRecords has taken what lies before; set failOnDataLoss to false to read what there is"
            )
        if max(first, end) > bounds.end:
            raise DataLossError(
                f"{topic}-{partition}: offset {max(first, end)} was asked for, and the log ends at {bounds.end}: it was "
                "truncated or made anew, or its daemon has not told of the newest records yet; set failOnDataLoss to false "
                "to read what there is"
            )
    return max(first, bounds.start), min(end, bounds.end)


def _wanted(offsets: Offsets | int, name: str, topic: str, partition: int) -> int:
    if isinstance(offsets, int):
        return offsets
    try:
        return offsets[topic][partition]
    except KeyError:
        raise OptionError(
            f"{name} says nothing of {topic}-{partition}; it must of every partition that is read"
        ) from None
