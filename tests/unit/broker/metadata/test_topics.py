from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.fake_logs import FakeLogs, FakeProducers
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.metadata import topics
from tidelog.broker.metadata.topics import (
    CONSUMER_OFFSETS,
    MAX_PARTITIONS_PER_REQUEST,
    TRANSACTION_STATE,
    Topic,
    TopicRegistry,
    check_name,
)
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.log_config import LogConfig, log_config
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.storage.exceptions import KafkaStorageError


def id_of(number: int) -> UUID:
    return UUID(int=number, version=4)


async def refusal(operation: object) -> ErrorCode:
    with pytest.raises(ProtocolError) as caught:
        await operation  # type: ignore[misc]
    return caught.value.code


async def test_a_topic_is_made_found_and_there_after_a_restart(tmp_path: Path) -> None:
    logs = FakeLogs()
    async with topic_world(tmp_path, logs) as world:
        made = await world.topics.create("orders", 2, {"segment.bytes": "5000"})
        assert (made.name, made.topic_id, made.partition_count) == ("orders", id_of(1), 2)
        assert made.config == LogConfig(segment_bytes=5000)
        assert world.topics.get("orders") is world.topics.by_id(id_of(1)) is world.topics.by_id(id_of(1).bytes) is made
        assert world.topics.log("orders", 1) is logs.get("orders", 1)
        assert world.topics.log("orders", 2) is None
        assert world.topics.log("orders", -1) is None
    async with topic_world(tmp_path, logs) as world:
        assert world.topics.get("orders") == made
        assert logs.trace == ["make orders-0", "make orders-1"]


