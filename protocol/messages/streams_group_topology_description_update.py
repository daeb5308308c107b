"""StreamsGroupTopologyDescriptionUpdate (93): a member tells the graph of its application's topology, when it was asked to
(KIP-1331).

    subtopology ─ nodes ─ SOURCE (1) its topics │ PROCESSOR (2) its stores │ SINK (3) its topic; all: successors by name
    global store ─ a source and a processor

`TopologyDescription` is a message of its own too: the form in which descriptions are kept. Its bytes are those of the field in
this request and in StreamsGroupDescribe's answer, so that an answer can have them as they are (`EncodedStruct`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import STRING, ApiMessage, Message, Struct, array, int8, int16, int32, string, structure

NODE_SOURCE, NODE_PROCESSOR, NODE_SINK = 1, 2, 3


class TopologyDescriptionNode(Struct):
    """A processing node. Fields that its type does not have are empty."""

    name: str = string()
    node_type: int = int8()
    source_topics: Sequence[str] = array(STRING)
    """Empty too where the topics are found by an expression."""
    sink_topic: str | None = string(nullable="0+", default=None)
    """None too where each record says its topic."""
    stores: Sequence[str] = array(STRING)
    successors: Sequence[str] = array(STRING)


class TopologyDescriptionSubtopology(Struct):
    """The nodes of one subtopology."""

    subtopology_id: str = string()
    nodes: Sequence[TopologyDescriptionNode] = array(TopologyDescriptionNode)


class TopologyDescriptionGlobalStore(Struct):
    """A store that every instance has whole: the source that fills it, and the processor in between."""

    source: TopologyDescriptionNode = structure(TopologyDescriptionNode)
    processor: TopologyDescriptionNode = structure(TopologyDescriptionNode)


class TopologyDescription(Message):
    """The graph of a topology. Of one layout so far: its version is none of the API's."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    subtopologies: Sequence[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology)
    global_stores: Sequence[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore)


class StreamsGroupTopologyDescriptionUpdateRequest(ApiMessage):
    """A description, from a member whose last heartbeat's answer asked for it."""

    API_KEY = ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    group_id: str = string()
    member_id: str = string()
    topology_epoch: int = int32()
    topology_description: TopologyDescription = structure(TopologyDescription)


class StreamsGroupTopologyDescriptionUpdateResponse(ApiMessage):
    """Whether it is kept."""

    API_KEY = ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
