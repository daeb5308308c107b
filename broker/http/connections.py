"""Connections of the HTTP listener: how many there are, how long a client may take, and who makes room for the next.

A connection has a place (`MAX_CONNECTIONS`) from the moment it is accepted. Its thread either waits for the client (the TLS
handshake, the request's head, a form, the answer's bytes that the client has not taken, the client's end) or works on the answer.

- **Who waits for its client can be put out.** When all places are taken and somebody connects, the network address that has the
  most waiting connections loses the one of them that was accepted first. So clients that drip keep nobody out, however they drip.
- **Time is counted for the whole**, not for each piece: `REQUEST_TIMEOUT_S` for a request with its body, `ANSWER_TIMEOUT_S` for
  an answer, `LINGER_S` for what comes behind a request that was answered unread.
- **Bytes are counted too**: `MAX_HEAD_BYTES` for the request line and all headers together, `MAX_UNSENT_BYTES` for all large
  answers that are being sent. Beyond these the network address that leaves most untaken loses the connection with the largest.
- **Work has lanes** (`Lane`), each with so many threads at a time and so many that wait for one. The lanes together have fewer
  than there are places: the rest is for probes, which need no lane, and for clients that are not let in yet.
- **Who waits to be let in, or to be refused, waits for us and can be put out too** (`Peer.wait`, `Peer.pause`): one who guesses
  holds a place, no lane, and gives it up at once.

Any thread, unless it says otherwise. The clock is an argument.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future
from concurrent.futures import wait as wait_until_done
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

MAX_CONNECTIONS = 32
REQUEST_TIMEOUT_S = 10.0
"""Time limit for a request, from the end of the TLS handshake (which has its own) to the last byte."""
ANSWER_TIMEOUT_S = 30.0
LINGER_S = 0.5
MAX_LINGER_BYTES = 1 << 20
MAX_HEAD_BYTES = 1 << 17
"""http.client allows 100 headers of 64 KiB each; a token may take one of them."""
MAX_UNSENT_BYTES = 128 << 20
"""Of all large answers that are being sent, each from its first byte to its last; a single one may have more. A record's value
may have 64 MiB."""
SMALL_BYTES = 1 << 18
"""An answer of no more is not counted: a probe's ends nobody's."""
_SEND_BYTES = 1 << 18
_ROOM_WAIT_S = 0.1


class ClientTooSlow(ConnectionAbortedError):
    """The client did not send its request, or take its answer, in time. wsgiref ends such a connection without a word."""

    def __init__(self) -> None:
        super().__init__("the client took too long")


class PutOut(ConnectionAbortedError):
    """The connection was ended to make room. wsgiref ends such a connection without a word."""

    def __init__(self) -> None:
        super().__init__("the connection made room for others")


class BusyError(Exception):
    """All threads of a lane are busy, and its queue is full."""


class Peer:
    """Other end of one connection. Attributes belong to the connection's thread or, under the lock, to `Places`."""

    __slots__ = ("_places", "connection", "ended", "is_waiting", "network", "unsent_bytes")

    def __init__(self, places: Places, connection: socket.socket, host: str) -> None:
        from ..security.sasl.login_attempts import network_of

        self._places = places
        self.connection = connection
        self.network = network_of(host)
        self.is_waiting = True
        self.unsent_bytes = 0
        """Of the answer that is being sent, all of it."""
        self.ended: Future[None] = Future()
        """Done when the connection was ended to make room."""

    def becomes(self, connection: socket.socket) -> None:
        """TLS has made another object of the connection."""
        with self._places.lock:
            self.connection = connection

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While the thread waits for the client, the connection may be ended to make room."""
        self.is_waiting = True
        try:
            yield
        finally:
            with self._places.lock:  # not while it is being ended for it
                self.is_waiting = False

    @contextmanager
    def sending(self, size: int) -> Iterator[None]:
        """While the client takes an answer of so many bytes. The connection may be ended to make room, and others for it."""
        with self.waiting():
            if size > SMALL_BYTES:
                self._places.hold(self, size)
            try:
                yield
            finally:
                self.unsent_bytes = 0

    def wait(self, future: Future[Any], timeout_s: float) -> Any:
        """The result of other threads' work. Raises what that raises, TimeoutError, and `PutOut`."""
        with self.waiting():
            done, _ = wait_until_done((future, self.ended), timeout_s, FIRST_COMPLETED)
        if self.ended.done():
            raise PutOut
        if not done:
            raise TimeoutError
        return future.result()

    def pause(self, seconds: float) -> None:
        """Holds an answer back for so long. Raises `PutOut`."""
        with self.waiting():
            wait_until_done((self.ended,), seconds)
        if self.ended.done():
            raise PutOut


