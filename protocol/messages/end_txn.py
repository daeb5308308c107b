"""EndTxn (26): commits or aborts.

Version 2 has the error PRODUCER_FENCED, 3 is flexible, 4 has TRANSACTION_ABORTABLE; 5 is transactions of version 2: the
answer brings the epoch of the next transaction, and its producer id where the epochs have run out (KIP-890).
"""

from __future__ import annotations

from ..api_keys import ApiKey
from ..schema import ApiMessage, boolean, int16, int32, int64, string


class EndTxnRequest(ApiMessage):
    """`committed` is False for an abort."""

    API_KEY = ApiKey.END_TXN
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(ApiMessage):
    """Producer id and epoch for the next transaction; -1 with an error."""

    API_KEY = ApiKey.END_TXN
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
