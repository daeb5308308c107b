"""Fetch versions 0 to 3, whose clients know no batches of format 2: 0 and 1 want format 0, 2 and 3 format 1.

    slice of the log        what goes out
    all of it old enough    the file's own bytes, by sendfile, as for everybody
    anything newer in it    what was made of it in memory, by `../partitions/conversion_thread.py`

Versions 0 to 2 set no limit for the answer but ours (`fetch.max.bytes`), and theirs for a partition is hard: a message that is
larger is cut off, as the last one of any answer may be, and its client asks again for more. In version 3 the first message of
an answer always comes whole (KIP-74). At most a megabyte of a partition is looked at and converted at once, or one batch, and
what an answer has in memory is bounded: the client asks again for the rest.

A client has nothing to go by but the messages that it gets: where they convert to none (transactions' markers), what stands
behind them is read, within the same request. Slices are read and converted on the conversion thread (`OldFetchJob._convert`).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.api_keys import ApiKey
from ...protocol.messages._hot import write_fetch_response
from ...protocol.records.conversion import down_convert, needs_conversion
from ...protocol.records.legacy_record import MAGIC_V0, MAGIC_V1
from ...protocol.records.record_batch import LOG_OVERHEAD, OVERHEAD
from ..network.outbound import FileSlice
from ..partitions.conversion_thread import CONVERTED_SLICE_BYTES
from ..runtime.cooperative import CHUNK_UNITS, batches
from ..runtime.error_codes import error_code
from .fetch_job import FetchJob

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..network.outbound import Part
    from ..partitions.fetch_session import FetchPartition, PartitionKey
    from ..partitions.partition import Partition
    from ..requests.context import RequestContext
    from .fetch_job import FetchedRow, Row

FIRST_WITH_WHOLE_MESSAGE = 3

CONVERTED_ANSWER_BYTES = 8 << 20
"""Limit of one answer's converted bytes, which wait in memory for the client; the partitions behind come with the next
request.
"""


class Converted(NamedTuple):
    """Result of one partition's slice: unchanged, converted, or an error. `next_offset` as in ConvertedRecords."""

    records: FileSlice | bytes | None
    next_offset: int = -1
    error: int = 0


