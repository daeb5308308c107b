"""From the question in a heartbeat's answer to the description in a describe's, and all that may come in between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.streams_broker import StreamsBroker, streams_world, topology
from support.topology_descriptions import ORDERS
from tidelog.broker.groups.store.group import GroupType
from tidelog.broker.metadata import topology_descriptions
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.streams_group_describe import DescriptionStatus
from tidelog.protocol.messages.streams_group_topology_description_update import (
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from tidelog.storage.exceptions import KafkaStorageError

FAILED = ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
OFF = {"group_streams_topology_descriptions_max_bytes": 0}
NO_NODE = TopologyDescription(
    subtopologies=[TopologyDescriptionSubtopology(nodes=[TopologyDescriptionNode(node_type=4)])]
)


async def status(world: StreamsBroker, name: str = "app") -> tuple[int, TopologyDescription | None]:
    (group,) = await world.describe(name, topology=True)
    return group.topology_description_status, group.topology_description


def epochs(world: StreamsBroker) -> tuple[int, int]:
    return tuple(world.groups.groups.heartbeat_groups.read("app").descriptions)  # type: ignore[union-attr]


async def asked(world: StreamsBroker, **fields: Any) -> bool:
    answer = await world.beat(**{"member_epoch": 2, **fields})
    assert answer.error_code == 0
    return bool(answer.topology_description_required)


def refuse_writes(world: StreamsBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Any:
        raise OSError("full")

    monkeypatch.setattr(world.world.store, "_connect", refuse)


async def test_a_member_is_asked_once_and_its_description_is_told(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        assert (await world.join()).topology_description_required
        assert not await asked(world)
        assert await status(world) == (DescriptionStatus.NOT_STORED, None)
        answer = await world.push(ORDERS)
        assert (answer.error_code, answer.error_message) == (0, None)
        assert await status(world) == (DescriptionStatus.AVAILABLE, ORDERS)
        (group,) = await world.describe("app")
        assert (group.topology_description_status, group.topology_description) == (
            DescriptionStatus.NOT_REQUESTED,
            None,
        )
        assert group.assignor_name == "sticky"
        world.world.time.set_wall_clock(world.world.time.milliseconds() + 10_000_000)
        assert not await asked(world)
        await world.restart()
        assert not await asked(world)
        assert await status(world) == (DescriptionStatus.AVAILABLE, ORDERS)


async def test_who_does_not_answer_is_asked_again_later_and_by_and_by_less_often(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        time = world.world.time
        assert (await world.join()).topology_description_required
        for delay_ms in (30_000, 60_000, 120_000):
            time.set_wall_clock(time.milliseconds() + delay_ms - 1)
            assert not await asked(world)
            time.set_wall_clock(time.milliseconds() + 1)
            assert await asked(world)
            assert not await asked(world)
        await world.restart()
        assert await asked(world)


async def test_who_is_not_asked(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        old = await world.join(version=0)
        assert not old.topology_description_required
        stale = await world.join(topology(), member_id="n")  # an epoch behind, once the group has another
        assert stale.topology_description_required
        group: Any = world.groups.groups.heartbeat_groups.read("app")
        group.description_asked = None
        group.topology = group.topology._replace(epoch=7)
        group.configured = None
        answer = await world.beat(member_epoch=2, member_id="n")
        assert ([each.status_code for each in answer.status][:1], answer.topology_description_required) == ([0], False)
        leaves = await world.beat(member_epoch=-1, member_id="n")
        assert not leaves.topology_description_required
        assert (leaves.acceptable_recovery_lag, leaves.task_offset_interval_ms) == (-1, 0)


async def test_errors_come_in_kafkas_order(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        await world.join()
        for fields, code, message in (
            ({"member_id": "", "group_id": ""}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
            ({"group_id": ""}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
            ({"group_id": "x"}, ErrorCode.GROUP_ID_NOT_FOUND, "Group x not found."),
            (
                {"member_id": "x", "topology_epoch": 5},
                ErrorCode.UNKNOWN_MEMBER_ID,
                "Member x is not a member of group app.",
            ),
            (
                {"topology_epoch": 42},
                ErrorCode.INVALID_REQUEST,
                "Topology epoch 42 does not match the group's current topology epoch 0.",
            ),
            ({}, ErrorCode.INVALID_REQUEST, "Unknown topology node type: 4"),
        ):
            answer = await world.push(NO_NODE, **fields)
            assert (answer.error_code, answer.error_message) == (code, message)
        assert epochs(world) == (-1, -1)
        world.world.features.finalize("streams.version", 0)
        assert (await world.push(ORDERS)).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_group_of_another_type(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        world.groups.stable("c", group_id="app")
        answer = await world.push(ORDERS)
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.GROUP_ID_NOT_FOUND, "Group app is not a streams group.",
        )  # fmt: skip


async def test_turned_off_it_is_as_kafka_without_a_plug_in(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        await world.join()
        await world.push(ORDERS)
    async with streams_world(tmp_path, **OFF) as world:
        assert not (await world.join()).topology_description_required
        answer = await world.push(ORDERS, member_id="", group_id="nobody")
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.UNSUPPORTED_VERSION, "The broker has no streams group topology description plugin configured.",
        )  # fmt: skip
        assert await status(world) == (DescriptionStatus.NOT_STORED, None)
        assert (await status(world, "nobody"))[0] == DescriptionStatus.NOT_REQUESTED


async def test_one_that_is_too_large_is_not_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology_descriptions, "MOST_BYTES", 50)
    async with streams_world(tmp_path) as world:
        await world.join()
        answer = await world.push(ORDERS)
        assert answer.error_code == FAILED
        assert "50 are kept of one" in answer.error_message
        assert (epochs(world), await status(world)) == ((-2, 0), (DescriptionStatus.NOT_STORED, None))
        world.world.time.set_wall_clock(world.world.time.milliseconds() + 10_000_000)
        assert not await asked(world)
        await world.restart()
        assert not await asked(world)
        monkeypatch.undo()
        assert (await world.push(ORDERS)).error_code == 0  # from whoever sends it unasked
        assert (epochs(world), await status(world)) == ((0, 0), (DescriptionStatus.AVAILABLE, ORDERS))


@pytest.mark.parametrize("is_too_large", [False, True])
async def test_another_one_that_is_refused_takes_away_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_too_large: bool
) -> None:
    """A member may send one unasked, of the epoch whose description is stored."""
    async with streams_world(tmp_path) as world:
        await world.join()
        assert (await world.push(ORDERS)).error_code == 0
        with monkeypatch.context() as patched:
            if is_too_large:
                patched.setattr(topology_descriptions, "MOST_BYTES", 50)
            else:
                refuse_writes(world, patched)
            assert (await world.push(ORDERS)).error_code == FAILED
        assert (epochs(world), await status(world)) == ((0, -1), (DescriptionStatus.AVAILABLE, ORDERS))
        await world.restart()
        assert await status(world) == (DescriptionStatus.AVAILABLE, ORDERS)


async def test_a_disk_that_refuses_is_tried_again_but_not_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with streams_world(tmp_path) as world:
        time = world.world.time
        await world.join()
        time.set_wall_clock(time.milliseconds() + 40_000)  # who was asked had its time
        refuse_writes(world, monkeypatch)
        answer = await world.push(ORDERS)
        assert (answer.error_code, answer.error_message) == (FAILED, "The topology description could not be stored.")
        assert epochs(world) == (-2, -1)
        time.set_wall_clock(time.milliseconds() + 59_999)
        assert not await asked(world)
        time.set_wall_clock(time.milliseconds() + 1)
        assert await asked(world)
        monkeypatch.undo()
        assert (await world.push(ORDERS)).error_code == 0
        assert epochs(world) == (0, -1)


async def test_a_log_that_refuses_leaves_what_was(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        await world.join()
        world.groups.log.failure = KafkaStorageError("full")
        assert (await world.push(ORDERS)).error_code == ErrorCode.NOT_COORDINATOR
        world.groups.log.failure = None
        assert (epochs(world), len(world.groups.groups.descriptions or ())) == ((-1, -1), 0)


async def test_a_log_that_refuses_behind_the_store_is_asked_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with streams_world(tmp_path) as world:
        await world.join()
        kept: Any = world.groups.groups.descriptions
        put = kept.put

        async def put_then_fail(*arguments: Any) -> None:
            await put(*arguments)
            world.groups.log.failure = KafkaStorageError("full")

        monkeypatch.setattr(type(kept), "put", lambda _, *arguments: put_then_fail(*arguments))
        assert (await world.push(ORDERS)).error_code == ErrorCode.NOT_COORDINATOR
        world.groups.log.failure = None
        assert (epochs(world), await status(world)) == ((-2, -1), (DescriptionStatus.NOT_STORED, None))
        assert not await asked(world)
        world.world.time.set_wall_clock(world.world.time.milliseconds() + 60_000)
        assert await asked(world)


async def test_a_group_that_is_deleted_meanwhile_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with streams_world(tmp_path) as world:
        await world.join()
        kept: Any = world.groups.groups.descriptions
        put = kept.put

        async def put_then_delete(*arguments: Any) -> None:
            await world.beat(member_epoch=-1)
            deleted = world.groups.groups.delete_group("app")
            assert deleted is ErrorCode.NONE
            await put(*arguments)

        monkeypatch.setattr(type(kept), "put", lambda _, *arguments: put_then_delete(*arguments))
        assert (await world.push(ORDERS)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert world.world.store.read().descriptions == {}


async def test_the_description_is_stored_where_its_client_has_gone(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        await world.join()
        pushing = asyncio.ensure_future(world.push(ORDERS))
        groups: Any = world.groups.groups
        for _ in range(3):
            await asyncio.sleep(0)
        (storing,) = groups._pushes
        pushing.cancel()
        await storing
        assert (pushing.cancelled(), groups._pushes, epochs(world)) == (True, set(), (0, -1))
        assert await status(world) == (DescriptionStatus.AVAILABLE, ORDERS)


async def test_a_group_goes_with_its_description(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with streams_world(tmp_path) as world:
        groups = world.groups.groups
        await world.join()
        await world.push(ORDERS)
        assert await groups.delete_group("app") is ErrorCode.NON_EMPTY_GROUP  # type: ignore[misc]
        assert await status(world) == (DescriptionStatus.AVAILABLE, ORDERS)
        await world.beat(member_epoch=-1)
        with monkeypatch.context() as failing:
            refuse_writes(world, failing)
            assert await groups.delete_group("app") is ErrorCode.GROUP_DELETION_FAILED  # type: ignore[misc]
        assert (epochs(world), await status(world)) == ((-2, -1), (DescriptionStatus.NOT_STORED, None))
        assert await groups.delete_group("app") is ErrorCode.NONE  # type: ignore[misc]
        assert (groups.heartbeat_groups.read("app"), world.world.store.read().descriptions) == (None, {})
        assert groups.delete_group("app") is ErrorCode.GROUP_ID_NOT_FOUND


async def test_what_groups_that_are_gone_have_left_is_removed(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        groups: Any = world.groups.groups
        for name in ("app", "two"):
            await world.join(group_id=name)
            await world.push(ORDERS, group_id=name)
            await world.beat(member_epoch=-1, group_id=name)
        await world.join(group_id="three")
        await world.push(ORDERS, group_id="three")
        world.groups.stable("c", group_id="app")  # a classic group in the place of the empty one
        shard = groups._shards.find("two")
        groups._commits._forget(shard, shard.groups["two"])  # as when it expires
        groups._forget_descriptions()
        await asyncio.gather(*groups._pushes)
        assert list(world.world.store.read().descriptions) == ["three"]
        assert groups.heartbeat_groups.read("three").group_type is GroupType.STREAMS


async def test_one_that_cannot_be_read_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with streams_world(tmp_path) as world:
        await world.join()
        await world.push(ORDERS)

        def damaged(_: str) -> Any:
            raise KafkaStorageError("damaged")

        monkeypatch.setattr(world.world.store, "_topology_description", damaged)
        assert await status(world) == (DescriptionStatus.ERROR, None)


async def test_a_group_of_apache_kafkas_is_asked_for_what_its_plug_in_has(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        await world.join()
        await world.push(ORDERS)
        await world.groups.groups.descriptions.forget(["app"])  # type: ignore[union-attr]
        assert (epochs(world), await status(world)) == ((0, -1), (DescriptionStatus.NOT_STORED, None))
        assert await asked(world)


async def test_a_group_that_is_named_over_and_over_is_described_once_with_its_graph(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        await world.join()
        await world.push(ORDERS)
        found = await world.describe("app", "nobody", "app", "app", topology=True)
        assert [(each.group_id, each.topology_description_status, each.topology_description) for each in found] == [
            ("app", DescriptionStatus.AVAILABLE, ORDERS),
            ("nobody", DescriptionStatus.NOT_REQUESTED, None),
        ]


@pytest.mark.parametrize("hidden", ["large-orders", "prices", "nobody-has-this"])
async def test_a_graph_that_names_topics_which_its_reader_may_not_describe_is_not_told(
    tmp_path: Path, hidden: str
) -> None:
    async with streams_world(tmp_path) as world:
        for name in ("large-orders", "prices"):
            await world.world.topics.create(name, 1, {})
        await world.join()
        await world.push(ORDERS)
        assert await status(world) == (DescriptionStatus.AVAILABLE, ORDERS)
        world.hidden_topics = {hidden, "a-topic-that-is-not-in-it"}
        (group,) = await world.describe("app", topology=True)
        assert (group.error_code, group.group_state) == (0, "Stable")
        if hidden == "nobody-has-this":
            assert group.topology_description_status == DescriptionStatus.AVAILABLE
        else:
            assert (group.topology_description_status, group.topology_description, group.error_message) == (
                DescriptionStatus.ERROR, None, "the description of the topology names topics that you may not describe",
            )  # fmt: skip
        await world.world.topics.delete("large-orders")
        await world.world.topics.delete("prices")
        assert await status(world) == (DescriptionStatus.AVAILABLE, ORDERS)


@pytest.mark.parametrize("is_too_large", [False, True])
async def test_a_group_that_is_made_anew_meanwhile_is_asked_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_too_large: bool
) -> None:
    async with streams_world(tmp_path) as world:
        await world.join()
        kept: Any = world.groups.groups.descriptions
        put = kept.put

        async def another_group_then_put(*arguments: Any) -> None:
            await world.beat(member_epoch=-1)
            assert world.groups.groups.delete_group("app") is ErrorCode.NONE
            await world.join()
            if is_too_large:
                raise topology_descriptions.DescriptionTooLarge("too large")
            await put(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(type(kept), "put", lambda _, *arguments: another_group_then_put(*arguments))
            assert (await world.push(ORDERS)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (epochs(world), await status(world)) == ((-1, -1), (DescriptionStatus.NOT_STORED, None))
        world.world.time.set_wall_clock(world.world.time.milliseconds() + 60_000)
        assert await asked(world)
        assert (await world.push(ORDERS)).error_code == 0
        assert epochs(world) == (0, -1)
