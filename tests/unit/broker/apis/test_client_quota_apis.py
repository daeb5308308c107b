"""Quotas by their APIs: what one sets, the other tells; every refusal with Kafka's code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.permissions import EVERYTHING
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.alter_client_quotas import alter_client_quotas
from tidelog.broker.apis.describe_client_quotas import describe_client_quotas
from tidelog.broker.quotas.quota import Match
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from tidelog.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tidelog.protocol.schema import decode, encode

Parts = dict[str, str | None]


def entry(parts: Parts, **values: float | None) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in parts.items()],
        ops=[
            OpData(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in values.items()
        ],
    )


async def alter(world: TopicWorld, version: int, *entries: EntryData, validate_only: bool = False) -> list[int]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    response = await alter_client_quotas(request, world.context(version))
    decoded, _ = decode(AlterClientQuotasResponse, version, encode(response, version))
    assert [len(result.entity) for result in decoded.entries] == [len(one.entity) for one in entries]
    return [result.error_code for result in decoded.entries]


def describe(world: TopicWorld, version: int, *components: ComponentData, strict: bool = False) -> Any:
    request = DescribeClientQuotasRequest(components=list(components), strict=strict)
    response = describe_client_quotas(request, world.context(version))
    decoded, _ = decode(DescribeClientQuotasResponse, version, encode(response, version))
    if decoded.error_code:
        assert decoded.entries is None
        return decoded.error_code
    return [
        (
            {part.entity_type: part.entity_name for part in found.entity},
            {value.key: value.value for value in found.values},
        )
        for found in decoded.entries or ()
    ]


@pytest.mark.parametrize("version", range(2))
async def test_set_change_and_remove(tmp_path: Path, version: int) -> None:
    both: Parts = {"client-id": "c", "user": None}
    async with topic_world(tmp_path) as world:
        assert await alter(
            world, version, entry(both, producer_byte_rate=1024.0), entry({"user": "u"}, request_percentage=12.5)
        ) == [0, 0]
        assert await alter(world, version, entry(both, producer_byte_rate=None, consumer_byte_rate=2.0)) == [0]
        assert await alter(world, version, entry({"user": "u"}, request_percentage=1.0), validate_only=True) == [0]
        assert describe(world, version) == [
            (both, {"consumer_byte_rate": 2.0}),
            ({"user": "u"}, {"request_percentage": 12.5}),
        ]
        exact = ComponentData(entity_type="user", match_type=0, match="u")
        assert describe(world, version, exact) == [({"user": "u"}, {"request_percentage": 12.5})]
        default = ComponentData(entity_type="user", match_type=1, match=None)
        assert describe(world, version, default, strict=True) == []
        assert describe(world, version, default) == [(both, {"consumer_byte_rate": 2.0})]


async def test_very_many_quotas_are_told_in_turns_and_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both the looking and the telling; one that goes meanwhile is told as it was."""
    turns: list[int] = []
    async with topic_world(tmp_path) as world:
        names = [f"u{number:04}" for number in range(1000)]
        for name in reversed(names):
            world.quotas.table.set((("user", name),), {"producer_byte_rate": 1.0})

        async def next_turn() -> None:
            turns.append(1)
            world.quotas.table.set((("user", names[-len(turns)]),), {})

        monkeypatch.setitem(EVERYTHING, "next_turn", next_turn)
        request = DescribeClientQuotasRequest(components=[])
        answer: Any = await describe_client_quotas(request, world.context(1))  # type: ignore[misc]
        assert [found.entity[0].entity_name for found in answer.entries] == names
        assert len(turns) >= 2 * 1000 // 100 - 2
        exact = ComponentData(entity_type="user", match_type=0, match=names[0])
        answer = await describe_client_quotas(DescribeClientQuotasRequest(components=[exact]), world.context(1))  # type: ignore[misc]
        assert [found.entity[0].entity_name for found in answer.entries] == names[:1]


async def test_of_a_filter_with_very_many_components_four_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their number: there are three types, each of which it may have once."""
    looked: list[int] = []
    monkeypatch.setattr(
        "tidelog.broker.apis.describe_client_quotas.Match", lambda value: looked.append(value) or Match(value)
    )
    kinds = ("user", "client-id", "user")
    async with topic_world(tmp_path) as world:
        many = [ComponentData(entity_type=kinds[number % 3], match_type=1, match=None) for number in range(10_000)]
        assert describe(world, 1, *many) == ErrorCode.INVALID_REQUEST
    assert len(looked) <= 4


async def test_refusals(tmp_path: Path) -> None:
    invalid = ErrorCode.INVALID_REQUEST
    async with topic_world(tmp_path) as world:
        good = entry({"user": "good"}, producer_byte_rate=5.0)
        assert await alter(world, 1, good, entry({}, producer_byte_rate=5.0)) == [0, invalid]
        assert await alter(world, 1, good, good) == [invalid, invalid]
        twice = entry({"user": "u"}, producer_byte_rate=5.0)
        twice.ops = [*twice.ops, *twice.ops]
        assert await alter(world, 1, twice, entry({"user": "u2"}, nonsense=5.0)) == [invalid, invalid]
        assert [parts for parts, _ in describe(world, 1)] == [{"user": "good"}]
        unknown_match = ComponentData(entity_type="user", match_type=3, match=None)
        assert describe(world, 1, unknown_match) == invalid
        assert describe(world, 1, ComponentData(entity_type="x", match_type=1, match=None)) == 35
