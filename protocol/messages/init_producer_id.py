"""InitProducerId (22): a producer id and epoch, for idempotence or for transactions.

Version 3 lets a producer name the id it has and get a new epoch, 4 has the error PRODUCER_FENCED, 5 belongs to
KIP-890, 6 to two-phase commit (KIP-939), which Kafka 4.3 does not offer yet.
"""

from __future__ import annotations

from ..api_keys import ApiKey
from ..schema import ApiMessage, boolean, int16, int32, int64, string


class InitProducerIdRequest(ApiMessage):
    """transactional_id is null for idempotence alone."""

    API_KEY = ApiKey.INIT_PRODUCER_ID
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 2

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


class InitProducerIdResponse(ApiMessage):
    """The id to write into batches."""

    API_KEY = ApiKey.INIT_PRODUCER_ID
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
