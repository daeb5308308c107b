from __future__ import annotations

from pathlib import Path

import pytest
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.metadata.dynamic_config import DynamicSettings
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.describe import ConfigSource, describe_broker, describe_topic
from tidelog.config.listener import ListenerLimits
from tidelog.protocol.errors import ErrorCode, ProtocolError


def told(world: TopicWorld, name: str) -> tuple[str | None, int, list[int]]:
    (entry,) = describe_broker(world.settings.static, (name,), None, world.settings.layers)
    return entry.value, entry.source, [synonym.source for synonym in entry.synonyms]


async def test_a_nodes_own_beat_what_all_share_and_both_the_start(tmp_path: Path) -> None:
    async with topic_world(tmp_path, background_threads=3, given={"background.threads": "3"}) as world:
        dynamic = world.settings
        assert told(world, "background.threads") == ("3", ConfigSource.STATIC_BROKER_CONFIG, [4, 5])
        await dynamic.alter("", lambda _: {"background.threads": "4"})
        assert told(world, "background.threads") == ("4", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, [3, 4, 5])
        await dynamic.alter("1", lambda _: {"background.threads": "5"})
        assert told(world, "background.threads") == ("5", ConfigSource.DYNAMIC_BROKER_CONFIG, [2, 3, 4, 5])
        assert dynamic.config.background_threads == 5
        await dynamic.alter("1", lambda _: {})
        await dynamic.alter("", lambda _: {})
        assert dynamic.config.background_threads == 3


async def test_topics_follow_unless_they_have_their_own(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("follows", 1, {})
        await world.topics.create("own", 1, {"segment.bytes": "700"})
        world.settings.on_changed.append(world.topics.use)
        await world.settings.alter("1", lambda _: {"log.segment.bytes": "9000", "log.retention.ms": "5"})
        sizes = {log.topic: (log.config.segment_bytes, log.config.retention_ms) for log in world.logs.logs()}
        assert sizes == {"follows": (9000, 5), "own": (700, 5)}
        topic = world.topics.get("follows")
        assert topic is not None
        (entry,) = describe_topic(
            world.settings.static, topic.config, topic.overrides, ("segment.bytes",), world.settings.layers
        )
        assert (entry.value, entry.source) == ("9000", ConfigSource.DYNAMIC_BROKER_CONFIG)


async def test_what_is_refused_changes_nothing(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        before = world.settings.config
        for name, value in (("background.threads", "none"), ("num.partitions", "3"), ("nothing", "1")):
            with pytest.raises(ProtocolError):
                await world.settings.alter("1", lambda _, change=(name, value): dict([change]))
        assert world.settings.config is before
        assert world.store.read().broker_configs == {}
        with pytest.raises(ProtocolError, match="not '2'"):
            world.settings.check_node("2")


@pytest.mark.parametrize("name", ["principal.builder.class", "listener.name.plaintext.ssl.engine.factory.class"])
async def test_what_a_start_refuses_is_refused_while_running(tmp_path: Path, name: str) -> None:
    """It would be stored, and nobody would go by it."""
    async with topic_world(tmp_path) as world:
        with pytest.raises(ProtocolError, match=f"{name} is refused: "):
            await world.settings.alter("1", lambda _: {name: "5"})
        assert world.store.read().broker_configs == {}


async def test_a_listeners_own_limits(tmp_path: Path) -> None:
    name = "listener.name.plaintext.max.connections"
    async with topic_world(tmp_path) as world:
        await world.settings.alter("", lambda _: {name: "7"})
        await world.settings.alter("1", lambda _: {name: "5"})
        assert world.settings.config.listener_limits == {"PLAINTEXT": ListenerLimits(connections=5)}
        (entry,) = (
            one
            for one in describe_broker(world.settings.static, None, None, world.settings.layers)
            if one.name.startswith("listener.name")
        )
        assert (entry.value, entry.source, entry.read_only) == ("5", ConfigSource.DYNAMIC_BROKER_CONFIG, False)
        assert [(one.name, one.value) for one in entry.synonyms] == [
            (name, "5"),
            (name, "7"),
            ("max.connections", "2147483647"),
        ]
        for wrong, value in (("listener.name.other.max.connections", "5"), (name, "none")):
            with pytest.raises(ProtocolError, match=r"max\.connections") as refused:
                await world.settings.alter("1", lambda _, change=(wrong, value): dict([change]))
            assert refused.value.code is ErrorCode.INVALID_CONFIG
        await world.settings.alter("1", lambda _: {})
        assert world.settings.config.listener_limits == {"PLAINTEXT": ListenerLimits(connections=7)}


def test_a_stored_limit_of_a_listener_that_is_no_more_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """The others of its node hold."""
    stored = {"1": {"listener.name.gone.max.connections": "5", "max.connections": "9"}}
    dynamic = DynamicSettings(BrokerConfig(), stored, 1, None)  # type: ignore[arg-type]
    assert dynamic.config.max_connections == 9
    assert dynamic.config.listener_limits == {}
    assert "there is no listener gone" in caplog.text


async def test_secrets_that_mean_nothing_here_are_in_no_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka's tools set a key store's password together with its file; it was written to the log in clear."""
    names = ("ssl.keystore.password", "listener.name.x.ssl.truststore.password", "password.encoder.secret")
    async with topic_world(tmp_path) as world:
        with caplog.at_level("INFO"):
            await world.settings.alter("", lambda _: {**dict.fromkeys(names, "sesame"), "background.threads": "7"})
    assert "'background.threads': '7'" in caplog.text
    assert "sesame" not in caplog.text
    assert caplog.text.count("(hidden)") == 3
