"""Exceptions for faulty records. One table in the broker maps these classes to Kafka's error codes.

    RecordError
    ├── CorruptRecordError            CORRUPT_MESSAGE (2): the bytes are not what was sent; clients send again
    ├── InvalidRecordError            INVALID_RECORD (87): the bytes arrived as sent, but break a rule
    │   └── UnsupportedFormatError    INVALID_RECORD in produce requests; message format 0 or 1 where only 2 is taken
    ├── InvalidTimestampError         INVALID_TIMESTAMP (32)
    ├── RecordTooLargeError           MESSAGE_TOO_LARGE (10)
    ├── FormatLacksFeatureError       UNSUPPORTED_FOR_MESSAGE_FORMAT (43): producer ids where the log is kept in format 0 or 1
    ├── UnsupportedCompressionError   UNSUPPORTED_COMPRESSION_TYPE (76)
    └── OutOfTimeError                no code: whoever set a time goes on elsewhere

Stands at the bottom of protocol.records: imports nothing.
"""

from __future__ import annotations

from typing import NamedTuple


class RecordFault(NamedTuple):
    """A refused record of a batch, as the produce response names it (KIP-467).

    Attributes:
        record_index: place of the record in its batch, from 0.
        message: why it was refused.
    """

    record_index: int
    message: str


class RecordError(Exception):
    """Base of all exceptions from reading, checking or building record batches."""


class CorruptRecordError(RecordError):
    """Size, magic, checksum or compressed data are broken: these are not the bytes that were written."""


class InvalidRecordError(RecordError):
    """The batch is whole but breaks a rule.

    Attributes:
        record_index: first record at fault, −1 when the batch as a whole is.
        faults: every record at fault; empty when the batch as a whole is.
    """

    def __init__(self, message: str, record_index: int = -1, faults: tuple[RecordFault, ...] = ()) -> None:
        super().__init__(message)
        self.record_index = record_index
        self.faults = faults


class UnsupportedFormatError(InvalidRecordError):
    """A batch of message format 0 or 1 where format 2 is required."""


class InvalidTimestampError(RecordError):
    """A record's timestamp lies outside of what the topic allows, or a client claims to know the append time.

    Attributes:
        record_index: first record at fault, −1 when the batch as a whole is.
        faults: every record at fault; empty when the batch as a whole is.
    """

    def __init__(self, message: str, record_index: int = -1, faults: tuple[RecordFault, ...] = ()) -> None:
        super().__init__(message)
        self.record_index = record_index
        self.faults = faults


class RecordTooLargeError(RecordError):
    """A batch, or what it holds once decompressed, is larger than allowed."""


class FormatLacksFeatureError(RecordError):
    """The topic keeps its records in message format 0 or 1, which has no idempotent producers and no transactions."""


class UnsupportedCompressionError(RecordError):
    """A codec that does not exist, or does not exist for this version of the request."""


class OutOfTimeError(RecordError):
    """Decompression exceeded the caller's time limit. Says nothing about the data."""


def timestamp_fault(timestamp: int, earliest: int, latest: int) -> str:
    """Error text for a timestamp outside [earliest, latest], in ms since 1970, naming the setting that decides."""
    if timestamp > latest:
        return f"timestamp {timestamp} is after {latest}, the latest that message.timestamp.after.max.ms allows now"
    return f"timestamp {timestamp} is before {earliest}, the earliest that message.timestamp.before.max.ms allows now"
