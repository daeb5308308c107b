"""What groups see of the topics, and when they are told to look again."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

from support.mock_time import MockTime
from tidelog.broker.groups.heartbeat.topic_image import ImageTopic, RegistryImage


def test_the_image_follows_the_registry():
    topics = {}
    registry = SimpleNamespace(
        on_changed=[], get=topics.get, all=lambda: list(topics.values()), by_id=lambda _: topics.get("t")
    )
    time = MockTime()
    image = RegistryImage(registry, time)
    assert (image.changes, image.version, image.get("t"), list(image.names())) == (0, time.milliseconds(), None, [])
    topics["t"] = SimpleNamespace(name="t", topic_id=UUID(int=7), partition_count=3)
    registry.on_changed[0]("t", True)
    seen = ImageTopic("t", UUID(int=7).bytes, 3)
    assert image.get("t") == image.by_id(UUID(int=7).bytes) == seen
    assert list(image.names()) == ["t"]
    made = image.version
    assert (image.changes, made > time.milliseconds()) == (1, True)
    registry.on_changed[0]("t", False)
    assert (image.changes, image.version) == (2, made)
    time.advance(1000)
    registry.on_changed[0]("u", True)
    assert image.version == time.milliseconds()
