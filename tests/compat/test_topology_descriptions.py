"""A member of a streams group describes its topology to Apache Kafka, with the plug-in that it brings along, and to us: asked or
not, refused or taken, told to whoever asks. The same messages, the same answers.

The member is scripted: Kafka Streams sends the same requests in no order that a test could hold it to.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.clients.programs import java_command
from support.daemon import Daemon
from support.kafka_broker import export, kafka
from support.patience import until
from support.topology_descriptions import ORDERS
from support.wire_client import WireClient
from tidelog.protocol.messages import streams_group_heartbeat as wire
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from tidelog.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from tidelog.protocol.schema import decode, encode

TOLD = repr(decode(TopologyDescription, 0, encode(ORDERS, 0))[0])
PLUG_IN = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
TOPOLOGY = wire.Topology(epoch=3, subtopologies=[wire.Subtopology(subtopology_id="0", source_topics=["orders"])])
ALL_OF_IT = {"source_topics": ["t", "t"], "sink_topic": "v", "stores": ["s", "s"], "successors": ["b", "a", "b"]}
#: Nodes with what their types do not have, and names twice.
TOO_MUCH = TopologyDescription(
    subtopologies=[
        TopologyDescriptionSubtopology(
            subtopology_id="0",
            nodes=[TopologyDescriptionNode(name="n", node_type=kind, **ALL_OF_IT) for kind in (1, 2, 3)],
        )
    ]
)
UNKNOWN_TYPE = TopologyDescription(
    subtopologies=[TopologyDescriptionSubtopology(nodes=[TopologyDescriptionNode(node_type=4)])]
)
NO_STORE = TopologyDescription(
    global_stores=[
        TopologyDescriptionGlobalStore(
            source=TopologyDescriptionNode(node_type=2), processor=TopologyDescriptionNode(node_type=1)
        )
    ]
)


class Application:
    """One member, and somebody who asks about its group."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.client = WireClient((host, int(port)))
        self.epoch = 0

    def prepare(self) -> None:
        made = CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=2, replication_factor=1)])
        assert self.client.ask(made, 5, CreateTopicsResponse).topics[0].error_code == 0
        find = FindCoordinatorRequest(key="app", key_type=0)
        until(lambda: self.client.ask(find, 3, FindCoordinatorResponse).error_code == 0, "a coordinator")
        until(lambda: self.beat(group_id="other", member_epoch=0)[0] not in (14, 15, 16), "that it has loaded")

    def beat(self, version: int = 1, **fields: Any) -> tuple[Any, ...]:
        """Error, whether a description is asked for, and the two settings that an answer has from version 1 on."""
        given: dict[str, Any] = {"group_id": "app", "member_id": "m", "member_epoch": self.epoch, **fields}
        if given["member_epoch"] == 0:
            tasks: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
            given = {**given, **tasks, "rebalance_timeout_ms": 1000, "process_id": "p", "topology": TOPOLOGY}
        request = wire.StreamsGroupHeartbeatRequest(**given)
        answer = self.client.ask(request, version, wire.StreamsGroupHeartbeatResponse)
        if given["group_id"] == "app" and answer.error_code == 0:
            self.epoch = answer.member_epoch
        return (
            answer.error_code, answer.error_message, answer.topology_description_required,
            answer.acceptable_recovery_lag, answer.task_offset_interval_ms,
        )  # fmt: skip

    def push(self, description: TopologyDescription, **fields: Any) -> tuple[Any, ...]:
        given = {
            "group_id": "app",
            "member_id": "m",
            "topology_epoch": 3,
            "topology_description": description,
            **fields,
        }
        request = StreamsGroupTopologyDescriptionUpdateRequest(**given)
        answer = self.client.ask(request, 0, StreamsGroupTopologyDescriptionUpdateResponse)
        return answer.error_code, answer.error_message

    def describe(self, *, topology: bool = True) -> tuple[Any, ...]:
        request = StreamsGroupDescribeRequest(group_ids=["app"], include_topology_description=topology)
        (group,) = self.client.ask(request, 1, StreamsGroupDescribeResponse).groups
        member = [(each.task_offsets, each.task_end_offsets) for each in group.members]
        return (
            group.error_code, group.topology_description_status, repr(group.topology_description), group.assignor_name,
            repr(member),
        )  # fmt: skip

    def delete(self) -> int:
        answer = self.client.ask(DeleteGroupsRequest(groups_names=["app"]), 2, DeleteGroupsResponse)
        return int(answer.results[0].error_code)

    def life(self) -> Iterator[tuple[str, Any]]:
        """What it hears, step by step."""
        offsets = [wire.TaskOffset(subtopology_id="0", partition=part, offset=7 + part) for part in (0, 1)]
        yield "a group that is not there", self.push(ORDERS)
        yield "an old client joins", self.beat(version=0, group_id="old")
        yield "joins", self.beat()
        yield "stays", self.beat()
        yield "nothing is stored", self.describe()
        yield "no member id", self.push(UNKNOWN_TYPE, member_id="", group_id="")
        yield "no group id", self.push(UNKNOWN_TYPE, group_id="")
        yield "another member", self.push(UNKNOWN_TYPE, member_id="x", topology_epoch=42)
        yield "another epoch", self.push(UNKNOWN_TYPE, topology_epoch=42)
        yield "a type that is none", self.push(UNKNOWN_TYPE)
        yield "a store that is none", self.push(NO_STORE)
        yield "still nothing", self.describe()
        yield "is taken", self.push(ORDERS)
        yield "is told", self.describe()
        yield "is not asked for", self.describe(topology=False)
        yield "another in its place", self.push(TOO_MUCH)
        yield "is told, without what is too much", self.describe()
        yield "tells offsets", self.beat(task_offsets=offsets, task_end_offsets=offsets[:1])
        yield "which are described", self.describe()
        yield "an offset twice", self.beat(task_offsets=[offsets[0]] * 2)
        yield "is not asked again", self.beat()
        yield "cannot be deleted", self.delete()
        yield "leaves", self.beat(member_epoch=-1)
        yield "is told without members", self.describe()
        yield "is deleted", self.delete()
        yield "is gone", self.describe()
        self.epoch = 0
        yield "joins again", self.beat()
        yield "nothing is left", self.describe()
        yield from self.static_life()

    def static_life(self) -> Iterator[tuple[str, Any]]:
        """A member that goes for a while."""

        def static(member_id: str, member_epoch: int, **fields: Any) -> tuple[Any, ...]:
            given = {"group_id": "static", "instance_id": "i", **fields}
            return self.told(member_id=member_id, member_epoch=member_epoch, **given)

        yield "a static member joins", static("a", 0)
        yield "another is not let in", static("b", 0)
        yield "not even itself", static("a", 0)
        yield "goes for a while", static("a", -2)
        yield "is not let in without its instance", static("a", 2, instance_id=None)
        yield "comes back as another", static("b", 0)
        yield "is fenced", static("a", 2)
        yield "cannot leave", static("a", -1)
        yield "stays as another", static("b", 2, client_tags=[])
        yield "another process", static("b", 2, process_id="q")
        yield "no such instance", static("b", 2, instance_id="x")
        yield "no instance to go", static("b", -2, instance_id=None)
        yield "leaves for good", static("b", -1)

    def told(self, **fields: Any) -> tuple[Any, ...]:
        """What one heartbeat hears of epochs and tasks."""
        if fields["member_epoch"] == 0:
            tasks: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
            fields = {**fields, **tasks, "rebalance_timeout_ms": 1000, "process_id": "p", "topology": TOPOLOGY}
        answer = self.client.ask(wire.StreamsGroupHeartbeatRequest(**fields), 1, wire.StreamsGroupHeartbeatResponse)
        return answer.error_code, answer.error_message, answer.member_id, answer.member_epoch, repr(answer.active_tasks)


