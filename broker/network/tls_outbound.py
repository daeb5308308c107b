"""The write side of a TLS connection: what `Outbound` sends is encrypted here, so file slices are read and copied.

At most `ENCRYPTED_BYTES` and one part's chunk are encrypted ahead of the socket: a client that does not read costs no more.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from .outbound import BYTES_PER_TURN, FileSlice, Outbound, SendCounters

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Executor

#: Encrypted before the socket is asked; also what one part gives at a time.
ENCRYPTED_BYTES = 128 * 1024


class TlsOutbound(Outbound):
    """Queue of parts on their way out of one TLS connection. Loop thread only."""

    __slots__ = ("_ciphertext", "_outgoing", "_scratch", "_tls")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        pool: Executor,
        counters: SendCounters,
        on_drained: Callable[[], None],
        on_error: Callable[[OSError], None],
        tls: ssl.SSLObject,
        outgoing: ssl.MemoryBIO,
        scratch: memoryview,
    ) -> None:
        """`outgoing` is where `tls` writes; `scratch`, which others may use between calls, takes what files give."""
        super().__init__(loop, fd, pool, counters, on_drained, on_error)
        self._tls = tls
        self._outgoing = outgoing
        self._scratch = scratch[:ENCRYPTED_BYTES]
        self._ciphertext = memoryview(b"")

    @property
    def idle(self) -> bool:
        return not self._queue and not self._ciphertext

    @property
    def unsent_bytes(self) -> int:
        return super().unsent_bytes + len(self._ciphertext)

    def write(self, data: bytes) -> bool:
        if self._closed:
            return True
        waiting = not self.idle
        self._queue.append(data)
        if not waiting:
            self._drain()
        return self.idle

    def write_parts(self, parts: list[bytes | FileSlice]) -> bool:
        super().write_parts(parts)
        return self.idle

    def flush(self) -> None:
        """Sends what the TLS layer itself has to say: of a handshake, alerts."""
        if not self._closed and not self._ciphertext:
            self._drain()

    def say_goodbye(self) -> None:
        """Tells the peer that nothing more comes, as far as the socket takes it now: what is cut short can be told from
        what is at its end."""
        if self._closed or not self.idle:
            return
        with contextlib.suppress(ssl.SSLError, ValueError):
            self._tls.unwrap()
        self.flush()

    def _drain(self) -> None:
        budget = BYTES_PER_TURN
        try:
            while True:
                if not self._ciphertext:
                    self._encrypt()
                    if not self._ciphertext:
                        break
                sent = self._send(self._ciphertext)
                self._progress += 1
                self._counters.sent_bytes += sent
                budget -= sent
                self._ciphertext = self._ciphertext[sent:]
                if self._ciphertext or (budget <= 0 and self._queue):
                    self._arm()
                    return
        except BlockingIOError:
            self._arm()
            return
        except OSError as error:  # SSLError is one too
            self._fail(error)
            return
        self._disarm()

    def _encrypt(self) -> None:
        """Takes parts off the queue until enough is encrypted, or a page is missing, for which the pool is sent."""
        queue, tls, outgoing = self._queue, self._tls, self._outgoing
        while queue and outgoing.pending < ENCRYPTED_BYTES and not self._prefetching:
            part = queue[0]
            if type(part) is bytes:
                if len(part) <= ENCRYPTED_BYTES:
                    tls.write(part)
                    queue.popleft()
                else:
                    tls.write(memoryview(part)[:ENCRYPTED_BYTES])
                    queue[0] = part[ENCRYPTED_BYTES:]
                continue
            assert isinstance(part, FileSlice)
            count = part.count
            if count:
                warm = part.warm_until - part.position
                if warm <= 0 and (warm := self._ask_page_cache(part)) == 0:
                    break
                got = os.preadv(part.file.fileno(), [self._scratch[: min(count, warm, ENCRYPTED_BYTES)]], part.position)
                if got == 0:
                    raise OSError(f"{count} bytes at {part.position} are missing at the end of a segment file")
                tls.write(self._scratch[:got])
                self._counters.copy_fetch_bytes += got
                part.position += got
                part.count -= got
            if part.count == 0:
                queue.popleft()
                part.release()
        if outgoing.pending:
            self._ciphertext = memoryview(outgoing.read())
