"""Subscriptions in JoinGroup and assignments in SyncGroup of classic consumers, translated between topic names and ids.

A member in a later version of the format than is known here is read as the last known one, whose fields stand in front.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....protocol.errors import MalformedRequest
from ....protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from ....protocol.schema import M, decode, encode_with_version
from ..assignors import Partitions
from ..heartbeat.topic_image import TopicImage


def version_of(data: bytes) -> int:
    """The version that a blob is in, of those known here. MalformedRequest."""
    if len(data) < 2:
        raise MalformedRequest("a consumer's metadata lacks its version")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise MalformedRequest(f"a consumer's metadata is in version {version}")
    return min(version, ConsumerProtocolSubscription.VERSIONS[1])


def _read(cls: type[M], data: bytes) -> M:
    return decode(cls, version_of(data), data, 2)[0]


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Decode a member's subscription. MalformedRequest."""
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Nothing, where there are no bytes. MalformedRequest."""
    return _read(ConsumerProtocolAssignment, data) if data else ConsumerProtocolAssignment()


def by_id(topics: Mapping[str, frozenset[int]], image: TopicImage) -> dict[bytes, frozenset[int]]:
    """The given topics by id; those that do not exist are left out."""
    found = ((image.get(name), partitions) for name, partitions in topics.items())
    return {topic.topic_id: partitions for topic, partitions in found if topic is not None}


def named(rows: object) -> dict[str, frozenset[int]]:
    """Topic → partitions, of the rows of a subscription or an assignment."""
    found: dict[str, frozenset[int]] = {}
    for row in rows if isinstance(rows, list | tuple) else ():
        found[row.topic] = found.get(row.topic, frozenset()).union(row.partitions)
    return found


def assignment_bytes(partitions: Partitions, image: TopicImage, version: int) -> bytes:
    """Encode a member's assignment for SyncGroup; deleted topics are left out."""
    rows = []
    for topic_id in sorted(partitions):
        topic = image.by_id(topic_id)
        if topic is not None:
            rows.append(TopicPartition(topic=topic.name, partitions=sorted(partitions[topic_id])))
    return encode_with_version(ConsumerProtocolAssignment(assigned_partitions=rows), version)