async def test_a_topic_is_seen_when_its_logs_are_there(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        seen = []
        make = world.logs.get_or_create

        def look(topic: str, *rest: object) -> object:
            seen.append(world.topics.get(topic))
            return make(topic, *rest)  # type: ignore[arg-type]

        world.logs.get_or_create = look  # type: ignore[method-assign]
        await world.topics.create("orders", 2, {})
        assert seen == [None, None]


@pytest.mark.parametrize(
    ("name", "partitions", "overrides", "code"),
    [
        ("orders", 1, {}, ErrorCode.TOPIC_ALREADY_EXISTS),
        ("", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a.b", 1, {}, ErrorCode.INVALID_TOPIC_EXCEPTION),  # collides with a_b
        ("new", 0, {}, ErrorCode.INVALID_PARTITIONS),
        ("new", -1, {}, ErrorCode.INVALID_PARTITIONS),
        ("new", MAX_PARTITIONS_PER_REQUEST + 1, {}, ErrorCode.POLICY_VIOLATION),
        ("new", 1, {"retention.ms": "-5"}, ErrorCode.INVALID_CONFIG),
        ("new", 1, {"retention": "5"}, ErrorCode.INVALID_CONFIG),
    ],
)
async def test_what_cannot_be_made_is_refused_and_leaves_nothing(
    tmp_path: Path, name: str, partitions: int, overrides: dict[str, str], code: ErrorCode
) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {})
        await world.topics.create("a_b", 1, {})
        assert await refusal(world.topics.create(name, partitions, overrides)) == code
        assert world.logs.names() == ["a_b-0", "orders-0"]
        assert [topic.name for topic in world.topics.all()] == ["a_b", "orders"]


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "...", "-"])
def test_names_that_kafka_allows(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "ä", "a/b", "a\n", "a\0"])
def test_names_that_kafka_does_not_allow(name: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        check_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_one_topic_is_made_however_many_ask_at_once(tmp_path: Path) -> None:
    async with topic_world(tmp_path, num_partitions=2) as world:
        made = await asyncio.gather(*(world.topics.ensure("orders") for _ in range(10)))
        assert len({id(topic) for topic in made}) == 1
        assert world.logs.trace == ["make orders-0", "make orders-1"]


async def test_of_two_that_make_one_name_the_second_is_told(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        results = await asyncio.gather(
            world.topics.create("a.b", 1, {}), world.topics.create("a_b", 1, {}), return_exceptions=True
        )
        assert isinstance(results[1], ProtocolError)
        assert results[1].code is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert world.logs.names() == ["a.b-0"]


async def test_a_client_that_goes_away_does_not_stop_what_it_asked_for(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        request = asyncio.ensure_future(world.topics.create("orders", 1, {}))
        await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await world.topics.stop()
        assert world.topics.get("orders") is not None


async def test_the_brokers_own_topics_are_compacted_with_small_indexes(tmp_path: Path) -> None:
    async with topic_world(tmp_path, offsets_topic_num_partitions=3, offsets_topic_segment_bytes=8192) as world:
        topic = await world.topics.ensure(CONSUMER_OFFSETS)
        assert topic.is_internal
        assert topic.partition_count == 3
        assert topic.overrides == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "8192",
            "segment.index.bytes": "48",
        }
        assert topic.config.cleanup_policy == frozenset({"compact"})
        assert (await world.topics.ensure(TRANSACTION_STATE)).overrides["compression.type"] == "uncompressed"
        assert not (await world.topics.ensure("orders")).is_internal


async def test_a_deleted_topic_is_gone_at_once_and_may_come_again(tmp_path: Path) -> None:
    gone: list[str] = []
    async with topic_world(tmp_path) as world:
        world.topics.on_deleted.append(gone.append)
        await world.topics.create("orders", 2, {"retention.ms": "5"})
        await world.topics.delete("orders")
        assert gone == ["orders"]
        assert (world.topics.get("orders"), world.topics.by_id(id_of(1)), world.topics.log("orders", 0)) == (None,) * 3
        assert world.logs.names() == []
        again = await world.topics.create("orders", 1, {})
        assert (again.topic_id, again.overrides) == (id_of(2), {})
        assert await refusal(world.topics.delete("nothing")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await world.topics.ensure(CONSUMER_OFFSETS)
        assert await refusal(world.topics.delete(CONSUMER_OFFSETS)) == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_topic_is_deleted_whoever_fails_to_forget_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its files stayed until the next start, and its name with them."""
    told: list[str] = []

    def fail(name: str) -> None:
        raise ZeroDivisionError("a defect")

    async with topic_world(tmp_path) as world:
        world.topics.on_deleted += [fail, told.append]
        await world.topics.create("orders", 2, {})
        await world.topics.delete("orders")
        assert (world.logs.names(), told) == ([], ["orders"])
        assert "ZeroDivisionError: a defect" in caplog.text
        assert (await world.topics.create("orders", 1, {})).topic_id == id_of(2)


async def test_a_topic_that_is_being_deleted_is_made_after_that(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {})
        asking: list[asyncio.Future[object]] = []
        world.topics.on_deleted.append(lambda name: asking.append(asyncio.ensure_future(world.topics.ensure(name))))
        await world.topics.delete("orders")
        await asking[0]
        assert world.logs.trace == ["make orders-0", "delete orders-0", "make orders-0"]
        topic = world.topics.get("orders")
        assert topic is not None
        assert topic.topic_id == id_of(2)


async def test_partitions_are_added(tmp_path: Path) -> None:
    logs = FakeLogs()
    async with topic_world(tmp_path, logs) as world:
        await world.topics.create("orders", 1, {"segment.bytes": "5000"})
        await world.topics.add_partitions("orders", 3)
        assert logs.names() == ["orders-0", "orders-1", "orders-2"]
        assert logs.get("orders", 2).config.segment_bytes == 5000
        assert logs.get("orders", 2).topic_id == id_of(1)
        for count in (3, 2, 0, -1):
            assert await refusal(world.topics.add_partitions("orders", count)) == ErrorCode.INVALID_PARTITIONS
        too_many = 3 + MAX_PARTITIONS_PER_REQUEST + 1
        assert await refusal(world.topics.add_partitions("orders", too_many)) == ErrorCode.POLICY_VIOLATION
        assert await refusal(world.topics.add_partitions("none", 3)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await world.topics.ensure(CONSUMER_OFFSETS)
        assert await refusal(world.topics.add_partitions(CONSUMER_OFFSETS, 99)) == ErrorCode.INVALID_PARTITIONS
    async with topic_world(tmp_path, logs) as world:
        topic = world.topics.get("orders")
        assert topic is not None
        assert topic.partition_count == 3


async def test_altered_settings_hold_at_once_and_after_a_restart(tmp_path: Path) -> None:
    logs = FakeLogs()
    async with topic_world(tmp_path, logs) as world:
        await world.topics.create("orders", 2, {"segment.bytes": "5000"})
        await world.topics.alter("orders", lambda _: {"retention.ms": "7"})
        assert [logs.get("orders", partition).config for partition in (0, 1)] == [LogConfig(retention_ms=7)] * 2
        assert await refusal(world.topics.alter("orders", lambda _: {"retention.ms": "x"})) == ErrorCode.INVALID_CONFIG
    async with topic_world(tmp_path, logs) as world:
        topic = world.topics.get("orders")
        assert topic is not None
        assert (topic.overrides, topic.config) == ({"retention.ms": "7"}, LogConfig(retention_ms=7))


@pytest.mark.parametrize(
    "change",
    [
        lambda topics: topics.create("new", 2, {}),
        lambda topics: topics.add_partitions("orders", 2),
        lambda topics: topics.alter("orders", lambda _: {"segment.bytes": "5000"}),
    ],
    ids=["create", "grow", "alter"],
)
async def test_a_brokers_setting_that_changes_while_a_topic_does_holds_for_it(
    tmp_path: Path, change: Callable[[TopicRegistry], Coroutine[Any, Any, Topic]]
) -> None:
    async with topic_world(tmp_path) as world:
        await world.topics.create("orders", 1, {})
        write = world.store._write

        def meanwhile(change: Callable[..., Any]) -> asyncio.Future[Any]:
            written = write(change)
            world.topics.use(BrokerConfig(log_retention_ms=7))
            return written

        world.store._write = meanwhile  # type: ignore[method-assign]
        topic = await change(world.topics)
        assert topic is world.topics.get(topic.name)
        assert topic.config.retention_ms == 7
        assert [log.config.retention_ms for log in world.logs.logs()] == [7] * len(world.logs.logs())


async def test_a_topic_whose_logs_cannot_be_made_is_taken_back(tmp_path: Path) -> None:
    logs = FakeLogs()
    async with topic_world(tmp_path, logs) as world:
        logs.fail_after(2, OSError(28, "No space left on device"))
        with pytest.raises(KafkaStorageError, match="No space left"):
            await world.topics.create("orders", 3, {})
        assert world.topics.get("orders") is None
        assert logs.trace == ["make orders-0", "delete orders-0"]
        await world.topics.create("orders", 1, {})
    async with topic_world(tmp_path, logs) as world:
        assert [topic.partition_count for topic in world.topics.all()] == [1]


@pytest.mark.parametrize("step", ["mark_deleting", "remove_topic"])
async def test_a_name_whose_topic_could_not_be_taken_back_is_free_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The disk refuses it twice, then is well again: the rest is taken back before the name is used."""
    logs = FakeLogs()
    async with topic_world(tmp_path, logs) as world:

        async def refused(_name: str) -> None:
            raise KafkaStorageError("database or disk is full")

        logs.fail_after(2, OSError(5, "Input/output error"))
        with monkeypatch.context() as patch:
            patch.setattr(world.store, step, refused)
            for _ in range(2):
                with pytest.raises(KafkaStorageError, match="disk is full"):
                    await world.topics.create("orders", 2, {})
        made = await world.topics.create("orders", 1, {})
        assert logs.trace == ["make orders-0", "delete orders-0", "make orders-0"]
        assert [log.topic_id for log in logs.logs()] == [made.topic_id]
        await world.topics.delete("orders")
    async with topic_world(tmp_path, logs) as world:
        assert list(world.topics.all()) == []


async def test_a_topic_is_deleted_with_what_a_failed_growth_has_made(tmp_path: Path) -> None:
    """Its directories came back with the next start as a topic of nobody's, and a new topic of the name had the old one's log."""
    logs = FakeLogs()
    async with topic_world(tmp_path, logs) as world:
        await world.topics.create("orders", 1, {})
        for partitions in (4, 3):
            logs.fail_after(partitions - 1, OSError(28, "No space left on device"))
            with pytest.raises(KafkaStorageError, match="No space left"):
                await world.topics.add_partitions("orders", partitions)
        await world.topics.add_partitions("orders", 2)
        await world.topics.delete("orders")
        assert logs.logs() == []
    async with topic_world(tmp_path, logs) as world:
        assert list(world.topics.all()) == []


class Crash(BaseException):
    """What a power cut does to an operation: it never comes to its end, nor to any clean-up."""


async def crash_in(world: TopicWorld, method: str, calls: int) -> None:
    """From the `calls`-th call of `method` of the logs on, nothing happens any more."""
    real = getattr(world.logs, method)
    made = 0

    def wrapper(*arguments: object) -> object:
        nonlocal made
        made += 1
        if made >= calls:
            raise Crash
        return real(*arguments)

    setattr(world.logs, method, wrapper)


@pytest.mark.parametrize("calls", [1, 2, 3])
async def test_a_crash_while_a_topic_is_made_leaves_a_whole_topic(tmp_path: Path, calls: int) -> None:
    logs = await _run_into_a_crash(tmp_path, "get_or_create", calls)
    async with topic_world(tmp_path, logs, first_id=100) as world:
        topic = world.topics.get("orders")
        assert topic is not None
        assert (topic.topic_id, topic.config.segment_bytes) == (id_of(1), 5000)
        assert logs.names() == ["orders-0", "orders-1", "orders-2"]
        assert {log.topic_id for log in logs.logs()} == {id_of(1)}


@pytest.mark.parametrize("calls", [1, 2, 3])
async def test_a_crash_while_a_topic_is_deleted_does_not_bring_it_back(tmp_path: Path, calls: int) -> None:
    logs = await _run_into_a_crash(tmp_path, "delete", calls)
    async with topic_world(tmp_path, logs) as world:
        assert world.topics.all() == []
        assert logs.names() == []
    async with topic_world(tmp_path, logs) as world:
        assert world.topics.all() == []


async def _run_into_a_crash(directory: Path, method: str, calls: int) -> FakeLogs:
    """Makes `orders` with three partitions, and deletes it, up to that call."""
    logs = FakeLogs()
    async with topic_world(directory, logs) as world:
        await crash_in(world, method, calls)
        crashed = asyncio.Event()
        before = asyncio.all_tasks()

        def never(task: Callable[..., object], *arguments: object) -> Future[object]:
            # The thread dies with the machine: its future never comes.
            future: Future[object] = Future()
            try:
                future.set_result(task(*arguments))
            except Crash:
                crashed.set()
            return future

        world.pool.submit = never  # type: ignore[assignment,method-assign]
        creating = asyncio.ensure_future(world.topics.create("orders", 3, {"segment.bytes": "5000"}))
        if method == "delete":
            await creating
            creating = asyncio.ensure_future(world.topics.delete("orders"))  # type: ignore[assignment]
        await crashed.wait()
        assert not creating.done()
        under_way = asyncio.all_tasks() - before
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
    for name in ("get_or_create", "delete"):
        vars(logs).pop(name, None)
    return logs


async def test_directories_are_taken_for_topics_when_metadata_db_was_lost(tmp_path: Path) -> None:
    logs = FakeLogs()
    for partition in (0, 2):
        logs.get_or_create("orders", partition, id_of(7), LogConfig())
    logs.get_or_create("__cluster_metadata", 0, id_of(8), LogConfig())
    logs.get_or_create(CONSUMER_OFFSETS, 0, id_of(9), LogConfig())
    logs.get("orders", 2).producers = FakeProducers([4, 1234, 8])
    logs.trace.clear()
    async with topic_world(tmp_path, logs) as world:
        assert [(topic.name, topic.topic_id, topic.partition_count) for topic in world.topics.all()] == [
            (CONSUMER_OFFSETS, id_of(9), 1),
            ("orders", id_of(7), 3),
        ]
        assert logs.trace == ["make orders-1"]
        assert world.topics.producer_id_floor == 1235
        # Retention must not eat committed offsets because a row was lost: not before the row is there again …
        with_no_rows = TopicWorld(tmp_path / "elsewhere", logs, world.config, itertools.count(1))
        assert with_no_rows.topics.config_of(CONSUMER_OFFSETS).cleanup_policy == frozenset({"compact"})
        # Nor anything else: what settings there were nobody knows, so everything is kept until somebody says.
        keep_all = LogConfig(cleanup_policy=frozenset({"delete"}), retention_ms=-1, retention_bytes=-1)
        assert with_no_rows.topics.config_of("orders") == keep_all
        with_no_rows.store.close()
        # … nor after.
        offsets = world.topics.get(CONSUMER_OFFSETS)
        assert offsets is not None
        assert offsets.config.cleanup_policy == frozenset({"compact"})
        orders = world.topics.get("orders")
        assert orders is not None
        assert orders.config == keep_all
    async with topic_world(tmp_path, logs) as world:  # they have rows now
        assert world.topics.producer_id_floor == 0
        assert len(world.topics.all()) == 2


async def test_partition_metadata_wins_over_metadata_db(tmp_path: Path) -> None:
    logs = FakeLogs()
    async with topic_world(tmp_path, logs) as world:
        await world.topics.create("orders", 1, {"segment.bytes": "5000"})
    logs.get("orders", 0).topic_id = id_of(77)
    logs.get_or_create("orders", 1, id_of(77), LogConfig())
    for _ in range(2):
        async with topic_world(tmp_path, logs) as world:
            topic = world.topics.by_id(id_of(77))
            assert topic is not None
            assert (topic.name, topic.partition_count, topic.config.segment_bytes) == ("orders", 2, 5000)
            assert world.topics.by_id(id_of(1)) is None


async def test_stored_settings_that_are_no_longer_allowed_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs = FakeLogs()
    async with topic_world(tmp_path, logs) as world:
        await world.topics.create("orders", 1, {"segment.bytes": "5000"})
        await world.store.set_overrides("orders", {"segment.bytes": "5000", "retention.ms": "-9", "gone": "1"})
    async with topic_world(tmp_path, logs) as world:
        topic = world.topics.get("orders")
        assert topic is not None
        assert topic.config == LogConfig(segment_bytes=5000)
        assert "stored settings that are left out" in caplog.text


async def test_a_stored_setting_that_is_no_longer_allowed_keeps_nobody_from_a_change_of_the_brokers(
    tmp_path: Path,
) -> None:
    logs = FakeLogs()
    async with topic_world(tmp_path, logs) as world:
        await world.topics.create("a", 1, {"segment.bytes": "5000"})
        await world.topics.create("b", 1, {})
        await world.store.set_overrides("a", {"segment.bytes": "5000", "gone": "1"})
    async with topic_world(tmp_path, logs) as world:
        world.topics.use(BrokerConfig(log_retention_ms=7))
        assert logs.get("a", 0).config == LogConfig(segment_bytes=5000, retention_ms=7)
        assert logs.get("b", 0).config == LogConfig(retention_ms=7)


async def test_a_change_of_the_brokers_looks_at_topics_as_far_as_it_is_about_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look is some 70 us of the loop: with ten thousand topics a new limit of connections held clients up for a second."""
    async with topic_world(tmp_path) as world:
        for name in "abcdef":
            await world.topics.create(name, 1, {"segment.bytes": "5000"})
        looks = []

        def counting(*given: Any) -> LogConfig:
            looks.append(given)
            return log_config(*given)

        monkeypatch.setattr(topics, "log_config", counting)
        before = world.topics.get("a")
        world.topics.use(BrokerConfig(max_connections=7))
        assert len(looks) == 1
        assert world.topics.get("a") is before
        world.topics.use(BrokerConfig(log_segment_bytes=6000))
        assert len(looks) == 3
        assert world.topics.get("a") is before
        world.topics.use(BrokerConfig(log_retention_ms=7))
        assert len(looks) == 5
        assert [log.config for log in world.logs.logs()] == [LogConfig(segment_bytes=5000, retention_ms=7)] * 6
        assert world.topics.by_id(id_of(6)) is world.topics.get("f")