class Places:
    """The places for connections. `enter` is called by the accepting thread alone."""

    def __init__(self, most: int = MAX_CONNECTIONS) -> None:
        self.lock = threading.Lock()
        self._places = threading.BoundedSemaphore(most)
        self._peers: list[Peer] = []

    def enter(self, connection: socket.socket, host: str) -> Peer:
        """A place for a new connection. Blocks until there is one: as long as a connection that makes room needs to end."""
        if not self._places.acquire(blocking=False):
            self.make_room()
            while not self._places.acquire(timeout=_ROOM_WAIT_S):
                self.make_room()
        peer = Peer(self, connection, host)
        with self.lock:
            self._peers.append(peer)
        return peer

    def leave(self, peer: Peer) -> None:
        """Called when the connection is closed."""
        with self.lock:
            self._peers.remove(peer)
        self._places.release()

    def make_room(self) -> None:
        """Ends a connection that waits for its client; its thread reads the end of the stream, and leaves."""
        with self.lock:
            waiting = [peer for peer in self._peers if peer.is_waiting and not peer.ended.done()]
            if not waiting:
                return
            networks = Counter(peer.network for peer in waiting)
            _end(max(waiting, key=lambda peer: networks[peer.network]))  # of several the first

    def hold(self, peer: Peer, size: int) -> None:
        """Counts an answer's bytes, and ends connections with others until all together are within `MAX_UNSENT_BYTES`."""
        with self.lock:
            peer.unsent_bytes = size
            held = [other for other in self._peers if other.unsent_bytes and not other.ended.done()]
            networks: Counter[str] = Counter()
            for other in held:
                networks[other.network] += other.unsent_bytes
            while networks.total() > MAX_UNSENT_BYTES and (others := [other for other in held if other is not peer]):
                victim = max(others, key=lambda other: (networks[other.network], other.unsent_bytes))
                held.remove(victim)
                networks[victim.network] -= victim.unsent_bytes
                _end(victim)


def _end(victim: Peer) -> None:
    """Ends a connection that waits for its client. Call with the lock of its places held."""
    victim.ended.set_result(None)
    with contextlib.suppress(OSError):
        # TLS's own would take the session away from the thread that reads.
        socket.socket.shutdown(victim.connection, socket.SHUT_RDWR)


class Lane:
    """Work of one kind: `working` requests at a time, and `waiting` more that wait up to `wait_s` for their turn."""

    def __init__(self, working: int, waiting: int, wait_s: float) -> None:
        self.size = working + waiting
        self.wait_s = wait_s
        self._working = threading.BoundedSemaphore(working)
        self._all = threading.BoundedSemaphore(working + waiting)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """While a request is worked on. Raises `BusyError`."""
        self._enter()
        try:
            yield
        except _NotBackError as error:
            raise BusyError(str(error)) from None
        except BaseException:
            self._leave()
            raise
        self._leave()

    @contextmanager
    def left(self) -> Iterator[None]:
        """While the work waits for its client. Raises `BusyError` where there is no way back in."""
        self._leave()
        try:
            yield
        finally:
            try:
                self._enter()
            except BusyError as error:
                raise _NotBackError(str(error)) from None

    def _enter(self) -> None:
        if not self._all.acquire(blocking=False):
            raise BusyError("too many requests at a time")
        if not self._working.acquire(timeout=self.wait_s):
            self._all.release()
            raise BusyError("too many requests at a time")

    def _leave(self) -> None:
        self._working.release()
        self._all.release()


