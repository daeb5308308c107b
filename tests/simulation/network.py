"""Sockets in memory: streams that are cut in segments, late, reset, or silent.

A `Network` belongs to a simulation (`Network.of(simulation)`). Each stream is two `End`s; what one sends arrives at the other in
segments, in order, after delays that the seed decides, never more at a time than the window has room for. `SimSocket` is what
`socket.socket` is while the simulation's primitives are installed: the calls that asyncio and the daemon make, and no others.
Descriptors are numbers that no real one has. `dup`, `sendfile` and `SimPoll` go by these numbers.

Faults: `reset` (both ends find ECONNRESET, and what was under way is lost), `silence` (nothing arrives any more, and nobody is
told: half open), `Delays` per network. Nothing is reordered within a stream, as in TCP.
"""

from __future__ import annotations

import errno
import os
import select
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from simulation.scheduler import MICROSECOND, MILLISECOND, Simulation, simulation

#: Descriptors of this module start here: no process has so many.
FIRST_FD = 1 << 28
EPHEMERAL_PORT = 49152

_REAL_DUP, _REAL_SENDFILE, _REAL_FSTAT = os.dup, os.sendfile, os.fstat
_STREAM, _INET = socket.SOCK_STREAM, socket.AF_INET


@dataclass
class Delays:
    """What the seed decides for all streams. Times in ns, sizes in bytes."""

    least: int = 20 * MICROSECOND
    most: int = 300 * MICROSECOND
    late_chance: float = 0.0
    late_most: int = 200 * MILLISECOND
    segment: int = 1460
    window: int = 256 << 10


