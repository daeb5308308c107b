"""The topics as heartbeat groups see them: by name, by id, and a number that says when to look again.

Nothing is called back: a group compares `changes` with each heartbeat, and only where it differs the hash of its topics.
Loop thread.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from ....storage.clock import Time
    from ...metadata.topics import Topic, TopicRegistry


class ImageTopic(NamedTuple):
    """One topic; the id as its 16 bytes."""

    name: str
    topic_id: bytes
    partition_count: int


class TopicImage(Protocol):
    """Topics as machines see them."""

    @property
    def changes(self) -> int:
        """Rises with each topic that is made, grown or deleted."""

    @property
    def version(self) -> int:
        """Rises with each new topic, from start to start too: expressions that were resolved before it are out of date."""

    def get(self, name: str) -> ImageTopic | None: ...

    def by_id(self, topic_id: bytes) -> ImageTopic | None: ...

    def names(self) -> Collection[str]:
        """All topics, internal ones too."""


class RegistryImage:
    """The image of a `TopicRegistry`."""

    def __init__(self, topics: TopicRegistry, time: Time) -> None:
        self._topics = topics
        self._time = time
        self.changes = 0
        # Wall clock, as there is nothing else that also rises over a restart; by at least 1 each time.
        self.version = time.milliseconds()
        topics.on_changed.append(self._changed)

    def _changed(self, name: str, is_new: bool) -> None:
        self.changes += 1
        if is_new:
            self.version = max(self.version + 1, self._time.milliseconds())

    def get(self, name: str) -> ImageTopic | None:
        return _seen(self._topics.get(name))

    def by_id(self, topic_id: bytes) -> ImageTopic | None:
        return _seen(self._topics.by_id(topic_id))

    def names(self) -> Collection[str]:
        return [topic.name for topic in self._topics.all()]


def _seen(topic: Topic | None) -> ImageTopic | None:
    return None if topic is None else ImageTopic(topic.name, topic.topic_id.bytes, topic.partition_count)
