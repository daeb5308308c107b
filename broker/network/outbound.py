"""The write side of a connection in the clear: bytes, and slices of files that never pass through this process.
`tls_connection.py` has the other.

A response is a list of parts, each either bytes or a `FileSlice`. Parts go out in order through one duplicate of the connection's
descriptor: bytes with `send(MSG_MORE)` when a slice follows, slices with `sendfile`. Bytes that the kernel does not take at once
wait here, and the loop calls back when there is room. One connection sends at most `BYTES_PER_TURN` before others have their
turn.

The duplicate exists because the transport owns the original: the loop's writer callbacks need a descriptor of their
own. It is closed in `close()`; as long as it is open, the peer sees no end of stream.

Pages that are not in memory would make `sendfile` wait for the disk, and with it every connection: before a slice is
sent, the page cache is asked, and pages that are missing are read first, by threads (`cold_reads.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from ...storage.io.platform import LINUX, sendfile

if TYPE_CHECKING:
    from ...storage.io.filesystem import File
    from .cold_reads import Done, Forget

T = TypeVar("T")

#: Bytes that one connection may send before the loop looks at the others.
BYTES_PER_TURN = 1 << 20
#: The page cache is asked, and pages are read ahead, in steps of this size.
PREFETCH_BYTES = 1 << 20
# By name: other systems than Linux lack the first, and Python's socket the second until 3.12.
_MSG_MORE: int = getattr(socket, "MSG_MORE", 0)
_UNSENT: int | None = getattr(socket, "TCP_NOTSENT_LOWAT", 25 if LINUX else None)


class FileSlice:
    """`count` bytes of `file` from `position`. Holds one reference to the file, given back by `release()`."""

    __slots__ = ("count", "file", "position", "warm_until")

    def __init__(self, file: File, position: int, count: int, warm: bool) -> None:
        """`warm`: the bytes were written or read a moment ago, so that the page cache need not be asked."""
        self.file = file
        self.position = position
        self.count = count
        #: File position up to which the pages are believed to be in memory.
        self.warm_until = position + count if warm else position

    def release(self) -> None:
        self.file.release()


Part = bytes | FileSlice


class ReadsCold(Protocol):
    """The part of `ColdReads` that is used here."""

    def read(self, file: File, position: int, count: int, done: Done) -> Forget: ...

    def brought(self, file: File, position: int, count: int) -> int: ...

    def passed(self, file: File, position: int, count: int) -> None: ...


class SendCounters:
    """Bytes sent, by path; all connections of a daemon share one. Loop thread."""

    __slots__ = ("cold_waits", "copy_fetch_bytes", "sendfile_bytes", "sent_bytes", "unsent_bytes")

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.sendfile_bytes = 0
        #: Fetched record bytes that were copied through this process (down-conversion, TLS).
        self.copy_fetch_bytes = 0
        self.cold_waits = 0
        #: Nothing is counted here: what new connections are told by `Outbound.leave_unsent`.
        self.unsent_bytes = 0


class Outbound:
    """Queue of parts on their way out of one connection. Loop thread only."""

    __slots__ = (
        "_closed",
        "_cold_reads",
        "_forget",
        "_loop",
        "_on_drained",
        "_on_error",
        "_prefetching",
        "_progress",
        "_sock",
        "_source",
        "_writer_armed",
        "counters",
        "descriptor",
        "queue",
        "send",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        cold_reads: ReadsCold,
        counters: SendCounters,
        on_drained: Callable[[], None],
        on_error: Callable[[OSError], None],
    ) -> None:
        """Takes its own duplicate of `fd`, a connected non-blocking stream socket that stays open until `close()`, with the
        first bytes: a client that asks for nothing costs one descriptor."""
        self._loop = loop
        self._source = fd
        self._sock: socket.socket | None = None
        #: What is sent on; -1 before the first bytes and after the end.
        self.descriptor = -1
        self.send: Callable[..., int] = self._first_send
        self._progress = 0
        self._cold_reads = cold_reads
        self.counters = counters
        self._on_drained = on_drained
        self._on_error = on_error
        self.queue: deque[Part] = deque()
        self._writer_armed = False
        self._prefetching = False
        #: Takes back what is asked of `cold_reads` while `_prefetching`.
        self._forget: Forget | None = None
        self._closed = False

    @property
    def idle(self) -> bool:
        """True when everything given has been handed to the kernel."""
        return not self.queue

    @property
    def unsent_bytes(self) -> int:
        """Bytes in memory that wait; slices of files are not in memory."""
        return sum(len(part) for part in self.queue if type(part) is bytes)

    def count_progress(self) -> int:
        """A number that has changed since the last call if the socket has taken something, or a disk was waited for."""
        if self._prefetching:
            self._progress += 1
        return self._progress

    def write(self, data: bytes) -> bool:
        """Sends bytes. Returns True when the kernel took all; else the rest is queued and `on_drained` follows."""
        if self.queue:
            self.queue.append(data)
            return False
        try:
            sent = self.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._fail(error)
            return True
        self.counters.sent_bytes += sent
        if sent == len(data):
            return True
        self.queue.append(data[sent:])
        self._arm()
        return False

    def write_parts(self, parts: list[Part]) -> bool:
        """Sends a list of parts in order; returns as `write`."""
        if self._closed:
            release_parts(parts)
            return True
        idle = not self.queue
        self.queue.extend(parts)
        if idle:
            self._drain()
        return not self.queue

    def leave_unsent(self, most: int) -> None:
        """So many bytes at most lie in the kernel that the client's window has no room for; 0: what SO_SNDBUF allows. Where the
        system has no such bound (TCP_NOTSENT_LOWAT), nothing happens."""
        if self._sock is not None and _UNSENT is not None:
            with contextlib.suppress(OSError):
                self._sock.setsockopt(socket.IPPROTO_TCP, _UNSENT, most)

    def close(self) -> None:
        """Drops what was not sent and closes the duplicate. Harmless when called again."""
        if self._closed:
            return
        self._closed = True
        if self._writer_armed:
            self._loop.remove_writer(self.descriptor)
            self._writer_armed = False
        if self._forget is not None:
            self._forget()  # others need not wait for that read, and a disk that hangs would keep the connection
            self._forget = None
            self._prefetching = False
        release_parts(self.queue)
        self.queue.clear()
        # Until now it may know itself, by `_first_send`: what a TLS connection holds would stay until a full collection.
        self.send = _send_closed
        self.descriptor = -1
        if self._sock is not None:
            self._sock.close()

    # -- inside

    def _first_send(self, data: bytes | memoryview, flags: int = 0) -> int:
        self._open()
        return self.send(data, flags)

    def _open(self) -> None:
        if self._closed:  # the descriptor may be another's by now
            _send_closed(b"")
        self._sock = socket.socket(fileno=os.dup(self._source))
        self._sock.setblocking(False)
        self.descriptor = self._sock.fileno()
        self.send = self._sock.send
        if self.counters.unsent_bytes:
            self.leave_unsent(self.counters.unsent_bytes)

    def _arm(self) -> None:
        if not self._writer_armed:
            self._loop.add_writer(self.descriptor, self._on_writable)
            self._writer_armed = True

    def _disarm(self) -> None:
        if self._writer_armed:
            self._loop.remove_writer(self.descriptor)
            self._writer_armed = False

    def _on_writable(self) -> None:
        if self._prefetching or self._closed:
            self._disarm()
            return
        self._drain()
        if self.idle and not self._closed:
            self._on_drained()

    def _drain(self) -> None:
        """Sends until the queue is empty, the kernel is full, a page is missing or the turn is over."""
        queue = self.queue
        budget = BYTES_PER_TURN
        try:
            if self._sock is None:
                self._open()
            while queue:
                part = queue[0]
                if type(part) is bytes:
                    more = _MSG_MORE if len(queue) > 1 else 0
                    sent = self.send(part, more)
                    self._progress += 1
                    self.counters.sent_bytes += sent
                    budget -= sent
                    if sent < len(part):
                        queue[0] = part[sent:]
                        self._arm()
                        return
                    queue.popleft()
                else:
                    assert isinstance(part, FileSlice)
                    if part.count == 0:
                        queue.popleft().release()  # type: ignore[union-attr]
                        continue
                    warm = part.warm_until - part.position
                    if warm <= 0:
                        warm = self._ask_page_cache(part)
                        if warm == 0:
                            return
                    asked = min(part.count, budget, warm)
                    sent = sendfile(self.descriptor, part.file.fileno(), part.position, asked)
                    if sent == 0:
                        raise OSError(f"{part.count} bytes at {part.position} are missing at the end of a segment file")
                    self._progress += 1
                    self.counters.sendfile_bytes += sent
                    self.counters.sent_bytes += sent
                    budget -= sent
                    part.position += sent
                    part.count -= sent
                    if part.count == 0:
                        queue.popleft()
                        part.release()
                    elif sent < asked:  # the kernel is full: another call would say no more
                        self._arm()
                        return
                if budget <= 0 and queue:
                    self._arm()
                    return
        except BlockingIOError:
            self._arm()
            return
        except OSError as error:
            self._fail(error)
            return
        self._disarm()

    def _ask_page_cache(self, part: FileSlice) -> int:
        """Bytes from the slice's start that can be sent now; 0: pages are missing, and are being read."""
        count = min(part.count, PREFETCH_BYTES)
        reads = self._cold_reads
        there = count if part.file.is_cached(part.position, count) else reads.brought(part.file, part.position, count)
        if there:
            part.warm_until = part.position + there
            reads.passed(part.file, part.position, there)
            return there
        self.counters.cold_waits += 1
        self._prefetching = True
        self._disarm()
        self._forget = reads.read(part.file, part.position, count, self._prefetched)
        return 0

    def _prefetched(self, count: int, error: BaseException | None) -> None:
        self._prefetching = False
        self._forget = None
        if self._closed:
            return
        if isinstance(error, OSError):
            self._fail(error)
            return
        if error is not None:
            raise error
        part = self.queue[0]
        assert isinstance(part, FileSlice)
        part.warm_until = part.position + count
        self._drain()
        if self.idle and not self._closed:
            self._on_drained()

    def _fail(self, error: OSError) -> None:
        self.close()
        self._on_error(error)


def _send_closed(data: bytes | memoryview, flags: int = 0) -> int:
    raise OSError(errno.EBADF, "the connection is closed")


def total_size(parts: Iterable[Part]) -> int:
    """Return the bytes that the parts have together."""
    return sum(part.count if isinstance(part, FileSlice) else len(part) for part in parts)


def release_parts(parts: list[Part] | deque[Part]) -> None:
    """Gives back the files of parts that will not be sent."""
    for part in parts:
        if isinstance(part, FileSlice):
            part.release()


async def received(answer: Awaitable[T]) -> T:
    """Await an answer on the way to its client. Where the client leaves in the moment in which a future has it, and the task that
    waits here is cancelled before its next step, nobody else gives back the files in it.
    """
    try:
        return await answer
    except asyncio.CancelledError:
        if (
            isinstance(answer, asyncio.Future)
            and answer.done()
            and not answer.cancelled()
            and answer.exception() is None
        ):
            parts = answer.result()
            if isinstance(parts, list):
                release_parts(parts)
        raise
