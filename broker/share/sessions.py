"""Share sessions (KIP-932): what a member reads, told once, and then only what changes.

A session belongs to a member of a group and to the connection that opened it; it ends with either. Epoch 0 opens one (an
older one of the member is over), -1 ends it, and each request in between has the next epoch: a request that got lost, or
comes twice, is found out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...protocol.errors import ErrorCode, ProtocolError

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

    def add(self, partitions: Iterable[TopicIdPartition]) -> None:
        """These are read too from now on. The next answer has those that are new."""
        for partition in partitions:
            self.partitions.setdefault(partition, True)

    def forget(self, partitions: Iterable[TopicIdPartition]) -> None:
        """These are read no more."""
        for partition in partitions:
            self.partitions.pop(partition, None)

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
    """All sessions of this node: no more than `limit`. Loop thread."""

    __slots__ = ("_by_connection", "_sessions", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._sessions: dict[MemberKey, ShareSession] = {}
        self._by_connection: dict[object, dict[MemberKey, ShareSession]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def get(self, key: MemberKey) -> ShareSession | None:
        return self._sessions.get(key)

    def has_group(self, group: str) -> bool:
        """True if a member of the group has a session."""
        return any(key.group == group for key in self._sessions)

    def opened(
        self, key: MemberKey, connection: object, wanted: Iterable[TopicIdPartition], *, has_acknowledgements: bool
    ) -> ShareSession:
        """Open the session of a request with epoch 0. Raises ProtocolError: INVALID_REQUEST when it acknowledges what it cannot
        have, SHARE_SESSION_LIMIT_REACHED.
        """
        if has_acknowledgements:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "a session begins without acknowledgements")
        self.remove(key)
        if len(self._sessions) >= self.limit:
            raise ProtocolError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(key, connection, wanted)
        self._sessions[key] = session
        self._by_connection.setdefault(connection, {})[key] = session
        return session

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
            own = self._by_connection.get(session.connection)
            if own is not None:
                own.pop(key, None)
                if not own:
                    del self._by_connection[session.connection]
        return session

    def remove_connection(self, connection: object) -> list[ShareSession]:
        """Ends all sessions of a connection."""
        sessions = list(self._by_connection.pop(connection, {}).values())
        for session in sessions:
            del self._sessions[session.key]
        return sessions
