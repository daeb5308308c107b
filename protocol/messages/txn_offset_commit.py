"""TxnOffsetCommit (28): offsets of a group that are committed when a transaction is.

Version 2 has leader epochs, 3 is flexible and says which member commits (KIP-447), 4 has TRANSACTION_ABORTABLE, 5 adds
the group's partition to the transaction by itself (KIP-890), 6 has topic ids in place of names (KIP-1319).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, int16, int32, int64, string, uuid


class TxnOffsetCommitRequestPartition(Struct):
    """One partition's offset."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    """Offsets of one topic."""

    name: str = string("0-5", ignorable=True)
    topic_id: bytes = uuid("6+", ignorable=True)
    partitions: Sequence[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


class TxnOffsetCommitRequest(ApiMessage):
    """Generation or epoch -1 and an empty member_id: from outside of the group, or from a client that is older than 3."""

    API_KEY = ApiKey.TXN_OFFSET_COMMIT
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 3
    MOST_ELEMENTS = 10_000

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id_or_member_epoch: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: Sequence[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponsePartition(Struct):
    """Result for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


class TxnOffsetCommitResponseTopic(Struct):
    """Results for the partitions of one topic."""

    name: str = string("0-5", ignorable=True)
    topic_id: bytes = uuid("6+", ignorable=True)
    partitions: Sequence[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


class TxnOffsetCommitResponse(ApiMessage):
    """An error of the whole request stands in each partition."""

    API_KEY = ApiKey.TXN_OFFSET_COMMIT
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 3

    throttle_time_ms: int = int32()
    topics: Sequence[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
