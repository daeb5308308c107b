"""Who is asked to push what, and which pushes are taken, under a clock that tests move."""

from __future__ import annotations

import itertools
import zlib
from pathlib import Path
from time import thread_time
from types import SimpleNamespace
from typing import Any

import pytest
from support.permissions import EVERYTHING
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.get_telemetry_subscriptions import get_telemetry_subscriptions
from tidelog.broker.apis.push_telemetry import push_telemetry
from tidelog.broker.metadata import client_telemetry
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from tidelog.protocol.messages.push_telemetry import PushTelemetryRequest
from tidelog.protocol.records.exceptions import RecordError

GZIP = 1
SUBSCRIPTION = {"metrics": "org.apache.kafka.producer,org.apache.kafka.consumer", "interval.ms": "1000"}


def context(world: TopicWorld, client_id: str = "c", software: tuple[str, str] = ("apache-kafka-java", "4.3.1")) -> Any:
    connection = SimpleNamespace(software=software, peer_host="10.0.0.1", peer_port=1234)
    return SimpleNamespace(services=world, client_id=client_id, connection=connection, api_version=0, **EVERYTHING)


def subscribe(world: TopicWorld, instance_id: bytes = bytes(16), **who: Any) -> Any:
    return get_telemetry_subscriptions(
        GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), context(world, **who)
    )


async def push(world: TopicWorld, answer: Any, metrics: bytes = b"m", codec: int = 0, last: bool = False) -> int:
    request = PushTelemetryRequest(
        client_instance_id=answer.client_instance_id,
        subscription_id=answer.subscription_id,
        terminating=last,
        compression_type=codec,
        metrics=metrics,
    )
    return (await push_telemetry(request, context(world))).error_code


async def subscription(world: TopicWorld, name: str, **settings: str) -> None:
    await world.resources.alter("client-metrics", name, lambda _: {k.replace("_", "."): v for k, v in settings.items()})


