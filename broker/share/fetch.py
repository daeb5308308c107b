"""ShareFetchJob: one ShareFetch request, from its session to the records that its member has then.

    session ─► acknowledgements ─► each partition's records: waits for `min_bytes`, `max_wait_ms` at most ─► answer

A reader that is behind does not wait: a read ends with its segment, and the next one follows.

The records go from the page cache to the socket, as Fetch's do: only batch headers are read here. They are acquired when the
answer is made, so that nobody has records while he waits. Loop thread; what might touch the disk is read by a pool thread
first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ErrorCode, ProtocolError
from ...storage.exceptions import OffsetOutOfRangeError
from ..network.outbound import FileSlice
from ..runtime.cooperative import SLICE_UNITS, Turns, batches
from ..runtime.error_codes import error_code
from .acknowledgements import acknowledge
from .fetch_response import PartitionAnswer
from .log_spans import place_of, read_spans
from .manager import Acknowledged, HeldPartition, SharePartitions, durable
from .records import SharePartitionKey
from .sessions import FINAL_EPOCH, INITIAL_EPOCH, MemberKey, ShareSession, TopicIdPartition

if TYPE_CHECKING:
    from ...protocol.messages.share_fetch import ShareFetchRequest
    from ...storage.index.transaction_index import AbortedTxn
    from ...storage.values import FetchDataInfo

MOST_SPANS = 1000
"""Log batches that are looked at in one piece, and no further partition's once there are records: some 4 ms. A partition's are
looked at together, as many as it may have in flight."""
RECORD_LIMIT = 1
"""The acquire mode in which `max_records` is not exceeded (KIP-1206)."""

Rows = dict[TopicIdPartition, PartitionAnswer]


class _Read(NamedTuple):
    """Readable records of one partition."""

    where: TopicIdPartition
    held: HeldPartition
    offset: int
    info: FetchDataInfo
    aborted: Sequence[AbortedTxn]


class ShareFetchJob:
    """One ShareFetch: acknowledges, acquires, waits and answers. Loop thread."""

    def __init__(
        self, shares: SharePartitions, key: MemberKey, request: ShareFetchRequest, version: int,
        max_bytes: int, may_read: Callable[[str], bool],
    ) -> None:  # fmt: skip
        """`max_bytes`: what the request, the broker and quotas allow. `may_read`: the client, by a topic's name."""
        self._may_read = may_read
        self._shares = shares
        self._partitions = shares.parts.partitions
        self._key = key
        self._request = request
        self._version = version
        self._max_bytes = max_bytes
        self._min_bytes = min(request.min_bytes, max_bytes)
        self._committed = shares.settings.is_committed_only(key.group)
        self._limits = shares.settings.limits(key.group)
        self._held: list[tuple[TopicIdPartition, HeldPartition]] = []
        self._errors: Rows = {}
        self._session: ShareSession | None = None
        self._looked_at = 0
        #: Of records in the answer.
        self.fetched_bytes = 0

    async def run(
        self, connection: object, turns: Turns, waits: Callable[[], object]
    ) -> dict[bytes, list[PartitionAnswer]]:
        """The rows of the answer by topic id; the caller gives back their leases. Others have their turn between parts of
        very many partitions. Before the job waits for records, or for a disk, it calls `waits`; what the request named is
        given up by then.

        Raises ProtocolError: what opening, finding or continuing the session raises.
        """
        request, epoch = self._request, self._request.share_session_epoch
        self._session = session = await self._opened(connection, turns)
        acknowledged = await self._acknowledge(turns)
        forget_names(request)
        rows: Rows = {}
        if not request.is_renew_ack and epoch != FINAL_EPOCH:
            rows = await self._fetch(self._rotated(session, epoch), turns, waits)
        told = rows
        waits()
        try:
            outcomes: dict[TopicIdPartition, Acknowledged] = {}
            for where, outcome in acknowledged.items():
                if turns.spent():
                    await turns.next()
                outcomes[where] = await durable(outcome)
            if self._shares.sessions.get(self._key) is session:
                told = await self._news(session, rows, turns, is_first=epoch == INITIAL_EPOCH)
            if epoch == FINAL_EPOCH:
                self._shares.end_session(self._key)
            return await _by_topic(told, outcomes, turns)
        except BaseException:
            release_rows(rows.values())
            raise

    async def _opened(self, connection: object, turns: Turns) -> ShareSession:
        request, sessions, epoch = self._request, self._shares.sessions, self._request.share_session_epoch
        if epoch == FINAL_EPOCH:
            return sessions.checked(self._key, epoch)
        wanted: dict[TopicIdPartition, None] = {}
        has_any = False
        for topic in request.topics:
            for part in topic.partitions:
                if turns.spent():
                    await turns.next()
                wanted[TopicIdPartition(topic.topic_id, part.partition_index)] = None
                has_any = has_any or bool(part.acknowledgement_batches)
        if epoch == INITIAL_EPOCH:
            return sessions.opened(self._key, connection, wanted, has_acknowledgements=has_any)
        session = sessions.checked(self._key, epoch)
        for some in batches(wanted, SLICE_UNITS):
            if turns.spent(len(some)):
                await turns.next()
            sessions.add(session, some)
        for gone in request.forgotten_topics_data:
            for indexes in batches(gone.partitions, SLICE_UNITS):
                if turns.spent(len(indexes)):
                    await turns.next()
                sessions.forget(session, (TopicIdPartition(gone.topic_id, index) for index in indexes))
        return session

    async def _acknowledge(self, turns: Turns) -> dict[TopicIdPartition, Acknowledged]:
        return await acknowledge(
            self._shares,
            self._partitions,
            self._key,
            self._request.topics,
            self._version,
            turns,
            is_renewal=self._request.is_renew_ack,
            may_read=self._may_read,
            leave_out_empty=True,
        )

    @staticmethod
    def _rotated(session: ShareSession, epoch: int) -> list[TopicIdPartition]:
        """Another partition comes first each time, so that one with much in it does not starve the others."""
        partitions = list(session.partitions)
        at = epoch % len(partitions) if partitions else 0
        return partitions[at:] + partitions[:at]

    # -- records

    async def _fetch(self, partitions: Sequence[TopicIdPartition], turns: Turns, waits: Callable[[], object]) -> Rows:
        if not partitions or self._max_bytes <= 0 or self._request.max_records <= 0:
            return {}
        for where in partitions:
            if turns.spent():
                await turns.next()
            name = self._partitions.name_of(where.topic_id)
            if name is not None and not self._may_read(name):
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                self._errors[where] = PartitionAnswer(where.partition, code, code.text)
                continue
            try:
                held = await self._shares.hold(SharePartitionKey(self._key.group, *where))
            except ProtocolError as error:
                self._errors[where] = PartitionAnswer(where.partition, error.code, str(error))
            else:
                self._held.append((where, held))
        if not self._held:
            return self._errors
        await self._warm(turns)
        # What waits with very many has memory beside its session's.
        counted = len(partitions) if len(partitions) > SLICE_UNITS else 0
        sessions, max_wait_ms = self._shares.sessions, self._request.max_wait_ms
        if counted and not sessions.hold(counted):
            counted = max_wait_ms = 0
        try:
            if len(self._held) > SLICE_UNITS:
                rows = await self._in_turns(max_wait_ms, turns, waits)
            else:
                at_once = self._attempt(last=max_wait_ms <= 0)
                if at_once is None:
                    waits()
                rows = await self._wait(max_wait_ms) if at_once is None else at_once
        finally:
            sessions.let_go(counted)
        return {**rows, **self._errors}

    async def _in_turns(self, max_wait_ms: int, turns: Turns, waits: Callable[[], object]) -> Rows:
        """`_attempt` and `_wait` for very many partitions."""
        watched = [waitable for _, held in self._held for waitable in (held, held.partition)]
        deadline = self._shares.time.monotonic_ms() + max_wait_ms
        is_last = max_wait_ms <= 0
        while True:
            left = deadline - self._shares.time.monotonic_ms()
            # Before it reads: what comes in while it does is not missed.
            news = None if is_last or left <= 0 else self._shares.purgatory.wait(watched, int(left), _whether_over)
            try:
                rows = await self._attempt_in_turns(turns, last=news is None)
                if rows is not None:
                    return rows
                assert news is not None
                waits()
                (is_last,) = await news
            finally:
                if news is not None:
                    news.cancel()

    async def _attempt_in_turns(self, turns: Turns, *, last: bool) -> Rows | None:
        """As `_attempt`. How much there is is looked at first, and read again where it is acquired: records that are read belong
        to nobody, and another member may have them while others have their turn."""
        if not last and not await self._is_enough(turns):
            return None
        rows: Rows = {}
        left = self._request.max_records
        have_passed = False
        try:
            for some in batches(self._held, SLICE_UNITS):
                await turns.next()
                has_records = left < self._request.max_records
                here = [(where, held) for where, held in some if not held.is_fenced]
                reads = self._read(here, sharing=len(self._held), has_records=has_records)
                self._looked_at = 0
                for read in reads:
                    row, count = self._acquire(read, self._room(left))
                    left -= count
                    rows[read.where] = row
                have_passed = have_passed or _have_passed(reads)
        except BaseException:
            release_rows(rows.values())
            raise
        is_fenced = any(held.is_fenced for _, held in self._held)  # the next request is told why
        if last or is_fenced or have_passed or any(row.records is not None or row.error for row in rows.values()):
            return rows
        return None

    async def _is_enough(self, turns: Turns) -> bool:
        """True if there are `min_bytes`, or one of the partitions has more in its next segment, or is fenced."""
        total = 0
        for some in batches(self._held, SLICE_UNITS):
            await turns.next()
            if any(held.is_fenced for _, held in some):
                return True
            reads = self._read(some, sharing=len(self._held), has_records=total > 0)
            for read in reads:
                total += read.info.size
                read.info.release()
            if total >= self._min_bytes or any(read.info.on_older_segment for read in reads):
                return True
        return False

    async def _wait(self, max_wait_ms: int) -> Rows:
        watched = [waitable for _, held in self._held for waitable in (held, held.partition)]
        future = self._shares.purgatory.wait(watched, max_wait_ms, lambda last: self._attempt(last=last))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # the client went in the moment between
                release_rows(future.result().values())
            raise

    async def _warm(self, turns: Turns) -> None:
        """Have the pool read the pages that a first attempt would have to read from disk."""
        for _, held in self._held:
            if turns.spent():
                await turns.next()
            offset = max(held.share.fetch_offset, held.partition.log.log_start_offset)
            if not held.partition.is_warm(offset) or (self._committed and not held.partition.log.aborted_are_loaded):
                await self._shares.parts.run_blocking(partial(self._look_ahead, held, offset))

    def _look_ahead(self, held: HeldPartition, offset: int) -> None:
        """Brings index, batch headers and aborted transactions into memory. Pool thread; errors are the read's own."""
        held.partition.warm(offset)
        try:
            info = held.partition.log.read(offset, self._max_bytes)
        except Exception:
            return
        try:
            read_spans(info, offset + self._limits.max_record_locks)
        except Exception:
            return
        finally:
            info.release()

    def _attempt(self, *, last: bool) -> Rows | None:
        """The rows; None: fewer than `min_bytes`, or nothing that the member may have, and there is time left."""
        if any(held.is_fenced for _, held in self._held):
            last = True  # the next request is told why
        here = [(where, held) for where, held in self._held if not held.is_fenced]
        reads = self._read(here)
        is_behind = any(read.info.on_older_segment for read in reads)
        if sum(read.info.size for read in reads) < self._min_bytes and not (last or is_behind):
            for read in reads:
                read.info.release()
            return None
        rows: Rows = {}
        left = self._request.max_records
        self._looked_at = 0
        for read in reads:
            row, count = self._acquire(read, self._room(left))
            left -= count
            rows[read.where] = row
        if last or any(row.records is not None or row.error for row in rows.values()):
            return rows
        return rows if _have_passed(reads) else None

    def _read(
        self,
        partitions: Sequence[tuple[TopicIdPartition, HeldPartition]],
        *,
        sharing: int | None = None,
        has_records: bool = False,
    ) -> list[_Read]:
        """Reads of those in which the member may have more. So many have `max_bytes` together, or (None) those that are read; the
        first with records has a whole batch, unless the answer `has_records` already."""
        if self._shares.sessions.get(self._key) is not self._session:
            return []  # it has ended meanwhile: what the member had was given back, and nobody would give back more
        ready: list[tuple[TopicIdPartition, HeldPartition]] = []
        for where, held in partitions:
            held.share.move_start(held.partition.log.log_start_offset)
            if held.share.can_acquire(self._limits):
                ready.append((where, held))
        reads: list[_Read] = []
        total = 0
        for where, held in ready:
            log, offset = held.partition.log, held.share.fetch_offset
            most = max(1, self._max_bytes // (sharing or len(ready)))
            is_first = total == 0 and not has_records
            aborted: Sequence[AbortedTxn] = ()
            try:
                if self._committed:
                    limit = log.last_stable_offset
                    info, aborted = log.read_committed(offset, most, limit_offset=limit, min_one_message=is_first)
                else:
                    info = log.read(offset, most, limit_offset=log.high_watermark, min_one_message=is_first)
            except OffsetOutOfRangeError:  # the log lost its end with the power; it grows there again
                continue
            except Exception as error:
                code, message = error_code(error)
                self._errors[where] = PartitionAnswer(where.partition, code, message)
                continue
            total += info.size
            self._errors.pop(where, None)  # of an earlier attempt
            reads.append(_Read(where, held, offset, info, aborted))
        return reads

    def _room(self, left: int) -> int:
        """Records that the next partition may give, of so many that are left."""
        return 0 if left < self._request.max_records and self._looked_at >= MOST_SPANS else left

    def _acquire(self, read: _Read, max_records: int) -> tuple[PartitionAnswer, int]:
        """The row, and how many records the member has by it."""
        where, info = read.where, read.info
        try:
            return self._acquired(read, max_records)
        except Exception as error:
            info.release()
            code, message = error_code(error)
            return PartitionAnswer(where.partition, code, message), 0

    def _acquired(self, read: _Read, max_records: int) -> tuple[PartitionAnswer, int]:
        where, held, offset, info, aborted = read
        if max_records <= 0:
            info.release()
            return PartitionAnswer(where.partition), 0
        request, share = self._request, held.share
        spans = read_spans(info, offset + self._limits.max_record_locks, aborted)
        self._looked_at += len(spans.spans)
        acquired = share.acquire(
            self._key.member,
            spans.spans,
            offset,
            self._limits,
            self._shares.time.monotonic_ms(),
            max_records=max_records,
            batch_size=request.batch_size,
            is_strict=request.share_acquire_mode == RECORD_LIMIT,
        )
        if spans.aborted:
            acquired = share.archive_acquired(spans.aborted, acquired)
        held.watch_locks()
        if not acquired:
            info.release()
            return PartitionAnswer(where.partition), 0
        count = sum(lot.last - lot.first + 1 for lot in acquired)
        self._shares.acquired += count
        position, size = place_of(acquired, spans, info.position)
        self.fetched_bytes += size
        assert info.file is not None
        records = FileSlice(info.file, position, size, held.partition.just_written(info))
        return PartitionAnswer(where.partition, records=records, acquired=acquired), count

    @staticmethod
    async def _news(session: ShareSession, rows: Rows, turns: Turns, *, is_first: bool) -> Rows:
        """Rows that belong in the answer; a session's first answer has all of its partitions."""
        told: Rows = {}
        for where in (
            list(session.partitions) if not rows else [*rows, *(w for w in session.partitions if w not in rows)]
        ):
            if turns.spent():
                await turns.next()
            row = rows.get(where) or PartitionAnswer(where.partition)
            news = session.has_news(where, records=row.records is not None, error=row.error is not ErrorCode.NONE)
            if news or is_first:
                told[where] = row
        return told


def forget_names(request: ShareFetchRequest) -> None:
    """Give up what a request names, some 40 MB of very many, before it waits."""
    request.topics = request.forgotten_topics_data = ()


def _have_passed(reads: Iterable[_Read]) -> bool:
    """True if a group has got beyond records that nobody is given, as aborted ones: what follows is not news to wait for."""
    return any(read.held.share.fetch_offset != read.offset for read in reads)


def _whether_over(last: bool) -> tuple[bool]:
    """What a wait for news ends with: whether its time is up, or the daemon stops."""
    return (last,)


async def _by_topic(
    rows: Rows, outcomes: Mapping[TopicIdPartition, Acknowledged], turns: Turns
) -> dict[bytes, list[PartitionAnswer]]:
    """The rows and the outcomes of acknowledgements, which may be of other partitions."""
    topics: dict[bytes, list[PartitionAnswer]] = {}
    for where, row in rows.items():
        if turns.spent():
            await turns.next()
        outcome = outcomes.get(where, Acknowledged())
        topics.setdefault(where.topic_id, []).append(
            row._replace(acknowledge_error=outcome.error, acknowledge_message=outcome.message)
        )
    for where, outcome in outcomes.items():
        if turns.spent():
            await turns.next()
        if where not in rows:
            topics.setdefault(where.topic_id, []).append(
                PartitionAnswer(where.partition, acknowledge_error=outcome.error, acknowledge_message=outcome.message)
            )
    return topics


def release_rows(rows: Iterable[PartitionAnswer]) -> None:
    """Gives back the leases of an answer that is not sent."""
    for row in rows:
        if row.records is not None:
            row.records.release()
