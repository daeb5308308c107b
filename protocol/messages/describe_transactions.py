"""DescribeTransactions (65): what the coordinator knows of transactional ids (KIP-664)."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, STRING, ApiMessage, Struct, array, int16, int32, int64, string


class DescribeTransactionsRequest(ApiMessage):
    """Transactional ids to describe."""

    API_KEY = ApiKey.DESCRIBE_TRANSACTIONS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    transactional_ids: Sequence[str] = array(STRING)


class TopicData(Struct):
    """Partitions of one topic that have no marker yet."""

    topic: str = string()
    partitions: Sequence[int] = array(INT32)


class TransactionState(Struct):
    """One transactional id; times in milliseconds, the start -1 where no transaction has begun."""

    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: Sequence[TopicData] = array(TopicData)


class DescribeTransactionsResponse(ApiMessage):
    """One result for each id."""

    API_KEY = ApiKey.DESCRIBE_TRANSACTIONS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    transaction_states: Sequence[TransactionState] = array(TransactionState)
