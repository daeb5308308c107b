"""Fetch (1): records from partitions, waiting for some if need be.

Versions 0 and 1 return message set V0, 2 and 3 V1, 4 and later V2 batches with what aborted transactions wrote. 3
limits the whole answer, 5 tells the log's start, 7 has sessions that send only what changed (KIP-227), 9 checks
leader epochs, 11 knows racks, 12 is flexible, 13 has topic ids in place of names, 15 moves the replica id into a
tagged field, 16 tells the new leader's address (KIP-951), 17 and 18 are for replicas.

This declaration is the oracle for the hand-written reader of the hot path.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..primitives import Buffer
from ..schema import INT32, ApiMessage, Struct, array, int8, int16, int32, int64, records, string, structure, uuid


class ReplicaState(Struct):
    """Id of the follower that fetches; -1 for a consumer."""

    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


class FetchPartition(Struct):
    """Fetch offset and size limit of one partition."""

    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", tag=0, ignorable=True)
    high_watermark: int = int64("18+", default=0x7FFFFFFFFFFFFFFF, tag=1, ignorable=True)


class FetchTopic(Struct):
    """The listed partitions of one topic."""

    topic: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: Sequence[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    """Partitions that leave the session."""

    topic: str = string("7-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: Sequence[int] = array(INT32)


class FetchRequest(ApiMessage):
    """Only what changed since the last one, within a session."""

    API_KEY = ApiKey.FETCH
    VERSIONS = (0, 18)
    FLEXIBLE_FROM = 12

    cluster_id: str | None = string("12+", nullable="12+", default=None, tag=0, ignorable=True)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState = structure(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32("3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = int8("4+", ignorable=True)
    session_id: int = int32("7+", ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: Sequence[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: Sequence[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+", ignorable=True)


class EpochEndOffset(Struct):
    """Offset at which the follower's log diverges from the leader's."""

    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class LeaderIdAndEpoch(Struct):
    """Current leader of the partition; -1 when it is not given."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class SnapshotId(Struct):
    """Snapshot that a follower must load first."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Struct):
    """A transaction whose records are to be skipped."""

    producer_id: int = int64()
    first_offset: int = int64()


class PartitionData(Struct):
    """One partition's records and watermarks."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64("4+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = structure(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch = structure(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId = structure(SnapshotId, "12+", tag=2)
    aborted_transactions: Sequence[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: Buffer | None = records(nullable="0+")


class FetchableTopicResponse(Struct):
    """The listed partitions of one topic."""

    topic: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: Sequence[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    """Address of a broker named in current_leader."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class FetchResponse(ApiMessage):
    """Only partitions with news, within a session."""

    API_KEY = ApiKey.FETCH
    VERSIONS = (0, 18)
    FLEXIBLE_FROM = 12

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: Sequence[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)
