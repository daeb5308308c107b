"""MessageSetClient: the message-set protocol over one blocking socket.

    with MessageSetClient("127.0.0.1", 9093) as client:
        client.produce("t", 0, [NewRecord(b"value", key=b"key")])
        for record in client.read("t", 0):
            print(record.offset, record.value)

One request at a time, each answered before the next is sent; what to ask and what answers mean is in
`protocol/message_set`. A connection that fails, or whose answer did not come in time, is closed, and the next call opens
another: nothing is sent a second time by itself, since a produce might have been done.

By TLS, and as a user, where the listener is tls:// and asks who its clients are:

    MessageSetClient("broker", 9093, tls=ssl.create_default_context(cafile="ca.pem"), user="alice", password="…")
"""

from __future__ import annotations

import socket
import time as clocks
from typing import TYPE_CHECKING, Self, TypeVar

from ..protocol.framing import room_for_answer
from ..protocol.message_set import exchange
from ..protocol.message_set.cursor import DEFAULT_FETCH_SIZE, DEFAULT_MAX_FETCH_SIZE, FetchCursor, OnOutOfRange
from ..protocol.message_set.entries import build_message_set
from ..protocol.message_set.exchange import Exchange, check_total
from ..protocol.message_set.wire import EARLIEST, LATEST, SIZE_FIELD
from ..protocol.records.attributes import Compression

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType

    from ..protocol.message_set.entries import NewRecord, ReadSet
    from ..protocol.message_set.wire import MessageSetError
    from ..protocol.records.exceptions import RecordError
    from ..protocol.records.record_batch import Record

T = TypeVar("T")

DEFAULT_TIMEOUT_S = 30.0
DEFAULT_POLL_INTERVAL_S = 0.1


def now_ms() -> int:
    """The producer's clock: ms since 1970."""
    return clocks.time_ns() // 1_000_000


def session_end_s(lifetime_ms: int, now_s: float) -> float | None:
    """Time of the next authentication, before the session ends at the broker. None: never."""
    return now_s + 0.85 * lifetime_ms / 1000 if lifetime_ms > 0 else None


