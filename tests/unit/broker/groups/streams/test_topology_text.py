from __future__ import annotations

from support.topology_descriptions import ORDERS, processor, sink
from tidelog.broker.groups.streams.topology_text import lines_of
from tidelog.protocol.messages.streams_group_topology_description_update import (
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)


def test_a_topology_as_kafka_streams_prints_it() -> None:
    assert "\n".join(lines_of(ORDERS)) == (
        "Sub-topology: 0\n"
        "  Source: in (topics: [orders])\n"
        "    --> count, large\n"
        "  Processor: count (stores: [counts])\n"
        "    <-- in\n"
        "  Processor: large (stores: [])\n"
        "    --> out\n"
        "    <-- in\n"
        "  Sink: out (topic: large-orders)\n"
        "    <-- large\n"
        "Global store: 0\n"
        "  Source: prices-in (topics: [prices])\n"
        "    --> prices\n"
        "  Processor: prices (stores: [p])\n"
        "    <-- prices-in"
    )


def test_what_is_not_said_and_what_a_later_kafka_may_say() -> None:
    nodes = [sink("out", None), TopologyDescriptionNode(name="new", node_type=7)]
    description = TopologyDescription(subtopologies=[TopologyDescriptionSubtopology(subtopology_id="1", nodes=nodes)])
    assert list(lines_of(description)) == [
        "Sub-topology: 1",
        "  Sink: out (topic: chosen by each record)",
        "  Type 7: new",
    ]


def test_names_that_would_write_on_a_terminal_are_escaped() -> None:
    hostile = "a\x1b[2J\r\nSub-topology: 7\u202e<b>"
    nodes = [processor(hostile, hostile, to=(hostile,)), sink("out", hostile)]
    description = TopologyDescription(
        subtopologies=[TopologyDescriptionSubtopology(subtopology_id=hostile, nodes=nodes)]
    )
    lines = list(lines_of(description))
    assert len(lines) == 5
    assert all(line.isprintable() for line in lines)
    assert lines[0] == r"Sub-topology: a\x1b[2J\r\nSub-topology: 7\u202e<b>"


def test_the_text_of_very_many_nodes_of_one_name_is_no_longer_than_what_was_told() -> None:
    nodes = [processor("a", to=("a",))] * 1000
    description = TopologyDescription(subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=nodes)])
    lines = list(lines_of(description))
    assert sum(map(len, lines)) < 50_000
    assert sum(line.startswith("    <-- ") for line in lines) == 1