def lived(bootstrap: str) -> list[tuple[str, Any]]:
    application = Application(bootstrap)
    with application.client:
        application.prepare()
        return list(application.life())


@pytest.fixture(scope="module", params=[True, False], ids=["on", "off"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """What the application heard from Apache Kafka, and from us; with descriptions kept, and without."""
    folder = tmp_path_factory.mktemp("topologies")
    of_kafka = {"offsets_topic_num_partitions": "1", "group_streams_initial_rebalance_delay_ms": "0"}
    of_ours: dict[str, str | int] = {"group.streams.initial.rebalance.delay.ms": 0}
    if request.param:
        of_kafka["group_streams_topology_description_plugin_class"] = PLUG_IN
    else:
        of_ours["group.streams.topology.descriptions.max.bytes"] = 0
    with ExitStack() as stack:
        theirs = lived(stack.enter_context(kafka(folder / "kafka", is_new=True, **of_kafka)))
    with Daemon(folder / "ours", of_ours) as daemon:
        ours = lived(daemon.bootstrap)
    return theirs, ours


def test_the_same_is_heard(both: tuple[Any, Any]) -> None:
    theirs, ours = both
    assert [step for step, _ in theirs] == [step for step, _ in ours]
    assert {step: heard for step, heard in ours if heard != dict(theirs)[step]} == {}
    assert ours == theirs


def test_kafkas_admin_client_reads_ours(tmp_path: Path) -> None:
    with Daemon(tmp_path, {"group.streams.initial.rebalance.delay.ms": 0}) as daemon:
        application = Application(daemon.bootstrap)
        with application.client:
            application.prepare()
            application.beat()

            def told() -> list[str]:
                command = [*java_command("Topology"), daemon.bootstrap, "app"]
                return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

            assert told() == ["NOT_STORED sticky"]
            assert application.push(ORDERS) == (0, None)
            assert told() == [
                "AVAILABLE sticky",
                "0 in [count, large] []",
                "0 count [] [in]",
                "0 large [out] [in]",
                "0 out [] [large]",
                "global prices-in prices",
            ]


def test_a_group_in_a_directory_that_changes_hands(tmp_path: Path) -> None:
    """Who takes over reads the other's records, has no description, and takes the member's."""
    sessions = {"group.streams.session.timeout.ms": "3600000", "group.streams.max.session.timeout.ms": "3600000"}
    settings = {"group.streams.initial.rebalance.delay.ms": "0", "log.retention.ms": "-1", **sessions}
    of_kafka = {name.replace(".", "_"): value for name, value in settings.items()}
    of_kafka |= {"offsets_topic_num_partitions": "1", "group_streams_topology_description_plugin_class": PLUG_IN}

    def owned(bootstrap: str, epoch: int, *, is_asked: bool) -> int:
        application = Application(bootstrap)
        application.epoch = epoch
        with application.client:
            if epoch:
                until(lambda: application.beat(group_id="other")[0] not in (14, 15, 16), "that it has loaded")
            else:
                application.prepare()
            assert application.describe()[:3] == ((0, 1, "None") if epoch else (69, 0, "None"))
            assert application.beat()[:3] == (0, None, is_asked)
            assert application.push(ORDERS) == (0, None)
            assert application.describe()[:3] == (0, 3, TOLD)
            return application.epoch

    with kafka(tmp_path, is_new=True, **of_kafka) as bootstrap:
        epoch = owned(bootstrap, 0, is_asked=True)
    with Daemon(tmp_path / "data", dict(settings)) as daemon:
        epoch = owned(daemon.bootstrap, epoch, is_asked=True)
    with Daemon(tmp_path / "data", dict(settings)) as daemon:
        application = Application(daemon.bootstrap)
        with application.client:
            until(lambda: application.describe()[0] == 0, "that it has loaded")
            assert application.describe()[:3] == (0, 3, TOLD)
    assert export(tmp_path / "data").returncode == 0
    with kafka(tmp_path, **of_kafka) as bootstrap:
        owned(bootstrap, epoch, is_asked=False)  # it believes that its plug-in has what the record says
