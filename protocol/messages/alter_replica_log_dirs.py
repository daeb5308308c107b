"""AlterReplicaLogDirs (34): moves logs to other directories of the broker (KIP-113).

Version 2 is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, ApiMessage, Struct, array, int16, int32, string


class AlterReplicaLogDirTopic(Struct):
    """The listed partitions of one topic."""

    name: str = string()
    partitions: Sequence[int] = array(INT32)


class AlterReplicaLogDir(Struct):
    """A directory by its absolute path, and what is to lie in it."""

    path: str = string()
    topics: Sequence[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


class AlterReplicaLogDirsRequest(ApiMessage):
    """Logs by directory."""

    API_KEY = ApiKey.ALTER_REPLICA_LOG_DIRS
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    MOST_ELEMENTS = 10_000

    dirs: Sequence[AlterReplicaLogDir] = array(AlterReplicaLogDir)


class AlterReplicaLogDirPartitionResult(Struct):
    """Result for one partition: an error, or 0 if the move has begun."""

    partition_index: int = int32()
    error_code: int = int16()


class AlterReplicaLogDirTopicResult(Struct):
    """The listed partitions of one topic."""

    topic_name: str = string()
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


class AlterReplicaLogDirsResponse(ApiMessage):
    """One result for each partition."""

    API_KEY = ApiKey.ALTER_REPLICA_LOG_DIRS
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = int32()
    results: Sequence[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
