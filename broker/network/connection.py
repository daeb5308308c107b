"""One client connection: frames in, answers out, in order.

The connection is a `BufferedProtocol`: the loop reads straight into the buffer that `get_buffer` names. Between
requests a connection owns no buffer: all share one scratch buffer of their loop, which is safe because a loop asks for
the buffer, reads and hands over in one step. Only a request that has not come whole moves to a buffer of the connection's
own, made to fit the frame, so that a large batch is received once and written to the log from where it lies.

Requests of one connection are handled one at a time, in the order in which they came, and are answered in that order.
A handler that can answer at once does; what must wait (a long poll, a sync, a rebalance) is an awaitable, and the
connection stands still until it is done: it goes on reading, up to one buffer, so that it notices when the client
leaves, whose requests are handled all the same if they have come whole. So it does when it is muted, because its client is
over a quota, or because others have their turn (`fair_queue.py`).
What a connection waits for is its state (`connection_state.py`). While a client leaves its answer unread, that is SENDING:
nothing more is read, and `ResponseMemoryBudget` (`response_memory.py`) bounds how many bytes wait, and for how long.
"""

from __future__ import annotations

import asyncio
import logging
import math
import select
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from ...protocol.framing import READ_AHEAD_BYTES, SCARCE_FRAME_BYTES, SIZE_BYTES, read_size, room_for_frame
from ..runtime.exceptions import ConnectionAborted
from ..security.principal import ANONYMOUS
from ._frames import FrameReader
from .advertised_address import plain_host
from .connection_state import State
from .outbound import Outbound, Part, release_parts
from .pending_response import PendingResponse
from .request_memory import ReceiveBuffer

if TYPE_CHECKING:
    import socket

    from ..security.sasl.handshake import Authentication
    from .fair_queue import Ticket
    from .socket_server import Endpoint, SocketServer

log = logging.getLogger(__name__)

# As names of this module: the members of an enum are looked up through its class each time.
READY, STARVED, MUTED, SENDING, PENDING, LEAVING, CLOSED = State

Answer = bytes | list[Part] | None
"""Bytes of the answer to one request; None: no answer is sent."""

Reply = Answer | Awaitable[Answer]
"""An answer, or one that comes later: a `PendingResponse`, a future or a coroutine. The connection stands still until then."""


QuickDispatch = Callable[[bytearray, int, int, "Connection"], Any]


class Dispatches(Protocol):
    """Handler that a connection gives whole requests to. Loop thread.

    Attributes:
        quick: Asked before `dispatch`, with the same arguments, and answers the requests that it is for; NotImplemented for all
            others, of which nothing has been done. None: there is no such way.
    """

    @property
    def quick(self) -> QuickDispatch | None: ...

    def dispatch(self, buffer: bytearray, start: int, end: int, connection: Connection) -> Reply:
        """Handles the request in buffer[start:end]. The buffer is used again after the return.

        Returns the answer, or an awaitable of it. Raises ConnectionAborted, or RequestDeferred.
        """

    def answered(self, key: int, since: int) -> None:
        """A request of API `key` whose answer was awaited is answered now; it came at `since` (`perf_counter_ns`)."""

    def name_of(self, key: int) -> str:
        """The name that /metrics and the console give requests of API `key`: protocols number theirs differently."""


