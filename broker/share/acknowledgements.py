"""The acknowledgements in ShareFetch and ShareAcknowledge requests: checked, given to their partitions, waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import ErrorCode
from ..runtime.cooperative import Turns
from .manager import Acknowledged, SharePartitions
from .partition import Acknowledgement, AcknowledgeType
from .records import SharePartitionKey
from .sessions import MemberKey, TopicIdPartition

if TYPE_CHECKING:
    from ..partitions.partition import PartitionTable

#: Kafka's member ids are the text of a UUID at most.
MAX_MEMBER_ID = 36
RENEW_FROM = 2
TYPES_PER_UNIT = 100
"""Types of acknowledgements, each a byte, that take as long to look at as a name."""


class Batch(Protocol):
    """Batch of acknowledgements, the same in both requests."""

    first_offset: int
    last_offset: int
    acknowledge_types: Sequence[int]


class AcknowledgedPartition(Protocol):
    """A partition with its batches, as both requests name it."""

    @property
    def partition_index(self) -> int: ...

    @property
    def acknowledgement_batches(self) -> Sequence[Batch]: ...


class AcknowledgedTopic(Protocol):
    """A topic by its id, as both requests name it."""

    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> Sequence[AcknowledgedPartition]: ...


class Refused(ValueError):
    """A request that is not what it has to be, in one sentence."""


def check_member(group: str | None, member: str | None) -> MemberKey:
    """Check the ids of group and member; Refused."""
    if group is None:
        raise Refused("the request has no group id")
    if not member or len(member) > MAX_MEMBER_ID:
        raise Refused(f"a member id has 1 to {MAX_MEMBER_ID} characters")
    return MemberKey(group, member)


async def checked(
    batches: Iterable[Batch], version: int, turns: Turns, *, is_renewal: bool
) -> list[Acknowledgement] | None:
    """In the words of `SharePartition`; None where a batch is not what it has to be."""
    highest = AcknowledgeType.RENEW if version >= RENEW_FROM else AcknowledgeType.REJECT
    found: list[Acknowledgement] = []
    behind = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if turns.spent(1 + len(types) // TYPES_PER_UNIT):
            await turns.next()
        if first > last or first < behind or not types or (len(types) > 1 and last - first != len(types) - 1):
            return None
        if min(types) < 0 or max(types) > highest or (AcknowledgeType.RENEW in types and not is_renewal):
            return None
        found.append(Acknowledgement(first, last, types))
        behind = last
    return found


async def acknowledge(
    shares: SharePartitions,
    table: PartitionTable,
    key: MemberKey,
    topics: Iterable[AcknowledgedTopic],
    version: int,
    turns: Turns,
    *,
    is_renewal: bool,
    may_read: Callable[[str], bool],
    leave_out_empty: bool = False,
) -> dict[TopicIdPartition, Acknowledged]:
    """Apply acknowledgements; returns the outcome of each partition. Others have their turn between parts of very many, but not
    within a partition's, all of which count or none.

    `may_read`: whether the client may, by a topic's name. `leave_out_empty`: no outcome where nothing is acknowledged.
    """
    outcomes: dict[TopicIdPartition, Acknowledged] = {}
    for topic in topics:
        topic_id = topic.topic_id
        if turns.spent():
            await turns.next()
        for part in topic.partitions:
            if turns.spent():
                await turns.next()
            if part.acknowledgement_batches or not leave_out_empty:
                index, name = part.partition_index, table.name_of(topic_id)
                outcome = Acknowledged(ErrorCode.UNKNOWN_TOPIC_ID)
                if name is not None and not may_read(name):
                    outcome = Acknowledged(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                elif name is not None:
                    found = await checked(part.acknowledgement_batches, version, turns, is_renewal=is_renewal)
                    outcome = _applied(shares, table, SharePartitionKey(key.group, topic_id, index), key.member, found)
                outcomes[TopicIdPartition(topic_id, index)] = outcome
    return outcomes


def _applied(
    shares: SharePartitions,
    table: PartitionTable,
    where: SharePartitionKey,
    member: str,
    acknowledgements: list[Acknowledgement] | None,
) -> Acknowledged:
    name = table.name_of(where.topic_id)  # asked again: the topic may have gone while others had their turn
    if name is None:
        return Acknowledged(ErrorCode.UNKNOWN_TOPIC_ID)
    if acknowledgements is None:
        return Acknowledged(ErrorCode.INVALID_REQUEST)
    if table.get(name, where.partition) is None:
        return Acknowledged(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return shares.acknowledge(where, member, acknowledgements) if acknowledgements else Acknowledged()
