"""The topology of a streams group: what a member tells of it, and what follows for topics and tasks.

`Topology` is what the application says; it is a record and never changes (its epoch would have to rise, which Kafka 4.3 does
not take yet). `configured` looks at the topics that are there and decides, or says what keeps the group from running:

1. source topics must be there;
2. a repartition topic gets as many partitions as its writer has tasks, unless the application said how many;
3. topics that are joined must have as many partitions as each other: repartition topics follow;
4. a changelog gets one partition for each task;
5. internal topics that are not there yet are to be made.

Pure. The statuses are those of KIP-1071's heartbeat.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from ....protocol.errors import ErrorCode, ProtocolError

#: A topic's partitions, None where there is no such topic.
PartitionCount = Callable[[str], "int | None"]
MAX_TASKS = 100_000
"""Tasks of one group. The record of a member that has more is larger than `__consumer_offsets` takes (8 bytes a task), and many
subtopologies may read one topic: a megabyte of them makes millions of tasks, each of which is a tuple while they are assigned."""
_SHOWN = 3


class StatusCode(IntEnum):
    """Status codes that a member may get."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class StreamsStatus(NamedTuple):
    """A status with its words."""

    code: StatusCode
    detail: str


class InternalTopic(NamedTuple):
    """A topic that belongs to the application. 0: as the broker sees fit."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(NamedTuple):
    """Indexes into the lists of the subtopology, as the wire has them."""

    source_topics: tuple[int, ...] = ()
    repartition_topics: tuple[int, ...] = ()


class Subtopology(NamedTuple):
    """A part of the topology whose tasks run by themselves."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    changelog_topics: tuple[InternalTopic, ...] = ()
    sink_topics: tuple[str, ...] = ()
    """Repartition topics that it writes."""
    repartition_topics: tuple[InternalTopic, ...] = ()
    """Repartition topics that it reads."""
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        return *self.source_topics, *(topic.name for topic in self.repartition_topics)


class Topology(NamedTuple):
    """Subtopologies in the order of their ids."""

    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()

    def required_topics(self) -> set[str]:
        """All that must be there for tasks to run."""
        return {
            name
            for each in self.subtopologies
            for name in (*each.inputs, *(topic.name for topic in each.changelog_topics))
        }

    def named_topics(self) -> set[str]:
        """Names of all topics that the topology names."""
        return self.required_topics() | {name for each in self.subtopologies for name in each.sink_topics}

    def readers(self) -> dict[str, str]:
        """The subtopology that reads each input topic."""
        return {name: each.subtopology_id for each in self.subtopologies for name in each.inputs}


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with partition counts."""

    subtopology_id: str
    task_count: int
    source_topics: tuple[str, ...]
    sink_topics: tuple[str, ...]
    repartition_topics: tuple[InternalTopic, ...]
    changelog_topics: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelog_topics)

    @property
    def inputs(self) -> tuple[str, ...]:
        return *self.source_topics, *(topic.name for topic in self.repartition_topics)


class ConfiguredTopology(NamedTuple):
    """`subtopologies` by id in order, None where numbers could not be decided; tasks run when there is no `problem`."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None = None
    to_make: tuple[InternalTopic, ...] = ()
    problem: StreamsStatus | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _Unconfigurable(Exception):
    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = StreamsStatus(code, detail)


def check_topology(topology: Topology) -> None:
    """Raises ProtocolError STREAMS_INVALID_TOPOLOGY for what can never work, whatever topics there are."""
    if topology.epoch < 0:
        raise _invalid(f"Topology epoch {topology.epoch} must not be negative.")
    ids = [each.subtopology_id for each in topology.subtopologies]
    if len(set(ids)) != len(ids):
        raise _invalid("A subtopology is there twice.")
    for each in topology.subtopologies:
        if not each.inputs:
            raise _invalid(f"No source topics found for subtopology {each.subtopology_id}")
        for topic in each.changelog_topics:
            if topic.partitions != 0:
                raise _invalid(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to {topic.partitions}."
                )
        for topic in each.repartition_topics:
            if topic.partitions < 0:
                raise _invalid(f"Repartition topic {topic.name} can't have {topic.partitions} partitions.")
        for group in each.copartition_groups:
            for indexes, length in (
                (group.source_topics, len(each.source_topics)),
                (group.repartition_topics, len(each.repartition_topics)),
            ):
                if not all(0 <= index < length for index in indexes):
                    raise _invalid(
                        f"A copartition group of subtopology {each.subtopology_id} names a topic that is not there."
                    )


def configured(topology: Topology, partition_count: PartitionCount) -> ConfiguredTopology:
    """Combine `topology` with the topics that exist. ProtocolError STREAMS_INVALID_TOPOLOGY."""
    try:
        _require_sources(topology, partition_count)
        decided = _repartition_counts(topology, partition_count)

        def count(topic: str) -> int | None:
            found = partition_count(topic)
            return decided.get(topic) if found is None else found

        _copartition(topology, count, decided)
        subtopologies = {each.subtopology_id: _with_numbers(each, count, decided) for each in topology.subtopologies}
        to_make = _missing(subtopologies.values(), partition_count)
    except _Unconfigurable as error:
        return ConfiguredTopology(topology.epoch, problem=error.status)
    problem = None
    tasks = sum(each.task_count for each in subtopologies.values())
    if tasks > MAX_TASKS:
        raise _invalid(f"The topology has {tasks} tasks, and a group can't have more than {MAX_TASKS}.")
    if to_make:
        names = summary(topic.name for topic in to_make)
        problem = StreamsStatus(StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
    return ConfiguredTopology(topology.epoch, subtopologies, to_make, problem)


def summary(names: Iterable[str]) -> str:
    """The first few names, as text."""
    names = list(names)
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} additional topics" if more > 0 else "")


