"""Heartbeats of streams groups from wire to wire; what the group makes of them is in groups/streams/test_heartbeat.py."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from support.permissions import EVERYTHING
from support.streams_broker import streams_world, topology
from tidelog.broker.apis.streams_group_heartbeat import streams_group_heartbeat
from tidelog.broker.groups.offset_commits import CommitRequest, OffsetToCommit
from tidelog.broker.groups.store.member_memory import MEMBER_COST
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.messages import streams_group_heartbeat as wire


async def test_internal_topics_are_made_and_tasks_given_with_the_first_heartbeat(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        tags = [wire.KeyValue(key="zone", value="a")]
        endpoint = wire.Endpoint(host="h", port=1)
        answer = await world.join(client_tags=tags, user_endpoint=endpoint)
        assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m", 2)
        assert (answer.heartbeat_interval_ms, answer.status) == (5000, [])
        assert [(each.subtopology_id, each.partitions) for each in answer.active_tasks] == [("0", [0, 1])]
        assert (answer.standby_tasks, answer.warmup_tasks) == ([], [])
        (told,) = answer.partitions_by_user_endpoint
        assert (told.user_endpoint.port, told.active_partitions[0].partitions) == (1, [0, 1])
        made = world.world.topics.get("store-changelog")
        assert made is not None
        assert (made.partition_count, made.overrides) == (2, {"cleanup.policy": "compact"})
        again = await world.beat(member_epoch=2, endpoint_information_epoch=1)
        assert (again.active_tasks, again.partitions_by_user_endpoint) == (None, None)
        assert (await world.beat(member_epoch=-1)).member_epoch == -1


async def test_topics_that_cannot_be_made_are_told(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        wrong = wire.KeyValue(key="cleanup.policy", value="shred")
        for found, says in ((topology(3), "3 copies need 3 brokers"), (topology(0, wrong), "cleanup.policy")):
            answer = await world.join(found, member_id=f"m{says[0]}", group_id=f"app{says[0]}")
            assert (answer.error_code, answer.active_tasks) == (0, [])
            (status,) = answer.status
            assert status.status_code == 3
            assert (
                "Internal topics are missing: store-changelog; Creation failed: store-changelog ("
                in status.status_detail
            )
            assert says in status.status_detail


async def test_more_partitions_than_one_request_may_make(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        many = wire.Topology(
            subtopologies=[
                wire.Subtopology(
                    subtopology_id="0",
                    source_topics=["orders"],
                    repartition_sink_topics=["a", "b"],
                    repartition_source_topics=[
                        wire.TopicInfo(name="a", partitions=9_999), wire.TopicInfo(name="b", partitions=9_999),
                        wire.TopicInfo(name="c", partitions=99_999),
                    ],
                )
            ]
        )  # fmt: skip
        request = wire.StreamsGroupHeartbeatRequest(
            group_id="app", member_id="m", rebalance_timeout_ms=1000, topology=many
        )
        made: list[str] = []
        topics = world.world.topics

        async def create(name: str, partitions: int, overrides: object, claim: object) -> None:
            made.append(name)

        topics.create = create  # type: ignore[method-assign, assignment]
        answer = await world.ask(streams_group_heartbeat, request, wire.StreamsGroupHeartbeatResponse)
        assert made == ["a"]
        assert "b (9999 more would be over the 10000 partitions of one request)" in answer.status[0].status_detail


async def test_many_topics_that_are_to_be_made_leave_the_loop_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each heartbeat tries those again that cannot be made."""
    wrong = wire.KeyValue(key="cleanup.policy", value="shred")
    stores = [wire.TopicInfo(name=f"store-{number}", topic_configs=[wrong]) for number in range(500)]
    subtopology = wire.Subtopology(subtopology_id="0", source_topics=["orders"], state_changelog_topics=stores)
    seen = [0]

    async def next_turn() -> None:
        seen.append(0)

    monkeypatch.setitem(EVERYTHING, "next_turn", next_turn)
    async with streams_world(tmp_path) as world:
        check_new = world.world.topics.check_new

        def counted(*fields: Any) -> Any:
            seen[-1] += 1
            return check_new(*fields)

        monkeypatch.setattr(world.world.topics, "check_new", counted)
        answer = await world.join(wire.Topology(subtopologies=[subtopology]))
    assert answer.status[0].status_detail.count("Creation failed: store-0 (") == 1
    assert "497 more" in answer.status[0].status_detail
    assert sum(seen) == 500
    assert max(seen) <= 100


