"""Heartbeat groups without a broker: topics in a dict, settings in a namespace, states to compare.

image = Image(orders=4)
environment = make_environment(image, group_consumer_session_timeout_ms=10_000)
harness = Groups(environment=environment)         # tests/support/groups.py
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, cast

from support.groups import Groups
from tidelog.broker.groups.consumer.heartbeat import HeartbeatRequest, HeartbeatResult
from tidelog.broker.groups.heartbeat.machine import Environment, GroupSettings
from tidelog.broker.groups.heartbeat.topic_image import ImageTopic
from tidelog.broker.groups.store.group import GroupType
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.errors import ErrorCode, ProtocolError

#: What groups know until the daemon stops.
SOFT = {
    "image_seen",
    "compared",
    "compared_with",
    "_offsets_said",
    "configured",
    "delayed_until_ms",
    "description_asked",
    "endpoint_epoch",
    "shutdown_asked_by",
    "task_offsets",
}


class Image:
    """A TopicImage that tests change."""

    def __init__(self, **partitions: int) -> None:
        self.topics: dict[str, ImageTopic] = {}
        self.changes = 0
        self.version = 0
        self._ids = itertools.count(1)
        for name, count in partitions.items():
            self.put(name, count)

    def put(self, name: str, partitions: int) -> bytes:
        """Makes the topic, or grows it."""
        old = self.topics.get(name)
        topic_id = old.topic_id if old else next(self._ids).to_bytes(16, "big")
        self.topics[name] = ImageTopic(name, topic_id, partitions)
        self.changes += 1
        self.version += old is None
        return topic_id

    def remove(self, name: str) -> None:
        del self.topics[name]
        self.changes += 1

    def get(self, name: str) -> ImageTopic | None:
        return self.topics.get(name)

    def by_id(self, topic_id: bytes) -> ImageTopic | None:
        return next((topic for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def names(self) -> Collection[str]:
        return list(self.topics)

    def id(self, name: str) -> bytes:
        return self.topics[name].topic_id


def make_environment(
    image: Image | None = None, own: Mapping[str, Mapping[str, str]] | None = None, **settings: Any
) -> Environment:
    """`own`: group → settings of its own; `settings`: the broker's, by attribute."""
    config = BrokerConfig(**settings)
    numbers = itertools.count(1)
    return Environment(
        image or Image(),
        GroupSettings(lambda: config, lambda group_id: (own or {}).get(group_id, {})),
        lambda: f"member{next(numbers)}",
    )


def state_of(group: Any) -> dict[str, Any]:
    """All of a group's state, to compare with another's. What is not kept in records is left out."""
    names = {name for kind in type(group).__mro__ for name in getattr(kind, "__slots__", ())} - SOFT
    return {name: getattr(group, name) for name in sorted(names)}


class Consumers:
    """Consumer groups on a coordinator in memory: heartbeats with defaults, answers or error codes.

    consumers = Consumers(Image(t=4))
    consumers.joins("a", "t").assigned == {("t", 0), ("t", 1), ("t", 2), ("t", 3)}
    """

    def __init__(self, image: Image, own: Mapping[str, Mapping[str, str]] | None = None, **settings: Any) -> None:
        self.image = image
        self.harness = Groups(environment=make_environment(image, own, **settings))
        self.epochs: dict[str, int] = {}

    @property
    def group(self) -> Any:
        return self.harness.groups.heartbeat_groups.read("g")

    @property
    def time(self) -> Any:
        return self.harness.time

    def send(self, **fields: Any) -> HeartbeatResult:
        """Raises ProtocolError."""
        heartbeat_groups = self.harness.groups.heartbeat_groups
        machine = heartbeat_groups.machine(GroupType.CONSUMER)
        request = HeartbeatRequest(**{"group_id": "g", "client_id": "c", "client_host": "/h", **fields})
        return cast(
            "HeartbeatResult",
            heartbeat_groups.run(
                "g", lambda group, now_ms: machine.heartbeat(group, request, now_ms), kind=GroupType.CONSUMER
            ),
        )

    def joins(self, name: str, *topics: str, **fields: Any) -> Seen:
        self.epochs[name] = 0
        first = {"rebalance_timeout_ms": 30_000, "subscribed_topics": frozenset(topics), "owned": {}}
        return self.beats(name, **{**first, **fields})

    def beats(self, name: str, *, owns: Collection[tuple[str, int]] | None = None, **fields: Any) -> Seen:
        """One heartbeat in the epoch of the last answer; `owns`: what it reports."""
        if owns is not None:
            owned: dict[bytes, frozenset[int]] = {}
            for topic, partition in owns:
                topic_id = self.image.id(topic)
                owned[topic_id] = owned.get(topic_id, frozenset()) | {partition}
            fields["owned"] = owned
        result = self.send(**{"member_id": name, "member_epoch": self.epochs[name], **fields})
        self.epochs[name] = result.member_epoch
        return Seen(result, self.places(result.assignment))

    def refuses(self, name: str, **fields: Any) -> ErrorCode:
        """The error that the heartbeat gets; fails the test if it gets none."""
        try:
            self.beats(name, **fields)
        except ProtocolError as error:
            return error.code
        raise AssertionError("it was answered")

    def places(self, assignment: Mapping[bytes, Any] | None) -> set[tuple[str, int]] | None:
        if assignment is None:
            return None
        topics = {topic.topic_id: topic.name for topic in self.image.topics.values()}
        return {(topics[topic_id], p) for topic_id, each in assignment.items() for p in each}

    def has(self, name: str) -> set[tuple[str, int]] | None:
        return self.places(self.group.members[name].assigned)

    def close(self) -> None:
        self.harness.close()


class Seen(NamedTuple):
    """One answer; `assigned` is None where it said nothing."""

    result: HeartbeatResult
    assigned: set[tuple[str, int]] | None