class MessageSetClient:
    """One connection, opened when it is first needed. Not for use from two threads at once.

    Every call may raise OSError (TimeoutError among them), EOFError when the broker closes the connection, MalformedAnswer,
    and MessageSetError, whose `code` is the broker's error. ValueError: the request has no form.
    """

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
        sleep: Callable[[float], None] = clocks.sleep,
    ) -> None:
        """`tls`: what the broker's certificate is checked with, the client's own loaded into it where the broker wants one.
        With `user` each connection begins with AUTHENTICATE. `timeout_s` holds for connecting and for each read and write;
        `clock` tells ms since 1970. ValueError for a user or password that has no form.
        """
        self._address = (host, port)
        self._tls = tls
        self._authentication = None if user is None else exchange.authenticate(user, password)
        self._until_s: float | None = None
        self._timeout_s = timeout_s
        self._clock = clock
        self._sleep = sleep
        self._socket: socket.socket | None = None

    def close(self) -> None:
        """Closes the connection; a later call opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- writing

    def produce(
        self,
        topic: str,
        partition: int,
        records: Iterable[NewRecord],
        *,
        magic: int = 2,
        compression: Compression = Compression.NONE,
        level: int | None = None,
    ) -> int:
        """Appends the records as one set; returns the offset of the first. Waits for the append.

        Raises also what `build_message_set` raises.
        """
        message_set = self.message_set(records, magic=magic, compression=compression, level=level)
        return self.produce_set(topic, partition, message_set)

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

    def produce_set(self, topic: str, partition: int, message_set: bytes) -> int:
        """Appends a set that is there already; returns the offset of its first record."""
        return self._do(exchange.produce(topic, partition, message_set))

    def multi_produce(self, sets: Sequence[tuple[str, int, bytes]]) -> list[int | MessageSetError]:
        """Appends many sets of (topic, partition, set) by one request; the base offset, or the error, of each."""
        return self._do(exchange.multi_produce(sets))

    # -- reading

    def read(
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
    ) -> Iterator[Record]:
        """The records from `offset` on, to the end of the log; with `follow`, on and on.

        Args:
            topic: its name.
            partition: its number.
            offset: or EARLIEST, or LATEST.
            fetch_size: bytes to ask for; doubled, up to `max_fetch_size`, when they do not hold one entry.
            max_fetch_size: the largest entry that is read, in bytes.
            on_out_of_range: earliest, latest or fail: what to do when the offset is not in the log (any more).
            follow: at the end, ask again every `poll_interval_s` seconds.
            poll_interval_s: see `follow`.

        Raises also what `FetchCursor` raises, when the first record is asked for or later.
        """
        cursor = FetchCursor(
            topic,
            partition,
            offset,
            fetch_size=fetch_size,
            max_fetch_size=max_fetch_size,
            on_out_of_range=on_out_of_range,
        )
        while True:
            yield from self._do(Exchange(cursor.request(), cursor.answer_limit, cursor.receive))
            if cursor.at_end:
                if not follow:
                    return
                self._sleep(poll_interval_s)

    def fetch(self, topic: str, partition: int, offset: int, max_size: int = DEFAULT_FETCH_SIZE) -> ReadSet:
        """Send one FETCH without retries; the offset is used as given."""
        return self._do(exchange.fetch(topic, partition, offset, max_size))

    def multi_fetch(
        self, fetches: Sequence[tuple[str, int, int, int]]
    ) -> list[ReadSet | MessageSetError | RecordError]:
        """Many FETCHes of (topic, partition, offset, max size) by one request; the set, or what is wrong, of each.

        A set that `needs_more_room` did not hold one whole entry: ask for it with a larger size, or by `read`.
        """
        return self._do(exchange.multi_fetch(fetches))

    def offsets(self, topic: str, partition: int, time: int = LATEST, max_number: int = 1) -> list[int]:
        """Offsets at `time` and before, newest first: LATEST, EARLIEST, or ms since 1970 (see docs/MESSAGE_SET.md)."""
        return self._do(exchange.offsets(topic, partition, time, max_number))

    # -- inside

    def _do(self, exchange: Exchange[T]) -> T:
        if self._until_s is not None and clocks.monotonic() >= self._until_s:
            self.close()  # the session ends: a new connection begins one
        if self._socket is None:
            self._connect()
        return self._exchange(exchange)

    def _connect(self) -> None:
        self._until_s = None
        plain = socket.create_connection(self._address, self._timeout_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = (
                plain if self._tls is None else self._tls.wrap_socket(plain, server_hostname=self._address[0])
            )
        except BaseException:
            plain.close()
            raise
        if self._authentication is not None:
            try:
                self._until_s = session_end_s(self._exchange(self._authentication), clocks.monotonic())
            except BaseException:
                self.close()
                raise

    def _exchange(self, exchange: Exchange[T]) -> T:
        assert self._socket is not None
        try:
            self._socket.sendall(exchange.request)
            total = int.from_bytes(self._receive(SIZE_FIELD), "big", signed=True)
            answer = self._receive(check_total(total, exchange.limit))
        except BaseException:
            self.close()  # half an answer may be on its way
            raise
        return exchange.read(answer)

    def _receive(self, count: int) -> bytearray:
        assert self._socket is not None
        data = bytearray()
        position = 0
        while position < count:
            if position == len(data):  # memory follows what has come, not what was announced
                data += bytes(room_for_answer(position, count) - position)
            with memoryview(data) as room, room[position:] as rest:
                received = self._socket.recv_into(rest)
            if not received:
                raise EOFError(f"{self._address[0]}:{self._address[1]} closed the connection before it answered")
            position += received
        return data