async def test_errors(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        assert (await world.beat(member_epoch=3)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await world.beat()).error_code == ErrorCode.INVALID_REQUEST
        refused = await world.join(wire.Topology(epoch=-1))
        assert (refused.error_code, refused.error_message) == (
            ErrorCode.STREAMS_INVALID_TOPOLOGY, "Topology epoch -1 must not be negative.",
        )  # fmt: skip
        world.world.features.finalize("streams.version", 0)
        assert (await world.join()).error_code == ErrorCode.UNSUPPORTED_VERSION
        (described,) = await world.describe("app")
        assert described.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_the_protocol_can_be_left_out(tmp_path: Path) -> None:
    async with streams_world(tmp_path, group_coordinator_rebalance_protocols=("classic", "consumer")) as world:
        assert (await world.join()).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_members_commit_with_their_epoch(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        await world.join()
        commit = CommitRequest(
            "app", [OffsetToCommit("orders", 0, 7)], "m", None, 2, -1, ErrorCode.GROUP_ID_NOT_FOUND, 9
        )
        assert world.groups.groups.commit_offsets(commit) == [ErrorCode.NONE]
        with pytest.raises(ProtocolError) as caught:
            world.groups.groups.commit_offsets(dataclasses.replace(commit, generation=3))
        assert caught.value.code is ErrorCode.STALE_MEMBER_EPOCH


async def test_versions(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        old = await world.join(version=0, group_id="old")
        assert (old.acceptable_recovery_lag, old.acceptable_recovery_lag_legacy) == (-1, 0)
        new = await world.join(group_id="new")
        assert (new.acceptable_recovery_lag, new.task_offset_interval_ms) == (10_000, 60_000)
        assert (old.topology_description_required, new.topology_description_required) == (False, True)
        refused = await world.beat(group_id="none", member_epoch=3)
        assert (refused.acceptable_recovery_lag, refused.topology_description_required) == (-1, False)


async def test_offsets_of_tasks_are_described_until_the_member_goes(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        await world.join()
        offsets = [wire.TaskOffset(subtopology_id="0", partition=part, offset=10 + part) for part in (0, 1)]
        for told in (offsets, None):  # what is not told has not changed
            answer = await world.beat(member_epoch=2, task_offsets=told, task_end_offsets=told)
            assert answer.error_code == 0
            ((member,),) = [group.members for group in await world.describe("app")]
            assert (member.task_offsets, member.task_end_offsets) == (offsets, offsets)
        assert world.groups.groups.heartbeat_groups.read("app").bytes_of("m") == MEMBER_COST + 5 * 48  # type: ignore[union-attr]
        await world.beat(member_epoch=-1)
        await world.join()
        ((member,),) = [group.members for group in await world.describe("app")]
        assert member.task_offsets == []


async def test_offsets_that_are_told_leave_the_ends_as_they_were_and_ends_the_offsets(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        await world.join()
        first, later = ([wire.TaskOffset(subtopology_id="0", partition=1, offset=offset)] for offset in (10, 20))
        for reached, ends, shown in (
            (first, later, (first, later)),
            (later, None, (later, later)),
            (None, first, (later, first)),
            ([], None, ([], first)),
        ):
            await world.beat(member_epoch=2, task_offsets=reached, task_end_offsets=ends)
            ((member,),) = [group.members for group in await world.describe("app")]
            assert (member.task_offsets, member.task_end_offsets) == shown


async def test_ends_take_room_beside_the_offsets_that_were_told_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with streams_world(tmp_path) as world:
        await world.join()
        monkeypatch.setattr("tidelog.broker.groups.store.member_memory.MEMBER_BYTES", 20_000)
        many = [wire.TaskOffset(subtopology_id="0", partition=part) for part in range(1000)]  # 12 bytes each
        assert (await world.beat(member_epoch=2, task_offsets=many)).error_code == 0
        refused = await world.beat(member_epoch=2, task_end_offsets=many)
        assert refused.error_code == ErrorCode.INVALID_REQUEST


async def test_a_static_member_comes_back_under_another_id(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        tasks = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        first = await world.join(instance_id="i", **tasks)
        away = await world.beat(instance_id="i", member_epoch=-2)
        assert (first.member_epoch, away.error_code, away.member_epoch) == (2, 0, -2)
        await world.restart()
        back = await world.join(instance_id="i", member_id="n", **tasks)
        assert (back.error_code, back.member_epoch, back.active_tasks) == (0, 2, first.active_tasks)
        (group,) = await world.describe("app")
        assert [(each.member_id, each.instance_id) for each in group.members] == [("n", "i")]
        fenced = await world.beat(instance_id="i", member_epoch=2)
        assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
        world.groups.log.failure = OSError("full")
        await world.beat(instance_id="i", member_id="n", member_epoch=-1)
        world.groups.log.failure = None
        assert (await world.beat(instance_id="i", member_id="n", member_epoch=2)).error_code == 0


@pytest.mark.parametrize("steps", [1, 2, 3])
async def test_a_client_that_goes_while_topics_are_made_leaves_nothing_reserved(tmp_path: Path, steps: int) -> None:
    """What was reserved for topics whose making had not begun stayed on its account, until it could make no more."""
    async with streams_world(tmp_path) as world:
        makers = world.world.topics.makers
        joining = asyncio.ensure_future(world.join())
        for _ in range(steps):
            await asyncio.sleep(0)
        joining.cancel()
        await asyncio.gather(joining, return_exceptions=True)
        while world.world.topics._operations:
            await asyncio.wait(world.world.topics._operations)
        there = [topic for topic in world.world.topics.all() if topic.name == "store-changelog"]
        principal = world.world.context(1).principal
        assert makers.topics_of(principal) == len(there)