class OldFetchJob(FetchJob):
    """One fetch request of version 0 to 3. Loop thread, except `_convert`."""

    __slots__ = ("_asker", "_client", "_rows")

    async def answer(self, max_wait_ms: int, min_bytes: int, client: str) -> list[Part]:
        """The answer, after as long a wait as the client allows. `client`: in whose turn it is converted."""
        self._asker: RequestContext | None = None
        self._client = client
        return await self._answer(max_wait_ms, lambda left: self.run(left, min_bytes))

    async def answer_in_chunks(
        self, max_wait_ms: int, min_bytes: int, asker: RequestContext, waits: Callable[[], object]
    ) -> list[Part]:
        """`answer` for very many partitions; see `run_in_chunks`."""
        self._asker = asker
        self._client = asker.connection.client
        return await self._answer(max_wait_ms, lambda left: self.run_in_chunks(left, min_bytes, asker, waits))

    async def _answer(self, max_wait_ms: int, read: Callable[[int], list[Part] | Awaitable[list[Part]]]) -> list[Part]:
        time = self._services.time
        deadline = time.monotonic_ms() + max_wait_ms
        while True:
            self._rows: list[FetchedRow] = []
            found = read(max(0, round(deadline - time.monotonic_ms())))
            if not isinstance(found, list):
                try:
                    await found
                except BaseException:
                    _release(self._rows)
                    raise
            rows = self._rows
            if all(row[6] is None for _, _, row in rows):
                return await self._write_converted(rows, [Converted(None)] * len(rows))
            places = self._services.conversions.answers
            try:
                await places.enter(self._client)
            except BaseException:
                _release(rows)
                raise
            try:
                converted = await self._converted(rows)
                if not self._read_on(rows, converted):
                    return await self._write_converted(rows, converted)
            finally:
                places.leave()

    def _read(
        self, key: PartitionKey, partition: Partition | None, wanted: FetchPartition, max_bytes: int, min_one: bool
    ) -> Row:
        """A whole batch at least, of every partition: no less can be converted."""
        return super()._read(key, partition, wanted, max_bytes, True)

    def _write(self, rows: list[FetchedRow]) -> list[Part]:
        """Nothing yet: what was read is converted first."""
        self._rows = rows
        return []

    async def _write_in_chunks(self, rows: list[FetchedRow], asker: RequestContext) -> list[Part]:
        for some in batches(rows, CHUNK_UNITS):
            self._count_errors(some)
            await asker.next_turn()
        return self._write(rows)

    async def _let_others(self, rows: list[FetchedRow]) -> None:
        """Between two slices of very many partitions; gives `rows` back where the client leaves meanwhile."""
        if self._asker is not None:
            try:
                await self._asker.next_turn()
            except BaseException:
                _release(rows)
                raise

    async def _converted(self, rows: list[FetchedRow]) -> list[Converted]:
        """Convert one slice after the other, so that others get their turn in between."""
        left, room = self._max_bytes, CONVERTED_ANSWER_BYTES
        is_first = self._version >= FIRST_WITH_WHOLE_MESSAGE
        converted: list[Converted] = []
        for number, (_, wanted, row) in enumerate(rows, 1):
            if number % CHUNK_UNITS == 0:
                await self._let_others(rows)
            piece = row[6]
            if piece is None or (left <= 0 and not is_first) or room <= 0:
                converted.append(Converted(None))
                continue
            convert = partial(self._convert, piece, wanted.offset, min(wanted.max_bytes, left), is_first)
            work = asyncio.ensure_future(self._services.conversions.run(convert, self._client))
            try:
                conversion = await asyncio.shield(work)
            except BaseException:
                # The client has left, but the thread may be reading: the files are given back when it is done.
                work.add_done_callback(partial(_release_after, rows))
                raise
            if isinstance(conversion.records, FileSlice):
                left -= conversion.records.count
            elif conversion.records:
                left -= len(conversion.records)
                room -= len(conversion.records)
            is_first = is_first and not conversion.records
            converted.append(conversion)
        return converted

    def _convert(self, piece: FileSlice, offset: int, max_bytes: int, whole_first: bool) -> Converted:
        """The conversions' thread. The lease stays the caller's."""
        magic = MAGIC_V0 if self._version < 2 else MAGIC_V1
        max_bytes = max(max_bytes, 0)
        try:
            data = _beginning(piece)
            if not needs_conversion(data, magic):
                piece.count = min(len(data), _allowed(data, max_bytes, whole_first))
                return Converted(piece if piece.count else None)
            made = down_convert(data, magic, offset, max_bytes=max(max_bytes, 1))
        except Exception as error:
            return Converted(None, error=error_code(error)[0])
        return Converted(made.data[: _allowed(made.data, max_bytes, whole_first)], made.next_offset)

    def _read_on(self, rows: list[FetchedRow], converted: list[Converted]) -> bool:
        """True, with offsets moved and leases given back, when there is nothing to send but there may be further on."""
        if any(conversion.records or conversion.error for conversion in converted) or any(row[1] for _, _, row in rows):
            return False
        moved = False
        for (_, wanted, _), conversion in zip(rows, converted, strict=True):
            if conversion.next_offset > wanted.offset:
                wanted.offset = conversion.next_offset
                moved = True
        if moved:
            _release(rows)
        return moved

    async def _write_converted(self, rows: list[FetchedRow], converted: list[Converted]) -> list[Part]:
        counters = self._services.counters
        topics: list[tuple[str | bytes, list[Any]]] = []
        unused: list[FileSlice] = []
        for number, ((key, _, row), conversion) in enumerate(zip(rows, converted, strict=True), 1):
            if number % CHUNK_UNITS == 0:
                await self._let_others(rows)
            piece, records = row[6], conversion.records
            if piece is not None and records is not piece:
                unused.append(piece)
            if isinstance(records, FileSlice):
                counters.fetched_bytes += records.count
            elif records:
                counters.fetched_bytes += len(records)
                self._services.socket_server.send_counters.copy_fetch_bytes += len(records)
            if conversion.error:
                counters.errors[ApiKey.FETCH, conversion.error] += 1
                row = (row[0], conversion.error, -1, -1, -1, None, None)
            if not topics or topics[-1][0] != key[0]:
                topics.append((key[0], []))
            topics[-1][1].append((*row[:6], records or None))
        for piece in unused:  # not before all that may be waited for
            piece.release()
        return write_fetch_response(self._version, self._correlation_id, 0, 0, topics)


def _beginning(piece: FileSlice) -> bytes:
    """Part of the slice that is converted at once: CONVERTED_SLICE_BYTES, or the whole first entry if that is larger."""
    data = piece.file.pread(min(piece.count, CONVERTED_SLICE_BYTES), piece.position)
    if len(data) < piece.count and len(data) >= LOG_OVERHEAD:
        _, size = OVERHEAD.unpack_from(data)
        if LOG_OVERHEAD + size > len(data):
            data = piece.file.pread(min(piece.count, LOG_OVERHEAD + size), piece.position)
    return data


def _allowed(data: bytes, max_bytes: int, whole_first: bool) -> int:
    """Number of bytes of `data` to send: the first entry may exceed the limit if it has to be whole."""
    if not whole_first or len(data) <= max_bytes or len(data) < LOG_OVERHEAD:
        return max_bytes
    _, size = OVERHEAD.unpack_from(data)
    return max(max_bytes, LOG_OVERHEAD + int(size))


def _release_after(rows: list[FetchedRow], work: asyncio.Future[list[Converted]]) -> None:
    if not work.cancelled():
        work.exception()  # or the loop would complain that nobody asked
    _release(rows)


def _release(rows: list[FetchedRow]) -> None:
    for _, _, row in rows:
        if row[6] is not None:
            row[6].release()
