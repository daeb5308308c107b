"""A topology's description as text, in the form that Kafka Streams' own `TopologyDescription` has and people know.

    Sub-topology: 0
      Source: KSTREAM-SOURCE-0000000000 (topics: [orders])
        --> KSTREAM-FILTER-0000000001
      Processor: KSTREAM-FILTER-0000000001 (stores: [])
        --> KSTREAM-SINK-0000000002
        <-- KSTREAM-SOURCE-0000000000
      Sink: KSTREAM-SINK-0000000002 (topic: large-orders)
        <-- KSTREAM-FILTER-0000000001

Names are whatever a member says: what could move a terminal's cursor, or begin a line, is escaped, and the text has at most some
three times the description's size. Pure; any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ....protocol.messages.streams_group_topology_description_update import NODE_PROCESSOR, NODE_SINK, NODE_SOURCE
from ....storage.inspect.part import printable

if TYPE_CHECKING:
    from ....protocol.messages.streams_group_topology_description_update import (
        TopologyDescription,
        TopologyDescriptionNode,
    )

_KINDS = {NODE_SOURCE: "Source", NODE_PROCESSOR: "Processor", NODE_SINK: "Sink"}


def kind_of(node: TopologyDescriptionNode) -> str:
    """Name of a node's type; a later Kafka may have more of them."""
    return _KINDS.get(node.node_type, f"Type {node.node_type}")


def lines_of(description: TopologyDescription) -> Iterator[str]:
    """The lines, without their ends, fit for a terminal."""
    return map(printable, _lines(description))


def _lines(description: TopologyDescription) -> Iterator[str]:
    for each in description.subtopologies:
        yield f"Sub-topology: {each.subtopology_id}"
        yield from _lines_of_nodes(each.nodes)
    for number, store in enumerate(description.global_stores):
        yield f"Global store: {number}"
        yield from _lines_of_nodes((store.source, store.processor))


def _lines_of_nodes(nodes: Sequence[TopologyDescriptionNode]) -> Iterator[str]:
    before = predecessors(nodes)
    for node in nodes:
        yield f"  {kind_of(node)}: {node.name}{_of(node)}"
        if node.successors:
            yield f"    --> {', '.join(node.successors)}"
        # Once: of very many nodes of one name each would tell all those before them.
        if found := before.pop(node.name, None):
            yield f"    <-- {', '.join(found)}"


def _of(node: TopologyDescriptionNode) -> str:
    if node.node_type == NODE_SOURCE:
        return f" (topics: [{', '.join(node.source_topics)}])"
    if node.node_type == NODE_PROCESSOR:
        return f" (stores: [{', '.join(node.stores)}])"
    if node.node_type == NODE_SINK:
        return f" (topic: {'chosen by each record' if node.sink_topic is None else node.sink_topic})"
    return ""


def predecessors(nodes: Iterable[TopologyDescriptionNode]) -> dict[str, list[str]]:
    """Name of a node → names of those that it is a successor of, in their order."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        for name in node.successors:
            found.setdefault(name, []).append(node.name)
    return found
