"""Share sessions (KIP-932): what a member reads, told once, and then only what changes.

A session belongs to a member of a group and to the connection that opened it; it ends with either. Epoch 0 opens one (an
older one of the member is over), -1 ends it, and each request in between has the next epoch: a request that got lost, or
comes twice, is found out.

Partitions count, whether they exist or not: those of all sessions, and those of requests with very many that wait, are
`MAX_PARTITIONS` at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from ...protocol.errors import ErrorCode, ProtocolError

MAX_PARTITIONS = 250_000
"""In all sessions and in requests with many that wait, some 60 MB. Kafka bounds the sessions alone."""
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1


class MemberKey(NamedTuple):
    """A member of a share group."""

    group: str
    member: str


class TopicIdPartition(NamedTuple):
    """A partition by its topic's id, of 16 bytes."""

    topic_id: bytes
    partition: int


class ShareSession:
    """One member's partitions, in the order in which they are answered. Loop thread.

    `epoch` is the one that the next request must have. A partition's value says whether the next answer must have it,
    news or not.
    """

    __slots__ = ("connection", "epoch", "key", "partitions")

    def __init__(self, key: MemberKey, connection: object, partitions: Iterable[TopicIdPartition]) -> None:
        self.key = key
        self.connection = connection
        self.epoch = 1
        self.partitions: dict[TopicIdPartition, bool] = dict.fromkeys(partitions, False)

    def has_news(self, partition: TopicIdPartition, *, records: bool, error: bool) -> bool:
        """True if the partition belongs in the answer; one with records moves to the end of the order."""
        wanted = self.partitions.get(partition)
        if wanted is None:
            return records or error
        if records:
            del self.partitions[partition]
        self.partitions[partition] = error
        return records or error or wanted


class ShareSessions:
    """All sessions of this node: no more than `limit`, with no more than `max_partitions`. Loop thread."""

    __slots__ = ("_by_connection", "_per_group", "_sessions", "limit", "max_partitions", "partition_count")

    def __init__(self, limit: int, max_partitions: int = MAX_PARTITIONS) -> None:
        self.limit = limit
        self.max_partitions = max_partitions
        self.partition_count = 0
        """Partitions in all sessions, and those that `hold` let in."""
        self._sessions: dict[MemberKey, ShareSession] = {}
        self._by_connection: dict[object, dict[MemberKey, ShareSession]] = {}
        self._per_group: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: MemberKey) -> ShareSession | None:
        return self._sessions.get(key)

    def has_group(self, group: str) -> bool:
        """True if a member of the group has a session."""
        return group in self._per_group

    def opened(
        self, key: MemberKey, connection: object, wanted: Collection[TopicIdPartition], *, has_acknowledgements: bool
    ) -> ShareSession:
        """Open the session of a request with epoch 0, for partitions that are named once. Raises ProtocolError: INVALID_REQUEST
        when it acknowledges what it cannot have, SHARE_SESSION_LIMIT_REACHED.
        """
        if has_acknowledgements:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "a session begins without acknowledgements")
        self.remove(key)
        if len(self._sessions) >= self.limit:
            raise ProtocolError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        self._check_room(len(wanted))
        session = ShareSession(key, connection, wanted)
        self._sessions[key] = session
        self._per_group[key.group] += 1
        self.partition_count += len(wanted)
        self._by_connection.setdefault(connection, {})[key] = session
        return session

    def _check_room(self, more: int) -> None:
        if self.partition_count + more > self.max_partitions:
            what = f"all share sessions have {self.partition_count} partitions, and may have {self.max_partitions}"
            raise ProtocolError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, what)

    def add(self, session: ShareSession, partitions: Collection[TopicIdPartition]) -> None:
        """These are read too from now on. The next answer has those that are new.

        Raises ProtocolError, and none is added: SHARE_SESSION_LIMIT_REACHED, after which clients open a session anew;
        SHARE_SESSION_NOT_FOUND where it has ended meanwhile.
        """
        if self._sessions.get(session.key) is not session:
            raise ProtocolError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        new = {partition for partition in partitions if partition not in session.partitions}
        if new:
            self._check_room(len(new))
            session.partitions.update((partition, True) for partition in partitions if partition in new)
            self.partition_count += len(new)

    def forget(self, session: ShareSession, partitions: Iterable[TopicIdPartition]) -> None:
        """These are read no more."""
        is_open = self._sessions.get(session.key) is session
        for partition in partitions:
            if session.partitions.pop(partition, None) is not None and is_open:
                self.partition_count -= 1

    def hold(self, partitions: int) -> bool:
        """Admit a request that waits with so many partitions beside those of its session. False: too many. Call `let_go` when
        it no longer waits."""
        if self.partition_count + partitions > self.max_partitions:
            return False
        self.partition_count += partitions
        return True

    def let_go(self, partitions: int) -> None:
        """Release partitions that `hold` admitted."""
        self.partition_count -= partitions

    def checked(self, key: MemberKey, epoch: int) -> ShareSession:
        """The session, for a request with any epoch but 0; the next one must have the epoch that follows.

        Raises ProtocolError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        if epoch == INITIAL_EPOCH:
            raise ProtocolError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = self._sessions.get(key)
        if session is None:
            raise ProtocolError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != FINAL_EPOCH:
            if session.epoch != epoch:
                raise ProtocolError(
                    ErrorCode.INVALID_SHARE_SESSION_EPOCH, f"epoch {epoch}, where {session.epoch} comes next"
                )
            session.epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        return session

    def remove(self, key: MemberKey) -> ShareSession | None:
        """Ends the session of a member, if there is one."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self.partition_count -= len(session.partitions)
            self._per_group[key.group] -= 1
            if not self._per_group[key.group]:
                del self._per_group[key.group]
            own = self._by_connection.get(session.connection)
            if own is not None:
                own.pop(key, None)
                if not own:
                    del self._by_connection[session.connection]
        return session

    def first_of(self, connection: object) -> ShareSession | None:
        """The oldest session of a connection."""
        own = self._by_connection.get(connection)
        return None if own is None else next(iter(own.values()))
