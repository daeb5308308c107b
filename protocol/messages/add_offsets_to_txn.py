"""AddOffsetsToTxn (25): a transaction is about to commit offsets of a group.

Version 2 has the error PRODUCER_FENCED, 3 is flexible, 4 has TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from ..api_keys import ApiKey
from ..schema import ApiMessage, int16, int32, int64, string


class AddOffsetsToTxnRequest(ApiMessage):
    """The coordinator finds the group's partition of `__consumer_offsets` itself."""

    API_KEY = ApiKey.ADD_OFFSETS_TO_TXN
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(ApiMessage):
    """An error code, or none."""

    API_KEY = ApiKey.ADD_OFFSETS_TO_TXN
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3

    throttle_time_ms: int = int32()
    error_code: int = int16()
