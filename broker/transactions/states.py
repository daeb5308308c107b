"""Transactions as a state machine: what may follow what, and what each request does in each state.

                    InitProducerId
                     ┌─────────┐
                     ▼         │ add partitions              EndTxn                     all markers are written
    (made) ──────► Empty ──────┴──────► Ongoing ──┬──────► PrepareCommit ──────────────► CompleteCommit ─┐
                     ▲                   ▲   ▲────┘ more                                                 │
                     │                   │        └──────► PrepareAbort  ──────────────► CompleteAbort  ─┤
                     │                   │          EndTxn, time-out, a new instance                     │
                     └───────────────────┴───────────────────────────────────────────────────────────────┘

Once a Prepare state is written the outcome is certain: whatever happens, markers are written until all are. Until then the
transaction is in motion, and requests to move it get CONCURRENT_TRANSACTIONS, which clients come again after. The producer
is checked afterwards: the epoch, and with version 2 the producer id too, is about to change, and the client may know the next one
already. All other answers to a stranger are fatal for the producer that gets them.

Two versions of it live side by side. In version 1 a producer keeps its epoch over transactions. In version 2 (KIP-890) the
epoch rises with each one: markers carry the new epoch, so that a batch of the last transaction that comes late is of an
epoch that every partition of it refuses. Which one a request belongs to its API version says.

Everything here is a function of its arguments: no clock, no log. States and codes are Kafka's.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ..groups.store.offsets import TopicPartition

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
#: The last epoch that a producer gets; the one above is for fencing it.
LAST_EPOCH = 0x7FFE
VERSION_2 = 2


class TransactionState(IntEnum):
    """State of a transactional id, with its number in `__transaction_state`; `label` is the name for clients."""

    label: str

    def __new__(cls, value: int, label: str) -> TransactionState:
        self = int.__new__(cls, value)
        self._value_ = value
        self.label = label
        return self

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"


S = TransactionState
_IDLE = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)

#: state → those that may follow it. Dead and PrepareEpochFence are Kafka's for moments between two writes, which do not
#: exist here: clients may name them, no transaction is in them.
NEXT: dict[TransactionState, frozenset[TransactionState]] = {
    S.EMPTY: frozenset({S.EMPTY, S.ONGOING, S.PREPARE_ABORT}),
    S.ONGOING: frozenset({S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT}),
    S.PREPARE_COMMIT: frozenset({S.COMPLETE_COMMIT}),
    S.PREPARE_ABORT: frozenset({S.COMPLETE_ABORT}),
    S.COMPLETE_COMMIT: frozenset({S.EMPTY, S.ONGOING, S.PREPARE_ABORT}),
    S.COMPLETE_ABORT: frozenset({S.EMPTY, S.ONGOING, S.PREPARE_ABORT}),
    S.DEAD: frozenset(),
    S.PREPARE_EPOCH_FENCE: frozenset(),
}


class Step(Enum):
    """Outcome of an EndTxn. A transaction whose end is decided but not written everywhere has none: the request waits for it."""

    PREPARE = "the outcome is decided now"
    ABORT_NOTHING = "version 2: a transaction without partitions is aborted, for the sake of the next epoch"
    DONE = "it was done before; the answer got lost"
    REFUSE = "the transaction is not in a state for this"


#: (state, commit?, has the request been seen before?) → what is done. The last is None where it makes no difference, as in
#: all of version 1.
_END_1: dict[tuple[TransactionState, bool], Step] = {
    (S.EMPTY, True): Step.REFUSE,
    (S.EMPTY, False): Step.REFUSE,
    (S.ONGOING, True): Step.PREPARE,
    (S.ONGOING, False): Step.PREPARE,
    (S.COMPLETE_COMMIT, True): Step.DONE,
    (S.COMPLETE_COMMIT, False): Step.REFUSE,
    (S.COMPLETE_ABORT, True): Step.REFUSE,
    (S.COMPLETE_ABORT, False): Step.DONE,
}
#: Version 2, where a repeated request is told from the next transaction's by its epoch. All other cases are as above.
_END_2: dict[tuple[TransactionState, bool, bool], Step] = {
    (S.EMPTY, False, False): Step.ABORT_NOTHING,
    (S.COMPLETE_COMMIT, True, False): Step.REFUSE,
    (S.COMPLETE_COMMIT, False, False): Step.ABORT_NOTHING,
    (S.COMPLETE_ABORT, True, False): Step.REFUSE,
    (S.COMPLETE_ABORT, False, False): Step.ABORT_NOTHING,
}


class Producer(NamedTuple):
    """Producer id and epoch of a request."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """All that is kept of one transactional id. Times in milliseconds, -1 where there is none.

    `last_producer_epoch` is not in the log: after a restart a repeated InitProducerId is taken for a new one.
    `client_version` is that of the last transition.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    last_update_ms: int
    start_ms: int = NO_TIMESTAMP
    partitions: frozenset[TopicPartition] = frozenset()
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    client_version: int = 0

    @property
    def is_prepared(self) -> bool:
        """Decided, and not all markers are written."""
        return self.state in (S.PREPARE_COMMIT, S.PREPARE_ABORT)

    @property
    def is_commit(self) -> bool:
        return self.state in (S.PREPARE_COMMIT, S.COMPLETE_COMMIT)

    @property
    def needs_new_id_to_end(self) -> bool:
        """Ending it in version 2 takes the last epoch, so that the next transaction needs another producer id."""
        return self.producer_epoch >= LAST_EPOCH

    def expires(self, now_ms: int, expiration_ms: int) -> bool:
        """Nothing is under way, and nothing has been for that long."""
        return self.state in _IDLE and self.last_update_ms <= now_ms - expiration_ms

    def is_overdue(self, now_ms: int) -> bool:
        """True if the transaction has timed out: the coordinator has to abort it."""
        return self.overdue_ms is not None and self.overdue_ms <= now_ms

    @property
    def overdue_ms(self) -> int | None:
        """The first millisecond at which its time is over; None: it is not under way, or decided."""
        return self.start_ms + self.timeout_ms + 1 if self.state is S.ONGOING else None


