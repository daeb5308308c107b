"""FetchJob: one Fetch request from the session that it belongs to up to its answer. What a fetch promises is told in
`broker/apis/fetch.py`, which calls `FetchJob.run` or one of the two functions for very many partitions.

Each attempt reads all partitions; one that finds too little waits in the purgatory until enough has come or the time is over.

A fetch of very many partitions is gone through in chunks, and between two of them everybody else is served (ADRs 46, 47):

    long_fetch        the request itself has many: one at a time is read, with the other long requests that look at something
    fetch_in_chunks   its session has many, or it was read by the above: rights, positions and rows in chunks

While such a fetch without a session waits, its partitions count against the bound on those of all sessions
(`FetchSessions.hold`); a request beyond that is answered with what there is. Loop thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable
from typing import TYPE_CHECKING, Any

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages._hot import parse_fetch, write_fetch_response
from ..network.outbound import FileSlice, received, release_parts
from ..partitions.fetch_session import FetchContext, FetchPartition, PartitionKey
from ..requests.context import RequestContext
from ..runtime.cooperative import CHUNK_UNITS, batches
from ..runtime.error_codes import error_code
from ..runtime.exceptions import ConnectionAborted
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..network.connection import Connection
    from ..network.outbound import Part
    from ..partitions.partition import Partition
    from ..requests.bulk_lane import Permit
    from ..requests.services import Services

READ_COMMITTED = 1
FIRST_OF_ALL_FORMATS = 4
ZSTD_FROM = 10

#: As the compiled writer takes it:
#: (index, error, high watermark, last stable offset, log start offset, aborted transactions, records).
Row = tuple[int, int, int, int, int, Any, FileSlice | None]
FetchedRow = tuple[PartitionKey, FetchPartition, Row]
TopicRows = list[tuple[str | bytes, list[Row]]]


def most_bytes(services: Services, max_bytes: int, client_id: str | None, connection: Connection) -> int:
    """Limit of an answer's bytes: the client's own, our limit and its quota."""
    most = min(max_bytes, services.fetch_max_bytes)
    return min(most, services.quotas.most_fetched(client_id, connection.user)) if services.quotas.active else most


def denied_topics(asker: RequestContext, partitions: Iterable[PartitionKey]) -> Container[str | bytes]:
    """The topics, as the request names them, that the client may not read. An id that nobody has is none of them."""
    return {topic for topic in dict.fromkeys(topic for topic, _ in partitions) if is_denied(asker, topic)}


def is_denied(asker: RequestContext, topic: str | bytes) -> bool:
    """True if the client may not read a topic, by its name in the request."""
    name = topic if isinstance(topic, str) else asker.services.partitions.name_of(topic)
    return name is not None and not asker.allows(AclOperation.READ, ResourceType.TOPIC, name)


class FetchJob:
    """One fetch request, from its session to its answer. Loop thread."""

    __slots__ = (
        "_context",
        "_correlation_id",
        "_denied",
        "_is_behind",
        "_isolation",
        "_max_bytes",
        "_min_bytes",
        "_services",
        "_version",
    )  # fmt: skip

    def __init__(
        self,
        services: Services,
        context: FetchContext,
        version: int,
        correlation_id: int,
        isolation: int,
        max_bytes: int,
        denied: Container[str | bytes] = (),
    ) -> None:
        self._services = services
        self._denied = denied
        self._context = context
        self._version = version
        self._correlation_id = correlation_id
        self._isolation = isolation
        self._max_bytes = max_bytes
        self._min_bytes = 0
        #: True if a partition of this attempt was read from a segment before the one that its limit is in.
        self._is_behind = False

    def run(self, max_wait_ms: int, min_bytes: int) -> list[Part] | Awaitable[list[Part]]:
        """The answer, or a future of it when there is too little to read now or it has to come from the disk."""
        self._min_bytes = min_bytes
        context = self._context
        if context.error:
            self._services.counters.errors[ApiKey.FETCH, context.error] += 1
            return self._write([])
        cold: list[tuple[Partition, int]] = []
        # With nothing to wait for, the first attempt is the last.
        parts = self._attempt(cold, last=max_wait_ms <= 0 or not context.partitions)
        if cold:
            return self._after_warming(cold, max_wait_ms)
        return parts if parts is not None else self._wait(max_wait_ms)

    async def run_in_chunks(
        self, max_wait_ms: int, min_bytes: int, asker: RequestContext, waits: Callable[[], object]
    ) -> list[Part]:
        """`run` for very many partitions: others have their turn after each slice. `waits` is called before it waits for data."""
        self._min_bytes = min_bytes
        services, context = self._services, self._context
        if context.error:
            services.counters.errors[ApiKey.FETCH, context.error] += 1
            return self._write([])
        partitions = list(context.partitions.items())  # of a session: another request may change them meanwhile
        held = services.fetch_sessions.hold(len(partitions), context.session_id)
        try:
            return await self._run_held(partitions, 0 if held is None else max_wait_ms, asker, waits)
        finally:
            if held is not None:
                services.fetch_sessions.let_go(held)

    async def _run_held(
        self,
        partitions: list[tuple[PartitionKey, FetchPartition]],
        max_wait_ms: int,
        asker: RequestContext,
        waits: Callable[[], object],
    ) -> list[Part]:
        services = self._services
        deadline = services.time.monotonic_ms() + max_wait_ms
        watched: list[Partition] = []
        for some in batches(partitions, CHUNK_UNITS):
            found = [(partition, wanted.offset) for key, wanted in some if (partition := self._find(key)) is not None]
            watched += [partition for partition, _ in found]
            for partition, offset in found:
                if self._might_block(partition, offset):
                    await services.loop.run_in_executor(services.io_pool, partition.warm, offset)
            await asker.next_turn()
        is_over = max_wait_ms <= 0
        while True:
            left = 0 if is_over else deadline - services.time.monotonic_ms()
            # Before it reads: what comes in while it does is not missed. It says whether the time is up, or the daemon stops.
            news = services.purgatory.wait(watched, int(left), _whether_over) if left > 0 else None
            try:
                parts = await self._attempt_in_chunks(partitions, asker, last=news is None)
                if parts is not None:
                    return parts
                assert news is not None
                waits()
                (is_over,) = await news
            finally:
                if news is not None:
                    news.cancel()

    async def _attempt_in_chunks(
        self, partitions: list[tuple[PartitionKey, FetchPartition]], asker: RequestContext, *, last: bool
    ) -> list[Part] | None:
        rows: list[FetchedRow] = []
        total, failed = 0, False
        self._is_behind = False
        try:
            for some in batches(partitions, CHUNK_UNITS):
                total, one_failed = self._read_some(some, rows, None, total)
                failed = failed or one_failed
                await asker.next_turn()
            if total < self._min_bytes and not (failed or last or self._is_behind):
                release_rows(rows)
                return None
            return await self._write_in_chunks(rows, asker)
        except BaseException:
            release_rows(rows)
            raise

    async def _write_in_chunks(self, rows: list[FetchedRow], asker: RequestContext) -> list[Part]:
        topics: TopicRows = []
        busy: list[PartitionKey] = []
        for some in batches(rows, CHUNK_UNITS):
            self._count_errors(some)
            self._tell(some, topics, busy)
            await asker.next_turn()
        return self._written(topics, busy)

    def _wait(self, max_wait_ms: int) -> asyncio.Future[list[Part]]:
        watched = [found for key in self._context.partitions if (found := self._find(key)) is not None]
        return self._services.purgatory.wait(watched, max_wait_ms, lambda last: self._attempt(None, last=last))

    async def _after_warming(self, cold: list[tuple[Partition, int]], max_wait_ms: int) -> list[Part]:
        """Have the pool find the positions, which brings index and batch headers into memory; then go on as usual."""
        loop, pool = self._services.loop, self._services.io_pool
        for partition, offset in cold:
            await loop.run_in_executor(pool, partition.warm, offset)
        parts = self._attempt(None, last=max_wait_ms <= 0)
        return parts if parts is not None else await received(self._wait(max_wait_ms))

    def _find(self, key: PartitionKey) -> Partition | None:
        table = self._services.partitions
        topic = key[0]
        if topic in self._denied:
            return None
        name = topic if isinstance(topic, str) else table.name_of(topic)
        return None if name is None else table.get(name, key[1])

    def _attempt(self, cold: list[tuple[Partition, int]] | None, *, last: bool) -> list[Part] | None:
        """Reads every partition. None: fewer than `min_bytes`, all of them at their ends, no error, and there is time left.

        With a list in `cold`, partitions that might need the disk are put there instead; one is enough for None.
        """
        rows: list[FetchedRow] = []
        self._is_behind = False
        total, failed = self._read_some(self._context.partitions.items(), rows, cold, 0)
        if cold or (total < self._min_bytes and not (failed or last or self._is_behind)):
            release_rows(rows)
            return None
        if failed:
            self._count_errors(rows)
        return self._write(rows)

    def _read_some(
        self,
        partitions: Iterable[tuple[PartitionKey, FetchPartition]],
        rows: list[FetchedRow],
        cold: list[tuple[Partition, int]] | None,
        total: int,
    ) -> tuple[int, bool]:
        """Appends to `rows` what there is of `partitions`, when `total` bytes have been read; gives that again, and whether one
        failed. `cold`: see `_attempt`."""
        left = max(self._max_bytes - total, 0)
        failed = False
        find = self._services.partitions.get
        is_open = not self._denied
        for key, wanted in partitions:
            topic, index = key
            partition = find(topic, index) if is_open and type(topic) is str else self._find(key)
            if cold is not None and partition is not None and self._might_block(partition, wanted.offset):
                cold.append((partition, wanted.offset))
                continue
            max_bytes = wanted.max_bytes
            row = self._read(key, partition, wanted, max_bytes if max_bytes < left else left, total == 0)
            records = row[6]
            if records is not None:
                count = records.count
                total += count
                left = left - count if count < left else 0
            elif row[1]:
                failed = True
            rows.append((key, wanted, row))
        return total, failed

    def _count_errors(self, rows: Iterable[FetchedRow]) -> None:
        errors = self._services.counters.errors
        for _, _, row in rows:
            if row[1]:
                errors[ApiKey.FETCH, row[1]] += 1

    def _might_block(self, partition: Partition, offset: int) -> bool:
        if not partition.is_warm(offset):
            return True
        return self._isolation == READ_COMMITTED and not partition.log.aborted_are_loaded

    def _read(
        self, key: PartitionKey, partition: Partition | None, wanted: FetchPartition, max_bytes: int, min_one: bool
    ) -> Row:
        index = key[1]
        if partition is None:
            return index, self._missing(key[0]), -1, -1, -1, None, None
        log = partition.log
        if wanted.leader_epoch >= 0 and wanted.leader_epoch != log.leader_epoch:
            older = wanted.leader_epoch < log.leader_epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
            return index, code, -1, -1, -1, None, None
        if self._version < ZSTD_FROM and log.config.compression_type == "zstd":
            return index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1, -1, -1, None, None
        high, stable = log.high_watermark, log.last_stable_offset
        committed = self._isolation == READ_COMMITTED
        try:
            if committed:
                info, found = log.read_committed(wanted.offset, max_bytes, limit_offset=stable, min_one_message=min_one)
                aborted = [(txn.producer_id, txn.first_offset) for txn in found]
            else:
                info = log.read(wanted.offset, max_bytes, limit_offset=high, min_one_message=min_one)
                aborted = None
        except Exception as error:
            return index, error_code(error)[0], -1, -1, -1, None, None
        if info.on_older_segment:
            self._is_behind = True
        records = None
        if info.size and info.file is not None:
            records = FileSlice(info.file, info.position, info.size, partition.just_written(info))
        return index, 0, high, stable, log.log_start_offset, aborted, records

    def _missing(self, topic: str | bytes) -> ErrorCode:
        if topic in self._denied:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if isinstance(topic, str) or self._services.partitions.name_of(topic) is not None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.UNKNOWN_TOPIC_ID

    def _write(self, rows: list[FetchedRow]) -> list[Part]:
        """The frame, from the rows that this answer tells; takes over their leases."""
        context = self._context
        in_session = context.session_id != 0
        if not in_session and len(rows) == 1:
            ((key, _, row),) = rows
            if row[6] is not None:
                self._services.counters.fetched_bytes += row[6].count
            return write_fetch_response(self._version, self._correlation_id, context.error, 0, [(key[0], [row])])
        topics: TopicRows = []
        busy: list[PartitionKey] = []
        self._tell(rows, topics, busy)
        return self._written(topics, busy)

    def _tell(self, rows: Iterable[FetchedRow], topics: TopicRows, busy: list[PartitionKey]) -> None:
        """Appends to `topics` those of `rows` that this answer tells, and to `busy` the session's partitions with records."""
        context = self._context
        in_session = context.session_id != 0
        sent = 0
        for key, wanted, row in rows:
            records = row[6]
            if in_session:
                news = wanted.changed(row[1], row[2], row[4], records is not None)
                if context.incremental and not news:
                    continue
            if records is not None:
                sent += records.count
                if in_session:
                    busy.append(key)
            if not topics or topics[-1][0] != key[0]:
                topics.append((key[0], []))
            topics[-1][1].append(row)
        self._services.counters.fetched_bytes += sent

    def _written(self, topics: TopicRows, busy: Iterable[PartitionKey]) -> list[Part]:
        context = self._context
        for key in busy:
            if key in context.partitions:  # another request of the session may have come in between
                context.partitions.move_to_end(key)
        return write_fetch_response(self._version, self._correlation_id, context.error, context.session_id, topics)


