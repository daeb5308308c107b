"""Incremental fetch sessions (KIP-227): a client names its partitions once, then only what changes.

The answer of a session holds only partitions that have something to tell: records, an error, a high watermark or a log
start offset that moved. A partition that returned records goes to the end of the order, so that one busy partition
can't starve the others when the answer is full.

Sessions live in a cache of `max.incremental.fetch.session.cache.slots`. A new one takes a free slot, or that of the
session that was used least recently if it has been idle for `EVICTION_MS`; else the client simply gets no session.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ErrorCode

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from ...storage.clock import Time

#: A session that was used within this time is not evicted for a new one (as Kafka's min.incremental... of two minutes).
EVICTION_MS = 120_000
#: In all sessions, and in requests with many that are in work or wait, some 150 MB. A request that would go beyond it is answered
#: without a session, which costs bytes, not memory, and without waiting.
MAX_PARTITIONS = 500_000
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1

#: Topic name (Fetch to version 12) or 16-byte topic id (from 13 on), and partition index.
PartitionKey = tuple[str | bytes, int]


class FetchPartition:
    """Fetch position of a client in one partition, and in a session the last values that it was told."""

    __slots__ = ("high_watermark", "leader_epoch", "log_start_offset", "max_bytes", "offset", "told")

    def __init__(self, leader_epoch: int, offset: int, max_bytes: int) -> None:
        self.leader_epoch = leader_epoch
        self.offset = offset
        self.max_bytes = max_bytes
        self.high_watermark = -1
        self.log_start_offset = -1
        #: False until the partition has been in an answer of its session, or after it was in one with an error.
        self.told = False

    def changed(self, error: int, high_watermark: int, log_start_offset: int, has_records: bool) -> bool:
        """True when the partition belongs in an incremental answer; remembers what it tells."""
        news = (
            has_records
            or error != 0
            or not self.told
            or high_watermark != self.high_watermark
            or log_start_offset != self.log_start_offset
        )
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        self.told = error == 0
        return news


class FetchSession:
    """One client's set of partitions; without an id that of a request alone. Loop thread.

    Attributes:
        waiting: partitions of a request of it that waits; 0 while none does.
        counted: what counts of it for `MAX_PARTITIONS`.
    """

    __slots__ = ("counted", "epoch", "last_used_ms", "partitions", "session_id", "uses_topic_ids", "waiting")

    def __init__(self, session_id: int, uses_topic_ids: bool, now_ms: float) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.last_used_ms = now_ms
        self.partitions: OrderedDict[PartitionKey, FetchPartition] = OrderedDict()
        self.waiting = self.counted = 0


class FetchContext(NamedTuple):
    """Session and partitions of one request."""

    error: ErrorCode
    #: 0: no session.
    session_id: int
    #: True: leave partitions with no news out of the answer.
    incremental: bool
    partitions: OrderedDict[PartitionKey, FetchPartition]


class FetchSessions:
    """The cache of sessions. Loop thread."""

    def __init__(self, slots: int, time: Time, randomness: random.Random) -> None:
        self._slots = slots
        self._time = time
        self._random = randomness
        # Least recently used first.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self.evictions = 0
        self.partition_count = 0
        """Partitions in all sessions, and those that `hold` let in."""

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(
        self,
        session_id: int,
        epoch: int,
        wanted: Iterable[tuple[PartitionKey, FetchPartition]],
        forgotten: Iterable[PartitionKey],
        uses_topic_ids: bool,
    ) -> FetchContext:
        """Decides what a request with (session_id, epoch) reads, and updates the session."""
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            # Both end the session that the request names, if any; an initial one asks for a new one.
            if session_id:
                self._close(session_id)
            partitions = OrderedDict(wanted)
            new_id = self._open(partitions, uses_topic_ids) if epoch == INITIAL_EPOCH and partitions else 0
            return FetchContext(ErrorCode.NONE, new_id, False, partitions)
        session = self._sessions.get(session_id)
        if session is None:
            return FetchContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, False, OrderedDict())
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 0, False, OrderedDict())
        if session.epoch != epoch:
            return FetchContext(ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, False, OrderedDict())
        self.step(session)
        before = len(session.partitions)
        for key, partition in wanted:
            known = session.partitions.get(key)
            if known is None:
                session.partitions[key] = partition
            else:
                known.leader_epoch = partition.leader_epoch
                known.offset = partition.offset
                known.max_bytes = partition.max_bytes
        for key in forgotten:
            session.partitions.pop(key, None)
        self._count(session)
        if self.partition_count > MAX_PARTITIONS and len(session.partitions) > before:
            self._close(session_id)
            return FetchContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, False, OrderedDict())
        if not session.partitions:
            # A session with nothing in it takes a slot for nothing; the client opens another when it needs one.
            self._close(session_id)
            return FetchContext(ErrorCode.NONE, 0, True, session.partitions)
        return FetchContext(ErrorCode.NONE, session_id, True, session.partitions)

    def single(self, session_id: int, epoch: int, uses_topic_ids: bool) -> FetchSession | None:
        """The session that such an incremental request belongs to, if it is one of a single partition; else None. Changes
        nothing: `resolve` does, or `step` once the request is as good as answered."""
        session = self._sessions.get(session_id)
        if (
            session is None
            or session.epoch != epoch
            or session.uses_topic_ids != uses_topic_ids
            or len(session.partitions) != 1
        ):
            return None
        return session

    def step(self, session: FetchSession) -> None:
        """A request of the session's present epoch is answered."""
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        session.last_used_ms = self._time.monotonic_ms()
        self._sessions.move_to_end(session.session_id)

    def hold(self, partitions: int, session_id: int = 0) -> FetchSession | None:
        """Admit a request with so many partitions, which may wait. None: too many. `let_go` is to be called at its end.

        One request of a session that has not gone has no more than its session, which counts already; others count beside it.
        """
        session = self._sessions.get(session_id)
        if session is None or session.waiting:
            session = FetchSession(0, False, 0.0)
        if self.partition_count + max(partitions - session.counted, 0) > MAX_PARTITIONS:
            return None
        session.waiting = partitions
        self._count(session)
        return session

    def let_go(self, held: FetchSession) -> None:
        """Release what `hold` admitted."""
        held.waiting = 0
        self._count(held)

    def _count(self, session: FetchSession) -> None:
        """Count the session's partitions while it is open, and those of its request that waits: it may have let some go since."""
        is_open = self._sessions.get(session.session_id) is session
        counted = max(len(session.partitions) if is_open else 0, session.waiting)
        self.partition_count += counted - session.counted
        session.counted = counted

    def _open(self, partitions: OrderedDict[PartitionKey, FetchPartition], uses_topic_ids: bool) -> int:
        """Id of a new session over `partitions` (shared, not copied), or 0 when there is no slot."""
        now = self._time.monotonic_ms()
        while len(self._sessions) >= self._slots or self.partition_count + len(partitions) > MAX_PARTITIONS:
            if not self._sessions:
                return 0
            oldest = next(iter(self._sessions.values()))
            if now - oldest.last_used_ms < EVICTION_MS:
                return 0
            self._close(oldest.session_id)
            self.evictions += 1
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        session = FetchSession(session_id, uses_topic_ids, now)
        session.partitions = partitions
        self._sessions[session_id] = session
        self._count(session)
        return session_id

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._count(session)
