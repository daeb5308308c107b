"""A client connection by TLS: what comes is decrypted and handed to `Connection` as if it had come so; what goes is encrypted by
`TlsOutbound`, which reads and copies file slices for that.

Python's `ssl` works on memory here (`SSLObject`), not on the socket, so that connections share their receive buffers,
are counted and bounded from the first byte on, and cost little while they are idle. The loop's own TLS would keep a
buffer of 256 KiB for each connection. At most `ENCRYPTED_BYTES` and one part's chunk are encrypted ahead of the socket: a client
that does not read costs no more. Loop thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ..security.principal import name_of, subject_of, user
from .connection import READY, SENDING, Connection
from .fair_queue import LONGEST_NS
from .outbound import BYTES_PER_TURN, FileSlice, Outbound, Part, SendCounters

if TYPE_CHECKING:
    import socket

    from ..security.sasl.listener_security import ListenerSecurity
    from .connection import Dispatches
    from .outbound import ReadsCold
    from .socket_server import Endpoint, SocketServer

HEAD_BYTES = 5
#: TLS records that OpenSSL is given before the clock is looked at. One with nothing but new keys (KeyUpdate) takes it 15 µs, and
#: 130 µs among ten thousand.
RECORDS_AT_ONCE = 32
#: Bytes of whole records that OpenSSL is given at once: its memory stays as large as the most that was ever in it.
BYTES_AT_ONCE = 16 * 1024
#: Bytes that are encrypted before the socket is asked to take any; also what one part gives at a time.
ENCRYPTED_BYTES = 128 * 1024


class TlsOutbound(Outbound):
    """Queue of parts on their way out of one TLS connection. Loop thread only."""

    __slots__ = ("_ciphertext", "_outgoing", "_scratch", "_tls")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        cold_reads: ReadsCold,
        counters: SendCounters,
        on_drained: Callable[[], None],
        on_error: Callable[[OSError], None],
        tls: ssl.SSLObject,
        outgoing: ssl.MemoryBIO,
        scratch: memoryview,
    ) -> None:
        """`outgoing` is where `tls` writes; `scratch`, which others may use between calls, takes what files give."""
        super().__init__(loop, fd, cold_reads, counters, on_drained, on_error)
        self._tls = tls
        self._outgoing = outgoing
        self._scratch = scratch[:ENCRYPTED_BYTES]
        self._ciphertext = memoryview(b"")

    @property
    def idle(self) -> bool:
        return not self.queue and not self._ciphertext

    @property
    def unsent_bytes(self) -> int:
        return super().unsent_bytes + len(self._ciphertext)

    def write(self, data: bytes) -> bool:
        if self._closed:
            return True
        waiting = not self.idle
        self.queue.append(data)
        if not waiting:
            self._drain()
        return self.idle

    def write_parts(self, parts: list[bytes | FileSlice]) -> bool:
        super().write_parts(parts)
        return self.idle

    def flush(self) -> None:
        """Send what the TLS layer itself has to say: messages of a handshake, alerts. Behind what waits already."""
        if not self._closed and not self._ciphertext:
            self._drain()

    def say_goodbye(self) -> None:
        """Send TLS's close_notify, unless an answer is under way: a peer that gets none knows that what it has was cut short."""
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
                sent = self.send(self._ciphertext)
                self._progress += 1
                self.counters.sent_bytes += sent
                budget -= sent
                self._ciphertext = self._ciphertext[sent:]
                if self._ciphertext or (budget <= 0 and self.queue):
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
        queue, outgoing = self.queue, self._outgoing
        made = [outgoing.read()] if outgoing.pending else []  # TLS's own messages
        left = ENCRYPTED_BYTES
        while queue and left > 0 and not self._prefetching:
            part = queue[0]
            if type(part) is bytes:
                left -= len(part)
                if len(part) <= ENCRYPTED_BYTES:
                    self._write(part, made)
                    queue.popleft()
                else:
                    self._write(memoryview(part)[:ENCRYPTED_BYTES], made)
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
                self._write(self._scratch[:got], made)
                self.counters.copy_fetch_bytes += got
                left -= got
                part.position += got
                part.count -= got
            if part.count == 0:
                queue.popleft()
                part.release()
        if made:
            self._ciphertext = memoryview(made[0] if len(made) == 1 else b"".join(made))

    def _write(self, data: bytes | memoryview, made: list[bytes]) -> None:
        """Encrypts `data` to the end of `made`, in pieces: OpenSSL's memory stays as large as the most that was ever in it."""
        size = len(data)
        if size <= 2 * BYTES_AT_ONCE:
            self._tls.write(data)
            made.append(self._outgoing.read())
            return
        view = memoryview(data)
        for start in range(0, size, 2 * BYTES_AT_ONCE):
            self._tls.write(view[start : start + 2 * BYTES_AT_ONCE])
            made.append(self._outgoing.read())


