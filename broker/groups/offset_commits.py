"""Committed offsets: commit, fetch, delete, expire.

An answer to a commit waits until the commit is as durable as `__consumer_offsets` is set to be, and a fetch waits for
what was committed before it: what a power cut can take back is shown to nobody. Loop thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ErrorCode, ProtocolError
from ..coordinator.internal_topic import CoordinatorRecord
from ..coordinator.runtime import Unsynced, when_durable
from ..runtime.cooperative import batches
from .classic.metadata import PREPARING_REBALANCE, STABLE, GroupMetadata
from .store.group import CommittedPartition, Committer, Group
from .store.offsets import CommittedPlace
from .store.records import LAST_TIMESTAMP, NO_TIMESTAMP, OffsetAndMetadata, offset_key, offset_value, read_offset_value
from .store.shards import Shard, Shards

if TYPE_CHECKING:
    from ...storage.clock import Time
    from .classic.membership import GroupMembership

    #: Remove a group from memory; requests that wait for it are answered with the error.
    Remove = Callable[[Shard, Group, ErrorCode], None]

log = logging.getLogger(__name__)

#: An expiry looks at about this many offsets (some milliseconds of the loop) at a time.
OFFSETS_PER_EXPIRY_SLICE = 2000
_PARTITIONS_AT_ONCE = 500
#: Two milliseconds of the loop.
TOMBSTONES_PER_TURN = 400
NO_OFFSET = -1


class OffsetToCommit(NamedTuple):
    """One offset of a commit. The topic's id is None where it is not known."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: bytes | None = None


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """One OffsetCommit; its partitions exist. Of no member: generation -1, an empty member id."""

    group_id: str
    offsets: Sequence[OffsetToCommit]
    member_id: str = ""
    group_instance_id: str | None = None
    generation: int = -1
    retention_ms: int = -1
    """Sent by clients of before 2018 (versions 2 to 4); the offset expires that long from now, whatever else is set."""
    unknown_group_error: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND
    version: int = 9
    """Version of OffsetCommit, where members of heartbeat groups need 9, or of TxnOffsetCommit."""

    def committer(self, *, transactional: bool = False) -> Committer:
        return Committer(self.member_id, self.group_instance_id, self.generation, transactional, self.version)

    def partitions(self) -> Iterator[CommittedPartition]:
        return (CommittedPartition(item.topic, item.topic_id, item.partition) for item in self.offsets)


@dataclass(frozen=True, slots=True)
class TxnCommitRequest:
    """One TxnOffsetCommit: a CommitRequest that counts when the producer's transaction commits. Its group's partition is
    in the transaction."""

    commit: CommitRequest
    producer_id: int
    producer_epoch: int


class FetchedOffset(NamedTuple):
    """One partition's answer; offset -1 where nothing is committed."""

    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class TopicToFetch(NamedTuple):
    """Partitions asked for. With an id, offsets that were committed for another topic of that name don't count."""

    topic: str
    partitions: Sequence[int]
    topic_id: bytes | None = None


class FetchedTopic(NamedTuple):
    """Answers for one topic; `topic_id` as in the question."""

    topic: str
    partitions: list[FetchedOffset]
    topic_id: bytes | None = None


class FetchedGroup(NamedTuple):
    """Answers for one group, in the order of the question, or one error for all."""

    topics: list[FetchedTopic]
    error: ErrorCode = ErrorCode.NONE


