from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.fake_logs import FakeLogs
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.describe_configs import describe_configs
from tidelog.broker.runtime.cooperative import ChunkedResult
from tidelog.config.definitions import TOPIC_SETTINGS
from tidelog.config.listener import parse_address
from tidelog.protocol.config_resources import ConfigResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tidelog.protocol.schema import decode, encode

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = ConfigResourceType


def finished(work: ChunkedResult[Any]) -> Any:
    """The result, where every turn comes at once."""
    work._context = SimpleNamespace(next_turn=lambda: asyncio.sleep(0))
    steps = work.__await__()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def ask(
    world: TopicWorld, kind: int, name: str, *keys: str, version: int = 4, synonyms: bool = False, docs: bool = False
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms, include_documentation=docs)
    response: Any = describe_configs(request, world.context(version))
    if isinstance(response, ChunkedResult):  # the broker's settings are many
        response = finished(response)
    decoded, _ = decode(DescribeConfigsResponse, version, encode(response, version))
    (result,) = decoded.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def test_a_topics_settings_are_told(tmp_path: Path) -> None:
    async with topic_world(tmp_path, log_segment_bytes=9000, given={"log.segment.bytes": "9000"}) as world:
        await world.topics.create("orders", 1, {"retention.ms": "5000"})
        result = ask(world, TOPIC, "orders", synonyms=True, docs=True)
        told = {row.name: row for row in result.configs}
        assert len(told) == len([row for row in TOPIC_SETTINGS.values() if not row.internal])
        retention, segment = told["retention.ms"], told["segment.bytes"]
        assert (retention.value, retention.config_source, retention.config_type) == ("5000", 1, 5)
        assert [(s.name, s.value, s.source) for s in segment.synonyms] == [
            ("log.segment.bytes", "9000", 4),
            ("log.segment.bytes", "1073741824", 5),
        ]
        assert (segment.value, segment.config_source) == ("9000", 4)
        assert segment.documentation is not None
        assert segment.documentation.startswith("Size in bytes")


@pytest.mark.parametrize("version", range(5))
async def test_every_version_is_answered(tmp_path: Path, version: int) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {"retention.ms": "5000"})
        (own,) = ask(world, TOPIC, "orders", "retention.ms", version=version).configs
        (default,) = ask(world, TOPIC, "orders", "segment.ms", version=version).configs
        assert (own.value, list(own.synonyms), own.documentation) == ("5000", [], None)
        if version == 0:
            assert (own.is_default, default.is_default) == (False, True)
        else:
            assert (own.config_source, default.config_source) == (1, 5)


async def test_the_brokers_settings_are_told(tmp_path: Path) -> None:
    async with topic_world(tmp_path, FakeLogs(node_id=3), log_dirs=("/a",), given={"log.dirs": "/a"}) as world:
        told = {row.name: row for row in ask(world, BROKER, "3").configs}
        assert (told["log.dirs"].value, told["log.dirs"].config_source, told["log.dirs"].read_only) == ("/a", 4, True)
        assert (told["node.id"].value, told["broker.id"].value) == ("3", "3")
        assert told["log.segment.bytes"].read_only is False
        assert [row.name for row in ask(world, BROKER, "3", "num.partitions", "none").configs] == ["num.partitions"]
        assert ask(world, BROKER, "").configs == []


@pytest.mark.parametrize(
    ("configured", "expected"),
    [("127.0.0.1:0", "127.0.0.1:4711"), ("https://[::1]:0", "https://[::1]:4711"), ("127.0.0.1:80", "127.0.0.1:80")],
)
async def test_http_is_told_with_the_port_that_is_bound(tmp_path: Path, configured: str, expected: str) -> None:
    values: dict[str, Any] = {"http.listener": configured}
    listener = parse_address(configured, "http", "https")
    async with topic_world(tmp_path, FakeLogs(node_id=3), given=values, http_listener=listener) as world:
        world.http_port = 4711
        (row,) = ask(world, BROKER, "3", "http.listener").configs
        assert row.value == expected


