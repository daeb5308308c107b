"""What subscriptions match: names and expressions, and what is neither."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.topic_world import topic_world
from tidelog.broker.metadata.resource_config import MATCHED, parse_match
from tidelog.protocol.errors import ErrorCode, ProtocolError


def test_expressions_by_name() -> None:
    found = parse_match(" client_id = a.* ,client_source_port=9[0-9]+")
    assert {name: expression.pattern for name, expression in found.items()} == {
        "client_id": "a.*",
        "client_source_port": "9[0-9]+",
    }
    assert parse_match("") == {}
    assert set(parse_match(",".join(f"{name}=x" for name in MATCHED))) == set(MATCHED)


@pytest.mark.parametrize("text", ["x", "nobody=x", "client_id=(", "=x"])
def test_no_expression(text: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        parse_match(text)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


async def test_who_asked_to_hear_is_told_of_each_change(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []
    async with topic_world(tmp_path) as world:
        world.resources.on_changed.append(lambda kind, name: told.append((kind, name)))
        await world.resources.alter("group", "g", lambda _: {"streams.num.standby.replicas": "1"})
        with pytest.raises(ProtocolError):
            await world.resources.alter("group", "g", lambda _: {"streams.num.standby.replicas": "9"})
        assert told == [("group", "g")]
        assert world.resources.values("group", "g")["streams.num.standby.replicas"] == 1
        assert world.resources.values("group", "h")["streams.num.standby.replicas"] == 0


async def test_what_a_newer_kafka_set_stays_and_nobody_adds_to_it(tmp_path: Path) -> None:
    newer = {"errors.newer.name": "dead", "errors.deadletterqueue.topic.name": "dead"}
    async with topic_world(tmp_path) as world:
        await world.store.set_resource("group", "g", newer)
    async with topic_world(tmp_path) as world:
        await world.resources.alter("group", "g", lambda own: {**own, "streams.num.standby.replicas": "1"})
        assert world.resources.own("group", "g") == {**newer, "streams.num.standby.replicas": "1"}
        for wrong in ({"errors.newer.name": "other"}, {**newer, "errors.newer.none": "1"}):
            with pytest.raises(ProtocolError, match=r"unknown group setting errors\.newer") as refused:
                await world.resources.alter("group", "g", lambda _, wrong=wrong: wrong)
            assert refused.value.code is ErrorCode.INVALID_CONFIG
        with pytest.raises(ProtocolError, match="there is no dead-letter queue"):
            await world.resources.alter("group", "g", lambda own: {**own, "errors.deadletterqueue.topic.name": "other"})
        await world.resources.alter("group", "g", lambda _: {})
        assert world.resources.own("group", "g") == {}


def test_no_expression_takes_time_beyond_the_length_of_what_it_is_matched_with() -> None:
    """Python's own expressions would look at 2^5000 ways here, and the name is the client's choice."""
    found = parse_match("client_id=(a+)+b|(a|aa)+c")
    assert found["client_id"].fullmatch("a" * 5000) is None
    assert found["client_id"].fullmatch("a" * 5000 + "b")
    with pytest.raises(ProtocolError, match="is not an expression of RE2: invalid perl operator"):
        parse_match("client_id=(?=a)b")
