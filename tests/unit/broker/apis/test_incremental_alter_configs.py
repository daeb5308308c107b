from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis import incremental_alter_configs as incremental
from tidelog.broker.apis.incremental_alter_configs import incremental_alter_configs
from tidelog.protocol.config_resources import ConfigOperation, ConfigResourceType
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.protocol.schema import decode, encode

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = ConfigResourceType
Change = tuple[str, int, str | None]


def resource(name: str, *changes: Change, kind: int = TOPIC) -> AlterConfigsResource:
    configs = [AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


async def ask(
    world: TopicWorld, *resources: AlterConfigsResource, version: int = 1, validate: bool = False
) -> list[int]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate)
    response = await incremental_alter_configs(request, world.context(version))
    decoded, _ = decode(IncrementalAlterConfigsResponse, version, encode(response, version))
    assert all(bool(result.error_message) == bool(result.error_code) for result in decoded.responses)
    assert [(r.resource_type, r.resource_name) for r in decoded.responses] == [
        (r.resource_type, r.resource_name) for r in resources
    ]
    return [result.error_code for result in decoded.responses]


def overrides(world: TopicWorld, name: str = "orders") -> dict[str, str]:
    topic = world.topics.get(name)
    assert topic is not None
    return dict(topic.overrides)


@pytest.mark.parametrize("version", range(2))
async def test_settings_are_set_and_deleted_one_by_one(tmp_path: Path, version: int) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 2, {"retention.ms": "5000", "segment.bytes": "9000"})
        changes = resource("orders", ("retention.ms", SET, "7"), ("segment.bytes", DELETE, None))
        assert await ask(world, changes, version=version) == [ErrorCode.NONE]
        assert overrides(world) == {"retention.ms": "7"}
        assert [log.config.retention_ms for log in world.logs.logs()] == [7, 7]
    async with topic_world(tmp_path, first_id=9) as world:
        assert overrides(world) == {"retention.ms": "7"}, "and they stay after a start"


async def test_lists_grow_and_shrink_from_what_is_in_force(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {})
        for operation, value, expected in (
            (APPEND, "compact", "delete,compact"),
            (APPEND, "compact, delete", "compact,delete"),
            (SUBTRACT, "delete", "compact"),
        ):
            assert await ask(world, resource("orders", ("cleanup.policy", operation, value))) == [ErrorCode.NONE]
            assert set(overrides(world)["cleanup.policy"].split(",")) == set(expected.split(","))
        nothing_left = resource("orders", ("cleanup.policy", SUBTRACT, "compact"))
        assert await ask(world, nothing_left) == [ErrorCode.INVALID_CONFIG]
        assert overrides(world) == {"cleanup.policy": "compact"}


