"""`tidelog groups describe --topology`: graphs by which the applications of streams groups described themselves (KIP-1331)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ..protocol.messages.streams_group_topology_description_update import (
        TopologyDescription,
        TopologyDescriptionNode,
    )
    from .support.kafka_client import KafkaClient

#: Version of StreamsGroupDescribe.
_FIRST_WITH_DESCRIPTIONS = 1

_STATUSES = ("not requested", "not stored", "error", "available")
_WHY_NOT = {
    "not stored": "no description of the topology is stored: no member has told one (Kafka Streams tells its own from 4.4 on, "
    "after it has joined), or the broker keeps none",
    "error": "the broker could not read the description of the topology; its log says why",
}


class ShownTopology(NamedTuple):
    """What is known of a group's topology; `description` where the status is "available"."""

    status: str
    assignor: str | None
    description: TopologyDescription | None
    why: str | None = None
    """The broker's words where there is no description."""

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"status": self.status, "assignor": self.assignor}
        if self.description is not None:
            shown["subtopologies"] = [
                {"subtopology": each.subtopology_id, "nodes": [_node(node) for node in each.nodes]}
                for each in self.description.subtopologies
            ]
            shown["global_stores"] = [
                {"source": _node(store.source), "processor": _node(store.processor)}
                for store in self.description.global_stores
            ]
        return shown

    def lines(self) -> Iterable[str]:
        """The topology as lines of text, or why it is not known."""
        from ..broker.groups.streams.topology_text import lines_of

        if self.description is None:
            return [self.why or _WHY_NOT.get(self.status, self.status)]
        return lines_of(self.description)


def _node(node: TopologyDescriptionNode) -> dict[str, Any]:
    from ..broker.groups.streams.topology_text import kind_of

    return {
        "name": node.name,
        "type": kind_of(node).lower(),
        "source_topics": list(node.source_topics),
        "sink_topic": node.sink_topic,
        "stores": list(node.stores),
        "successors": list(node.successors),
    }


def topologies_of(client: KafkaClient, names: Sequence[str]) -> dict[str, ShownTopology]:
    """What is known of the topologies of these streams groups. KafkaFailure: one is not there, or the broker is too old."""
    from ..clients.kafka.conversations import CoordinatorKind
    from ..protocol.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
    from .support.kafka_client import KafkaFailure, check

    request = StreamsGroupDescribeRequest(group_ids=names, include_topology_description=True)
    if client.version(request) < _FIRST_WITH_DESCRIPTIONS:
        raise KafkaFailure("this broker cannot tell topologies: Apache Kafka can from 4.4 on")
    answer = client.ask_coordinator(CoordinatorKind.GROUP, names, request, StreamsGroupDescribeResponse)
    found = {}
    for group in answer.groups:
        check(f"group {group.group_id}", group.error_code, group.error_message)
        code = group.topology_description_status
        status = _STATUSES[code] if 0 <= code < len(_STATUSES) else f"status {code}"
        found[group.group_id] = ShownTopology(
            status, group.assignor_name, group.topology_description, group.error_message
        )
    return found
