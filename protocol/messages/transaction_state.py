"""Records of `__transaction_state`: keys and values, each behind an INT16 with its version.

    record key    TransactionLogKey, version 0: the transactional id
    record value  TransactionLogValue, version 0, or 1 since `transaction.version` 1; null forgets the id

Version 1 is flexible, so that later fields don't stop older brokers from reading it (KIP-915): its tags say what
transactions of version 2 need to know (KIP-890), and what two-phase commit will (KIP-939).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..schema import INT32, Message, Struct, array, int8, int16, int32, int64, string


class TransactionLogKey(Message):
    """Key: a transactional id."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None

    transactional_id: str = string()


class PartitionsSchema(Struct):
    """Partitions of one topic in a transaction."""

    topic: str = string()
    partition_ids: Sequence[int] = array(INT32)


class TransactionLogValue(Message):
    """State of one transactional id. Times in ms; partitions are null in the state Empty."""

    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1

    producer_id: int = int64()
    previous_producer_id: int = int64("1+", default=-1, tag=0, ignorable=True)
    next_producer_id: int = int64("1+", default=-1, tag=1, ignorable=True)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16("1+", default=-1, tag=3, ignorable=True)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: Sequence[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tag=2, ignorable=True)