Outcome = TransactionMetadata | ErrorCode
"""Metadata to write, or the error code to answer; NONE: nothing has to change."""


def created(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> TransactionMetadata:
    """An id that is seen for the first time; `init_producer_id` gives it its first epoch."""
    return TransactionMetadata(transactional_id, producer_id, NO_PRODUCER_EPOCH, timeout_ms, S.EMPTY, now_ms)


def _moved(
    metadata: TransactionMetadata, state: TransactionState, now_ms: int, **changes: object
) -> TransactionMetadata:
    assert state in NEXT[metadata.state], f"{metadata.state.label} → {state.label}"
    changes.setdefault("previous_producer_id", metadata.producer_id)
    return replace(metadata, state=state, last_update_ms=now_ms, **changes)  # type: ignore[arg-type]


# -- InitProducerId


def may_need_new_id(metadata: TransactionMetadata) -> bool:
    """True if `init_producer_id` may need a new producer id."""
    return metadata.producer_epoch >= LAST_EPOCH


def init_producer_id(
    metadata: TransactionMetadata,
    timeout_ms: int,
    expected: Producer | None,
    now_ms: int,
    server_version: int,
    new_id: int = NO_PRODUCER_ID,
) -> Outcome:
    """A producer begins, or goes on after an error (`expected`, KIP-360): older instances are fenced.

    A transaction under way is aborted first: the outcome is PrepareAbort then, and the producer is to come again.
    `new_id` is used when the epochs have run out.
    """
    if metadata.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if expected is not None and not _may_go_on(metadata, expected):
        return ErrorCode.PRODUCER_FENCED
    if metadata.state is S.ONGOING:
        return fenced(metadata, now_ms, server_version)
    changes: dict[str, object] = {
        "timeout_ms": timeout_ms,
        "start_ms": NO_TIMESTAMP,
        "partitions": frozenset[TopicPartition](),
        "client_version": 0,
    }
    epoch = metadata.producer_epoch
    is_fence = epoch > LAST_EPOCH  # nobody gets that one
    if epoch >= LAST_EPOCH and (
        expected is None
        or expected.producer_epoch == epoch
        or (is_fence and expected.producer_epoch == metadata.last_producer_epoch)
    ):
        last = NO_PRODUCER_EPOCH if expected is None else epoch
        return _moved(
            metadata, S.EMPTY, now_ms, producer_id=new_id, producer_epoch=0, last_producer_epoch=last, **changes
        )
    if expected is None:
        raised, last = epoch + 1, NO_PRODUCER_EPOCH
    elif epoch == NO_PRODUCER_EPOCH or expected.producer_epoch == epoch:
        raised, last = epoch + 1, epoch
    elif expected.producer_epoch == metadata.last_producer_epoch:
        raised, last = epoch, metadata.last_producer_epoch  # the same request again: its answer got lost
    else:
        return ErrorCode.PRODUCER_FENCED
    return _moved(metadata, S.EMPTY, now_ms, producer_epoch=raised, last_producer_epoch=last, **changes)


def _may_go_on(metadata: TransactionMetadata, expected: Producer) -> bool:
    if metadata.producer_epoch == NO_PRODUCER_EPOCH or expected.producer_id == metadata.producer_id:
        return True
    return expected.producer_id == metadata.previous_producer_id and expected.producer_epoch >= LAST_EPOCH


def fenced(metadata: TransactionMetadata, now_ms: int, server_version: int) -> TransactionMetadata:
    """The transaction under way is to be aborted, and its producer shut out by a higher epoch: a new instance has come, or
    its time is over. In version 2 the producer may learn that epoch and go on (KIP-890)."""
    is_2 = server_version >= VERSION_2
    return _moved(
        metadata,
        S.PREPARE_ABORT,
        now_ms,
        producer_epoch=metadata.producer_epoch + 1,
        last_producer_epoch=metadata.producer_epoch if is_2 else NO_PRODUCER_EPOCH,
        client_version=server_version,
    )


# -- partitions


def _refusal(metadata: TransactionMetadata, producer: Producer) -> ErrorCode:
    """Why the producer has no say; NONE: it is the transaction's own."""
    if metadata.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if metadata.producer_epoch != producer.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def add_partitions(
    metadata: TransactionMetadata,
    producer: Producer,
    partitions: AbstractSet[TopicPartition],
    now_ms: int,
    client_version: int,
) -> Outcome:
    """The transaction is about to write there; the first partitions begin it."""
    if metadata.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    refusal = _refusal(metadata, producer)
    if refusal is not ErrorCode.NONE:
        return refusal
    is_new = metadata.state is not S.ONGOING
    if not is_new and partitions <= metadata.partitions:
        return ErrorCode.NONE
    return _moved(
        metadata,
        S.ONGOING,
        now_ms,
        partitions=metadata.partitions | partitions,
        start_ms=now_ms if is_new else metadata.start_ms,
        client_version=client_version,
    )


def verify(metadata: TransactionMetadata, producer: Producer, partition: TopicPartition) -> ErrorCode:
    """Check that the ongoing transaction includes the partition. The state does not change, so the producer is checked first."""
    refusal = _refusal(metadata, producer)
    if refusal is not ErrorCode.NONE:
        return refusal
    if metadata.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    is_in = metadata.state is S.ONGOING and partition in metadata.partitions
    return ErrorCode.NONE if is_in else ErrorCode.TRANSACTION_ABORTABLE


# -- EndTxn


def end(
    metadata: TransactionMetadata,
    producer: Producer,
    is_commit: bool,
    now_ms: int,
    client_version: int,
    new_id: int = NO_PRODUCER_ID,
) -> Outcome:
    """The outcome of the transaction is decided. `new_id` is for `needs_new_id_to_end`, in version 2."""
    if client_version < VERSION_2:
        refusal = _refusal(metadata, producer)  # no epoch changes at the end: an older one is that of an older instance
        if refusal is not ErrorCode.NONE:
            return refusal
        if metadata.is_prepared:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        step = _END_1[metadata.state, is_commit]
    else:
        if metadata.is_prepared:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        epoch = producer.producer_epoch
        same_id = metadata.producer_id == producer.producer_id
        over_the_top = (
            metadata.previous_producer_id == producer.producer_id
            and epoch == LAST_EPOCH
            and metadata.producer_epoch == 0
            and metadata.state in (S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
        )
        seen = over_the_top or (same_id and metadata.producer_epoch == epoch + 1)
        if not same_id and not over_the_top:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if seen:
            if metadata.state in (S.EMPTY, S.ONGOING):
                return ErrorCode.PRODUCER_FENCED
        elif metadata.producer_epoch != epoch:
            return ErrorCode.PRODUCER_FENCED
        step = _END_2.get((metadata.state, is_commit, seen)) or _END_1[metadata.state, is_commit]
    if step is Step.DONE:
        # Aborted by the server with the epoch that only fences: nobody may go on with that one.
        return ErrorCode.PRODUCER_FENCED if metadata.producer_epoch > LAST_EPOCH else ErrorCode.NONE
    if step is Step.REFUSE:
        return ErrorCode.INVALID_TXN_STATE
    changes: dict[str, object] = {"client_version": client_version}
    if client_version >= VERSION_2:
        changes["producer_epoch"] = metadata.producer_epoch + 1
        changes["last_producer_epoch"] = metadata.producer_epoch
        changes["next_producer_id"] = new_id if metadata.needs_new_id_to_end else NO_PRODUCER_ID
    if step is Step.ABORT_NOTHING:
        changes["start_ms"] = now_ms
        changes["partitions"] = frozenset[TopicPartition]()
    return _moved(metadata, S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT, now_ms, **changes)


def completed(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """The metadata after all markers are written."""
    changes: dict[str, object] = {"partitions": frozenset[TopicPartition](), "next_producer_id": NO_PRODUCER_ID}
    if metadata.next_producer_id != NO_PRODUCER_ID:
        changes["producer_id"] = metadata.next_producer_id
        changes["producer_epoch"] = 0
    return _moved(metadata, S.COMPLETE_COMMIT if metadata.is_commit else S.COMPLETE_ABORT, now_ms, **changes)


def next_producer(metadata: TransactionMetadata) -> Producer:
    """Producer id and epoch for the client's next transaction, after an EndTxn of version 2."""
    if metadata.next_producer_id != NO_PRODUCER_ID:
        return Producer(metadata.next_producer_id, 0)
    return Producer(metadata.producer_id, metadata.producer_epoch)
