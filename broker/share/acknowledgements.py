"""The acknowledgements in ShareFetch and ShareAcknowledge requests: checked, given to their partitions, waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import ErrorCode
from .manager import Acknowledged, SharePartitions
from .partition import Acknowledgement, AcknowledgeType
from .records import SharePartitionKey
from .sessions import MemberKey, TopicIdPartition

if TYPE_CHECKING:
    from ..partitions.partition import PartitionTable

#: Kafka's member ids are the text of a UUID at most.
MAX_MEMBER_ID = 36
RENEW_FROM = 2


class Batch(Protocol):
    """Batch of acknowledgements, the same in both requests."""

    first_offset: int
    last_offset: int
    acknowledge_types: Sequence[int]


class Refused(ValueError):
    """A request that is not what it has to be, in one sentence."""


def check_member(group: str | None, member: str | None) -> MemberKey:
    """Check the ids of group and member; Refused."""
    if group is None:
        raise Refused("the request has no group id")
    if not member or len(member) > MAX_MEMBER_ID:
        raise Refused(f"a member id has 1 to {MAX_MEMBER_ID} characters")
    return MemberKey(group, member)


def checked(batches: Iterable[Batch], version: int, *, is_renewal: bool) -> list[Acknowledgement] | None:
    """In the words of `SharePartition`; None where a batch is not what it has to be."""
    highest = AcknowledgeType.RENEW if version >= RENEW_FROM else AcknowledgeType.REJECT
    found: list[Acknowledgement] = []
    behind = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < behind or not types or (len(types) > 1 and last - first != len(types) - 1):
            return None
        if not all(0 <= kind <= highest for kind in types) or (AcknowledgeType.RENEW in types and not is_renewal):
            return None
        found.append(Acknowledgement(first, last, types))
        behind = last
    return found


def acknowledge(
    shares: SharePartitions,
    table: PartitionTable,
    key: MemberKey,
    wanted: Iterable[tuple[TopicIdPartition, Sequence[Batch]]],
    version: int,
    *,
    is_renewal: bool,
    may_read: Callable[[str], bool],
) -> dict[TopicIdPartition, Acknowledged]:
    """Apply acknowledgements; returns the outcome of each partition. `may_read`: whether the client may, by a topic's name."""
    outcomes: dict[TopicIdPartition, Acknowledged] = {}
    for partition, batches in wanted:
        topic_id, index = partition
        name = table.name_of(topic_id)
        if name is None:
            outcomes[partition] = Acknowledged(ErrorCode.UNKNOWN_TOPIC_ID)
            continue
        if not may_read(name):
            outcomes[partition] = Acknowledged(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            continue
        acknowledgements = checked(batches, version, is_renewal=is_renewal)
        if acknowledgements is None:
            outcomes[partition] = Acknowledged(ErrorCode.INVALID_REQUEST)
        elif table.get(name, index) is None:
            outcomes[partition] = Acknowledged(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif acknowledgements:
            outcomes[partition] = shares.acknowledge(
                SharePartitionKey(key.group, topic_id, index), key.member, acknowledgements
            )
        else:
            outcomes[partition] = Acknowledged()
    return outcomes