class _NotBackError(BusyError):
    """The lane was left and is not held any more."""


class BodyStream:
    """A request's body (`wsgi.input`), for a handler that reads it in a lane: while it has not come, the lane is free for
    others.
    """

    def __init__(self, stream: Any, lane: Lane) -> None:
        self._stream = stream
        self._lane = lane

    def read(self, size: int) -> bytes:
        """So many bytes, or fewer at the end. Raises `ClientTooSlow` and `BusyError`."""
        with self._lane.left():
            body: bytes = self._stream.read(size)
        return body


class RequestStream(io.RawIOBase):
    """Input of one request, with one deadline for all of it, and a limit on the bytes of the head."""

    def __init__(self, peer: Peer, now_s: Callable[[], float] = time.monotonic, timeout_s: float | None = None) -> None:
        super().__init__()
        self._peer = peer
        self._now_s = now_s
        self._end_s = now_s() + (REQUEST_TIMEOUT_S if timeout_s is None else timeout_s)
        self._head_left: int | None = MAX_HEAD_BYTES

    def head_is_read(self) -> None:
        """Lift the limit on the head: the body follows, and its reader limits it."""
        self._head_left = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises `ClientTooSlow`, and HTTPException for a head that has no end."""
        if self._head_left is not None and self._head_left <= 0:
            from http.client import HTTPException  # costs a start 20 ms

            raise HTTPException(f"a request line and its headers may have {MAX_HEAD_BYTES} bytes together")
        connection = self._peer.connection
        with self._peer.waiting(), _in_time(connection, self._end_s - self._now_s()):
            count = connection.recv_into(buffer)
        if self._head_left is not None:
            self._head_left -= count
        return count


class AnswerStream(io.BufferedIOBase):
    """Output of one answer, which has `ANSWER_TIMEOUT_S` in all, from the first byte on."""

    def __init__(self, peer: Peer, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._peer = peer
        self._now_s = now_s
        self._end_s: float | None = None

    @property
    def has_begun(self) -> bool:
        """True if some bytes were sent."""
        return self._end_s is not None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Send all bytes. Raises `ClientTooSlow`."""
        if self._end_s is None:
            self._end_s = self._now_s() + ANSWER_TIMEOUT_S
        left, position = memoryview(data), 0
        connection = self._peer.connection
        with self._peer.sending(len(left)):
            while position < len(left):
                with _in_time(connection, self._end_s - self._now_s()):
                    position += connection.send(left[position : position + _SEND_BYTES])
        return len(left)


@contextmanager
def _in_time(connection: socket.socket, left_s: float) -> Iterator[None]:
    """Run one socket call with a time limit. Raises `ClientTooSlow`."""
    if left_s <= 0:
        raise ClientTooSlow
    connection.settimeout(left_s)
    try:
        yield
    except TimeoutError:
        raise ClientTooSlow from None


def linger(peer: Peer, now_s: Callable[[], float] = time.monotonic) -> None:
    """Ends the answer, and reads away what the client still sends, for a moment: a connection that is closed on bytes that nobody
    has read is reset, and the client may lose the answer."""
    connection, end_s, left = peer.connection, now_s() + LINGER_S, MAX_LINGER_BYTES
    with contextlib.suppress(OSError), peer.waiting():
        socket.socket.shutdown(connection, socket.SHUT_WR)
        while left > 0 and (wait_s := end_s - now_s()) > 0:
            connection.settimeout(wait_s)
            # Below TLS: nobody looks at it.
            count = len(socket.socket.recv(connection, min(left, 1 << 16)))
            if not count:
                return
            left -= count
