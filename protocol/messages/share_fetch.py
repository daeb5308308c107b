"""ShareFetch (78): records for a member of a share group, which has them to itself for a while (KIP-932).

Version 1 is the first; 2 has acknowledgements that renew (KIP-1222) and strict limits of records (KIP-1206).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..primitives import Buffer
from ..schema import (
    INT8,
    INT32,
    ApiMessage,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    structure,
    uuid,
)
from .fetch import NodeEndpoint


class AcknowledgementBatch(Struct):
    """Offsets from the first to the last: one type for all of them, or one for each."""

    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: Sequence[int] = array(INT8)


class FetchPartition(Struct):
    """One partition to fetch, with acknowledgements of records acquired before."""

    partition_index: int = int32()
    acknowledgement_batches: Sequence[AcknowledgementBatch] = array(AcknowledgementBatch)


class FetchTopic(Struct):
    """Partitions of one topic, by its id."""

    topic_id: bytes = uuid()
    partitions: Sequence[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    """Partitions that leave the session."""

    topic_id: bytes = uuid()
    partitions: Sequence[int] = array(INT32)


class ShareFetchRequest(ApiMessage):
    """Session epoch 0 opens a session, -1 closes it; the partitions are those that join it."""

    API_KEY = ApiKey.SHARE_FETCH
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 0

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    max_records: int = int32("1+")
    batch_size: int = int32("1+")
    share_acquire_mode: int = int8("2+", ignorable=True)
    is_renew_ack: bool = boolean("2+")
    topics: Sequence[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: Sequence[ForgottenTopic] = array(ForgottenTopic)


class LeaderIdAndEpoch(Struct):
    """Current leader of the partition; -1 when it is not given."""

    leader_id: int = int32()
    leader_epoch: int = int32()


class AcquiredRecords(Struct):
    """Offsets that the member has now; the rest of `records` is not for it."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


class PartitionData(Struct):
    """Acquired records of one partition, and the result of its acknowledgements."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = structure(LeaderIdAndEpoch)
    records: Buffer | None = records(nullable="0", default=b"")
    acquired_records: Sequence[AcquiredRecords] = array(AcquiredRecords)


class ShareFetchableTopicResponse(Struct):
    """Partitions of one topic, by its id."""

    topic_id: bytes = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


class ShareFetchResponse(ApiMessage):
    """Partitions with records or results; unchanged ones are left out."""

    API_KEY = ApiKey.SHARE_FETCH
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("1+")
    responses: Sequence[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint)
