"""Brokers as a place: topics, bounds and sizes by Metadata, ListOffsets and DescribeLogDirs, from whichever Kafka there is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from uuid import UUID

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ...storage.log.partition_metadata import encode_uuid
from ..exceptions import BrokerError, BrokerUnreachableError, TopicError, UnsupportedBrokerError
from ..wire.client import KafkaClient, Leader, leaders
from ..wire.errors import check
from ..wire.partitions import EARLIEST, LATEST, list_offsets
from .places import INTERNAL_TOPICS, Bounds, Range, TopicPartition
from .splits import AnySplit, FetchSplit, SplitSize

#: Topics that an error message lists.
_MOST_NAMES = 20


class Brokers:
    """A cluster. One thread at a time; PipelineError, from the client's calls too."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self.name = ",".join(f"{host}:{port}" for host, port in client.settings.bootstrap)

    def close(self) -> None:
        self._client.close()

    def topics(self) -> list[str]:
        answer = self._client.metadata(None)
        return sorted(topic.name for topic in answer.topics if topic.name is not None and not topic.error_code)

    def partitions(self, topics: Sequence[str]) -> dict[str, list[int]]:
        if not topics:
            return {}

        def ask() -> dict[str, list[int]]:
            found = {}
            for topic in self._client.metadata(topics).topics:
                if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise TopicError(f"{self.name}: no topic {topic.name} here; there are {self._names()}")
                check(topic.error_code, f"{self.name}: topic {topic.name}")
                found[topic.name or ""] = sorted(partition.partition_index for partition in topic.partitions)
            return found

        return self._client.retry(ask)

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Topic ids; none from brokers before Kafka 2.8."""
        found = self._client.metadata(sorted(topics)).topics if topics else []
        return {
            topic.name: encode_uuid(UUID(bytes=topic.topic_id)) for topic in found if topic.name and any(topic.topic_id)
        }

    def bounds(self, wanted: Sequence[TopicPartition], *, read_committed: bool) -> dict[TopicPartition, Bounds]:
        starts = self._list_offsets(dict.fromkeys(wanted, EARLIEST), read_committed=False)
        ends = self._list_offsets(dict.fromkeys(wanted, LATEST), read_committed=read_committed)
        found = {}
        for where in wanted:
            start, end = starts[where], ends[where]
            assert start is not None
            assert end is not None
            found[where] = Bounds(start, max(start, end))
        return found

    def offsets_at(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return self._list_offsets(wanted, read_committed=False)

    def splits(self, ranges: Sequence[Range], size: SplitSize) -> list[AnySplit]:
        """Ranges of even numbers of offsets: about so many bytes where a broker tells the partition's size."""
        ranges = [span for span in ranges if span.first < span.end]
        sizes = self._sizes([span.where for span in ranges])
        bounds = self.bounds([span.where for span in ranges], read_committed=False)
        estimates = []
        for where, first, end in ranges:
            there = max(bounds[where].end - bounds[where].start, 1)
            estimates.append(sizes.get(where, 0) * (end - first) / there)
        split_bytes = size.bytes_for(int(sum(estimates)))
        found: list[AnySplit] = []
        for (where, first, end), estimated in zip(ranges, estimates, strict=True):
            parts = max(1, min(end - first, round(estimated / split_bytes)))
            edges = [first + (end - first) * part // parts for part in range(parts + 1)]
            for low, high in pairwise(edges):
                found.append(FetchSplit(where.topic, where.partition, low, high))
        return found

    def why_gone(self, where: TopicPartition, start: int) -> str:
        return "retention or DeleteRecords has taken"

    def _names(self) -> str:
        names = [name for name in self.topics() if name not in INTERNAL_TOPICS]
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        return (", ".join(names[:_MOST_NAMES]) or "none") + more

    def _leaders(self, wanted: Sequence[TopicPartition]) -> dict[int, list[TopicPartition]]:
        found = leaders(self._client.metadata({where.topic for where in wanted}))
        by_node: dict[int, list[TopicPartition]] = {}
        for where in wanted:
            node = found.get((where.topic, where.partition), Leader(-1, -1)).node_id
            if node < 0:
                check(ErrorCode.LEADER_NOT_AVAILABLE, f"{self.name}: {where}")
            by_node.setdefault(node, []).append(where)
        return by_node

    def _list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool
    ) -> dict[TopicPartition, int | None]:
        """Timestamps (or what stands for an end) → offsets; asked again from those who have just become leaders."""
        found: dict[TopicPartition, int | None] = {}

        def ask() -> None:
            left = [where for where in wanted if where not in found]
            for node, places in self._leaders(left).items() if left else ():
                asked = {(where.topic, where.partition): wanted[where] for where in places}
                connection = self._client.idle_connection(node)
                for place, offset in list_offsets(connection, asked, self.name, read_committed=read_committed):
                    found[TopicPartition(*place)] = offset

        self._client.retry(ask)
        return found

    def _sizes(self, wanted: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Bytes of partitions, as far as their leaders tell."""
        found: dict[TopicPartition, int] = {}
        try:
            for node, places in self._leaders(wanted).items() if wanted else ():
                topics: dict[str, list[int]] = {}
                for where in places:
                    topics.setdefault(where.topic, []).append(where.partition)
                asked = [DescribableLogDirTopic(topic=name, partitions=parts) for name, parts in topics.items()]
                request = DescribeLogDirsRequest(topics=asked)
                answer = self._client.request_from(node, request, DescribeLogDirsResponse, up_to=4)
                for directory in answer.results:
                    for topic in directory.topics:
                        for part in topic.partitions:
                            if not part.is_future_key:
                                found[TopicPartition(topic.name, part.partition_index)] = part.partition_size
        except (BrokerError, BrokerUnreachableError, UnsupportedBrokerError):
            pass  # a broker need not tell: then a partition is one split
        return found
