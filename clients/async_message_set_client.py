"""AsyncMessageSetClient: the message-set protocol on an event loop.

    async with AsyncMessageSetClient("127.0.0.1", 9093) as client:
        await client.produce("t", 0, [NewRecord(b"value", key=b"key")])
        async for record in client.read("t", 0):
            print(record.offset, record.value)

The same calls as `MessageSetClient`, with the same results and errors. Tasks may share one: they take turns. A call that is
cancelled, or out of time, closes the connection, since its answer is still to come; the next call opens another.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Self, TypeVar

from ..protocol.message_set import exchange
from ..protocol.message_set.cursor import DEFAULT_FETCH_SIZE, DEFAULT_MAX_FETCH_SIZE, FetchCursor, OnOutOfRange
from ..protocol.message_set.entries import build_message_set
from ..protocol.message_set.exchange import Exchange, check_total
from ..protocol.message_set.wire import EARLIEST, LATEST, SIZE_FIELD
from ..protocol.records.attributes import Compression
from .message_set_client import DEFAULT_POLL_INTERVAL_S, DEFAULT_TIMEOUT_S, now_ms, session_end_s

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence
    from types import TracebackType

    from ..protocol.message_set.entries import NewRecord, ReadSet
    from ..protocol.message_set.wire import MessageSetError
    from ..protocol.records.exceptions import RecordError
    from ..protocol.records.record_batch import Record

T = TypeVar("T")


class AsyncMessageSetClient:
    """One connection, opened when it is first needed. For the tasks of one loop; see `MessageSetClient` for the errors."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        user: str | None = None,
        password: str = "",
        timeout_s: float = DEFAULT_TIMEOUT_S,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        """`timeout_s` holds for one call, connecting included; `clock` tells ms since 1970. The rest as `MessageSetClient`."""
        self._address = (host, port)
        self._tls = tls
        self._authentication = None if user is None else exchange.authenticate(user, password)
        self._until_s: float | None = None
        self._timeout_s = timeout_s
        self._clock = clock
        self._turn = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def close(self) -> None:
        """Closes the connection; a later call opens another."""
        writer = self._drop()
        if writer is not None:
            with contextlib.suppress(OSError):  # it was broken before
                await writer.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- writing

    async def produce(
        self,
        topic: str,
        partition: int,
        records: Iterable[NewRecord],
        *,
        magic: int = 2,
        compression: Compression = Compression.NONE,
        level: int | None = None,
    ) -> int:
        """Appends the records as one set; returns the offset of the first. Waits for the append."""
        message_set = self.message_set(records, magic=magic, compression=compression, level=level)
        return await self.produce_set(topic, partition, message_set)

    def message_set(
        self,
        records: Iterable[NewRecord],
        *,
        magic: int = 2,
        compression: Compression = Compression.NONE,
        level: int | None = None,
    ) -> bytes:
        """The set that `produce` would send, for `produce_set` and `multi_produce`."""
        return build_message_set(records, now_ms=self._clock(), magic=magic, compression=compression, level=level)

    async def produce_set(self, topic: str, partition: int, message_set: bytes) -> int:
        """Appends a set that is there already; returns the offset of its first record."""
        return await self._do(exchange.produce(topic, partition, message_set))

    async def multi_produce(self, sets: Sequence[tuple[str, int, bytes]]) -> list[int | MessageSetError]:
        """Appends many sets of (topic, partition, set) by one request; the base offset, or the error, of each."""
        return await self._do(exchange.multi_produce(sets))

    # -- reading

    async def read(
        self,
        topic: str,
        partition: int,
        offset: int = EARLIEST,
        *,
        fetch_size: int = DEFAULT_FETCH_SIZE,
        max_fetch_size: int = DEFAULT_MAX_FETCH_SIZE,
        on_out_of_range: OnOutOfRange | str = OnOutOfRange.FAIL,
        follow: bool = False,
        poll_interval_s: float = DEFAULT_POLL_INTERVAL_S,
    ) -> AsyncIterator[Record]:
        """The records from `offset` on, to the end of the log; with `follow`, on and on. As `MessageSetClient.read`."""
        cursor = FetchCursor(
            topic,
            partition,
            offset,
            fetch_size=fetch_size,
            max_fetch_size=max_fetch_size,
            on_out_of_range=on_out_of_range,
        )
        while True:
            for record in await self._do(Exchange(cursor.request(), cursor.answer_limit, cursor.receive)):
                yield record
            if cursor.at_end:
                if not follow:
                    return
                await asyncio.sleep(poll_interval_s)

    async def fetch(self, topic: str, partition: int, offset: int, max_size: int = DEFAULT_FETCH_SIZE) -> ReadSet:
        """Send one FETCH without retries; the offset is used as given."""
        return await self._do(exchange.fetch(topic, partition, offset, max_size))

    async def multi_fetch(
        self, fetches: Sequence[tuple[str, int, int, int]]
    ) -> list[ReadSet | MessageSetError | RecordError]:
        """Many FETCHes of (topic, partition, offset, max size) by one request; the set, or what is wrong, of each."""
        return await self._do(exchange.multi_fetch(fetches))

    async def offsets(self, topic: str, partition: int, time: int = LATEST, max_number: int = 1) -> list[int]:
        """Offsets at `time` and before, newest first: LATEST, EARLIEST, or ms since 1970 (see docs/MESSAGE_SET.md)."""
        return await self._do(exchange.offsets(topic, partition, time, max_number))

    # -- inside

    async def _do(self, exchange: Exchange[T]) -> T:
        async with self._turn:
            try:
                async with asyncio.timeout(self._timeout_s):
                    answer = await self._ask(exchange)
            except asyncio.IncompleteReadError:
                self._drop()
                raise EOFError(
                    f"{self._address[0]}:{self._address[1]} closed the connection before it answered"
                ) from None
            except BaseException:
                self._drop()  # half an answer may be on its way
                raise
            return exchange.read(answer)

    async def _ask(self, exchange: Exchange[T]) -> bytes:
        now_s = asyncio.get_running_loop().time
        if self._until_s is not None and now_s() >= self._until_s:
            self._drop()  # the session ends: a new connection begins one
        if self._streams is None:
            self._until_s = None
            self._streams = await asyncio.open_connection(*self._address, ssl=self._tls)
            if self._authentication is not None:
                answer = await self._exchange(self._authentication)
                self._until_s = session_end_s(self._authentication.read(answer), now_s())
        return await self._exchange(exchange)

    async def _exchange(self, exchange: Exchange[T]) -> bytes:
        assert self._streams is not None
        reader, writer = self._streams
        writer.write(exchange.request)
        await writer.drain()
        total = int.from_bytes(await reader.readexactly(SIZE_FIELD), "big", signed=True)
        return await reader.readexactly(check_total(total, exchange.limit))

    def _drop(self) -> asyncio.StreamWriter | None:
        if self._streams is None:
            return None
        writer = self._streams[1]
        self._streams = None
        writer.close()
        return writer
