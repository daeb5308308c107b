from __future__ import annotations

from pathlib import Path

from support.streams_broker import streams_world
from tidelog.broker.requests.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import streams_group_heartbeat as wire


async def test_a_group_with_everything(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        tags = [wire.KeyValue(key="zone", value="a")]
        await world.join(client_tags=tags, user_endpoint=wire.Endpoint(host="h", port=1), rack_id="r")
        (group,) = await world.describe("app", operations=True)
        assert (group.error_code, group.group_id, group.group_state) == (0, "app", "Stable")
        assert (group.group_epoch, group.assignment_epoch, group.authorized_operations) == (2, 2, GROUP_OPERATIONS)
        (subtopology,) = group.topology.subtopologies
        assert (subtopology.source_topics, subtopology.state_changelog_topics[0].partitions) == (["orders"], 2)
        assert subtopology.state_changelog_topics[0].topic_configs[0].value == "compact"
        (member,) = group.members
        assert (member.member_id, member.member_epoch, member.process_id, member.rack_id) == ("m", 2, "p", "r")
        assert (member.client_host, member.user_endpoint.host, member.client_tags[0].key) == (
            "/127.0.0.1",
            "h",
            "zone",
        )
        for tasks in (member.assignment, member.target_assignment):
            assert [(each.subtopology_id, each.partitions) for each in tasks.active_tasks] == [("0", [0, 1])]
            assert (tasks.standby_tasks, tasks.warmup_tasks) == ([], [])
        assert not member.is_classic


async def test_a_topology_that_is_not_ready_is_told_as_the_application_said(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        await world.world.topics.delete("orders")
        await world.join()
        (group,) = await world.describe("app")
        assert (group.group_state, group.authorized_operations) == ("NotReady", NOT_ASKED)
        assert group.topology.subtopologies[0].state_changelog_topics[0].partitions == 0


async def test_groups_that_are_none(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        groups = await world.describe("", "nobody")
        assert [(each.error_code, each.error_message) for each in groups] == [
            (ErrorCode.INVALID_GROUP_ID, groups[0].error_message),
            (ErrorCode.GROUP_ID_NOT_FOUND, "Group nobody not found."),
        ]


async def test_a_group_that_is_named_over_and_over_is_told_once(tmp_path: Path) -> None:
    async with streams_world(tmp_path) as world:
        await world.join()
        groups = await world.describe("app", "nobody", "app", "app")
        assert [each.group_id for each in groups] == ["app", "nobody"]