class RecordEnds:
    """Finds where TLS records end in ciphertext that comes in pieces (RFC 8446, section 5.1).

        0      1         3        5
        | type | version | length | fragment ...

    What is no TLS is cut anywhere: the layer behind refuses it. Loop thread.
    """

    __slots__ = ("_head", "_left")

    def __init__(self) -> None:
        self._head = b""  # as much of a record's head as has come
        self._left = 0  # bytes of its fragment that are to come

    def cut(self, data: memoryview, start: int, most: int, most_bytes: int) -> int:
        """Position of the record end in data[start:] behind which `most` records or `most_bytes` are full, or the end of `data`
        where there are fewer; there the next call goes on."""
        position, size, left = start, len(data), self._left
        limit = min(size, start + most_bytes)
        while most and position < limit:
            if not left:
                if self._head or size - position < HEAD_BYTES:
                    head = self._head + bytes(data[position : position + HEAD_BYTES - len(self._head)])
                    position += len(head) - len(self._head)
                    if len(head) < HEAD_BYTES:
                        self._head = head
                        break
                    self._head = b""
                    left = head[3] << 8 | head[4]
                else:
                    left = data[position + 3] << 8 | data[position + 4]
                    position += HEAD_BYTES
            if left > size - position:
                left -= size - position
                position = size
            else:
                position += left
                left = 0
                most -= 1
        self._left = left
        return position


_plaintext_buffer = Connection.get_buffer
_plaintext_updated = Connection.buffer_updated