def _invalid(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def _require_sources(topology: Topology, partition_count: PartitionCount) -> None:
    sources = {name for each in topology.subtopologies for name in each.source_topics}
    missing = sorted(name for name in sources if partition_count(name) is None)
    if missing:
        raise _Unconfigurable(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {summary(missing)} are missing.")


def _repartition_counts(topology: Topology, partition_count: PartitionCount) -> dict[str, int]:
    """Partition counts of repartition topics: as given, or the largest count among the topics that their writer reads. A writer
    may read another repartition topic.
    """
    counts = {
        topic.name: topic.partitions
        for each in topology.subtopologies
        for topic in each.repartition_topics
        if topic.partitions
    }
    if not _count_sinks(topology, partition_count, counts):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics. "
            "There may be loops in the topology that cannot be resolved."
        )
    for each in topology.subtopologies:
        for topic in each.repartition_topics:
            if topic.name not in counts:
                raise _invalid(
                    "Failed to compute number of partitions for all repartition topics, "
                    f"because repartition source topic {topic.name} is never used as a sink topic."
                )
    return counts


def _count_sinks(topology: Topology, partition_count: PartitionCount, counts: dict[str, int]) -> bool:
    """Add the count of each sink that has none. Returns whether all have one.

    As if all sinks were gone through in their order, round after round, and each counted as soon as any input of its writer is;
    but a long chain of writers takes no longer for being in the opposite order."""
    sinks = [(sink, each) for each in topology.subtopologies for sink in each.sink_topics if sink not in counts]
    places: dict[str, list[int]] = {}
    readers: dict[str, list[str]] = {}
    largest: dict[str, int] = {}
    for place, (_, writer) in enumerate(sinks):
        places.setdefault(writer.subtopology_id, []).append(place)
    for writer in topology.subtopologies:
        name = writer.subtopology_id
        for topic in writer.repartition_topics:
            readers.setdefault(topic.name, []).append(name)
        inputs = [partition_count(topic) for topic in writer.source_topics]
        inputs += [counts.get(topic.name) for topic in writer.repartition_topics]
        if known := [number for number in inputs if number is not None]:
            largest[name] = max(known)
    # (round, place)
    turns = [(0, place) for name in largest for place in places.get(name, ())]
    heapq.heapify(turns)
    gone_through = 0
    while turns:
        turn, place = heapq.heappop(turns)
        gone_through += 1
        sink, writer = sinks[place]
        if sink in counts:
            continue  # Another that writes the same topic was first: that one's number counts.
        counts[sink] = number = largest[writer.subtopology_id]
        for name in readers.get(sink, ()):
            if name not in largest:
                for later in places.get(name, ()):
                    heapq.heappush(turns, (turn if later > place else turn + 1, later))
            largest[name] = max(largest.get(name, number), number)
    return gone_through == len(sinks)


def _copartition(topology: Topology, count: PartitionCount, decided: dict[str, int]) -> None:
    """Makes the repartition topics of each copartition group follow the rest of it."""
    fixed = {topic.name for each in topology.subtopologies for topic in each.repartition_topics if topic.partitions}
    internal = {topic.name for each in topology.subtopologies for topic in each.repartition_topics}
    for each in topology.subtopologies:
        for group in each.copartition_groups:
            names = [each.source_topics[index] for index in group.source_topics]
            names += [each.repartition_topics[index].name for index in group.repartition_topics]
            numbers = {name: _known(count, name) for name in sorted(names)}
            if not numbers:
                continue
            leading = {name: number for name, number in numbers.items() if name not in internal}
            leading = leading or {name: number for name, number in numbers.items() if name in fixed}
            if len(set(leading.values())) > 1:
                raise _Unconfigurable(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Following topics do not have the same number of partitions: [{_listed(leading)}]",
                )
            wanted = max((leading or numbers).values())
            for name, number in numbers.items():
                if name in fixed and number != wanted:
                    raise _Unconfigurable(
                        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                        f"Number of partitions [{number}] of repartition topic [{name}] "
                        f"doesn't match number of partitions [{wanted}] of the source topic.",
                    )
                if name in internal:
                    decided[name] = wanted


def _listed(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={number}" for name, number in numbers.items())


def _known(count: PartitionCount, topic: str) -> int:
    number = count(topic)
    assert number is not None, f"partitions of {topic} are decided by now"
    return number


def _with_numbers(each: Subtopology, count: PartitionCount, decided: Mapping[str, int]) -> ConfiguredSubtopology:
    tasks = max(_known(count, name) for name in each.inputs)
    return ConfiguredSubtopology(
        each.subtopology_id,
        tasks,
        each.source_topics,
        each.sink_topics,
        tuple(topic._replace(partitions=decided[topic.name]) for topic in each.repartition_topics),
        tuple(topic._replace(partitions=tasks) for topic in each.changelog_topics),
    )


def _missing(
    subtopologies: Iterable[ConfiguredSubtopology], partition_count: PartitionCount
) -> tuple[InternalTopic, ...]:
    wanted = {
        topic.name: topic for each in subtopologies for topic in (*each.repartition_topics, *each.changelog_topics)
    }
    to_make = []
    for name in sorted(wanted):
        there, expected = partition_count(name), wanted[name].partitions
        if there is None:
            to_make.append(wanted[name])
        elif there != expected:
            raise _Unconfigurable(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {expected}, found {there}",
            )
    return tuple(to_make)
