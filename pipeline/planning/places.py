"""Places to read from: log directories, brokers, or both, behind one interface for planning, streams and views.

with open_place(options) as place:
    partitions = chosen(place, options)
    bounds = place.bounds(partitions, read_committed=True)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from ..exceptions import OptionError, TopicError

if TYPE_CHECKING:
    from ..options import Options
    from .splits import AnySplit, SplitSize

#: Kafka keeps its own state in them; a pattern does not choose them, a name does.
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class TopicPartition(NamedTuple):
    """A topic's name and a partition's number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Bounds(NamedTuple):
    """Offsets [start, end) of a partition that can be read."""

    start: int
    end: int


class Range(NamedTuple):
    """Offsets [first, end) of a partition that shall be read."""

    where: TopicPartition
    first: int
    end: int


class Place(Protocol):
    """Looked at by the driver, one thread at a time. Everything blocks and may raise PipelineError."""

    @property
    def name(self) -> str:
        """Name of the place, for messages."""

    def topics(self) -> list[str]:
        """Names of the topics that the user may read; internal ones are among them."""

    def partitions(self, topics: Sequence[str]) -> dict[str, list[int]]:
        """Partitions of each topic; TopicError for an unknown one."""

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Ids of the topics that have one, as Kafka spells them: a topic with another id is another topic."""

    def bounds(self, wanted: Sequence[TopicPartition], *, read_committed: bool) -> dict[TopicPartition, Bounds]:
        """Readable offsets of each partition."""

    def offsets_at(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset whose record has that timestamp (ms) or a later one; None: there is none."""

    def splits(self, ranges: Sequence[Range], size: SplitSize) -> list[AnySplit]:
        """Splits of about the bytes that suit all ranges together."""

    def why_gone(self, where: TopicPartition, start: int) -> str:
        """Words for what has taken the offsets below the log's start."""

    def close(self) -> None:
        """Close connections to brokers, if the place has any. The place is not used again."""


class OpenPlace:
    """A place that is closed in the end."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> Place:
        return self._place

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._place.close()


class FilesBoundedByBroker:
    """Files read as far as a broker says, which knows more than the checkpoints of the last seconds."""

    def __init__(self, files: Place, broker: Place) -> None:
        self._files = files
        self._broker = broker
        self.name = f"{files.name} and {broker.name}"

    def topics(self) -> list[str]:
        return self._files.topics()

    def partitions(self, topics: Sequence[str]) -> dict[str, list[int]]:
        there, told = self._files.partitions(topics), self._broker.partitions(topics)
        for topic in topics:
            if there[topic] != told[topic]:
                raise TopicError(
                    f"{topic} has partitions {_listed(told[topic])} at {self._broker.name} and {_listed(there[topic])} in "
                    f"{self._files.name}: name all of the daemon's log.dirs, and no other daemon's"
                )
        return there

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        return self._files.topic_ids(topics)

    def bounds(self, wanted: Sequence[TopicPartition], *, read_committed: bool) -> dict[TopicPartition, Bounds]:
        return self._broker.bounds(wanted, read_committed=read_committed)

    def offsets_at(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return self._broker.offsets_at(wanted)

    def splits(self, ranges: Sequence[Range], size: SplitSize) -> list[AnySplit]:
        return self._files.splits(ranges, size)

    def why_gone(self, where: TopicPartition, start: int) -> str:
        return self._files.why_gone(where, start)

    def close(self) -> None:
        self._broker.close()

    def __enter__(self) -> Self:
        return self


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def open_place(options: Options) -> OpenPlace:
    """Open the place of `path` or `bootstrap.servers`."""
    from ..wire.client import KafkaClient
    from .brokers import Brokers
    from .log_directory import LogDirectories

    files: Place | None = LogDirectories(options.paths) if options.paths else None
    brokers: Place | None = Brokers(KafkaClient(options.client)) if options.client is not None else None
    if files is not None and brokers is not None:
        return OpenPlace(FilesBoundedByBroker(files, brokers))
    place = files or brokers
    assert place is not None  # options were checked
    return OpenPlace(place)


def chosen(place: Place, options: Options) -> list[TopicPartition]:
    """The partitions that subscribe, subscribePattern or assign choose, in order. TopicError, OptionError."""
    if options.assigned is not None:
        there = place.partitions(tuple(options.assigned))
        found = []
        for topic, numbers in options.assigned.items():
            for number in numbers:
                if number not in there[topic]:
                    raise OptionError(f"assign: there is no {topic}-{number}; {topic} has {_listed(there[topic])}")
                found.append(TopicPartition(topic, number))
        return found
    topics: Sequence[str] = options.topics
    if options.pattern is not None:
        matches = re.compile(options.pattern).fullmatch
        topics = [topic for topic in place.topics() if matches(topic) and topic not in INTERNAL_TOPICS]
    there = place.partitions(topics)
    return [TopicPartition(topic, number) for topic in topics for number in there[topic]]


class Look(NamedTuple):
    """Partitions and offsets at one moment. `topic_ids` has the topics whose id is known."""

    bounds: dict[TopicPartition, Bounds]
    topic_ids: dict[str, str]


def look(place: Place, options: Options) -> Look:
    """At what the options choose. Ids before bounds: a topic that is made anew in between has another id at the next look."""
    partitions = chosen(place, options)
    topic_ids = place.topic_ids({partition.topic for partition in partitions})
    return Look(place.bounds(partitions, read_committed=options.read_committed), topic_ids)