class TlsConnection(Connection):
    """One TLS connection, made by the `SocketServer` for each socket accepted by a listener that speaks TLS. Loop thread."""

    __slots__ = (
        "_ciphertext", "_counted", "_ends", "_established", "_incoming", "_outgoing", "_reading", "_rest", "_security", "_tls",
    )  # fmt: skip

    def __init__(
        self, server: SocketServer, endpoint: Endpoint, dispatcher: Dispatches, security: ListenerSecurity
    ) -> None:
        super().__init__(server, endpoint, dispatcher)
        self._security = security
        self._ciphertext = server.ciphertext_view
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = security.tls_context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._established = False
        self._reading = False
        self._ends = RecordEnds()
        # Ciphertext that has come and is not decrypted yet; empty while the socket is read.
        self._rest = memoryview(b"")
        self._counted = 0  # bytes of it that count as memory of requests

    # -- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self.closing:
            limit = self._security.handshake_timeout_ms
            self.start_deadline(limit + self.muted_ms, f"no TLS handshake within {limit} ms (ssl.handshake.timeout.ms)")

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._server.receiving.scarce:
            return self._ciphertext[: len(self._server.scratch_view)]
        return self._ciphertext

    def buffer_updated(self, nbytes: int) -> None:
        if self.closing or self._has_ended:
            return
        # `last_active` is left to what is decrypted: bytes of a TLS record that never ends are no activity.
        data = self._ciphertext[:nbytes]
        if self._muted is not None and not self._established:
            # For a rate of new connections: a handshake takes milliseconds. What comes is read to see whether the client leaves.
            self._rest = memoryview(b"".join((self._rest, data)))
            if len(self._rest) >= BYTES_AT_ONCE:
                self._pause()
            self._count_rest()
            return
        self._rest = data
        self._go_on()
        if self._rest:  # the buffer is another's now
            self._rest = memoryview(bytes(self._rest))

    # -- inside

    def _make_outbound(self, sock: socket.socket) -> TlsOutbound:
        server = self._server
        return TlsOutbound(
            server.loop, sock.fileno(), server.cold_reads, server.send_counters, self._drained, self._lost,
            self._tls, self._outgoing, server.plaintext_view,
        )  # fmt: skip

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._rest = memoryview(b"")
        self._count_rest()

    def close(self, reason: str | None = None) -> None:
        if self._established and isinstance(self._outbound, TlsOutbound):
            self._outbound.say_goodbye()
        super().close(reason)

    def _go_on(self) -> None:
        """Decrypts and handles what has come, as long as the connection takes it. Where that takes long, the rest waits for a
        ticket of the fair queue.
        """
        if self._reading:
            return  # from within: the loop below goes on
        self._reading = True
        began = self._server.now()
        try:
            while True:
                if (
                    self._rest and self._incoming.pending < 2 * BYTES_AT_ONCE
                ):  # it has a part of a record, or what was left
                    end = self._ends.cut(self._rest, 0, RECORDS_AT_ONCE, BYTES_AT_ONCE)
                    self._incoming.write(self._rest[:end])
                    self._rest = self._rest[end:]
                self._decrypt_all()
                if not self._rest or self._paused or self._has_ended or self.closing:
                    return
                if self._server.now() - began > LONGEST_NS:
                    self._pause()
                    if self._muted is None:
                        self._join_fair_queue()
                    return
        finally:
            self._reading = False
            self._count_rest()

    def _count_rest(self) -> None:
        """Count what waits to be decrypted as memory of requests."""
        held = len(self._rest)
        if held != self._counted:
            self._server.receiving.buffers.lent += held - self._counted
            self._counted = held
            self._server.memory_changed()

    def _decrypt_all(self) -> None:
        """Decrypts and handles what the TLS layer has been given, as long as the connection takes it."""
        try:
            if not self._established:
                self._tls.do_handshake()
                self._shaken()
            incoming, tls = self._incoming, self._tls
            # Asking before reading saves an exception for each record.
            while (
                (incoming.pending or tls.pending()) and not self._paused and (self._state is READY or not self.closing)
            ):
                view = _plaintext_buffer(self, 0)
                filled, ended = self._decrypt(view)
                if filled:
                    _plaintext_updated(self, filled)
                if ended and not self.closing:
                    if self.eof_received():
                        self._pause()  # nothing more is to come, and would be kept for ever
                    break
        except ssl.SSLWantReadError:
            self._flush_tls()
        except ssl.SSLError as error:
            self._flush_tls()  # the alert that says why
            self._abort(self._what_failed(error))

    def _decrypt(self, view: memoryview) -> tuple[int, bool]:
        """Bytes that were decrypted into `view`, and whether the client has said that nothing more comes.

        A record has 16 KiB at most: what the socket gave at once is handled at once, and not record by record. Raises
        SSLWantReadError where nothing has come whole.
        """
        incoming, size = self._incoming, len(view)
        # With a buffer it returns a count, whatever typeshed says.
        read = cast(Callable[[int, memoryview], int], self._tls.read)
        filled = count = read(size, view)
        # OpenSSL keeps only the part of a record that did not fit into `view`: no need to ask for that each time.
        while count and filled < size and incoming.pending:
            try:
                count = read(size - filled, view[filled:])
            except ssl.SSLWantReadError:
                self._flush_tls()
                break
            filled += count
        return filled, not count

    def _shaken(self) -> None:
        """The handshake is done: the client is who its certificate says, unless SASL asks it. Aborts if it may not connect."""
        self._established = True
        self.last_active = self._server.now()
        self.clear_deadline()
        self._flush_tls()
        if self._security.sasl:
            self._security.expect(self)
            return
        certificate = self._tls.getpeercert()
        if not certificate:
            return
        subject = subject_of(certificate)
        name = name_of(subject, self._security.mapping_rules)
        if name is None:
            self._abort(f"no rule of ssl.principal.mapping.rules fits {subject!r}")
        elif name and (refusal := self.authenticated_as(user(name))) is not None:
            self._abort(refusal)

    def _what_failed(self, error: ssl.SSLError) -> str:
        """Words for the log, with what to do about it where OpenSSL's code tells. Counts handshakes that failed."""
        if self._established:
            return f"TLS failed: {error.reason or error}"
        self._server.failed_handshakes += 1
        reason = (error.reason or str(error)).upper()
        if "HTTP_REQUEST" in reason:
            return "HTTP came to a listener that speaks Kafka's protocol by TLS"
        if "WRONG_VERSION_NUMBER" in reason or "UNKNOWN_PROTOCOL" in reason:
            return "what came is no TLS: a client of this listener needs security.protocol=SSL or SASL_SSL"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"the client's certificate is not good: {error.verify_message}"
        if "PEER_DID_NOT_RETURN_A_CERTIFICATE" in reason:
            return "the client shows no certificate, and ssl.client.auth=required"
        if "ALERT" in reason:
            return f"the client ended the TLS handshake: {reason.lower().replace('_', ' ')}"
        return f"the TLS handshake failed: {reason.lower().replace('_', ' ')}"

    def _flush(self, parts: list[Part], sliced: bool = True) -> bool:
        done = super()._flush(parts, sliced)
        if done and self._outbound is not None and self._outbound.idle:
            # TLS's own messages, which the client had not taken, may have gone out with these: nobody else tells of it.
            self._server.sending.untrack(self)
        return done

    def _flush_tls(self) -> None:
        """Send TLS's own messages. Until the client has taken them nothing more is read: it could ask for more of them than it
        takes (KeyUpdate), and they would be kept here."""
        outbound = self._outbound
        if not self._outgoing.pending or not isinstance(outbound, TlsOutbound):
            return
        outbound.flush()
        if not outbound.idle:
            self._hold(SENDING)
            self._pause()
            self._server.sending.track(self)
            self._server.schedule_tick()

    def _resume(self) -> None:
        super()._resume()
        if self._paused or self._has_ended or self.closing:
            return
        if self._rest or (self._established and (self._incoming.pending or self._tls.pending())):
            self._go_on()
