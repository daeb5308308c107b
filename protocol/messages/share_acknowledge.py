"""ShareAcknowledge (79): what became of records that a member of a share group has (KIP-932).

Version 1 is the first; 2 knows acknowledgements that renew the time a member has (KIP-1222).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, boolean, int16, int32, string, structure, uuid
from .fetch import NodeEndpoint
from .share_fetch import AcknowledgementBatch, LeaderIdAndEpoch


class AcknowledgePartition(Struct):
    """One partition."""

    partition_index: int = int32()
    acknowledgement_batches: Sequence[AcknowledgementBatch] = array(AcknowledgementBatch)


class AcknowledgeTopic(Struct):
    """Partitions of one topic, by its id."""

    topic_id: bytes = uuid()
    partitions: Sequence[AcknowledgePartition] = array(AcknowledgePartition)


class ShareAcknowledgeRequest(ApiMessage):
    """Within the session that ShareFetch opened; epoch -1 closes it."""

    API_KEY = ApiKey.SHARE_ACKNOWLEDGE
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 50_000

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean("2+")
    topics: Sequence[AcknowledgeTopic] = array(AcknowledgeTopic)


class PartitionData(Struct):
    """Result for one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = structure(LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Struct):
    """Partitions of one topic, by its id."""

    topic_id: bytes = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


class ShareAcknowledgeResponse(ApiMessage):
    """One result for each partition of the request."""

    API_KEY = ApiKey.SHARE_ACKNOWLEDGE
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+", ignorable=True)
    responses: Sequence[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint)
