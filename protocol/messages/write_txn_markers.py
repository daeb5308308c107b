"""WriteTxnMarkers (27): ends transactions in partitions. Brokers' coordinators send it, and Admin.abortTransaction.

Version 1 is flexible and the first that Kafka 4 has, 2 says which version of transactions the marker is of
(KIP-1228).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, ApiMessage, Struct, array, boolean, int8, int16, int32, int64, string


class WritableTxnMarkerTopic(Struct):
    """The listed partitions of one topic."""

    name: str = string()
    partition_indexes: Sequence[int] = array(INT32)


class WritableTxnMarker(Struct):
    """One marker and where it goes; `transaction_result` is True for a commit."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: Sequence[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+", ignorable=True)


class WriteTxnMarkersRequest(ApiMessage):
    """Markers to write, of any number of transactions."""

    API_KEY = ApiKey.WRITE_TXN_MARKERS
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 1
    MOST_ELEMENTS = 10_000

    markers: Sequence[WritableTxnMarker] = array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Struct):
    """Result for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


class WritableTxnMarkerTopicResult(Struct):
    """Results for the partitions of one topic."""

    name: str = string()
    partitions: Sequence[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Struct):
    """Results for the topics of one marker."""

    producer_id: int = int64()
    topics: Sequence[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(ApiMessage):
    """In the order of the request."""

    API_KEY = ApiKey.WRITE_TXN_MARKERS
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 1

    markers: Sequence[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
