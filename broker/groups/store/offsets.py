"""The committed offsets of the groups of one `__consumer_offsets` partition, in memory.

An offset is kept as the value of its record, undecoded: a commit has the bytes at hand, a start copies them, and only
a fetch or an expiry looks inside. That is also the least memory: some 200 bytes an offset.

Transactional commits (read from a log that has them) wait by producer id until the transaction's marker comes. Loop
thread only, except while being loaded, when one pool thread owns it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from .group import Group
from .records import OffsetAndMetadata, read_offset_value

#: topic → partition → value of the OffsetCommit record
GroupOffsets = dict[str, dict[int, bytes]]
#: Group, topic and partition.
CommittedPlace = tuple[str, str, int]
#: A topic and some of its partitions.
Place = tuple[str, Iterable[int]]


class TopicPartition(NamedTuple):
    """Key of a committed offset within a group."""

    topic: str
    partition: int


class OffsetStore:
    """Offsets by group. The empty dicts that removals leave behind are removed too."""

    __slots__ = ("_by_group", "_holders", "_pending", "count")

    def __init__(self) -> None:
        self._by_group: dict[str, GroupOffsets] = {}
        #: producer id → (group, topic, partition) → (offset of the record, its value)
        self._pending: dict[int, dict[CommittedPlace, tuple[int, bytes]]] = {}
        #: The same by place: group → (topic, partition) → producer ids. There may be thousands of open transactions.
        self._holders: dict[str, dict[tuple[str, int], set[int]]] = {}
        #: Committed offsets in here, those of open transactions not counted.
        self.count = 0

    def group_ids(self) -> Iterator[str]:
        return iter(self._by_group)

    def of_group(self, group_id: str) -> GroupOffsets:
        """Read only. Empty when there are none."""
        return self._by_group.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        value = self._by_group.get(group_id, {}).get(topic, {}).get(partition)
        return None if value is None else read_offset_value(value)

    def put(self, group_id: str, topic: str, partition: int, value: bytes) -> None:
        """A commit outside of transactions. It is newer than what open ones hold for the same partition, so it wins
        even if they commit later."""
        if self._pending:
            self._forget_pending((group_id, topic, partition))
        self._put(group_id, topic, partition, value)

    def remove(self, group_id: str, topic: str, partition: int) -> bool:
        """A tombstone. True if there was an offset."""
        if self._pending:
            self._forget_pending((group_id, topic, partition))
        topics = self._by_group.get(group_id)
        partitions = topics.get(topic) if topics is not None else None
        if topics is None or partitions is None or partitions.pop(partition, None) is None:
            return False
        self.count -= 1
        if not partitions:
            del topics[topic]
            if not topics:
                del self._by_group[group_id]
        return True

    def __contains__(self, place: CommittedPlace) -> bool:
        """True if there is an offset, or an open transaction has one."""
        group_id, topic, partition = place
        return partition in self.of_group(group_id).get(topic, {}) or self.has_pending(group_id, topic, partition)

    def forget_topics(self, topics: Collection[str]) -> list[CommittedPlace]:
        """Forget the offsets of these topics, those of open transactions too; return where they were."""
        gone: dict[CommittedPlace, None] = {}
        for group_id, held in list(self._by_group.items()) if topics else ():
            for topic in topics:
                partitions = held.pop(topic, {})
                self.count -= len(partitions)
                gone.update(dict.fromkeys((group_id, topic, partition) for partition in partitions))
            if not held:
                del self._by_group[group_id]
        for producer_id, pending in list(self._pending.items()):
            theirs = [place for place in pending if place[1] in topics]
            for place in theirs:
                self._let_go(producer_id, place)
            gone.update(dict.fromkeys(theirs))
        return list(gone)

    def _put(self, group_id: str, topic: str, partition: int, value: bytes) -> None:
        partitions = self._by_group.setdefault(group_id, {}).setdefault(topic, {})
        if partition not in partitions:
            self.count += 1
        partitions[partition] = value

    # -- loading

    def partitions_of(self, group_id: str, topic: str) -> dict[int, bytes]:
        """Offsets of one topic by partition, to be filled while loading; made if need be. `settle` ends the loading."""
        return self._by_group.setdefault(group_id, {}).setdefault(topic, {})

    def settle(self) -> None:
        """Drops what loading left empty and counts the rest."""
        for group_id, topics in list(self._by_group.items()):
            for topic in [topic for topic, partitions in topics.items() if not partitions]:
                del topics[topic]
            if not topics:
                del self._by_group[group_id]
        self.count = sum(len(partitions) for topics in self._by_group.values() for partitions in topics.values())

    # -- transactions

    def put_pending(
        self, producer_id: int, record_offset: int, group_id: str, topic: str, partition: int, value: bytes
    ) -> None:
        """A commit inside a transaction, not visible yet. `record_offset` is where it stands in the log."""
        self._pending.setdefault(producer_id, {})[group_id, topic, partition] = record_offset, value
        places = self._holders.setdefault(group_id, {})
        holders = places.get((topic, partition))
        if holders is None:
            places[topic, partition] = {producer_id}
        else:
            holders.add(producer_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> set[str]:
        """The transaction's marker: its offsets become visible, or are forgotten. Returns the groups it touched.

        Of two transactions that hold an offset for the same partition the one with the later record wins, in whichever
        order they end (compaction keeps the later one, so only it can count)."""
        ended = dict(self._pending.get(producer_id, {}))
        for key, (record_offset, value) in ended.items():
            self._let_go(producer_id, key)
            if committed:
                self._forget_pending(key, before=record_offset)
                self._put(*key, value)
        return {group_id for group_id, _, _ in ended}

    def forget_pending(self, group_id: str, topic: str, partition: int) -> None:
        """A later record outside of transactions has settled what this partition's offset is."""
        self._forget_pending((group_id, topic, partition))

    def pending_group_ids(self) -> set[str]:
        """Groups that open transactions hold offsets for."""
        return set(self._holders)

    def pending_of(self, group_id: str) -> list[TopicPartition]:
        """Partitions for which open transactions hold an offset of the group."""
        return [TopicPartition(*place) for place in self._holders.get(group_id, ())]

    def has_pending(self, group_id: str, topic: str | None = None, partition: int | None = None) -> bool:
        """True if an open transaction has an offset for the group, or for the one partition."""
        places = self._holders.get(group_id)
        return places is not None and (topic is None or (topic, partition) in places)

    @property
    def open_transactions(self) -> int:
        return len(self._pending)

    def _forget_pending(self, key: CommittedPlace, before: int | None = None) -> None:
        places = self._holders.get(key[0])
        for producer_id in list(places.get(key[1:], ())) if places else ():
            held = self._pending[producer_id][key]
            if before is None or held[0] < before:
                self._let_go(producer_id, key)

    def _let_go(self, producer_id: int, key: CommittedPlace) -> None:
        """The transaction holds an offset for this place no more."""
        pending = self._pending[producer_id]
        del pending[key]
        if not pending:
            del self._pending[producer_id]
        group_id, place = key[0], key[1:]
        places = self._holders[group_id]
        holders = places[place]
        holders.discard(producer_id)
        if not holders:
            del places[place]
            if not places:
                del self._holders[group_id]

    # -- expiry

    def expired(
        self, group: Group, now_ms: int, retention_ms: int, places: Iterable[Place] | None = None
    ) -> tuple[list[TopicPartition], bool]:
        """Offsets of the group whose time is over, and whether that leaves none (so that an empty group may go too). With
        `places` both are told of these alone.

        The time runs from the commit; in an empty group that once had members, from the moment it became empty. Topics
        that a present member reads are spared, and groups of unknown kind as long as they have members."""
        topics = self.of_group(group.group_id)
        gone: list[TopicPartition] = []
        kept = False
        for topic, partitions in topics.items() if places is None else places:
            held = topics.get(topic, {})
            if group.is_subscribed_to(topic):
                kept = True
                continue
            for partition in partitions:
                if (value := held.get(partition)) is None:
                    continue
                committed = read_offset_value(value)
                start_ms = group.retention_starts(committed.commit_timestamp_ms)
                if start_ms is None:
                    over = False
                elif committed.expire_timestamp_ms >= 0:
                    over = now_ms >= committed.expire_timestamp_ms
                else:
                    over = now_ms - start_ms >= retention_ms
                if over and not (self._pending and self.has_pending(group.group_id, topic, partition)):
                    gone.append(TopicPartition(topic, partition))
                else:
                    kept = True
        return gone, not kept and not self.has_pending(group.group_id)
