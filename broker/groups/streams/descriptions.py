"""Descriptions of a streams group's topology (KIP-1331): when a member is asked for one, which one is taken, when to ask again.

A group's record has two epochs of its topology, Kafka 4.4's tagged fields:

    stored   the one whose description is kept; -1 none; -2 while one is written or removed: it counts as none, and if the daemon
             stops in between nobody knows. Kafka's plug-in and our store are outside of the log, so -2 is written first.
    failed   the one whose description will never be taken: nobody is asked for it again

Who has been asked has half a minute, then the next heartbeat asks again, and each time after twice as long, up to an hour. That
is not in records: a restart asks at once.

Pure, but for the randomness of delays, which is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ....protocol.errors import ErrorCode, ProtocolError
from ....protocol.messages.streams_group_topology_description_update import (
    NODE_PROCESSOR,
    NODE_SINK,
    NODE_SOURCE,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from ....protocol.schema import decode, encode

if TYPE_CHECKING:
    from ...metadata.topology_descriptions import TopologyDescriptions
    from .group import StreamsGroup

NONE = -1
UNCERTAIN = -2

FIRST_DELAY_MS = 30_000
LONGEST_DELAY_MS = 3_600_000
JITTER = 0.2
_MOST_DOUBLINGS = 7
"""30 s doubled so often is more than an hour."""


class DescriptionEpochs(NamedTuple):
    """Epochs of a group's topology, as its record has them."""

    stored: int = NONE
    failed: int = NONE


class AskedUntil(NamedTuple):
    """A member was asked for the description of this epoch: nobody else is before `until_ms`, wall clock."""

    epoch: int
    attempts: int
    until_ms: int


def asked_again(before: AskedUntil | None, epoch: int, now_ms: int, chance: Callable[[], float]) -> AskedUntil:
    """The next delay: it doubles as long as the epoch is the same. `chance` is within 0 and 1."""
    attempts = before.attempts + 1 if before is not None and before.epoch == epoch else 0
    delay_ms = FIRST_DELAY_MS * 2 ** min(attempts, _MOST_DOUBLINGS) * (1 - JITTER + 2 * JITTER * chance())
    return AskedUntil(epoch, attempts, now_ms + min(int(delay_ms), LONGEST_DELAY_MS))


def is_asked(asked: AskedUntil | None, epoch: int, now_ms: int) -> bool:
    """True if somebody was asked and has time left. A clock that was set back gives nobody more than the longest delay."""
    return asked is not None and asked.epoch == epoch and 0 < asked.until_ms - now_ms <= LONGEST_DELAY_MS


def is_kept(group: StreamsGroup, epoch: int, kept: TopologyDescriptions) -> bool:
    """True if the description of this epoch can be told. A group that comes from Apache Kafka may claim one that its plug-in
    has.
    """
    return group.descriptions.stored == epoch >= 0 and kept.has(group.group_id, epoch)


def is_wanted(group: StreamsGroup, epoch: int, kept: TopologyDescriptions) -> bool:
    """True if a member is to be asked for the description of this epoch, but for the delay."""
    return kept.is_enabled and epoch >= 0 and group.descriptions.failed != epoch and not is_kept(group, epoch, kept)


def check_description(group: StreamsGroup, member_id: str, epoch: int) -> None:
    """Raises ProtocolError unless this is a member, and the epoch that of the group's topology."""
    group.member(member_id)
    current = NONE if group.topology is None else group.topology.epoch
    if epoch != current:
        raise ProtocolError(
            ErrorCode.INVALID_REQUEST,
            f"Topology epoch {epoch} does not match the group's current topology epoch {current}.",
        )


def packed(description: TopologyDescription) -> bytes:
    """The description's bytes to keep: what its nodes' types do not have is left out, as are repeated names. Takes some
    microseconds a node. Raises ProtocolError INVALID_REQUEST.
    """
    return encode(
        TopologyDescription(
            subtopologies=[
                TopologyDescriptionSubtopology(
                    subtopology_id=each.subtopology_id, nodes=[_node(node) for node in each.nodes]
                )
                for each in description.subtopologies
            ],
            global_stores=[_global_store(store) for store in description.global_stores],
        ),
        0,
    )


def topics_of(description: bytes) -> list[str]:
    """Each topic that a description names, as `packed` made it, once. Takes some microseconds a node."""
    found, _ = decode(TopologyDescription, 0, description)
    nodes = [node for each in found.subtopologies for node in each.nodes]
    nodes += [node for store in found.global_stores for node in (store.source, store.processor)]
    sinks = (node.sink_topic for node in nodes if node.sink_topic is not None)
    return list(dict.fromkeys(chain(chain.from_iterable(node.source_topics for node in nodes), sinks)))


def _global_store(store: TopologyDescriptionGlobalStore) -> TopologyDescriptionGlobalStore:
    source, processor = _node(store.source), _node(store.processor)
    if source.node_type != NODE_SOURCE or processor.node_type != NODE_PROCESSOR:
        raise ProtocolError(
            ErrorCode.INVALID_REQUEST, "Global store must be composed of a source and a processor node."
        )
    return TopologyDescriptionGlobalStore(source=source, processor=processor)


def _node(node: TopologyDescriptionNode) -> TopologyDescriptionNode:
    kind = node.node_type
    if kind not in (NODE_SOURCE, NODE_PROCESSOR, NODE_SINK):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"Unknown topology node type: {kind}")
    return TopologyDescriptionNode(
        name=node.name,
        node_type=kind,
        source_topics=_once(node.source_topics) if kind == NODE_SOURCE else (),
        sink_topic=node.sink_topic if kind == NODE_SINK else None,
        stores=_once(node.stores) if kind == NODE_PROCESSOR else (),
        successors=_once(node.successors),
    )


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
