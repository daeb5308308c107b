"""Raising and lowering levels; the answers are those that Apache Kafka 4.3.1 gave to the same requests."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.update_features import update_features
from tidelog.broker.metadata import features
from tidelog.broker.metadata.features import Feature
from tidelog.broker.security.acl.authorizer import AclAuthorizer, stored_form
from tidelog.broker.security.acl.model import Acl, AclOperation, PatternType, Permission, ResourceType
from tidelog.broker.security.acl.rules import AclFilter
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tidelog.protocol.schema import decode, encode

UP, SAFE, UNSAFE = 1, 2, 3


@pytest.fixture(autouse=True)
def supported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, levels in (("test.version", Feature(0, 2, 2)), ("other.version", Feature(0, 5, 1))):
        monkeypatch.setitem(features.SUPPORTED, name, levels)


async def ask(
    world: TopicWorld, *updates: tuple[str, int, int], version: int = 2, validate_only: bool = False
) -> UpdateFeaturesResponse:
    keys = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        if version
        else FeatureUpdateKey(feature=name, max_version_level=level, allow_downgrade=kind != UP)
        for name, level, kind in updates
    ]
    request = UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)
    response = await update_features(request, world.context(version))
    decoded, _ = decode(UpdateFeaturesResponse, version, encode(response, version))
    assert bool(decoded.error_message) == bool(decoded.error_code)
    return decoded


@pytest.mark.parametrize("version", range(3))
async def test_levels_go_down_and_up_and_stay(tmp_path: Path, version: int) -> None:
    async with topic_world(tmp_path) as world:
        epoch = world.features.epoch
        answer = await ask(world, ("test.version", 1, SAFE), ("other.version", 4, UP), version=version)
        assert answer.error_code == ErrorCode.NONE
        assert len(answer.results) == (2 if version < 2 else 0)
        assert (world.features.level("test.version"), world.features.level("other.version")) == (1, 4)
        assert world.features.epoch == epoch + 2
        await ask(world, ("test.version", 1, SAFE), version=version)
        assert world.features.epoch == epoch + 2  # no change
    async with topic_world(tmp_path) as world:
        assert (world.features.level("test.version"), world.features.level("other.version")) == (1, 4)


@pytest.mark.parametrize(
    "update",
    [
        ("test.version", 1, UP),
        ("nobody.knows", 1, UP),
        ("test.version", 3, UP),
        ("test.version", -1, UNSAFE),
        ("test.version", 1, 0),
        ("metadata.version", 6, UNSAFE),
    ],
)
async def test_one_at_fault_changes_none(tmp_path: Path, update: tuple[str, int, int]) -> None:
    async with topic_world(tmp_path) as world:
        answer = await ask(world, ("other.version", 2, UP), update)
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert update[0] in (answer.error_message or "")
        assert world.features.level("other.version") == 1


async def test_validation_alone_changes_nothing(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        assert (await ask(world, ("test.version", 0, UNSAFE), validate_only=True)).error_code == ErrorCode.NONE
        assert world.features.level("test.version") == 2
        assert world.store.changes == 0


async def test_a_level_that_rules_need_stays_while_they_are_there(tmp_path: Path) -> None:
    """Kafka's own rule for ranges of addresses (KIP-1276)."""
    rule = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:u", "10.0.0.0/8", AclOperation.READ, Permission.DENY)
    async with topic_world(tmp_path) as world:
        assert (await ask(world, ("metadata.version", 33, UP))).error_code == ErrorCode.NONE
        world.authorizer = AclAuthorizer(stored_form([(rule, "id")]), world.store, BrokerConfig(max_acl_rules=1))
        answer = await ask(world, ("metadata.version", 31, SAFE))
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "while CIDR-based ACL host patterns exist" in (answer.error_message or "")
        assert (await ask(world, ("metadata.version", 32, SAFE))).error_code == ErrorCode.NONE
        await world.authorizer.delete([AclFilter()])
        assert (await ask(world, ("metadata.version", 30, SAFE))).error_code == ErrorCode.NONE