class GroupCommits:
    """Commits, fetches, deletes and expires committed offsets. Loop thread."""

    __slots__ = ("_max_metadata", "_membership", "_remove", "_retention_ms", "_shards", "_time", "commits", "expired")

    def __init__(
        self,
        shards: Shards,
        membership: GroupMembership,
        remove: Remove,
        time: Time,
        max_metadata: int,
        retention_ms: int,
    ) -> None:
        self._shards = shards
        self._membership = membership
        self._remove = remove
        self._time = time
        self._max_metadata = max_metadata
        self._retention_ms = retention_ms
        #: Offsets committed, and offsets expired, since the start.
        self.commits = 0
        self.expired = 0

    # -- commit

    def commit(self, request: CommitRequest) -> list[ErrorCode] | Coroutine[Any, Any, list[ErrorCode]]:
        """One code for each offset, in their order. Raises ProtocolError when the whole request is refused."""
        shard = self._shards.find(request.group_id, allow_empty_id=True)
        group = shard.groups.get(request.group_id)
        if group is None:
            if request.generation >= 0:
                raise ProtocolError(request.unknown_group_error)
        else:
            error = group.may_commit(request.committer(), request.partitions())
            if error is not ErrorCode.NONE:
                raise ProtocolError(error)
            if isinstance(group, GroupMetadata) and group.state in (STABLE, PREPARING_REBALANCE):
                self._membership.member_seen(shard, group, request.member_id)
        now_ms = self._time.milliseconds()
        codes, values, records = self._records_of(request, now_ms)
        if not values:
            return codes
        unsynced = self._shards.append(shard, records)
        if group is None:
            # KIP-496's "simple" group: nobody joins it, it only stores offsets. It needs no record of its own.
            log.info("group %s: created by a commit without a member", request.group_id)
            shard.groups[request.group_id] = GroupMetadata(request.group_id, now_ms)
        for item, value in values:
            shard.offsets.put(request.group_id, item.topic, item.partition, value)
        self.commits += len(values)
        return codes if unsynced is None else when_durable(unsynced, codes)

    def _records_of(
        self, request: CommitRequest, now_ms: int
    ) -> tuple[list[ErrorCode], list[tuple[OffsetToCommit, bytes]], list[CoordinatorRecord]]:
        """Return one code for each offset, the offsets that can be committed with their values, and the records of these."""
        expire_ms = NO_TIMESTAMP if request.retention_ms < 0 else min(now_ms + request.retention_ms, LAST_TIMESTAMP)
        codes: list[ErrorCode] = []
        values: list[tuple[OffsetToCommit, bytes]] = []
        for item in request.offsets:
            metadata = item.metadata or ""
            if self._is_too_long(metadata):
                codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            committed = OffsetAndMetadata(item.offset, item.leader_epoch, metadata, now_ms, expire_ms, item.topic_id)
            values.append((item, offset_value(committed)))
            codes.append(ErrorCode.NONE)
        records = [
            CoordinatorRecord(offset_key(request.group_id, item.topic, item.partition), value) for item, value in values
        ]
        return codes, values, records

    # -- transactions

    def commit_in_transaction(
        self, request: TxnCommitRequest
    ) -> list[ErrorCode] | Coroutine[Any, Any, list[ErrorCode]]:
        """As `commit`; nobody sees these offsets until `end_transaction`. INVALID_PRODUCER_EPOCH: the transaction is over."""
        commit = request.commit
        shard = self._shards.find(commit.group_id)
        group = shard.groups.get(commit.group_id)
        if group is None:
            if commit.generation >= 0:
                raise ProtocolError(commit.unknown_group_error)
        else:
            error = group.may_commit(commit.committer(transactional=True), commit.partitions())
            if error is not ErrorCode.NONE:
                raise ProtocolError(error)
        now_ms = self._time.milliseconds()
        codes, values, records = self._records_of(commit, now_ms)
        if not values:
            return codes
        first, unsynced = self._shards.append_transactional(shard, records, request.producer_id, request.producer_epoch)
        if group is None:
            shard.groups[commit.group_id] = GroupMetadata(commit.group_id, now_ms)
        for number, (item, value) in enumerate(values):
            shard.offsets.put_pending(
                request.producer_id, first + number, commit.group_id, item.topic, item.partition, value
            )
        return codes if unsynced is None else when_durable(unsynced, codes)

    def end_transaction(self, shard: Shard, producer_id: int, committed: bool, unsynced: Unsynced) -> None:
        """The marker is in the shard's partition. `unsynced`: its durability, which readers of the offsets wait for."""
        self._shards.wait_for(shard, unsynced)
        now_ms = self._time.milliseconds()
        for group_id in shard.offsets.end_transaction(producer_id, committed=committed):
            # It may have been deleted meanwhile; what was committed to it since makes it anew.
            if committed and group_id not in shard.groups and shard.offsets.of_group(group_id):
                shard.groups[group_id] = GroupMetadata(group_id, now_ms)

    def _is_too_long(self, metadata: str) -> bool:
        """`offset.metadata.max.bytes`, which Kafka counts in UTF-16 units."""
        limit = self._max_metadata
        return len(metadata) > limit or (
            2 * len(metadata) > limit and len(metadata.encode("utf-16-be", "surrogatepass")) > 2 * limit
        )

    # -- fetch

    def fetch(
        self,
        group_id: str,
        topics: Sequence[TopicToFetch] | None,
        *,
        require_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> FetchedGroup | Coroutine[Any, Any, FetchedGroup]:
        """The group's offsets for `topics`, or all. A group that does not exist has none. A member of a heartbeat group says
        who it is (KIP-848), so that one whose partitions may be another's by now learns that.

        `require_stable` (KIP-447): a partition for which an open transaction holds an offset is answered with
        UNSTABLE_OFFSET_COMMIT."""
        try:
            shard = self._shards.find(group_id, allow_empty_id=True)
        except ProtocolError as error:
            return FetchedGroup([], error.code)
        group = shard.groups.get(group_id)
        if group is not None and (code := group.may_fetch(member_id, member_epoch)) is not ErrorCode.NONE:
            return FetchedGroup([], code)
        found = self._fetch(shard, group_id, topics, require_stable)
        unsynced = self._shards.unsynced_of(shard)
        return FetchedGroup(found) if unsynced is None else self._fetched_when_durable(unsynced, found)

    def committed_partitions(self, group_id: str) -> Mapping[str, Collection[int]]:
        """Partitions by topic that the group has offsets of; none while its coordinator is not there. Changes with commits."""
        try:
            return self._shards.find(group_id, allow_empty_id=True).offsets.of_group(group_id)
        except ProtocolError:
            return {}

    @staticmethod
    async def _fetched_when_durable(unsynced: asyncio.Future[None], found: list[FetchedTopic]) -> FetchedGroup:
        """What was found before the wait: what is committed meanwhile waits for a later sync."""
        try:
            return await when_durable(unsynced, FetchedGroup(found))
        except ProtocolError as error:
            return FetchedGroup([], error.code)

    @staticmethod
    def _fetch(
        shard: Shard, group_id: str, topics: Sequence[TopicToFetch] | None, require_stable: bool
    ) -> list[FetchedTopic]:
        store = shard.offsets
        held = store.of_group(group_id)
        if topics is None:
            topics = [TopicToFetch(topic, tuple(partitions)) for topic, partitions in held.items()]
        unstable = require_stable and store.has_pending(group_id)
        answer: list[FetchedTopic] = []
        for topic, partitions, topic_id in topics:
            values = held.get(topic, {})
            fetched: list[FetchedOffset] = []
            for partition in partitions:
                value = values.get(partition)
                if unstable and store.has_pending(group_id, topic, partition):
                    fetched.append(FetchedOffset(partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT))
                    continue
                committed = None if value is None else read_offset_value(value)
                if committed is None or (topic_id and committed.topic_id and topic_id != committed.topic_id):
                    fetched.append(FetchedOffset(partition))
                else:
                    fetched.append(
                        FetchedOffset(partition, committed.offset, committed.leader_epoch, committed.metadata)
                    )
            answer.append(FetchedTopic(topic, fetched, topic_id))
        return answer

    # -- delete

    def delete_offsets(
        self, group_id: str, partitions: Sequence[tuple[str, int]]
    ) -> list[ErrorCode] | Coroutine[Any, Any, list[ErrorCode]]:
        """Forgets offsets (KIP-496): one code for each partition; those of topics that a member reads stay.

        Raises ProtocolError when the whole request is refused: there is no such group, or one with members whose
        subscriptions cannot be known."""
        shard = self._shards.find(group_id)
        group = shard.groups.get(group_id)
        if group is None:
            raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND)
        if (error := group.may_delete_offsets()) is not ErrorCode.NONE:
            raise ProtocolError(error)
        held = shard.offsets.of_group(group_id)
        pending = set(shard.offsets.pending_of(group_id))  # a transaction would bring them back
        codes = [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(topic) else ErrorCode.NONE
            for topic, _ in partitions
        ]
        gone = [
            (topic, partition)
            for (topic, partition), code in zip(partitions, codes, strict=True)
            if code is ErrorCode.NONE and (partition in held.get(topic, {}) or (topic, partition) in pending)
        ]
        unsynced = self._shards.remove_offsets(shard, group_id, list(dict.fromkeys(gone)))
        return codes if unsynced is None else when_durable(unsynced, codes)

    def delete_group(self, group_id: str) -> ErrorCode | Coroutine[Any, Any, ErrorCode]:
        """Forgets a group without members, and its offsets."""
        try:
            shard = self._shards.find(group_id, allow_empty_id=True)
            group = shard.groups.get(group_id)
            if group is None:
                return ErrorCode.GROUP_ID_NOT_FOUND
            code = group.may_delete()
            if code is not ErrorCode.NONE:
                return code
            held = shard.offsets.of_group(group_id)
            gone = dict.fromkeys((t, p) for t, partitions in held.items() for p in partitions)
            gone.update(dict.fromkeys(shard.offsets.pending_of(group_id)))  # a transaction would bring them back
            self._shards.remove_offsets(shard, group_id, list(gone))
            unsynced = self._forget(shard, group)
        except ProtocolError as error:
            return error.code
        return ErrorCode.NONE if unsynced is None else _code_when_durable(unsynced)

    def _forget(self, shard: Shard, group: Group) -> Unsynced:
        unsynced = self._shards.append(shard, group.tombstones())
        self._remove(shard, group, ErrorCode.UNKNOWN_MEMBER_ID)
        return unsynced

    def topics_deleted(self, topics: Collection[str]) -> Iterator[None]:
        """Forgets what all groups had committed for these topics, at once. Iterate to write that down: a topic may have been read
        by very many groups. Raises nothing: what cannot be written is logged."""
        forgotten: list[tuple[Shard, list[CommittedPlace]]] = []
        for shard in self._shards:
            if shard.loaded:
                forgotten.append((shard, shard.offsets.forget_topics(topics)))
            else:
                shard.deleted_topics.update(topics)
        return self._write_forgotten(forgotten)

    def loaded(self, shard: Shard) -> Iterator[None]:
        """The shard has been loaded: what was put off until then is done, as `topics_deleted` does it."""
        topics, shard.deleted_topics = shard.deleted_topics, set()
        return self._write_forgotten([(shard, shard.offsets.forget_topics(topics))])

    def _write_forgotten(self, forgotten: Sequence[tuple[Shard, list[CommittedPlace]]]) -> Iterator[None]:
        """Tombstones for all but what was committed again meanwhile, to a new topic of the name."""
        written = 0
        for shard, places in forgotten:
            for some in batches(places, TOMBSTONES_PER_TURN):
                if written + len(some) > TOMBSTONES_PER_TURN:
                    yield
                    written = 0
                written += len(some)
                records = [CoordinatorRecord(offset_key(*place), None) for place in some if place not in shard.offsets]
                try:
                    if records:
                        self._shards.append(shard, records)
                except ProtocolError as error:
                    log.error(
                        "%s: offsets of deleted topics remain: %s", ", ".join({place[1] for place in some}), error
                    )

    # -- expiry

    def expire(self) -> Iterator[None]:
        """One round over all groups: expired offsets go, and groups that nobody is in and that have none. Yields
        after each slice of the work, so that the caller can let others run."""
        looked_at = 0
        for shard in self._shards:
            if not shard.loaded:
                continue
            for group in list(shard.groups.values()):
                for places in _slices(shard.offsets.of_group(group.group_id)):
                    if shard.groups.get(group.group_id) is not group:
                        break  # deleted since
                    looked_at += 1 + sum(len(partitions) for _, partitions in places)
                    self._expire_some(shard, group, places)
                    if looked_at >= OFFSETS_PER_EXPIRY_SLICE:
                        looked_at = 0
                        yield

    def _expire_some(self, shard: Shard, group: Group, places: list[tuple[str, list[int]]]) -> None:
        gone, none_left = shard.offsets.expired(group, self._time.milliseconds(), self._retention_ms, places)
        try:
            self._shards.remove_offsets(shard, group.group_id, gone)
            self.expired += len(gone)
            if none_left and group.may_expire and not shard.offsets.of_group(group.group_id):
                self._forget(shard, group)
        except ProtocolError as error:
            log.warning("group %s: expired offsets could not be removed: %s", group.group_id, error)


def _slices(held: Mapping[str, Collection[int]]) -> Iterator[list[tuple[str, list[int]]]]:
    """What a group has offsets of now, so much at a time as an expiry looks at; once nothing for a group that has none."""
    places: list[tuple[str, list[int]]] = []
    size = 0
    for topic, partitions in list(held.items()):
        for some in batches(list(partitions), _PARTITIONS_AT_ONCE):
            if size >= OFFSETS_PER_EXPIRY_SLICE:
                yield places
                places, size = [], 0
            places.append((topic, some))
            size += len(some)
    yield places


async def _code_when_durable(unsynced: asyncio.Future[None]) -> ErrorCode:
    try:
        await when_durable(unsynced, None)
    except ProtocolError as error:
        return error.code
    return ErrorCode.NONE
