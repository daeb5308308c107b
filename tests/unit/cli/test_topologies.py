"""What `tidelog groups describe --topology` makes of an answer; against a daemon: tests/client/test_topologies.py."""

from __future__ import annotations

from typing import Any

import pytest
from support.topology_descriptions import ORDERS
from tidelog.cli.groups import _topologies_of
from tidelog.cli.support.kafka_client import KafkaFailure
from tidelog.cli.topologies import ShownTopology, topologies_of
from tidelog.protocol.messages.streams_group_describe import DescribedStreamsGroup, StreamsGroupDescribeResponse


class Client:
    """Gives one answer; speaks StreamsGroupDescribe up to `newest`."""

    def __init__(self, *groups: DescribedStreamsGroup, newest: int = 1) -> None:
        self.groups = groups
        self.newest = newest
        self.asked: list[Any] = []

    def version(self, _: Any) -> int:
        return self.newest

    def ask_coordinator(self, _of: Any, _groups: Any, request: Any, _response: type) -> Any:
        self.asked.append(request)
        return StreamsGroupDescribeResponse(groups=self.groups)


def test_topologies_by_group() -> None:
    client: Any = Client(
        DescribedStreamsGroup(
            group_id="a", topology_description=ORDERS, topology_description_status=3, assignor_name="sticky"
        ),
        DescribedStreamsGroup(group_id="b", topology_description_status=1, assignor_name="sticky"),
        DescribedStreamsGroup(group_id="c", topology_description_status=2),
        DescribedStreamsGroup(group_id="d", topology_description_status=9),
    )
    found = topologies_of(client, ["a", "b", "c", "d"])
    assert (client.asked[0].group_ids, client.asked[0].include_topology_description) == (["a", "b", "c", "d"], True)
    assert found["a"] == ShownTopology("available", "sticky", ORDERS)
    assert [found[name].status for name in "bcd"] == ["not stored", "error", "status 9"]
    assert list(found["a"].lines())[:2] == ["Sub-topology: 0", "  Source: in (topics: [orders])"]
    assert "no member has told one" in "".join(found["b"].lines())
    assert list(found["d"].lines()) == ["status 9"]


def test_a_topology_as_json() -> None:
    shown = ShownTopology("available", "sticky", ORDERS).as_json()
    assert (shown["status"], shown["assignor"]) == ("available", "sticky")
    assert shown["subtopologies"][0]["nodes"][3] == {
        "name": "out",
        "type": "sink",
        "source_topics": [],
        "sink_topic": "large-orders",
        "stores": [],
        "successors": [],
    }
    assert shown["global_stores"][0]["source"]["successors"] == ["prices"]
    assert ShownTopology("not stored", None, None).as_json() == {"status": "not stored", "assignor": None}


def test_what_cannot_be_told() -> None:
    with pytest.raises(KafkaFailure, match=r"Apache Kafka can from 4\.4 on"):
        topologies_of(Client(newest=0), ["a"])  # type: ignore[arg-type]
    with pytest.raises(KafkaFailure, match="group a: gone"):
        topologies_of(Client(DescribedStreamsGroup(group_id="a", error_code=69, error_message="gone")), ["a"])  # type: ignore[arg-type]
    with pytest.raises(KafkaFailure, match="none of these is a streams group"):
        _topologies_of(Client(), [{"group": "g", "type": "classic"}])  # type: ignore[arg-type]
    assert _topologies_of(Client(), []) == {}  # type: ignore[arg-type]
