"""Descriptions of topologies for tests: a small one, and random ones."""

from __future__ import annotations

import random

from tidelog.protocol.messages.streams_group_topology_description_update import (
    NODE_PROCESSOR,
    NODE_SINK,
    NODE_SOURCE,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)

_NAMES = ("", "a", "KSTREAM-SOURCE-0000000000", "grün", "日本語", "x" * 200)


def source(name: str, *topics: str, to: tuple[str, ...] = ()) -> TopologyDescriptionNode:
    return TopologyDescriptionNode(name=name, node_type=NODE_SOURCE, source_topics=list(topics), successors=list(to))


def processor(name: str, *stores: str, to: tuple[str, ...] = ()) -> TopologyDescriptionNode:
    return TopologyDescriptionNode(name=name, node_type=NODE_PROCESSOR, stores=list(stores), successors=list(to))


def sink(name: str, topic: str | None, to: tuple[str, ...] = ()) -> TopologyDescriptionNode:
    return TopologyDescriptionNode(name=name, node_type=NODE_SINK, sink_topic=topic, successors=list(to))


#: Orders are counted into a store, and large ones go on to a topic; prices are in a global store.
ORDERS = TopologyDescription(
    subtopologies=[
        TopologyDescriptionSubtopology(
            subtopology_id="0",
            nodes=[
                source("in", "orders", to=("count", "large")),
                processor("count", "counts"),
                processor("large", to=("out",)),
                sink("out", "large-orders"),
            ],
        )
    ],
    global_stores=[
        TopologyDescriptionGlobalStore(
            source=source("prices-in", "prices", to=("prices",)), processor=processor("prices", "p")
        )
    ],
)


def random_description(rng: random.Random, most: int = 8) -> TopologyDescription:
    """One that a member may send: no name is twice in a list, and nodes have only what their types have."""
    return TopologyDescription(
        subtopologies=[
            TopologyDescriptionSubtopology(
                subtopology_id=rng.choice(_NAMES), nodes=[_random_node(rng) for _ in range(rng.randint(0, most))]
            )
            for _ in range(rng.randint(0, most))
        ],
        global_stores=[
            TopologyDescriptionGlobalStore(
                source=source(rng.choice(_NAMES), *_names(rng), to=_names(rng)),
                processor=processor(rng.choice(_NAMES), *_names(rng), to=_names(rng)),
            )
            for _ in range(rng.randint(0, 3))
        ],
    )


def _random_node(rng: random.Random) -> TopologyDescriptionNode:
    kind = rng.choice((NODE_SOURCE, NODE_PROCESSOR, NODE_SINK))
    name, to = rng.choice(_NAMES), _names(rng)
    if kind == NODE_SOURCE:
        return source(name, *_names(rng), to=to)
    if kind == NODE_PROCESSOR:
        return processor(name, *_names(rng), to=to)
    return sink(name, rng.choice((None, "topic")), to=to)


def _names(rng: random.Random) -> tuple[str, ...]:
    return tuple(rng.sample(_NAMES, rng.randint(0, len(_NAMES))))