async def test_a_client_pushes_what_it_was_asked_for(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await subscription(world, "one", metrics="b,a", interval_ms="1000")
        await subscription(world, "two", metrics="a,c", interval_ms="500")
        await subscription(world, "others", metrics="x", match="client_id=d.*", interval_ms="100")
        answer = subscribe(world)
        assert (answer.error_code, list(answer.requested_metrics), answer.push_interval_ms) == (0, ["a", "b", "c"], 500)
        assert answer.client_instance_id != bytes(16)
        assert list(answer.accepted_compression_types) == [4, 3, 1, 2]
        assert await push(world, answer) == ErrorCode.NONE
        assert await push(world, answer) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        world.time.advance(500)
        compressed = zlib.compress(b"metrics", wbits=31)
        assert await push(world, answer, compressed, GZIP) == ErrorCode.NONE
        assert await push(world, answer, last=True) == ErrorCode.NONE  # the last one may come early
        world.time.advance(500)
        assert await push(world, answer) == ErrorCode.INVALID_REQUEST
        telemetry = world.telemetry
        assert (telemetry.pushes, telemetry.throttled, telemetry.failed) == (3, 1, 1)
        assert telemetry.pushed_bytes == 2 + len(compressed)


async def test_a_star_stands_for_all_and_expressions_match_whole_values(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await subscription(
            world, "m", metrics="*,a", match="client_software_name=apache-.*,client_source_address=10\\.0\\.0\\.1"
        )
        assert list(subscribe(world).requested_metrics) == ["*"]
        assert list(subscribe(world, software=("librdkafka", "2")).requested_metrics) == []
        await subscription(world, "m", metrics="a", match="client_id=c")
        assert list(subscribe(world, client_id="cc").requested_metrics) == []


async def test_a_changed_subscription_is_told_at_once(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        first = subscribe(world)
        assert (list(first.requested_metrics), first.push_interval_ms) == ([], 300_000)
        again = subscribe(world, first.client_instance_id)
        assert again.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        await subscription(world, "m", metrics="a")
        assert await push(world, first) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        second = subscribe(world, first.client_instance_id)
        assert (second.error_code, list(second.requested_metrics)) == (0, ["a"])
        assert second.subscription_id != first.subscription_id


@pytest.mark.parametrize(
    ("metrics", "codec", "code"),
    [
        (bytes(101), 0, ErrorCode.TELEMETRY_TOO_LARGE),
        (b"x", 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (b"not gzip", GZIP, ErrorCode.INVALID_RECORD),
        (zlib.compress(bytes(5000), wbits=31), GZIP, ErrorCode.INVALID_RECORD),  # a bomb
    ],
)
async def test_what_is_not_taken(tmp_path: Path, metrics: bytes, codec: int, code: ErrorCode) -> None:
    async with topic_world(tmp_path, telemetry_max_bytes=100) as world:
        answer = subscribe(world)
        assert await push(world, answer, metrics, codec) == code
        assert (world.telemetry.pushes, world.telemetry.failed) == (0, 1)
        answer.client_instance_id = bytes(16)
        assert await push(world, answer) == ErrorCode.INVALID_REQUEST


async def test_a_push_is_counted_when_it_is_known_what_became_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A counter that falls is a restart to Prometheus: a scrape meanwhile made its next rate as large as all pushes."""
    async with topic_world(tmp_path) as world:
        told = []

        def decompress(*_: object) -> bytes:
            told.append((world.telemetry.pushes, world.telemetry.pushed_bytes))
            raise RecordError("a bomb")

        monkeypatch.setattr("tidelog.broker.apis.push_telemetry.decompress", decompress)
        assert await push(world, subscribe(world), b"m", GZIP) == ErrorCode.INVALID_RECORD
        assert told == [(0, 0)]
        assert (world.telemetry.pushes, world.telemetry.pushed_bytes, world.telemetry.failed) == (0, 0, 1)


async def test_a_subscription_of_kafkas_that_cannot_be_read_here_keeps_none_from_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its expressions are Java's, and a newer Kafka may have more settings."""
    async with topic_world(tmp_path) as world:
        await subscription(world, "good", metrics="a")
        world.resources._settings["client-metrics"] |= {
            "java": {"match": "client_id=(?!test).*", "metrics": "b"},
            "newer": {"metrics": "c", "interval.ms": "200", "of.kafka.5": "1"},
        }
        answer = subscribe(world)
        assert (answer.error_code, list(answer.requested_metrics), answer.push_interval_ms) == (0, ["a", "c"], 200)
        subscribe(world)
        assert caplog.text.count("java is for no client") == 1


async def test_no_client_holds_the_loop_by_the_length_of_its_id(tmp_path: Path) -> None:
    """RE2 copied what groups capture for each character: one client took a minute."""
    async with topic_world(tmp_path) as world:
        await subscription(world, "groups", metrics="b", match=f"client_id={'(a?)' * 1000}a*")
        began = thread_time()
        assert list(subscribe(world, client_id="a" * 32_767).requested_metrics) == ["b"]
        assert thread_time() - began < 0.5
        with pytest.raises(ProtocolError, match="too large"):
            await subscription(world, "large", metrics="b", match=f"client_id={'(.*a)' * 3000}b")


async def test_of_a_clients_id_no_more_is_kept_than_is_matched(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await subscription(world, "one", metrics="a", match="client_id=app-.*")
        assert list(subscribe(world, client_id="app-" + "x" * 32_000).requested_metrics) == ["a"]
        (client,) = world.telemetry._clients.values()
        assert len(client.attributes["client_id"]) == client_telemetry.MOST_MATCHED


async def test_clients_that_do_not_come_again_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_telemetry, "MAX_CLIENTS", 10)
    ids = (number.to_bytes(16, "big") for number in itertools.count(1))
    async with topic_world(tmp_path) as world:
        for _ in range(50):
            subscribe(world, next(ids))
        assert len(world.telemetry) == 10
        world.time.advance(3 * 300_000)
        subscribe(world, next(ids))
        assert len(world.telemetry) == 1
