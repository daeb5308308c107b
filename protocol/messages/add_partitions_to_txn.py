"""AddPartitionsToTxn (24): which partitions a transaction is about to write to.

Versions 0 to 3 are what clients send, one transaction each; 4 and 5 are what brokers send to the coordinator, many
transactions at once, and with `verify_only` they ask rather than add (KIP-890). 2 has the error PRODUCER_FENCED, 3 is
flexible, 5 has TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, ApiMessage, Struct, array, boolean, int16, int32, int64, string


class AddPartitionsToTxnTopic(Struct):
    """The listed partitions of one topic."""

    name: str = string()
    partitions: Sequence[int] = array(INT32)


class AddPartitionsToTxnTransaction(Struct):
    """Partitions to add to, or look up in, one transaction."""

    transactional_id: str = string("4+")
    producer_id: int = int64("4+")
    producer_epoch: int = int16("4+")
    verify_only: bool = boolean("4+")
    topics: Sequence[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")


class AddPartitionsToTxnRequest(ApiMessage):
    """Kafka's names: the fields of a client begin with v3_and_below."""

    API_KEY = ApiKey.ADD_PARTITIONS_TO_TXN
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    MOST_ELEMENTS = 5_000

    transactions: Sequence[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    """Result for one partition."""

    partition_index: int = int32()
    partition_error_code: int = int16()


class AddPartitionsToTxnTopicResult(Struct):
    """Results for the partitions of one topic."""

    name: str = string()
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult)


class AddPartitionsToTxnResult(Struct):
    """Results for the partitions of one transaction."""

    transactional_id: str = string("4+")
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "4+")


class AddPartitionsToTxnResponse(ApiMessage):
    """Up to version 3 there is no error for the whole: each partition has it."""

    API_KEY = ApiKey.ADD_PARTITIONS_TO_TXN
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3

    throttle_time_ms: int = int32()
    error_code: int = int16("4+", ignorable=True)
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "0-3")
