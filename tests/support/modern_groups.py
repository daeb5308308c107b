"""Modern groups without a broker: topics in a dict, settings in a namespace, states to compare.

image = Image(orders=4)
environment = make_environment(image, group_consumer_session_timeout_ms=10_000)
harness = Groups(environment=environment)         # tests/support/groups.py
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import Any

from tidelog.broker.modern_groups.group_settings import GroupSettings
from tidelog.broker.modern_groups.machine import Environment
from tidelog.broker.modern_groups.topic_image import ImageTopic
from tidelog.config.broker_config import BrokerConfig

#: What groups know until the daemon stops.
SOFT = {"image_seen", "configured", "delayed_until_ms", "endpoint_epoch", "shutdown_asked_by"}


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
