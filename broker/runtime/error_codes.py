"""Maps exceptions from below the network to error codes for clients: one table."""

from __future__ import annotations

import logging
import os

from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.records import exceptions as records
from ...storage import exceptions as storage

log = logging.getLogger(__name__)

#: The first class that fits wins, so subclasses stand before their bases.
_CODES: tuple[tuple[type[Exception], ErrorCode], ...] = (
    (records.RecordTooLargeError, ErrorCode.MESSAGE_TOO_LARGE),
    (records.InvalidTimestampError, ErrorCode.INVALID_TIMESTAMP),
    (records.InvalidRecordError, ErrorCode.INVALID_RECORD),
    (records.UnsupportedCompressionError, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    (records.FormatLacksFeatureError, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    (records.CorruptRecordError, ErrorCode.CORRUPT_MESSAGE),
    (storage.OffsetOutOfRangeError, ErrorCode.OFFSET_OUT_OF_RANGE),
    (storage.OutOfOrderSequenceError, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    (storage.InvalidProducerEpochError, ErrorCode.INVALID_PRODUCER_EPOCH),
    (storage.UnknownProducerError, ErrorCode.UNKNOWN_PRODUCER_ID),
    (storage.InvalidTxnStateError, ErrorCode.INVALID_TXN_STATE),
    (storage.TransactionCoordinatorFencedError, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    (storage.LogClosedError, ErrorCode.NOT_LEADER_OR_FOLLOWER),  # clients look where the partition is now
    (storage.DiskFullError, ErrorCode.KAFKA_STORAGE_ERROR),  # clients try again; said once, not each time
    (storage.KafkaStorageError, ErrorCode.KAFKA_STORAGE_ERROR),
    (OSError, ErrorCode.KAFKA_STORAGE_ERROR),
)

#: Codes of which a setting is the cause, or the bound.
_OF_SETTINGS = frozenset({ErrorCode.INVALID_CONFIG, ErrorCode.POLICY_VIOLATION})


def error_code(error: Exception) -> tuple[ErrorCode, str]:
    """Error code and message for a client. An exception without an entry is a defect of ours: it is logged with its
    traceback.

    Where a setting's value is at fault, or a bound that a setting is, the message ends with where it is explained.

    A disk's error is one line in the log, with its path. Clients never get the path: it would tell them where the data are.
    """
    if isinstance(error, ProtocolError):
        if error.code not in _OF_SETTINGS:
            return error.code, str(error)
        from ...config.page import with_address  # seldom needed, and never for a start

        return error.code, with_address(str(error))
    for kind, code in _CODES:
        if isinstance(error, kind):
            if code is ErrorCode.KAFKA_STORAGE_ERROR and kind is not storage.DiskFullError:
                log.error("storage failed: %s", error)
            return code, _client_message(error) if code is ErrorCode.KAFKA_STORAGE_ERROR else str(error)
    log.exception("a request met a defect", exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR, "the broker met an unexpected error; its log has the details"


def _client_message(error: Exception) -> str:
    """Message for a client about a disk error: the code's text and the system's, without a path."""
    if isinstance(error, storage.DiskFullError):
        return "the disk is full but for its reserve"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None:
            return f"{ErrorCode.KAFKA_STORAGE_ERROR.text}: {os.strerror(cause.errno)}"
        cause = cause.__cause__ or cause.__context__
    return ErrorCode.KAFKA_STORAGE_ERROR.text
