"""Quotas in force, under a clock that tests move: what is told to whom, what a restart keeps, what costs nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from support.topic_world import topic_world
from tidelog.broker.quotas import manager as quota_manager
from tidelog.broker.quotas.manager import entity_name, parse_entity
from tidelog.broker.quotas.quota import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    checked_entity,
)
from tidelog.config.listener import ListenerLimits
from tidelog.protocol.errors import ErrorCode, ProtocolError

CLIENT = [(CLIENT_ID, "c")]


async def test_bytes_are_measured_for_each_client_and_told_as_a_wait(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        quotas = world.quotas
        assert not quotas.active
        await quotas.alter(CLIENT, {PRODUCER_BYTE_RATE: 1000.0, CONSUMER_BYTE_RATE: 500.0}, False)
        assert quotas.active
        assert quotas.produced("c", 10_000) == 0  # what ten windows hold
        assert quotas.produced("c", 1_000) == 1_000
        assert quotas.produced("other", 10**9) == quotas.produced(None, 10**9) == 0
        assert quotas.fetched("c", 5_500) == 1_000
        assert quotas.most_fetched("c") == 5_500
        world.time.advance(12_000)
        assert quotas.produced("c", 1) == 0
        assert quotas.throttled_ms[PRODUCER_BYTE_RATE] == 1_000
        assert quotas.handled("c", 10.0) == 0  # no such quota


async def test_time_on_the_loop(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.quotas.alter([(USER, "ANONYMOUS")], {REQUEST_PERCENTAGE: 50.0}, False)
        assert world.quotas.handled("c", 5.0) == 0  # half of ten seconds
        assert world.quotas.handled("d", 0.5) == 1_000  # a user's quota is shared by its clients
        assert world.quotas.handled("d", 5.0, "alice") == 0  # and is nobody else's


async def test_time_on_the_loop_is_waited_for_in_short_waits(tmp_path: Path) -> None:
    """KIP-124: a window at most, so that a heartbeat behind one long request is not late for its group's session."""
    async with topic_world(tmp_path) as world:
        await world.quotas.alter(CLIENT, {REQUEST_PERCENTAGE: 1.0, PRODUCER_BYTE_RATE: 1.0}, False)
        assert world.quotas.handled("c", 5.0) == 1_000
        world.time.advance(1_000)
        assert world.quotas.handled("c", 0.001) == 1_000, "it is over its quota still"
        assert world.quotas.throttled_ms[REQUEST_PERCENTAGE] == 2_000
        assert world.quotas.produced("c", 100) == 90_000  # bytes are waited for as long as they take


async def test_partitions_are_tokens(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.quotas.alter(CLIENT, {CONTROLLER_MUTATION_RATE: 2.0}, False)
        assert not world.quotas.active  # no request has to be measured for it
        strict = world.quotas.mutations("c", strict=True)
        strict.take(24)  # the bucket has 22, and may be overdrawn once
        assert strict.throttle_ms == 1_000
        with pytest.raises(ProtocolError) as refused:
            strict.take(1)
        assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        old = world.quotas.mutations("c", strict=False)
        old.take(2)
        assert old.throttle_ms == 2_000
        world.quotas.mutations("other", strict=True).take(10_000)
        world.time.advance(2_000)
        world.quotas.mutations("c", strict=True).take(1)


async def test_connections_of_an_address(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        assert world.quotas.connected("10.0.0.1", "PLAINTEXT") == 0
        await world.quotas.alter([(IP, None)], {CONNECTION_CREATION_RATE: 1.0}, False)
        waits = [world.quotas.connected("10.0.0.1", "PLAINTEXT") for _ in range(12)]
        assert (waits[9], waits[10], waits[11]) == (0, 1_000, 2_000)
        assert world.quotas.connected("10.0.0.2", "PLAINTEXT") == 0


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::7", "2001:db8::7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("10.0.0.7", "10.0.0.7"),
    ],
)
async def test_a_quota_is_an_addresss_and_not_its_spellings(tmp_path: Path, name: str, address: str) -> None:
    async with topic_world(tmp_path) as world:
        await world.quotas.alter([(IP, name)], {CONNECTION_CREATION_RATE: 1.0}, False)
        assert [world.quotas.connected(address, "PLAINTEXT") for _ in range(11)][-1] == 1_000
        await world.quotas.alter([(IP, None)], {CONNECTION_CREATION_RATE: 100.0}, False)
        assert world.quotas.connected("10.0.0.66", "PLAINTEXT") == 0
        assert world.quotas.table.address_limit("10.0.0.66") == 100.0
        await world.quotas.alter([(IP, name)], {CONNECTION_CREATION_RATE: None}, False)
        assert world.quotas.table.address_limit(address) == 100.0


