"""Exceptions of files and logs.

    StorageError
    ├── KafkaStorageError            the disk failed: an OSError that the log cannot answer for (→ KAFKA_STORAGE_ERROR)
    │   ├── LogClosedError           the log was deleted, or the daemon stops (→ NOT_LEADER_OR_FOLLOWER)
    │   └── DiskFullError            the reserve is kept free (→ KAFKA_STORAGE_ERROR)
    ├── MoveCancelledError           a log does not go to another data directory after all
    ├── FileClosedError              a lease was asked of a file that is closed: open it again
    ├── DataDirectoryError           a data directory cannot be used; the message says what to do
    │   └── DirectoryLockedError     … because another process has it
    ├── OffsetOutOfRangeError        a read outside [logStartOffset, limit] (→ OFFSET_OUT_OF_RANGE)
    ├── InvalidOffsetError           an index was given an entry out of order or out of its range: a programmer's error
    ├── CorruptIndexError            an index contradicts itself; rebuild it from the log
    ├── CorruptSnapshotError         a producer snapshot does; delete it and rebuild
    ├── CorruptCheckpointError       a small text file does; each reader says what it falls back to
    └── ProducerStateError           an append that an idempotent or transactional producer must not make
        ├── OutOfOrderSequenceError      a gap or a step back in its sequence numbers (→ OUT_OF_ORDER_SEQUENCE_NUMBER)
        ├── InvalidProducerEpochError    a zombie's epoch (→ INVALID_PRODUCER_EPOCH)
        ├── UnknownProducerError         nothing is known of it where something must be (→ UNKNOWN_PRODUCER_ID)
        ├── InvalidTxnStateError         plain records inside its open transaction (→ INVALID_TXN_STATE)
        └── TransactionCoordinatorFencedError  a marker of an old coordinator (→ TRANSACTION_COORDINATOR_FENCED)

Messages are one line: what, where, and where it helps what to do. Wire codes are given by the broker's table.
"""

from __future__ import annotations


class StorageError(Exception):
    """Base of the exceptions below."""


def says_what_is_wrong(error: BaseException) -> bool:
    """True if the error's text is enough for the log file: errors of the disk and of logs. Any other error is a defect
    of the code, and is logged with its traceback.
    """
    return isinstance(error, (StorageError, OSError))


class KafkaStorageError(StorageError):
    """A read or write failed on the disk; `__cause__` is the OSError."""


class LogClosedError(KafkaStorageError):
    """The log was deleted, or the daemon stops: whoever comes late finds another of its name, or none. No disk is at fault."""


def raised_again(failure: KafkaStorageError) -> KafkaStorageError:
    """A copy of a failure that is kept, to raise it: one object would keep every frame that it was ever raised in."""
    copy = type(failure)(*failure.args)
    copy.__cause__ = failure.__cause__
    return copy


class DiskFullError(KafkaStorageError):
    """An append was refused to keep the reserve free. Nothing is broken; appends are taken again when there is space."""


class MoveCancelledError(StorageError):
    """The move of a log to another data directory was cancelled, or the log is gone."""


class FileClosedError(StorageError):
    """The descriptor is closed: open the file again."""


class DataDirectoryError(StorageError):
    """`path` cannot serve as (part of) a data directory."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}; {remedy}")
        self.path = path
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.problem, self.remedy), vars(self)  # by default it would be made of its text


class DirectoryLockedError(DataDirectoryError):
    """Another process, ours or Apache Kafka's, has the directory open."""


class OffsetOutOfRangeError(StorageError):
    """The log has no record at that offset, and will not get one."""


class InvalidOffsetError(StorageError):
    """An index entry that is not above the last one, or more than 2^31 - 1 above the base offset."""


class CorruptIndexError(StorageError):
    """An index is damaged and must be rebuilt from its segment."""


class CorruptSnapshotError(StorageError):
    """A producer snapshot is damaged and must not be used."""


class CorruptCheckpointError(StorageError):
    """A checkpoint, epoch or metadata file has no usable content."""


class DeletionPolicyError(StorageError):
    """A deletion policy was not found, or is none."""


class ProducerStateError(StorageError):
    """Base of the five exceptions below; nothing was appended."""


class OutOfOrderSequenceError(ProducerStateError):
    """A batch is missing between the producer's last one and this one."""


class InvalidProducerEpochError(ProducerStateError):
    """A newer instance of this producer has written already."""


class UnknownProducerError(ProducerStateError):
    """The producer has no state, although this batch requires some."""


class InvalidTxnStateError(ProducerStateError):
    """The batch does not fit the producer's open transaction."""


class TransactionCoordinatorFencedError(ProducerStateError):
    """The transaction marker comes from a replaced coordinator."""