class End:
    """One end of a stream."""

    def __init__(self, network: Network, address: tuple[str, int], peer_address: tuple[str, int]) -> None:
        self.network = network
        self.address = address
        self.peer_address = peer_address
        self.peer: End
        self.inbox = bytearray()
        self.under_way = 0
        """Bytes that this end has sent and the other has not received."""
        self.arrives_ns = 0
        self.ended = False
        """The other end has sent its last byte, and it has arrived."""
        self.shut = False
        """This end sends nothing more."""
        self.is_reset = False
        self.silent = False
        self.descriptors = 1

    @property
    def room(self) -> int:
        return self.network.delays.window - self.under_way - len(self.peer.inbox)

    @property
    def readable(self) -> bool:
        return bool(self.inbox) or self.ended or self.is_reset

    @property
    def writable(self) -> bool:
        return self.room > 0 or self.is_reset or self.shut

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Takes what there is room for. Raises BlockingIOError, ConnectionResetError or BrokenPipeError."""
        if self.is_reset:
            raise ConnectionResetError(errno.ECONNRESET, "reset by peer")
        if self.shut:
            raise BrokenPipeError(errno.EPIPE, "the sending side is shut")
        count = min(len(data), self.room)
        if count <= 0 and len(data):
            raise BlockingIOError(errno.EAGAIN, "would block")
        view = memoryview(data).cast("B")[:count]
        rng, delays = self.network.sim.rng, self.network.delays
        position = 0
        while position < count:
            size = min(count - position, rng.randrange(1, delays.segment + 1) if rng.random() < 0.5 else delays.segment)
            self._later(bytes(view[position : position + size]))
            position += size
        return count

    def _later(self, data: bytes | None) -> None:
        """Has data, or the end of the stream, arrive in its time."""
        sim, delays = self.network.sim, self.network.delays
        delay = sim.rng.randrange(delays.least, delays.most)
        if delays.late_chance and sim.rng.random() < delays.late_chance:
            delay += sim.rng.randrange(delays.late_most)
        self.arrives_ns = max(self.arrives_ns, sim.now_ns + delay)
        self.under_way += len(data or b"")
        sim.at(self.arrives_ns - sim.now_ns, lambda: self._arrive(data))

    def _arrive(self, data: bytes | None) -> None:
        peer = self.peer
        self.under_way -= len(data or b"")
        if peer.is_reset or self.silent:
            return
        if not peer.descriptors:  # closed: what comes then is answered with a reset
            self.reset()
            return
        if data is None:
            peer.ended = True
        else:
            peer.inbox += data
        self.network.changed(peer)

    def receive(self, count: int) -> bytes:
        """What has come, b"" at the end. Raises BlockingIOError or ConnectionResetError."""
        if self.inbox:
            data = bytes(self.inbox[:count])
            del self.inbox[:count]
            self.network.changed(self.peer)  # which may send more
            return data
        if self.is_reset:
            raise ConnectionResetError(errno.ECONNRESET, "reset by peer")
        if self.ended or count == 0:
            return b""
        raise BlockingIOError(errno.EAGAIN, "would block")

    def shutdown(self) -> None:
        if not self.shut and not self.is_reset:
            self.shut = True
            self._later(None)

    def close(self) -> None:
        """The last descriptor is gone. What was not read is lost, and the other end is told so by a reset."""
        if self.inbox and not self.is_reset:
            self.reset()
        self.shutdown()
        self.network.streams.pop(self, None)

    def reset(self) -> None:
        """Both ends find the stream broken, at once; what was under way is lost."""
        for end in (self, self.peer):
            if not end.silent:
                end.is_reset = True
                end.inbox.clear()
        self.network.changed(self)
        self.network.changed(self.peer)

    def silence(self) -> None:
        """Nothing arrives any more in either direction, and nobody is told."""
        self.silent = self.peer.silent = True


class Waits(Protocol):
    """What is told of each change of a stream: a selector."""

    def changed(self, what: object) -> None: ...


class Network:
    """All streams and listeners of one simulation."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.delays = Delays()
        self.waiting: list[Waits] = []
        self.listeners: dict[tuple[str, int], SimSocket] = {}
        self.descriptors: dict[int, object] = {}
        self.streams: dict[End, None] = {}
        """Ends that are open."""
        self._next_fd = FIRST_FD
        self._next_port = EPHEMERAL_PORT

    @staticmethod
    def of(sim: Simulation) -> Network:
        found = getattr(sim, "network", None)
        if found is None:
            found = sim.network = Network(sim)  # type: ignore[attr-defined]
        return found  # type: ignore[no-any-return]

    def changed(self, what: object) -> None:
        """An end, or a listener, may have become ready."""
        for selector in self.waiting:
            selector.changed(what)

    def descriptor(self, owner: object) -> int:
        self._next_fd += 1
        self.descriptors[self._next_fd] = owner
        return self._next_fd

    def port(self) -> int:
        self._next_port += 1
        return self._next_port

    def connect(self, address: tuple[str, int], host: str = "127.0.0.1") -> SimSocket:
        """A stream to a listener, as a non-blocking socket. ConnectionRefusedError where nobody listens."""
        listener = self.listeners.get(address)
        if listener is None or len(listener.backlog) >= listener.most_waiting:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens at {address}")
        mine = (host, self.port())
        here, there = End(self, mine, address), End(self, address, mine)
        here.peer, there.peer = there, here
        self.streams[here] = self.streams[there] = None
        listener.backlog.append(there)
        self.changed(listener)
        return SimSocket.around(here)

    def kill(self, sockets: Callable[[SimSocket], bool]) -> None:
        """What the kernel does for a process that is gone: its listeners are gone, its streams are reset."""
        for owner in list(self.descriptors.values()):
            if isinstance(owner, SimSocket) and sockets(owner):
                if owner.end is not None:
                    owner.end.reset()
                owner.close()


