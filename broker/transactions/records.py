"""Keys and values of `__transaction_state`, as Apache Kafka 4.3 writes and reads them.

    key     TransactionLogKey, version 0: the transactional id
    value   TransactionLogValue: version 1 (flexible) at transaction.version 1 and above, else 0; null: forgotten

The declarations in `protocol/messages/transaction_state.py` are the layout. Any thread.
"""

from __future__ import annotations

from ...protocol.errors import ProtocolError
from ...protocol.messages.transaction_state import PartitionsSchema, TransactionLogKey, TransactionLogValue
from ...protocol.schema import decode_with_version, encode_with_version
from ..groups.store.offsets import TopicPartition
from .states import TransactionMetadata, TransactionState

KEY_VERSION = 0
#: Value versions; `transaction.version` says which.
VALUE_VERSION_PLAIN, VALUE_VERSION_FLEXIBLE = 0, 1


class TransactionRecordError(ValueError):
    """A key or value that is not what its version says."""


def transaction_key(transactional_id: str) -> bytes:
    return encode_with_version(TransactionLogKey(transactional_id=transactional_id), KEY_VERSION)


def transaction_value(metadata: TransactionMetadata, transaction_version: int) -> bytes:
    """The record's value at this level of `transaction.version`."""
    partitions: dict[str, list[int]] = {}
    for topic, index in sorted(metadata.partitions):
        partitions.setdefault(topic, []).append(index)
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None
        if metadata.state is TransactionState.EMPTY
        else [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in partitions.items()],
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )
    return encode_with_version(value, VALUE_VERSION_FLEXIBLE if transaction_version >= 1 else VALUE_VERSION_PLAIN)


def read_transaction_key(key: bytes) -> str | None:
    """The transactional id; None for a key of a version that is not known. TransactionRecordError."""
    if len(key) >= 2 and int.from_bytes(key[:2], "big", signed=True) != KEY_VERSION:
        return None
    try:
        return decode_with_version(TransactionLogKey, key)[0].transactional_id
    except ProtocolError as error:
        raise TransactionRecordError(f"no key of __transaction_state: {error}") from None


def read_transaction_value(transactional_id: str, value: bytes) -> TransactionMetadata:
    """Decode a transactional id's value. TransactionRecordError."""
    try:
        read, _ = decode_with_version(TransactionLogValue, value)
        state = TransactionState(read.transaction_status)  # type: ignore[call-arg]
    except (ProtocolError, ValueError) as error:
        raise TransactionRecordError(f"no value of __transaction_state: {error}") from None
    return TransactionMetadata(
        transactional_id,
        read.producer_id,
        read.producer_epoch,
        read.transaction_timeout_ms,
        state,
        read.transaction_last_update_timestamp_ms,
        read.transaction_start_timestamp_ms,
        frozenset(
            TopicPartition(part.topic, index)
            for part in read.transaction_partitions or ()
            for index in part.partition_ids
        ),
        read.previous_producer_id,
        read.next_producer_id,
        client_version=read.client_transaction_version,
    )