async def test_validation_alone_changes_nothing(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {"retention.ms": "5000"})
        good, bad = resource("orders", ("retention.ms", SET, "7")), resource("none", ("retention.ms", SET, "7"))
        answers = [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await ask(world, good, bad, validate=True) == answers
        assert overrides(world) == {"retention.ms": "5000"}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (resource("none", ("retention.ms", SET, "7")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (resource("a b", ("retention.ms", SET, "7")), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (resource("orders", ("retention.ms", SET, "x")), ErrorCode.INVALID_CONFIG),
        (resource("orders", ("segment.ms", SET, "7"), ("nonsense", SET, "7")), ErrorCode.INVALID_CONFIG),
        (resource("orders", ("retention.ms", APPEND, "7")), ErrorCode.INVALID_CONFIG),
        (resource("orders", ("nonsense", SUBTRACT, "7")), ErrorCode.INVALID_CONFIG),
        (resource("orders", ("retention.ms", SET, None)), ErrorCode.INVALID_REQUEST),
        (resource("orders", ("retention.ms", SET, "7"), ("retention.ms", SET, "8")), ErrorCode.INVALID_REQUEST),
        (resource("orders", ("retention.ms", 4, "7")), ErrorCode.INVALID_REQUEST),
        (resource("1", ("num.partitions", SET, "7"), kind=BROKER), ErrorCode.INVALID_REQUEST),
        (resource("7", ("tidelog", SET, "INFO"), kind=BROKER_LOGGER), ErrorCode.INVALID_REQUEST),
        (resource("1", ("no.such", SET, "INFO"), kind=BROKER_LOGGER), ErrorCode.INVALID_CONFIG),
        (resource("1", ("tidelog", SET, "LOUD"), kind=BROKER_LOGGER), ErrorCode.INVALID_CONFIG),
        (resource("1", ("tidelog", APPEND, "INFO"), kind=BROKER_LOGGER), ErrorCode.INVALID_REQUEST),
        (resource("1", ("tidelog", DELETE, None), kind=BROKER_LOGGER), ErrorCode.INVALID_REQUEST),
        (resource("g", ("x", SET, "7"), kind=GROUP), ErrorCode.INVALID_CONFIG),
        (resource("g", ("consumer.session.timeout.ms", SET, "7"), kind=GROUP), ErrorCode.INVALID_CONFIG),
        (resource("g", ("share.auto.offset.reset", SET, "by_duration:PT"), kind=GROUP), ErrorCode.INVALID_CONFIG),
        (resource("", ("consumer.session.timeout.ms", SET, "50000"), kind=GROUP), ErrorCode.INVALID_REQUEST),
        (resource("m", ("interval.ms", SET, "7"), kind=CLIENT_METRICS), ErrorCode.INVALID_CONFIG),
        (resource("m", ("match", SET, "nobody=x"), kind=CLIENT_METRICS), ErrorCode.INVALID_CONFIG),
        (resource("m", ("match", SET, "client_id=("), kind=CLIENT_METRICS), ErrorCode.INVALID_CONFIG),
        (resource("x", ("x", SET, "7"), kind=99), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_is_refused_changes_nothing(tmp_path: Path, asked: AlterConfigsResource, code: ErrorCode) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {"retention.ms": "5000"})
        assert await ask(world, asked) == [code]
        assert overrides(world) == {"retention.ms": "5000"}


async def test_deleting_what_is_not_set_is_no_error(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {})
        asked = resource("orders", ("retention.ms", DELETE, None), ("nonsense", DELETE, None))
        assert await ask(world, asked) == [ErrorCode.NONE]


async def test_a_resource_that_is_named_twice_is_refused_both_times(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {})
        twice = [resource("orders", ("retention.ms", SET, "7")), resource("orders", ("segment.ms", SET, "7"))]
        assert await ask(world, *twice) == [ErrorCode.INVALID_REQUEST] * 2
        assert overrides(world) == {}


async def test_changes_that_come_together_are_all_kept(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {})
        names = ("retention.ms", "segment.ms", "segment.bytes", "flush.ms")
        await asyncio.gather(*(ask(world, resource("orders", (name, SET, "9000"))) for name in names))
        assert overrides(world) == dict.fromkeys(names, "9000")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("retention.ms", "-5", "-1 … 9223372036854775807"),
        ("segment.ms", "0", "1 … 9223372036854775807"),
        ("message.timestamp.type", "NoTimestampType", "one of CreateTime, LogAppendTime"),
        ("deletion.policies", "time,newest", "no deletion policy 'newest' is installed; there are: append-time, size"),
    ],
)
async def test_bad_values_are_refused_with_what_is_allowed(tmp_path: Path, name: str, value: str, says: str) -> None:
    """KAFKA-7781, 6637, 6973."""
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {})
        request = IncrementalAlterConfigsRequest(resources=[resource("orders", (name, SET, value))])
        (result,) = (await incremental_alter_configs(request, world.context(1))).responses
        assert result.error_code == ErrorCode.INVALID_CONFIG
        assert says in (result.error_message or "")
        assert overrides(world) == {}
        with pytest.raises(ProtocolError, match=name if name != "deletion.policies" else "newest"):
            await world.topics.create("other", 1, {name: value})


async def test_a_brokers_settings_change_while_it_runs(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        mine = resource("1", ("background.threads", SET, "7"), kind=BROKER)
        shared = resource("", ("background.threads", SET, "5"), ("log.segment.bytes", SET, "9000"), kind=BROKER)
        told: list[int] = []
        world.settings.on_changed.append(lambda config: told.append(config.background_threads))
        assert await ask(world, mine, validate=True) == [0]
        assert told == []
        assert await ask(world, shared) == [0]
        assert await ask(world, mine) == [0]
        assert told == [5, 7]
        assert await ask(world, resource("1", ("background.threads", DELETE, None), kind=BROKER)) == [0]
        assert await ask(world, resource("", ("log.cleanup.policy", APPEND, "compact"), kind=BROKER)) == [0]
        assert world.settings.config.log_cleanup_policy == ("delete", "compact")
        assert told == [5, 7, 5, 5]
        for wrong, code in (
            (("background.threads", SET, "0"), ErrorCode.INVALID_CONFIG),
            (("background.thread", SET, "1"), ErrorCode.INVALID_CONFIG),
            (("log.deletion.policies", SET, "none"), ErrorCode.INVALID_CONFIG),
            (("log.dirs", SET, "/x"), ErrorCode.INVALID_REQUEST),
        ):
            assert await ask(world, resource("1", wrong, kind=BROKER)) == [code]
        assert await ask(world, resource("2", ("background.threads", SET, "3"), kind=BROKER)) == [
            ErrorCode.INVALID_REQUEST
        ]
    async with topic_world(tmp_path) as world:
        assert (world.settings.config.background_threads, world.settings.config.log_segment_bytes) == (5, 9000)


async def test_groups_and_subscriptions_have_settings_of_their_own(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        changes = (
            resource("g", ("share.auto.offset.reset", SET, "by_duration:P1DT2H"), kind=GROUP),
            resource("m", ("metrics", APPEND, "a.b"), ("interval.ms", SET, "1000"), kind=CLIENT_METRICS),
        )
        assert await ask(world, *changes, validate=True) == [0, 0]
        assert (world.resources.names("group"), world.resources.names("client-metrics")) == ([], [])
        assert await ask(world, *changes) == [0, 0]
        assert await ask(world, resource("m", ("metrics", APPEND, "c,a.b"), kind=CLIENT_METRICS)) == [0]
    async with topic_world(tmp_path) as world:
        assert world.resources.own("group", "g") == {"share.auto.offset.reset": "by_duration:P1DT2H"}
        assert world.resources.own("client-metrics", "m") == {"metrics": "a.b,c", "interval.ms": "1000"}
        assert world.resources.values("client-metrics", "m")["metrics"] == ("a.b", "c")
        assert await ask(world, resource("g", ("share.auto.offset.reset", DELETE, None), kind=GROUP)) == [0]
        assert world.resources.names("group") == []


async def test_levels_of_loggers_change_at_once(tmp_path: Path) -> None:
    logger = logging.getLogger("tidelog.broker.test_levels")
    async with topic_world(tmp_path) as world:
        try:
            assert await ask(world, resource("1", (logger.name, SET, "ERROR"), kind=BROKER_LOGGER), validate=True) == [
                0
            ]
            assert logger.level == logging.NOTSET
            assert await ask(world, resource("1", (logger.name, SET, "WARN"), kind=BROKER_LOGGER)) == [0]
            assert logger.level == logging.WARNING
            assert await ask(world, resource("1", (logger.name, DELETE, None), kind=BROKER_LOGGER)) == [0]
            assert logger.level == logging.NOTSET
        finally:
            logger.setLevel(logging.NOTSET)


async def test_a_list_does_not_grow_beyond_what_describe_configs_can_tell(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {})
        name = "leader.replication.throttled.replicas"
        first, more = (",".join(f"{number}:1" for number in range(start, start + 4000)) for start in (10_000, 20_000))
        assert await ask(world, resource("orders", (name, SET, first))) == [0]
        assert await ask(world, resource("orders", (name, APPEND, more))) == [ErrorCode.INVALID_CONFIG]
        assert world.topics.all()[0].overrides == {name: first}


def test_long_lists_are_combined_without_comparing_each_item_with_each() -> None:
    class Item(str):
        __slots__ = ()
        compared = 0

        def __eq__(self, other: object) -> bool:
            Item.compared += 1
            return str.__eq__(self, other)  # type: ignore[arg-type]

        __hash__ = str.__hash__

    class Text(str):
        __slots__ = ()

        def split(self, *_: object) -> list[str]:  # type: ignore[override]
            return [_Stripped(item) for item in str.split(self, ",")]

    class _Stripped(Item):
        __slots__ = ()

        def strip(self, *_: object) -> str:
            return self

    present = Text(",".join(f"a{number}" for number in range(2000)))
    value = Text(",".join(f"b{number}" for number in range(2000)))
    assert incremental._combined(present, value, APPEND).count(",") == 3999
    assert incremental._combined(present, value, SUBTRACT).count(",") == 1999
    assert Item.compared < 10_000


async def test_very_many_settings_do_not_hold_the_loop(tmp_path: Path) -> None:
    """Those of one resource are refused, those of several wait for others in between."""

    def many(name: str, count: int) -> AlterConfigsResource:
        return resource(name, *((f"setting.{number}", SET, "1") for number in range(count)))

    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {})
        assert await ask(world, many("orders", 1001)) == [ErrorCode.INVALID_REQUEST]
        context, turns = world.context(1), []

        async def next_turn() -> None:
            turns.append(len(turns))

        context.next_turn = next_turn
        request = IncrementalAlterConfigsRequest(resources=[many(f"topic-{number}", 600) for number in range(5)])
        assert len((await incremental_alter_configs(request, context)).responses) == 5
        assert len(turns) == 2