def _whether_over(last: bool) -> tuple[bool]:
    return (last,)


def release_rows(rows: Iterable[FetchedRow]) -> None:
    """Gives back what rows that are not sent have of files."""
    release_parts([row[6] for _, _, row in rows if row[6] is not None])


def long_fetch(
    services: Services,
    buffer: bytearray,
    start: int,
    end: int,
    version: int,
    correlation_id: int,
    connection: Connection,
) -> Awaitable[list[Part]]:
    """The answer to the request in buffer[start:end], which is copied. RequestDeferred while another long one is read."""
    with services.long_requests.admit(connection, end - start) as permit:
        frame = bytes(memoryview(buffer)[start:end])
        task = services.loop.create_task(_read(services, frame, version, correlation_id, connection, permit))
        task.add_done_callback(permit.release)  # also where the client leaves before it has begun
    return task


async def _read(
    services: Services, frame: bytes, version: int, correlation_id: int, connection: Connection, permit: Permit
) -> list[Part]:
    try:
        request = parse_fetch(frame, 0, len(frame), version)  # 30 ms for the most there may be
    except ValueError as error:
        raise ConnectionAborted(f"malformed FETCH v{version}: {error}") from None
    client_id, max_wait, min_bytes, max_bytes, isolation, session_id, epoch, topics, forgotten = request
    asker = RequestContext(services, connection, ApiKey.FETCH, version, correlation_id, client_id)
    await asker.next_turn()
    parts = ((topic, part) for topic, partitions in topics for part in partitions)
    wanted: list[tuple[PartitionKey, FetchPartition]] = []
    for some in batches(parts, CHUNK_UNITS):
        wanted += [((topic, part[0]), FetchPartition(part[1], part[2], part[5])) for topic, part in some]
        await asker.next_turn()
    gone = [(topic, index) for topic, indexes in forgotten for index in indexes]
    context = services.fetch_sessions.resolve(session_id, epoch, wanted, gone, version >= 13)
    del request, topics, forgotten, parts, wanted, gone
    await asker.next_turn()
    return await fetch_in_chunks(asker, context, isolation, max_bytes, max_wait, min_bytes, permit.release)


async def fetch_in_chunks(
    asker: RequestContext,
    context: FetchContext,
    isolation: int,
    max_bytes: int,
    max_wait_ms: int,
    min_bytes: int,
    waits: Callable[[], object] = lambda: None,
) -> list[Part]:
    """The answer to a fetch of the partitions in `context`; `waits` is called when it begins to wait for data."""
    services, version = asker.services, asker.api_version
    denied: set[str | bytes] = set()
    if services.authorizer is not None:
        topics = dict.fromkeys(topic for topic, _ in context.partitions)
        for some in batches(topics, CHUNK_UNITS):
            denied.update(topic for topic in some if is_denied(asker, topic))
            await asker.next_turn()
    most = most_bytes(services, max_bytes, asker.client_id, asker.connection)
    min_bytes = min(min_bytes, most)
    if version < FIRST_OF_ALL_FORMATS:
        from .legacy_fetch import OldFetchJob

        old = OldFetchJob(services, context, version, asker.correlation_id, isolation, most, denied)
        return await old.answer_in_chunks(max_wait_ms, min_bytes, asker, waits)
    job = FetchJob(services, context, version, asker.correlation_id, isolation, most, denied)
    return await job.run_in_chunks(max_wait_ms, min_bytes, asker, waits)
