"""FETCH and MULTIFETCH of the message-set protocol.

    the log's own bytes     header from memory, entries by sendfile: the usual way
    converted entries       under message.set.max.magic below 2, when the slice has newer ones: looked at in the I/O pool,
                            made by `../partitions/conversion_thread.py`

The answer is cut at the size asked for, within an entry too. An empty set says that the log ends there, so it is never
given while there is something to read: what converts to nothing (control batches) is walked over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Container
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.message_set.wire import HEADER_SIZE, MAX_TOTAL, message_set_header
from ...protocol.records.conversion import down_convert
from ...protocol.records.record_batch import LOG_OVERHEAD, MAGIC_V2
from ..network.outbound import FileSlice, release_parts
from ..runtime.error_codes import error_code
from .readable_slice import ReadableSlice, read_for_magic

if TYPE_CHECKING:
    from collections import Counter

    from ...protocol.message_set.wire import FetchBody
    from ...storage.values import FetchDataInfo
    from ..network.outbound import Part
    from ..partitions.partition import Partition
    from ..requests.services import Services

#: FETCH bodies in one MULTIFETCH. Each may hold a segment file open while the answer is sent, and all are looked up in one go.
MAX_FETCHES = 1000
#: Limit of the memory of all converted sets of one MULTIFETCH.
CONVERTED_ANSWER_BYTES = 8 << 20

#: (error, messages): a slice of a file, bytes, or none.
Found = tuple[int, FileSlice | bytes | None]


class MessageSetFetches:
    """Handler of FETCH and MULTIFETCH. Loop thread."""

    __slots__ = ("_errors", "_max_magic", "_services")

    def __init__(self, services: Services, max_magic: int, errors: Counter[tuple[str, int]]) -> None:
        """`max_magic`: the newest format that is sent; `errors`: where sets that fail are counted."""
        self._services = services
        self._max_magic = max_magic
        self._errors = errors

    def fetch(
        self, body: FetchBody, denied: Container[str] = (), client: str = ""
    ) -> list[Part] | bytes | Awaitable[list[Part] | bytes]:
        """A MessageSetSend, or an awaitable of one when it has to come from the disk or be converted. `denied`: the
        topics that the client may not read; `client`: in whose turn its sets are converted."""
        if body.topic in denied:
            return self._answer(self._read(None, body, denied))
        partition = self._services.partitions.get(body.topic, body.partition)
        if partition is not None and (self._max_magic < MAGIC_V2 or not partition.is_warm(body.offset)):
            return self._fetch_later(partition, body, client)
        return self._answer(self._read(partition, body))

    async def _fetch_later(self, partition: Partition, body: FetchBody, client: str) -> list[Part] | bytes:
        async with self._answering(client):
            return self._answer(await self._read_later(partition, body, CONVERTED_ANSWER_BYTES, client))

    def _answering(self, client: str) -> AbstractAsyncContextManager[None]:
        """While an answer that may be made in memory is."""
        return nullcontext() if self._max_magic >= MAGIC_V2 else self._services.conversions.answers.place(client)

    def _answer(self, found: Found) -> list[Part] | bytes:
        error, messages = found
        if isinstance(messages, FileSlice):
            self._services.counters.fetched_bytes += messages.count
            return [message_set_header(messages.count), messages]
        return self._in_memory(error, messages)

    def _in_memory(self, error: int, messages: bytes | None) -> bytes:
        if messages is None:
            return message_set_header(0, error)
        self._services.counters.fetched_bytes += len(messages)
        self._services.socket_server.send_counters.copy_fetch_bytes += len(messages)
        return message_set_header(len(messages)) + messages

    def multi_fetch(
        self, bodies: list[FetchBody], denied: Container[str] = (), client: str = ""
    ) -> list[Part] | Awaitable[list[Part]]:
        """A MultiMessageSetSend, or an awaitable of one. `denied`, `client`: as `fetch` has them.

        Each set has at most an equal share of what an answer's total can say.
        """
        share = (MAX_TOTAL - HEADER_SIZE) // max(1, len(bodies)) - HEADER_SIZE
        bodies = [body if body.max_size <= share else body._replace(max_size=share) for body in bodies]
        get = self._services.partitions.get
        partitions = [None if body.topic in denied else get(body.topic, body.partition) for body in bodies]
        if self._max_magic < MAGIC_V2 or not all(
            partition is None or partition.is_warm(body.offset)
            for partition, body in zip(partitions, bodies, strict=True)
        ):
            return self._multi_fetch_later(partitions, bodies, denied, client)
        return self._multi_answer(
            [self._read(partition, body, denied) for partition, body in zip(partitions, bodies, strict=True)]
        )

    async def _multi_fetch_later(
        self, partitions: list[Partition | None], bodies: list[FetchBody], denied: Container[str], client: str
    ) -> list[Part]:
        async with self._answering(client):
            return await self._multi_fetch(partitions, bodies, denied, client)

    async def _multi_fetch(
        self, partitions: list[Partition | None], bodies: list[FetchBody], denied: Container[str], client: str
    ) -> list[Part]:
        found: list[Found] = []
        room = CONVERTED_ANSWER_BYTES
        try:
            for partition, body in zip(partitions, bodies, strict=True):
                if partition is None:
                    found.append(self._read(None, body, denied))
                    continue
                found.append(await self._read_later(partition, body, room, client))
                messages = found[-1][1]
                if isinstance(messages, bytes):
                    room = max(0, room - len(messages))
        except BaseException:
            release_parts([messages for _, messages in found if messages is not None])
            raise
        return self._multi_answer(found)

    def _multi_answer(self, found: list[Found]) -> list[Part]:
        parts: list[Part] = []
        gathered: list[bytes] = []
        total = 0
        for error, messages in found:
            if isinstance(messages, FileSlice):
                self._services.counters.fetched_bytes += messages.count
                gathered.append(message_set_header(messages.count))
                parts += (b"".join(gathered), messages)
                gathered = []
                total += HEADER_SIZE + messages.count
            else:
                gathered.append(self._in_memory(error, messages))
                total += len(gathered[-1])
        if gathered:
            parts.append(b"".join(gathered))
        return [message_set_header(total), *parts]

    # -- one partition

    def _read(self, partition: Partition | None, body: FetchBody, denied: Container[str] = ()) -> Found:
        """Read from the log's file; the result has a lease on it."""
        try:
            if partition is None:
                is_denied = body.topic in denied
                raise ProtocolError(
                    ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_denied else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
            max_size = self._allowed(body)
            info = partition.log.read(body.offset, max_size)
        except Exception as error:
            return self._failed(error), None
        return 0, _slice(partition, info, max_size)

    async def _read_later(self, partition: Partition, body: FetchBody, room: int, client: str) -> Found:
        """Read as `_read`, but on the pool if that blocks, and convert if need be. `room`: limit of converted bytes."""
        loop, pool = self._services.loop, self._services.io_pool
        if self._max_magic >= MAGIC_V2:
            if not partition.is_warm(body.offset):
                await loop.run_in_executor(pool, partition.warm, body.offset)
            return self._read(partition, body)
        if room <= 0:
            # No entry is that small: the client asks again for this one.
            return self._read(partition, body._replace(max_size=min(body.max_size, LOG_OVERHEAD)))
        offset = body.offset
        try:
            max_size = self._allowed(body)
            while True:
                found = await self._look(partition, offset, max_size)
                if found.data is None:
                    return 0, _slice(partition, found.info, max_size)
                convert = partial(
                    down_convert, found.data, self._max_magic, body.offset, max_bytes=max(1, min(max_size, room))
                )
                made = await self._services.conversions.run(convert, client)
                if made.data or made.next_offset <= offset:
                    return 0, made.data[:max_size]
                offset = made.next_offset
        except Exception as error:
            return self._failed(error), None

    async def _look(self, partition: Partition, offset: int, max_size: int) -> ReadableSlice:
        """`read_for_magic` in the pool; its lease is given back when nobody waits for it any more."""
        looking = self._services.loop.run_in_executor(
            self._services.io_pool, read_for_magic, partition.log, offset, max_size, self._max_magic
        )
        try:
            return await asyncio.shield(looking)
        except asyncio.CancelledError:
            looking.add_done_callback(_forget)
            raise

    def _allowed(self, body: FetchBody) -> int:
        if body.max_size < 0:
            raise ProtocolError(ErrorCode.INVALID_FETCH_SIZE)
        return min(body.max_size, self._services.fetch_max_bytes)

    def _failed(self, error: Exception) -> int:
        code = error_code(error)[0]
        self._errors["fetch", code] += 1
        return code


def _slice(partition: Partition, info: FetchDataInfo, max_size: int) -> FileSlice | None:
    """Slice of at most `max_size` bytes. A read finds the whole first entry however small that is; it is cut off here."""
    if info.file is None:
        return None
    return FileSlice(info.file, info.position, min(info.size, max_size), partition.just_written(info))


def _forget(looking: asyncio.Future[ReadableSlice]) -> None:
    if not looking.cancelled() and looking.exception() is None:
        looking.result().info.release()
