"""Partitions, end offsets and sizes of several topics at once, for commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from .kafka_client import KafkaFailure, check
from .missing import check_topic

if TYPE_CHECKING:
    from ...protocol.messages.metadata import MetadataResponseTopic
    from .kafka_client import KafkaClient

EARLIEST, LATEST = -2, -1
Partition = tuple[str, int]


class Bounds(NamedTuple):
    """A partition's first readable offset and the one that the next record gets."""

    start: int
    end: int


def topics_of(client: KafkaClient, names: Iterable[str] | None = None) -> list[MetadataResponseTopic]:
    """Topics by name, sorted; all of them for None. KafkaFailure when one is missing."""
    from ...protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

    asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    answer = client.ask(request, MetadataResponse)
    for topic in answer.topics:
        check_topic(client, topic.name or "", topic.error_code)
    return sorted(answer.topics, key=lambda topic: topic.name or "")


def partitions_of(client: KafkaClient, names: Iterable[str]) -> list[Partition]:
    """All partitions of these topics, in order."""
    return [
        (topic.name or "", number)
        for topic in topics_of(client, names)
        for number in sorted(part.partition_index for part in topic.partitions)
    ]


def offsets_at(
    client: KafkaClient, partitions: Mapping[Partition, int], *, committed: bool = False
) -> dict[Partition, int]:
    """The offset of each partition at a timestamp in ms, or at `EARLIEST` or `LATEST`; -1 where none is so late.

    `committed`: the latest is where the first open transaction begins.
    """
    from ...protocol.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsResponse,
        ListOffsetsTopic,
    )

    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in partitions.items():
        by_topic.setdefault(topic, []).append(ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
    if not by_topic:
        return {}
    asked = [ListOffsetsTopic(name=name, partitions=parts) for name, parts in by_topic.items()]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=int(committed), topics=asked)
    answer = client.ask(request, ListOffsetsResponse)
    found = {}
    for told in answer.topics:
        for part in told.partitions:
            check(f"partition {told.name}-{part.partition_index}", part.error_code)
            found[told.name, part.partition_index] = part.offset
    return found


def bounds_of(
    client: KafkaClient, partitions: Iterable[Partition], *, committed: bool = False
) -> dict[Partition, Bounds]:
    """Start and end of each. `committed`: as `offsets_at`."""
    wanted = list(partitions)
    starts = offsets_at(client, dict.fromkeys(wanted, EARLIEST))
    ends = offsets_at(client, dict.fromkeys(wanted, LATEST), committed=committed)
    return {partition: Bounds(starts[partition], ends[partition]) for partition in wanted}


def sizes_of(client: KafkaClient) -> dict[Partition, int]:
    """Bytes on disk by partition; empty where the daemon doesn't tell."""
    from ...protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

    try:
        answer = client.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    except KafkaFailure:
        return {}
    return {
        (topic.name, part.partition_index): part.partition_size
        for directory in answer.results
        for topic in directory.topics
        for part in topic.partitions
        if not part.is_future_key
    }


def no_partition(topic: str, partition: int, count: int) -> str:
    """The sentence for a partition that a topic has not."""
    there = "0 alone" if count == 1 else f"0 to {count - 1}"
    return f"there is no partition {topic}-{partition}; the topic has {there}"


def parse_partition(text: str) -> tuple[str, list[int] | None]:
    """`TOPIC` or `TOPIC:0,3`. KafkaFailure for anything else."""
    name, colon, numbers = text.partition(":")
    if not colon:
        return name, None
    try:
        return name, [int(number) for number in numbers.split(",")]
    except ValueError:
        raise KafkaFailure(f"{text!r}: partitions are numbers, as in {name}:0,3") from None


def chosen(client: KafkaClient, texts: Iterable[str]) -> list[Partition]:
    """Partitions that arguments name, each as `parse_partition` takes it. KafkaFailure for one that is not there."""
    wanted: list[Partition] = []
    for text in texts:
        name, numbers = parse_partition(text)
        there = partitions_of(client, [name])
        for number in numbers or [number_there for _, number_there in there]:
            if (name, number) not in there:
                raise KafkaFailure(no_partition(name, number, len(there)))
            wanted.append((name, number))
    return wanted