class SimSocket:
    """`socket.socket`, of TCP, never blocking."""

    def __init__(self, family: int = _INET, type: int = _STREAM, proto: int = 0, fileno: int | None = None) -> None:  # noqa: A002
        self.family, self.type, self.proto = family, _STREAM, proto
        self.end: End | None = None
        self.backlog: deque[End] = deque()
        self.most_waiting = 0
        self.address = ("", 0)
        self._network = Network.of(simulation())
        self.group = simulation().current.group
        if fileno is None:
            self._fd = self._network.descriptor(self)
        else:  # takes over a descriptor that `dup` has made
            duplicate = self._network.descriptors[fileno]
            assert isinstance(duplicate, End)
            self.end, self._fd = duplicate, fileno
            self._network.descriptors[fileno] = self

    @classmethod
    def around(cls, end: End) -> SimSocket:
        sock = cls()
        sock.end = end
        return sock

    def __repr__(self) -> str:
        return f"<SimSocket fd={self._fd}>"

    def _point(self, where: str) -> End:
        simulation().switch(where)
        if self.end is None or self._fd < 0:
            raise OSError(errno.EBADF, "not connected")
        return self.end

    def fileno(self) -> int:
        return self._fd

    def bind(self, address: tuple[str, int]) -> None:
        host, port = address[:2]
        wanted = (host, port or self._network.port())
        if wanted in self._network.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self.address = wanted

    def listen(self, backlog: int = 128) -> None:
        self.most_waiting = backlog
        self._network.listeners[self.address] = self

    def accept(self) -> tuple[SimSocket, tuple[str, int]]:
        simulation().switch("accept")
        if not self.backlog:
            raise BlockingIOError(errno.EAGAIN, "would block")
        end = self.backlog.popleft()
        return SimSocket.around(end), end.peer_address

    def recv(self, count: int, flags: int = 0) -> bytes:
        return self._point("recv").receive(count)

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        view = memoryview(buffer).cast("B")
        data = self._point("recv").receive(nbytes or len(view))
        view[: len(data)] = data
        return len(data)

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0) -> int:
        return self._point("send").send(data)

    def shutdown(self, how: int) -> None:
        if self.end is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        if how != socket.SHUT_RD:
            self.end.shutdown()

    def close(self) -> None:
        if self._fd < 0:
            return
        del self._network.descriptors[self._fd]
        self._fd = -1
        if self._network.listeners.get(self.address) is self:
            del self._network.listeners[self.address]
            for end in self.backlog:
                end.reset()
        if self.end is not None:
            self.end.descriptors -= 1
            if not self.end.descriptors:
                self.end.close()

    def detach(self) -> int:
        raise NotImplementedError("nobody detaches sockets here")

    def setblocking(self, flag: bool) -> None:
        assert not flag, "sockets of a simulation never block"

    def gettimeout(self) -> float | None:
        return 0.0

    def setsockopt(self, *_: object) -> None:
        """Options change nothing here."""

    def getsockopt(self, *_: object) -> int:
        return 0

    def getsockname(self) -> tuple[str, int]:
        return self.address if self.end is None else self.end.address

    def getpeername(self) -> tuple[str, int]:
        if self.end is None or self.end.is_reset:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self.end.peer_address

    # --- what selectors ask ---

    @property
    def readable(self) -> bool:
        return bool(self.backlog) if self.end is None else self.end.readable

    @property
    def writable(self) -> bool:
        return self.end is not None and self.end.writable


def dup(fd: int) -> int:
    """`os.dup`: a descriptor of the same end."""
    if fd < FIRST_FD:
        return _REAL_DUP(fd)
    network = Network.of(simulation())
    owner = network.descriptors.get(fd)
    if not isinstance(owner, SimSocket) or owner.end is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    owner.end.descriptors += 1
    return network.descriptor(owner.end)


def sendfile(out_fd: int, in_fd: int, offset: int, count: int) -> int:
    """`os.sendfile`, from a file of the simulated disk to a socket: as much as there is room for."""
    if out_fd < FIRST_FD:
        return _REAL_SENDFILE(out_fd, in_fd, offset, count)
    network = Network.of(simulation())
    sock, file = network.descriptors.get(out_fd), network.descriptors.get(in_fd)
    if not isinstance(sock, SimSocket) or sock.end is None or file is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    simulation().switch("sendfile")
    if sock.fileno() < 0:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    end = sock.end
    simulation().counts["sendfile"] += 1
    data = file.pread(min(count, max(end.room, 1)), offset)  # type: ignore[attr-defined]
    return end.send(data) if data else 0


class Stat(NamedTuple):
    """What of `os.fstat` the daemon asks about files on the simulated disk: all are on one device."""

    st_dev: int = 1


def fstat(fd: int) -> os.stat_result | Stat:
    """`os.fstat`."""
    return _REAL_FSTAT(fd) if fd < FIRST_FD else Stat()


class SimPoll:
    """`select.poll`, asked without waiting."""

    def __init__(self) -> None:
        self._fds: dict[int, int] = {}

    def register(self, fd: int, events: int) -> None:
        self._fds[fd] = events

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        assert timeout == 0, "only looks"
        found = []
        for fd in self._fds:
            owner = Network.of(simulation()).descriptors.get(fd)
            if not isinstance(owner, SimSocket):
                found.append((fd, select.POLLNVAL))
            elif owner.end is not None and owner.end.is_reset:
                found.append((fd, select.POLLERR | select.POLLHUP))
        return found
