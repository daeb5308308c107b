"""Descriptions of topologies from the wire to the command line, and how long a very large one holds the loop."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from support.inside import services_of
from support.many_names import Held, held
from support.patience import until
from support.topology_descriptions import ORDERS, processor
from support.wire_client import WireClient, request_frame
from tidelog.cli.main import main
from tidelog.protocol.messages import streams_group_heartbeat as wire
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from tidelog.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    TopologyDescription,
    TopologyDescriptionSubtopology,
)
from tidelog.protocol.schema import encode
from tidelog.testing import Broker

LONGEST_S = 0.03
"""CPU of the loop's thread in a row. Walked there, a description of that size takes half a second to check and to pack."""

NODES = 12_000


def pushes(description: TopologyDescription) -> StreamsGroupTopologyDescriptionUpdateRequest:
    return StreamsGroupTopologyDescriptionUpdateRequest(
        group_id="app", member_id="m", topology_epoch=0, topology_description=description
    )


def joined(broker: Broker) -> WireClient:
    client = WireClient((broker.host, broker.port))
    find = FindCoordinatorRequest(coordinator_keys=["app"])
    until(lambda: client.ask(find, 4, FindCoordinatorResponse).coordinators[0].error_code == 0, "a coordinator")
    join = wire.StreamsGroupHeartbeatRequest(
        group_id="app",
        member_id="m",
        rebalance_timeout_ms=1000,
        process_id="p",
        topology=wire.Topology(subtopologies=[wire.Subtopology(subtopology_id="0", source_topics=["orders"])]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    assert client.ask(join, 1, wire.StreamsGroupHeartbeatResponse).topology_description_required
    return client


def test_the_command_line_draws_it(tidelog_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    server = ("--bootstrap-server", tidelog_broker.bootstrap_servers)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(("groups", *arguments, *server))
        return (code, *capsys.readouterr())

    with joined(tidelog_broker) as client:
        code, out, _ = run("describe", "app", "--topology")
        assert (code, "no member has told one" in out) == (0, True)
        answer = client.ask(pushes(ORDERS), 0, StreamsGroupTopologyDescriptionUpdateResponse)
        assert (answer.error_code, answer.error_message) == (0, None)
        code, out, _ = run("describe", "app", "--topology")
        assert code == 0
        assert out.splitlines()[0].startswith("app  streams  NotReady  1 member")
        assert "  Sub-topology: 0\n    Source: in (topics: [orders])\n      --> count, large\n" in out
        (described,) = json.loads(run("describe", "app", "--topology", "--json")[1])
        assert (described["topology"]["status"], described["topology"]["assignor"]) == ("available", "sticky")
        assert [node["name"] for node in described["topology"]["subtopologies"][0]["nodes"]] == [
            "in", "count", "large", "out",
        ]  # fmt: skip
        (plain,) = json.loads(run("describe", "app", "--json")[1])
        assert "topology" not in plain


def test_a_description_of_very_many_nodes_does_not_hold_the_loop(tidelog_broker: Broker) -> None:
    nodes = [
        processor(f"KSTREAM-PROCESSOR-{number:010}", f"store-{number}", to=(f"KSTREAM-PROCESSOR-{number + 1:010}",))
        for number in range(NODES)
    ]
    description = TopologyDescription(subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=nodes)])
    assert 700_000 < len(encode(description, 0)) < 1 << 20
    loop: Any = services_of(tidelog_broker).loop

    def is_short(found: Held) -> bool:
        return found.parts[0] < LONGEST_S

    with joined(tidelog_broker) as client:
        push = request_frame(pushes(description), 0)

        def pushed() -> None:
            client.send(push)
            assert client.receive()[-8:-2] == bytes(6)  # throttle time, error code

        assert is_short(found := held(loop, pushed, is_short)), found
        describe = request_frame(StreamsGroupDescribeRequest(group_ids=["app"], include_topology_description=True), 1)
        answers: list[bytes] = []

        def described() -> None:
            client.send(describe)
            answers.append(client.receive())

        assert is_short(found := held(loop, described, is_short)), found
        request = StreamsGroupDescribeRequest(group_ids=["app"], include_topology_description=True)
        (group,) = client.ask(request, 1, StreamsGroupDescribeResponse).groups
        assert group.topology_description == description


def test_a_description_that_waits_for_its_disk_holds_up_no_long_request_that_reads(tidelog_broker: Broker) -> None:
    services = services_of(tidelog_broker)
    disk_goes_on = threading.Event()
    nodes = [processor(f"node-{number}") for number in range(1000)]
    push = pushes(TopologyDescription(subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=nodes)]))
    names = [f"group-{number}" for number in range(1000)]
    with joined(tidelog_broker) as client, WireClient((tidelog_broker.host, tidelog_broker.port)) as reader:
        services.metadata._thread.submit(disk_goes_on.wait)
        try:
            client.send(request_frame(push, 0))
            until(lambda: services.long_requests.taken + services.long_changes.taken, "the description is in work")
            assert (services.long_requests.taken, services.long_changes.taken) == (0, 1)
            answer = reader.ask(StreamsGroupDescribeRequest(group_ids=names), 1, StreamsGroupDescribeResponse)
            assert (len(answer.groups), services.long_requests.taken) == (1000, 1)
        finally:
            disk_goes_on.set()
        assert client.receive()[-8:-2] == bytes(6)  # throttle time, error code