async def test_loggers_are_told_with_their_levels(tmp_path: Path) -> None:
    logger = logging.getLogger("tidelog.test_describe_configs")
    logger.setLevel("ERROR")
    try:
        async with topic_world(tmp_path) as world:
            told = {row.name: (row.value, row.config_source) for row in ask(world, BROKER_LOGGER, "1").configs}
            assert told["tidelog.test_describe_configs"] == ("ERROR", 6)
            assert "tidelog" in told
            assert ask(world, BROKER_LOGGER, "1", version=0).configs
    finally:
        logger.setLevel(logging.NOTSET)


async def test_groups_and_client_metrics_have_defaults_until_they_are_given_settings(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        rows = {row.name: row for row in ask(world, GROUP, "some").configs}
        assert len(rows) == 21
        session = rows["consumer.session.timeout.ms"]
        assert (session.value, session.config_source, session.config_type) == ("45000", 5, 3)
        await world.resources.alter("client-metrics", "m", lambda _: {"interval.ms": "1000"})
        rows = {row.name: row for row in ask(world, CLIENT_METRICS, "m").configs}
        told = {name: (row.value, row.config_source, row.config_type) for name, row in rows.items()}
        assert told == {"interval.ms": ("1000", 7, 3), "match": ("", 5, 7), "metrics": ("", 5, 7)}


async def test_a_group_has_what_the_broker_says_until_it_is_given_its_own(tmp_path: Path) -> None:
    name = "group.consumer.session.timeout.ms"
    given = {name: "50000", "group.streams.num.standby.replicas": "1"}
    settings = {"group_consumer_session_timeout_ms": 50_000, "group_streams_num_standby_replicas": 1}
    async with topic_world(tmp_path, given=given, **settings) as world:
        interval = "group.share.assignment.interval.ms"
        await world.settings.alter("", lambda _: {interval: "7"})

        def told(setting: str) -> tuple[str | None, int, list[tuple[str, str | None, int]]]:
            (row,) = ask(world, GROUP, "some", setting, synonyms=True).configs
            return row.value, row.config_source, [(s.name, s.value, s.source) for s in row.synonyms]

        broker = [(name, "50000", 4), (name, "45000", 5)]
        assert told("consumer.session.timeout.ms") == ("50000", 4, broker)
        assert told("streams.num.standby.replicas")[:2] == ("1", 4)
        assert told("share.assignment.interval.ms") == ("7", 3, [(interval, "7", 3), (interval, "1000", 5)])
        assert told("share.auto.offset.reset") == ("latest", 5, [("share.auto.offset.reset", "latest", 5)])
        await world.resources.alter("group", "some", lambda _: {"consumer.session.timeout.ms": "46000"})
        assert told("consumer.session.timeout.ms") == (
            "46000",
            8,
            [("consumer.session.timeout.ms", "46000", 8), *broker],
        )
        await world.resources.alter("group", "some", lambda _: {})
        assert told("consumer.session.timeout.ms") == ("50000", 4, broker)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "b d", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_is_not_there_is_an_error(tmp_path: Path, kind: int, name: str, code: ErrorCode) -> None:
    async with topic_world(tmp_path) as world:
        result = ask(world, kind, name)
        assert (result.error_code, result.configs) == (code, [])
        assert result.error_message


async def test_a_setting_that_is_asked_for_twice_is_told_once(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("a", 1, {})
        node = str(world.logs.node_id)
        for kind, name, key in [(TOPIC, "a", "retention.ms"), (BROKER, node, "num.partitions")]:
            assert [row.name for row in ask(world, kind, name, key, key).configs] == [key]


async def test_more_names_of_settings_than_there_are_do_not_hold_the_loop(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        node = str(world.logs.node_id)
        for kind in (BROKER, BROKER_LOGGER, TOPIC):
            result = ask(world, kind, node, *(f"listener.name.n{number}.max.connections" for number in range(1001)))
            assert (result.error_code, len(result.configs)) == (ErrorCode.INVALID_REQUEST, 0)