class Connection(FrameReader, asyncio.BufferedProtocol):
    """Loop thread only. Made by the `SocketServer` for each accepted socket. What each read of the socket needs is compiled:
    `get_buffer`, `buffer_updated` and the walk from frame to frame are `FrameReader`'s.
    """

    __slots__ = (
        "_deadline", "_has_ended", "_most_bytes", "_paused", "_pending", "_transport", "authentication", "listener",
        "local_address", "peer_host", "peer_port", "pending_key", "pending_since", "principal", "software",
    )  # fmt: skip

    def __init__(self, server: SocketServer, endpoint: Endpoint, dispatcher: Dispatches) -> None:
        self._server = server
        self._dispatcher = dispatcher
        self.listener = endpoint
        self.local_address: tuple[str, int] = ("", 0)
        self.peer_host = ""
        self.peer_port = 0
        self.last_active = 0
        # Of the request that waits, for the dispatcher's counts: its API, and when it came (0: it is not timed).
        self.pending_key = 0
        self.pending_since = 0
        self.authentication: Authentication | None = None
        """State of the client's authentication; None where the listener asks for none, or no request came yet."""
        self.principal = ANONYMOUS
        """The client's principal: `User:` and a name."""
        self.software = ("", "")
        """Name and version that the client gave with ApiVersions (KIP-511)."""
        self._transport: asyncio.Transport | None = None
        self._outbound = None
        self._buffer = None
        self._pending: asyncio.Future[object] | PendingResponse | None = None
        self._state = READY
        # True while the transport is told not to read.
        self._paused = False
        # Bytes of a request that are waited for, while that is less than the server's; None: the server's.
        self._most_bytes: int | None = None
        # True once the client has ended its side: what it sent whole is handled, nothing more is read.
        self._has_ended = False
        self._muted = None
        self._is_heavy = None
        self._mean_ns = -1
        self._watched_reads = 1  # the first, which says what there is of the connection
        self._deadline: asyncio.TimerHandle | None = None

    # -- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        peer = transport.get_extra_info("peername")
        if peer is None:
            # Its client has reset it already. Its requests could still be read, but without an address: no rule for an address
            # would hold, nor could the audit log name it.
            log.debug("%s: reset before it was accepted", self)
            self._state = CLOSED
            transport.abort()  # type: ignore[attr-defined]
            return
        # As Java has it: one client has one address, whether its listener is for both kinds or for IPv4.
        self.peer_host, self.peer_port = plain_host(peer[0]), peer[1]
        self.local_address = self._server.advertised_to(self.listener, transport.get_extra_info("sockname"), peer[0])
        self.last_active = self._server.now()
        refusal = self._server.connection_opened(self)
        if refusal is not None:
            log.warning("%s: refused: %s", self, refusal)
            self._server.schedule_tick()  # for the log: what it leaves out is told a while later
            self._state = CLOSED
            transport.abort()  # type: ignore[attr-defined]
            return
        self._outbound = self._make_outbound(sock)

    def _make_outbound(self, sock: socket.socket) -> Outbound:
        server = self._server
        return Outbound(
            server.loop, sock.fileno(), server.cold_reads, server.send_counters, self._drained, self._lost
        )  # fmt: skip

    def _take_waiting_buffer(self) -> None:
        """A buffer for requests that come now, which have to wait for the answer before them."""
        self._take_buffer(SCARCE_FRAME_BYTES if self._server.receiving.scarce else READ_AHEAD_BYTES)

    def eof_received(self) -> bool:
        # True keeps the transport open: answers under way still go out to a client that has only shut its write side, and what
        # it sent whole is handled, as in Kafka: a producer with acks=0 sends and leaves. An idle connection is closed here.
        if self._is_free and not (self._state < LEAVING and self._has_whole_request()):
            self.close()
            return False
        self._has_ended = True
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._state = CLOSED
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
        if self._muted is not None:
            self._muted.cancel()
        self.clear_deadline()
        if self.authentication is not None:
            self.authentication.cancel()
        if self._outbound is not None:
            # While the duplicate of the descriptor is open, the peer gets no FIN.
            self._outbound.close()
            # They know each other: what a TLS connection holds would stay until a full collection.
            self._outbound = None
        self._release_buffer()
        self._server.sending.untrack(self)
        self._server.connection_closed(self)

    # -- what the server calls

    @property
    def busy(self) -> bool:
        """True while a request is being answered: such a connection is not idle, however long it takes."""
        return self._pending is not None or (self._outbound is not None and not self._outbound.idle)

    @property
    def pending_request(self) -> str:
        """Name of the request that waits, in its own protocol's words; "" where none does, or it is not timed."""
        return self._dispatcher.name_of(self.pending_key) if self.pending_since else ""

    @property
    def closing(self) -> bool:
        """True from the moment that the connection is to end: no further request is handled, whatever comes."""
        return self._state >= LEAVING

    @property
    def user(self) -> str:
        """The name in `principal`, which is what quotas go by."""
        return self.principal.partition(":")[2]

    @property
    def client(self) -> str:
        """Client of this connection, as far as clients are served in turn: a principal or an address."""
        return self.peer_host if self.principal is ANONYMOUS else self.principal

    @property
    def request_bytes(self) -> int:
        """Bytes that wait to be handled: the part that has come of a request, or requests behind one in work."""
        return 0 if self._buffer is None else len(self._buffer)

    @property
    def unsent_bytes(self) -> int:
        """Bytes of answers in memory that the socket has not taken."""
        return 0 if self._outbound is None else self._outbound.unsent_bytes

    def leave_unsent(self, most: int) -> None:
        """Limit the unsent bytes in the kernel, as `Outbound.leave_unsent`."""
        if self._outbound is not None:
            self._outbound.leave_unsent(most)

    @property
    def send_progress(self) -> int:
        """A number that changes when the socket takes something, or while the disk has it wait."""
        return 0 if self._outbound is None else self._outbound.count_progress()

    def go_on_receiving(self) -> None:
        """Called when there may be memory for the rest of the request: goes on if nothing else holds the connection back."""
        if not self.closing:
            self._resume_if_free()

    def time_is_up(self, reason: str) -> None:
        """Disconnects a client that has had enough time, or memory, though it may have ended its side."""
        if self._transport is not None and not self._transport.is_closing():
            self._abort(reason)

    def authenticated_as(self, principal: str) -> str | None:
        """Take note of the client's principal after authentication. Returns why it is refused all the same, or None."""
        refusal = self._server.connection_known(self, principal)
        if refusal is None:
            self.principal = principal
        return refusal

    def mute(self, milliseconds: int) -> None:
        """Handles no further request for so long; answers under way go out. A wait shorter than the present one adds nothing."""
        loop = self._server.loop
        until = loop.time() + milliseconds / 1000
        if self._muted is not None:
            if self._muted.when() >= until:
                return
            self._muted.cancel()
        self._muted = loop.call_at(until, self._unmute)
        self._hold(MUTED)

    def mute_in(self, join: Callable[[Callable[[], None]], Ticket]) -> None:
        """Handles no further request until the ticket is called that `join` gives."""
        if self._muted is None:
            self._muted = join(self._unmute)
            self._hold(MUTED)

    def _is_gone(self) -> bool:
        """True if the client has reset the connection. One that has only closed its sending side may still read."""
        if self.closing or self._transport is None:
            return False
        look = select.poll()
        look.register(self._transport.get_extra_info("socket").fileno(), 0)
        return bool(look.poll(0))

    def wait_turn(self, go_on: Callable[[], None]) -> Ticket:
        """A ticket of the fair queue for the next chunk of the request in work; `go_on` is called with it."""
        return self._server.fair_queue.join(self.client, go_on)

    def hold_back(self) -> bool:
        """Mutes the connection while its client keeps too many answers unread. True: the request in work has to be deferred."""
        queue = self._server.fair_queue
        if self.client not in queue.held_back:
            return False
        self.mute_in(partial(queue.join_to_begin, self.client))
        return True

    def _join_fair_queue(self) -> None:
        self._muted = self._server.fair_queue.join_to_begin(self.client, self._unmute)
        self._hold(MUTED)

    def _unmute(self) -> None:
        self._muted = None
        if self._is_gone():  # nothing is read while it waits: its end is not seen, and its requests would be answered
            self.close()
            return
        self._resume_if_free()

    @property
    def muted_ms(self) -> int:
        """Milliseconds for which it is still muted by `mute`; 0 while it waits for a ticket, or for nothing."""
        if self._muted is None:
            return 0
        return max(0, math.ceil(1000 * (self._muted.when() - self._server.loop.time())))

    def start_deadline(self, milliseconds: int, reason: str) -> None:
        """Closes the connection after so long, for `reason`, unless `clear_deadline` comes before."""
        self.clear_deadline()
        self._deadline = self._server.loop.call_later(milliseconds / 1000, self._abort, reason)

    def clear_deadline(self) -> None:
        """Cancel the deadline that `start_deadline` began."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def count_kafka07(self) -> None:
        """Count the client, which is to be disconnected, as one of Kafka 0.7."""
        self._server.listeners[self.listener.name].kafka07 += 1

    def limit_requests(self, most: int) -> None:
        """Until `hand_to`, a request that announces more than `most` bytes ends the connection before they come, since its client
        has not authenticated.
        """
        self._most_bytes = most

    def hand_to(self, dispatcher: Dispatches) -> None:
        """Requests after the one in work go to `dispatcher`."""
        self._dispatcher = dispatcher
        self._most_bytes = None

    def close(self, reason: str | None = None) -> None:
        """Closes at once; `reason` is logged."""
        if reason is not None and not self.closing:
            log.info("%s: closed: %s", self, reason)
        self._state = CLOSED
        if self._outbound is not None:
            self._outbound.close()
        if self._transport is not None:
            self._transport.abort()

    def close_after_sending(self) -> None:
        """Handles nothing more, and closes when what was given to it has gone out."""
        if self._is_free:
            self.close()
        else:
            self._hold(LEAVING)

    def __repr__(self) -> str:
        who = "" if self.principal is ANONYMOUS else f" {self.principal!r}"
        return f"{self.listener.name} {self.peer_host}:{self.peer_port}{who}"

    # -- frames

    def _flush(self, parts: list[Part], sliced: bool = True) -> bool:
        """Sends answers; `sliced` when some may be slices of files.

        False: the client does not take them now, and nothing more is handled until it has.
        """
        outbound = self._outbound
        if outbound is None or self._state is CLOSED:
            release_parts(parts)
            return True
        if not parts:
            done = True
        elif sliced:
            done = outbound.write_parts(parts)
        else:
            answers: list[Any] = parts  # all of them bytes
            done = outbound.write(answers[0] if len(answers) == 1 else b"".join(answers))
        if not done:
            self._hold(SENDING)
            self._pause()
            self._server.sending.track(self)
            self._server.schedule_tick()
        return done

    def _keep(self, source: bytearray, start: int, end: int) -> None:
        """Moves what is left in the scratch buffer to a buffer of the connection's own."""
        if self._most_bytes is not None and self._is_too_large(source, start, end, self._most_bytes):
            return
        left = end - start
        server = self._server
        room = server.receiving
        needed = max(room_for_frame(source, start, end, server.max_request_bytes, room.scarce), left)
        if not room.try_reserve(self, needed, 0, waits=False):
            needed = 1 << left.bit_length()
        buffer = self._take_buffer(needed)
        buffer.fill(source, start, end)
        if self._state is READY:
            room.track(self)
            server.schedule_tick()
        if buffer.end == buffer.capacity:
            self._pause()  # only while an answer is pending: an incomplete frame's buffer has room

    def _advance(self, buffer: ReceiveBuffer) -> None:
        """Handles what the connection's own buffer holds, then makes room for the rest or gives the buffer back."""
        buffer.frame_end = 0
        before = buffer.start
        buffer.start = self._process(buffer.data, before, buffer.end)
        server = self._server
        room = server.receiving
        left = buffer.end - buffer.start  # not `len`, nor `is_full` above: each would be a call for each large request
        is_open = self._state < LEAVING and self._buffer is not None
        if left == 0 and is_open:
            self._release_buffer()
            return
        if buffer.start != before or self._muted is not None:  # it is whole, and may wait for others
            room.untrack(self)
        if not is_open:
            return
        if self._state is not READY:
            if buffer.is_full:
                self._pause()
            return
        if self._most_bytes is not None and self._is_too_large(buffer.data, buffer.start, buffer.end, self._most_bytes):
            return
        room.track(self)
        server.schedule_tick()
        capacity = buffer.capacity
        needed = room_for_frame(buffer.data, buffer.start, buffer.end, server.max_request_bytes, room.scarce)
        is_stuck = left == capacity
        if needed > capacity and room.try_reserve(self, needed, len(buffer.data), waits=is_stuck):
            buffer.make_room(needed)
            server.memory_changed()
        elif is_stuck:
            self._hold(STARVED)
            self._pause()  # until there is memory: `go_on_receiving`
        else:
            buffer.make_room(capacity)

    def _is_too_large(self, source: bytearray, start: int, end: int, most: int) -> bool:
        """True if the incomplete request in source[start:end] announces more than `most` bytes: the connection is closed."""
        if self._state is not READY or end - start < SIZE_BYTES:
            return False
        from ..security.sasl.handshake import check_size

        try:
            check_size(int(read_size(source, start)[0]), most)
        except ConnectionAborted as error:
            self._abort(str(error))
            return True
        return False

    def _take_buffer(self, capacity: int) -> ReceiveBuffer:
        buffer = self._buffer = ReceiveBuffer(self._server.receiving.buffers, capacity)
        self._server.memory_changed()
        return buffer

    def _release_buffer(self) -> None:
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            buffer.give_back()
            self._server.receiving.untrack(self)
            self._server.memory_changed()

    # -- answers that wait, clients that do not read

    def _wait(self, answer: Awaitable[object]) -> None:
        if self._state < PENDING:
            self._state = PENDING
        if type(answer) is PendingResponse:
            self._pending = answer
            answer.add_done_callback(self._answered)
            return
        future = asyncio.ensure_future(answer)
        self._pending = future
        future.add_done_callback(self._answered)

    def _answered(self, future: asyncio.Future[object] | PendingResponse) -> None:
        if future.cancelled():
            return
        self._pending = None
        error = future.exception()
        if error is not None:
            self._flush(_last_answer(error))
            self._abort(str(error) if isinstance(error, ConnectionAborted) else repr(error))
            return
        answer = future.result()
        parts: list[Part] = []
        if isinstance(answer, bytes):
            parts.append(answer)
        elif isinstance(answer, list):
            parts = answer
        if self.pending_since:
            self._dispatcher.answered(self.pending_key, self.pending_since)
            self.pending_since = 0
        if self._transport is None or self._transport.is_closing():
            release_parts(parts)
            return
        self.last_active = self._server.now()
        if self._flush(parts):
            self._resume_in_turn()
        elif self._state is PENDING:
            self._state = SENDING

    def _pause(self) -> None:
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _drained(self) -> None:
        self._server.sending.untrack(self)
        if self._pending is None:
            self._resume_in_turn()

    def _resume_in_turn(self) -> None:
        """As `_resume`; with a ticket if its requests take long, and one has come."""
        if self._is_heavy and self._muted is None and self._buffer is not None and self._state < LEAVING:
            self._join_fair_queue()
        self._resume()

    def _hold(self, reason: State) -> None:
        """Handles no further request for `reason`, unless a stronger one holds already."""
        if self._state < reason:
            self._state = reason

    @property
    def _is_free(self) -> bool:
        """True while no answer is awaited, and all have been taken."""
        return self._pending is None and (self._outbound is None or self._outbound.idle)

    def _has_whole_request(self) -> bool:
        """True if a request waits in the buffer that has come whole."""
        buffer = self._buffer
        if buffer is None or len(buffer) < SIZE_BYTES:
            return False
        size = int(read_size(buffer.data, buffer.start)[0])
        return 0 <= size <= len(buffer) - SIZE_BYTES

    def _resume_if_free(self) -> None:
        """Goes on, unless an answer is awaited or has not been taken: its end will be the one to go on."""
        if self._is_free:
            self._resume()
        elif self._state is MUTED:
            self._state = SENDING  # TLS's own messages

    def _resume(self) -> None:
        """Goes on when no answer is awaited and all have been taken: first with what has been read, then with the socket."""
        if self._state >= LEAVING:
            if self._state is LEAVING:
                self.close()
            return
        if self._has_ended and not self._has_whole_request():
            self.close()
            return
        if self._muted is not None:
            self._state = MUTED
            return
        self._state = READY
        was_paused, self._paused = self._paused, False
        if self._buffer is not None:
            try:
                self._advance(self._buffer)
            except Exception:
                # A defect. Where the event loop hands over what has come, it closes the connection; here nobody else would.
                log.exception("%s: closed: a request failed", self)
                self.close()
        if self._has_ended:
            if self._state <= MUTED and not self._has_whole_request():
                self.close()
            return
        if was_paused and not self._paused and not self.closing and self._transport is not None:
            self._transport.resume_reading()

    def _lost(self, error: OSError) -> None:
        log.debug("%s: sending failed: %s", self, error)
        self.close()

    def _abort(self, reason: str) -> None:
        log.warning("%s: closed: %s", self, reason)
        self._server.aborted_connections += 1
        self._server.schedule_tick()  # for the log, as above
        self.close()


def _last_answer(error: BaseException) -> list[Part]:
    """Answer that is sent before a connection ends over `error`."""
    return [error.answer] if isinstance(error, ConnectionAborted) and error.answer else []
