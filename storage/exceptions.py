"""What can go wrong with files and logs, as types.

    StorageError
    ├── KafkaStorageError            the disk failed: an OSError that the log cannot answer for (→ KAFKA_STORAGE_ERROR)
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
    """Root of all below."""


def says_what_is_wrong(error: BaseException) -> bool:
    """Whether the error's text is all that there is to say in a log: the disk's errors and the log's own, no defects of the code,
    for which a traceback is wanted."""
    return isinstance(error, (StorageError, OSError))


class KafkaStorageError(StorageError):
    """A read or write that the disk refused; `__cause__` is the OSError."""


class DiskFullError(KafkaStorageError):
    """An append was refused while the reserve is still free: nothing is broken, and it will be taken when there is room."""


class MoveCancelledError(StorageError):
    """The move of a log to another data directory ends: somebody has cancelled it, or the log is gone."""


class FileClosedError(StorageError):
    """The descriptor is gone: whoever needs the file opens it anew."""


class DataDirectoryError(StorageError):
    """`path` cannot serve as (part of) a data directory."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}; {remedy}")
        self.path = path
        self.problem = problem
        self.remedy = remedy


class DirectoryLockedError(DataDirectoryError):
    """Another process, ours or Apache Kafka's, has the directory open."""


class OffsetOutOfRangeError(StorageError):
    """No record can be read at that offset."""


class InvalidOffsetError(StorageError):
    """An index entry that is not above the last one, or more than 2^31 - 1 above the base offset."""


class CorruptIndexError(StorageError):
    """An index that must be rebuilt from its segment."""


class CorruptSnapshotError(StorageError):
    """A producer snapshot that must not be used."""


class CorruptCheckpointError(StorageError):
    """A checkpoint, epoch or metadata file that says nothing usable."""


class DeletionPolicyError(StorageError):
    """A deletion policy that is not there, or not one."""


class ProducerStateError(StorageError):
    """Root of the five below; nothing was appended."""


class OutOfOrderSequenceError(ProducerStateError):
    """Something between the last batch and this one is missing."""


class InvalidProducerEpochError(ProducerStateError):
    """A newer instance of this producer has written already."""


class UnknownProducerError(ProducerStateError):
    """No state of a producer that must have some."""


class InvalidTxnStateError(ProducerStateError):
    """A batch that does not fit the producer's open transaction."""


class TransactionCoordinatorFencedError(ProducerStateError):
    """A transaction marker whose coordinator has been replaced."""
