"""DescribeLogDirs (35): the log directories and what lies in them.

Version 3 has an error for the whole answer, 4 tells the disk's size (KIP-827), 5 cordoned directories (KIP-1066).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, ApiMessage, Struct, array, boolean, int16, int32, int64, string


class DescribableLogDirTopic(Struct):
    """The listed partitions of one topic."""

    topic: str = string()
    partitions: Sequence[int] = array(INT32)


class DescribeLogDirsRequest(ApiMessage):
    """topics null asks for all."""

    API_KEY = ApiKey.DESCRIBE_LOG_DIRS
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 2

    topics: Sequence[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


class DescribeLogDirsPartition(Struct):
    """Bytes of all segments; offset_lag is how far the log is behind."""

    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


class DescribeLogDirsTopic(Struct):
    """The listed partitions of one topic."""

    name: str = string()
    partitions: Sequence[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


class DescribeLogDirsResult(Struct):
    """One directory."""

    error_code: int = int16()
    log_dir: str = string()
    topics: Sequence[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64("4+", default=-1, ignorable=True)
    usable_bytes: int = int64("4+", default=-1, ignorable=True)
    is_cordoned: bool = boolean("5+", ignorable=True)


class DescribeLogDirsResponse(ApiMessage):
    """One result for each directory."""

    API_KEY = ApiKey.DESCRIBE_LOG_DIRS
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = int32()
    error_code: int = int16("3+", ignorable=True)
    results: Sequence[DescribeLogDirsResult] = array(DescribeLogDirsResult)