async def test_connections_of_a_listener(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        limits = {"OUTSIDE": ListenerLimits(creation_rate=1), "INSIDE": ListenerLimits(connections=3)}
        world.quotas.use(dataclasses.replace(world.settings.config, listener_limits=limits))
        waits = [world.quotas.connected(f"10.0.0.{number}", "OUTSIDE") for number in range(12)]
        assert (waits[9], waits[10], waits[11]) == (0, 1_000, 2_000)
        assert world.quotas.connected("10.0.0.1", "INSIDE") == 0
        world.quotas.use(dataclasses.replace(world.settings.config, max_connection_creation_rate=1))
        assert [world.quotas.connected(f"10.0.0.{number}", "INSIDE") for number in range(11)][-1] == 1_000
        assert world.quotas.connected("10.0.0.1", "OUTSIDE") == 2_000, "the broker's rate counts all listeners'"


async def test_a_changed_quota_is_no_fresh_start_for_anybody(tmp_path: Path) -> None:
    """What was measured stays, as in Kafka, under the bound that holds from then on."""
    async with topic_world(tmp_path) as world:
        quotas = world.quotas
        await quotas.alter(CLIENT, {PRODUCER_BYTE_RATE: 1000.0, CONTROLLER_MUTATION_RATE: 2.0}, False)
        quotas.use(dataclasses.replace(world.config, max_connection_creation_rate=1))
        assert quotas.produced("c", 11_000) == 1_000
        quotas.mutations("c", strict=True).take(24)
        assert [quotas.connected("10.0.0.1", "PLAINTEXT") for _ in range(11)][-1] == 1_000

        await quotas.alter([(CLIENT_ID, "other")], {PRODUCER_BYTE_RATE: 7.0}, False)
        assert quotas.produced("c", 0) == 1_000
        assert quotas.connected("10.0.0.1", "PLAINTEXT") == 2_000
        with pytest.raises(ProtocolError):
            quotas.mutations("c", strict=True).take(1)
        await quotas.alter(CLIENT, {PRODUCER_BYTE_RATE: 550.0}, False)
        assert quotas.produced("c", 0) == 10_000, "for the same bytes half the rate has to wait"


async def test_rates_of_quotas_that_are_no_more_are_forgotten(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        quotas = world.quotas
        for user in ("alice", "bob"):
            await quotas.alter([(USER, user)], {PRODUCER_BYTE_RATE: 1.0, CONTROLLER_MUTATION_RATE: 2.0}, False)
            quotas.produced("c", 1, user)
            quotas.mutations("c", user, strict=True).take(1)
        await quotas.alter([(USER, "bob")], {PRODUCER_BYTE_RATE: None, CONTROLLER_MUTATION_RATE: None}, False)
        assert (len(quotas._rates), len(quotas._buckets)) == (2, 2)
        await quotas.alter([(USER, "alice")], {PRODUCER_BYTE_RATE: None}, False)
        assert (len(quotas._rates), len(quotas._buckets)) == (0, 2)


async def test_what_is_set_is_stored_and_what_is_removed_is_gone(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.quotas.alter(CLIENT, {PRODUCER_BYTE_RATE: 7.0, REQUEST_PERCENTAGE: 0.1}, False)
        await world.quotas.alter(CLIENT, {PRODUCER_BYTE_RATE: None}, False)
        await world.quotas.alter([(USER, None)], {PRODUCER_BYTE_RATE: 9.0}, True)  # validated only
        with pytest.raises(ProtocolError):
            await world.quotas.alter(CLIENT, {CONSUMER_BYTE_RATE: 5.0, PRODUCER_BYTE_RATE: -5.0}, False)
    async with topic_world(tmp_path) as world:
        assert world.quotas.active
        assert world.quotas.table.entries == {tuple(CLIENT): {REQUEST_PERCENTAGE: 0.1}}
        await world.quotas.alter(CLIENT, {REQUEST_PERCENTAGE: None}, False)
    async with topic_world(tmp_path) as world:
        assert (world.quotas.active, world.quotas.table.entries) == (False, {})


async def test_rates_of_ever_new_clients_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_manager, "MAX_RATES", 10)
    async with topic_world(tmp_path) as world:
        await world.quotas.alter([(CLIENT_ID, None)], {PRODUCER_BYTE_RATE: 1.0}, False)
        for number in range(100):
            world.time.advance(1)
            world.quotas.produced(f"c{number}", 1)
        assert len(world.quotas._rates) <= 10
        assert world.quotas.produced("c99", 10) > 0  # the newest are known


async def test_long_names_of_clients_are_not_kept_and_each_has_its_own_rate(tmp_path: Path) -> None:
    """Ten thousand of 32 KiB would take 320 MB, which no client has to pay for."""
    async with topic_world(tmp_path) as world:
        await world.quotas.alter([(CLIENT_ID, None)], {PRODUCER_BYTE_RATE: 1.0, CONTROLLER_MUTATION_RATE: 1.0}, False)
        names = ["c" * 30_000 + end for end in ("a", "b")]
        assert world.quotas.produced(names[0], 12) == 2_000
        assert world.quotas.produced(names[1], 11) == 1_000, "the other one's do not count"
        assert world.quotas.produced(names[0], 1) == 3_000
        world.quotas.mutations(names[0], strict=True).take(1)
        scopes = [*world.quotas._rates, *world.quotas._buckets]
        assert len(scopes) == 3
        assert all(len(part or "") < 300 for scope in scopes for part in scope)


@pytest.mark.parametrize("text", ["", "[]", "5", '{"user": 5}', pytest.param("[" * 100_000, id="deep")])
def test_what_is_no_entity_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_entity(text)


@pytest.mark.parametrize("parts", [[(USER, None), (CLIENT_ID, 'a"ü')], [(IP, "::1")]])
def test_entities_as_text(parts: list[tuple[str, str | None]]) -> None:
    entity = checked_entity(parts)
    assert parse_entity(entity_name(entity)) == entity
