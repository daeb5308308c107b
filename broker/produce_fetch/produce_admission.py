"""Admission of a transaction's batches (KIP-890).

Before the first batch of a transaction goes into a partition the coordinator is asked. Up to Produce version 11 the client
has added the partition itself, and it is only verified that it has: a batch that was delayed past the end of its
transaction would otherwise begin a new one that nobody ends. From version 12 on the partition is added here.

Coordinator and partitions share the loop thread, so that between the question and the append nothing else happens. A batch that
the conversion thread looks at is asked about once more when it comes back (`check_again`). Where the coordinator's answer has to
wait for a sync, the epoch tells a batch whose transaction has ended meanwhile.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.records.attributes import TRANSACTIONAL_MASK
from ...protocol.records.record_batch import ATTRIBUTES_AT, MAGIC_AT, MAGIC_V2, RECORD_BATCH_OVERHEAD
from ..groups.store.offsets import TopicPartition
from ..transactions.states import VERSION_2, Producer

if TYPE_CHECKING:
    from ..partitions.partition import Partition
    from ..requests.services import Services

#: As the compiled parser gives them: (topic, [(partition, start, end of its batch in the buffer)]).
Topics = Sequence[tuple[str, Sequence[tuple[int, int, int]]]]
#: Why a partition's batch is refused, by topic and partition.
Refusals = dict[tuple[str, int], tuple[ErrorCode, str]]

ADDS_PARTITIONS_FROM = 12
_KNOWS_ABORTABLE_FROM = 11
_PRODUCER = struct.Struct(">qh")  # producer id, producer epoch
_PRODUCER_AT = 43
_SEQUENCE = struct.Struct(">i")
_SEQUENCE_AT = 53
_ATTRIBUTES = struct.Struct(">h")

#: Clients know these as reasons to look for another leader, or not at all; this one makes all of them try again.
_TRY_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


_LATE = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "batches of the producer come before this one"

MOST_REFUSED = 1000
"""Producers, in each partition, whose refused batches are remembered; of more, those that were refused last."""


class Admission(NamedTuple):
    """`wait` has to be waited for before anything is appended, and must not fail for the `added` to be."""

    refused: Refusals
    wait: asyncio.Future[None] | None
    added: Sequence[TopicPartition] = ()


def producer_of(buffer: bytearray, start: int, end: int) -> Producer | None:
    """Producer of a transactional batch; None if it is not transactional."""
    if end - start < RECORD_BATCH_OVERHEAD or buffer[start + MAGIC_AT] != MAGIC_V2:
        return None  # refused by the log
    if not _ATTRIBUTES.unpack_from(buffer, start + ATTRIBUTES_AT)[0] & TRANSACTIONAL_MASK:
        return None
    return Producer(*_PRODUCER.unpack_from(buffer, start + _PRODUCER_AT))


class _Asked(NamedTuple):
    """Batches of a request that have to be asked for.

    Attributes:
        producers: by their place.
        unknown: of producers that their partition does not know: that, and their first sequence number.
        out_of_order: those of them that came too early.
        is_mixed: a partition is named twice, with batches of two producers.
    """

    producers: dict[TopicPartition, Producer]
    unknown: dict[TopicPartition, tuple[Partition, int]]
    out_of_order: set[TopicPartition]
    is_mixed: bool


def _asked(services: Services, buffer: bytearray, topics: Topics, *, adds: bool) -> _Asked:
    asked: dict[TopicPartition, Producer] = {}
    unknown: dict[TopicPartition, tuple[Partition, int]] = {}
    out_of_order: set[TopicPartition] = set()
    is_mixed = False
    for topic, partitions in topics:
        for index, start, end in partitions:
            producer = producer_of(buffer, start, end) if start >= 0 else None
            partition = services.partitions.get(topic, index) if producer is not None else None
            if producer is None or partition is None:
                continue
            producers = partition.log.producers
            # A batch that the log itself refuses with a final error has nothing to wait for.
            if not producers.has_open_transaction(*producer) and not producers.is_fenced(*producer):
                place = TopicPartition(topic, index)
                is_mixed |= asked.setdefault(place, producer) != producer
                if producers.entry(producer.producer_id) is None:
                    sequence = _SEQUENCE.unpack_from(buffer, start + _SEQUENCE_AT)[0]
                    unknown[place] = partition, sequence
                    if sequence > (0 if adds else partition.refused_sequences.get(producer, sequence)):
                        out_of_order.add(place)
                elif partition.refused_sequences:
                    partition.refused_sequences.pop(producer, None)  # the log knows the order now
    return _Asked(asked, unknown, out_of_order, is_mixed)


def admit(services: Services, buffer: bytearray, topics: Topics, version: int, transactional_id: str) -> Admission:
    """Asks for all batches of a request. Loop thread."""
    adds = version >= ADDS_PARTITIONS_FROM
    refused: Refusals = {}
    asked, unknown, out_of_order, is_mixed = _asked(services, buffer, topics, adds=adds)
    if not asked or not (adds or services.config.transaction_partition_verification_enable):
        return Admission(refused, None)
    askers = set(asked.values())
    if is_mixed or len({producer.producer_id for producer in askers}) > 1:
        reason = ErrorCode.INVALID_PRODUCER_ID_MAPPING, "batches of more than one producer in one request"
        return Admission(dict.fromkeys(asked, reason), None)
    wait = None
    for producer in askers:
        mine = frozenset(place for place, owner in asked.items() if owner == producer)
        try:
            if adds:
                wait = services.transactions.get().add_partitions(transactional_id, producer, mine, VERSION_2) or wait
                continue
        except ProtocolError as error:
            refused.update(dict.fromkeys(mine, _reason(error, version)))
            continue
        for place in mine:
            try:
                services.transactions.get().verify(transactional_id, producer, place)
            except ProtocolError as error:
                refused[place] = _reason(error, version)
    for place, (partition, sequence) in unknown.items():
        if place in refused:
            _remember(partition.refused_sequences, asked[place], sequence)
        elif place not in out_of_order:  # it takes its place now: nothing is missing before what comes behind it
            partition.refused_sequences.pop(asked[place], None)
    added = [place for place in asked if place not in refused]
    for place in out_of_order.difference(refused):
        refused[place] = _LATE
    return Admission(refused, wait, added)


def check_again(
    services: Services, version: int, transactional_id: str, partition: Partition, buffer: bytearray
) -> None:
    """Ask once more, right before a batch is appended that a thread has looked at meanwhile: its transaction may be over, and
    it would begin one that nobody ends. From version 12 on its epoch tells. Raises ProtocolError as `admit` refuses. Loop thread.
    """
    if version >= ADDS_PARTITIONS_FROM or not services.config.transaction_partition_verification_enable:
        return
    producer = producer_of(buffer, 0, len(buffer))
    if producer is None:
        return
    producers = partition.log.producers
    if producers.has_open_transaction(*producer) or producers.is_fenced(*producer):
        return
    place = TopicPartition(partition.log.topic, partition.log.partition)
    try:
        services.transactions.get().verify(transactional_id, producer, place)
    except ProtocolError as error:
        raise ProtocolError(*_reason(error, version)) from None


def _remember(refused: dict[tuple[int, int], int], producer: Producer, sequence: int) -> None:
    """A batch that is refused may be sent again: it must not find one behind it in its place, which a partition that does not
    know the producer would take. From version 12 on such a producer begins with 0; before that it may have written here so
    long ago that the partition has forgotten it, and only what was refused tells the order."""
    refused[producer] = min(sequence, refused.pop(producer, sequence))
    if len(refused) > MOST_REFUSED:
        del refused[next(iter(refused))]


def _reason(error: ProtocolError, version: int) -> tuple[ErrorCode, str]:
    """In codes that clients of this version expect from Produce."""
    code = produce_code(error.code, version)
    return code, f"the transaction could not be verified: {error.code.name}: {error.message or error.code.text}"


def produce_code(code: ErrorCode, version: int) -> ErrorCode:
    """Translate the coordinator's error code into the one that producers of that version expect."""
    if code in _TRY_AGAIN or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_PARTITIONS_FROM):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _KNOWS_ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return code
