"""The process: it is given plans, one after the other, over its standard input, which is a socket, and walks.

It writes `.cleaned` files in one directory, that of which it was given a descriptor, and it answers; it opens nothing else and
decides nothing. The descriptor is its working directory while it walks, and files are opened by their names alone: a directory
that is renamed (its topic is deleted) and another one that is made under the old name are never mistaken for each other.

It ends with its thread in the daemon: Linux kills it (PR_SET_PDEATHSIG), elsewhere the end of the socket is noticed within
`TICK_S`. Signals that a terminal or a service manager sends to all processes are left to the daemon, which ends this one.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
import traceback
from typing import TYPE_CHECKING, NoReturn

from ...storage.io import platform
from ...storage.io.filesystem import RealFile, RealFileSystem
from ...storage.segment.names import LOG_SUFFIX, file_name
from ..kernel.offset_map import make_map
from ..walk import Walker, WalkPlan
from .messages import (
    HEAD,
    MAX_FRAME_BYTES,
    Began,
    Done,
    Failed,
    Go,
    Limit,
    Message,
    Orders,
    Progress,
    ProtocolError,
    Ready,
    decode,
    encode,
)

if TYPE_CHECKING:
    from ...storage.io.filesystem import FileStat, StrPath
    from ..walk import BuildReport, FilterOrder, GroupReport

TICK_S = 0.1
"""Seconds between two messages of progress at least. The thread's look at an abort is as often."""


def main(arguments: list[str]) -> int:
    """`arguments`: the daemon's process id, niceness, bytes and load factor of the map, bytes of a buffer and of a segment."""
    parent, niceness, map_bytes, load_factor, buffer_bytes, max_segment_bytes = arguments
    if not _settle(int(parent), int(niceness)):
        return 0
    line = _Line(socket.socket(fileno=os.dup(0)))
    walker: Walker | None = None
    line.send(Ready())
    while True:
        plan, directory = line.receive_plan()
        try:
            os.fchdir(directory)
            line.send(Began())
            walker = walker or Walker(
                make_map(int(map_bytes), float(load_factor)),
                buffer_bytes=int(buffer_bytes),
                max_segment_bytes=int(max_segment_bytes),
            )
            host = _Host(line)
            walker.walk(plan, _Files(plan), host, host)
            host.tell()
            answer: Message = Done()
        except ProtocolError:
            raise
        except Exception as error:
            answer = Failed.of(error, plan.path)
            if answer.kind != "OSError" and answer.kind != type(error).__name__:
                traceback.print_exc()  # a defect: the daemon logs what is printed here
        finally:
            os.chdir("/")
            os.close(directory)
        line.send(answer)


def _settle(parent: int, niceness: int) -> bool:
    """Lower the priority, and have the process end with its parent; False: that is gone already."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    platform.give_way(niceness)
    platform.end_with_parent()
    return os.getppid() == parent


class _Line:
    """This end of the pair of sockets. Where the daemon is gone the process ends at once: nobody needs its work."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def send(self, message: Message) -> None:
        try:
            self._sock.sendall(encode(message))
        except (BrokenPipeError, ConnectionResetError):
            _end()

    def receive(self) -> Message:
        """The next message; waits for it. ProtocolError."""
        (length,) = HEAD.unpack(self._exactly(HEAD.size))
        if length > MAX_FRAME_BYTES:
            raise ProtocolError(f"a message of {length} bytes")
        return decode(self._exactly(length))

    def receive_plan(self) -> tuple[WalkPlan, int]:
        """The next plan, and a descriptor of its directory. ProtocolError."""
        plan = self.receive()
        while isinstance(plan, Limit):  # of the walk before
            plan = self.receive()
        if not isinstance(plan, WalkPlan):
            raise ProtocolError(f"{type(plan).__name__} where a plan was meant")
        _, descriptors, _, _ = socket.recv_fds(self._sock, 1, 1)
        if not descriptors:
            _end()
        return plan, descriptors[0]

    def is_readable(self) -> bool:
        """True if a message has come, or the end."""
        return bool(self._poll.poll(0))

    def _exactly(self, count: int) -> bytearray:
        data = bytearray(count)
        view, got = memoryview(data), 0
        while got < count:
            try:
                received = self._sock.recv_into(view[got:])
            except ConnectionResetError:
                received = 0
            if not received:
                _end()
            got += received
        return data


def _end() -> NoReturn:
    """End, wherever the walk is: the next pass, or the next start, removes what it leaves."""
    os._exit(0)


class _Host:
    """`WalkHost` and `WalkProgress` of the walk: what it is asked goes over the line."""

    def __init__(self, line: _Line) -> None:
        self.map_bytes = 0
        self.map_records = 0
        self.filtered_bytes = 0
        self._line = line
        self._allowance = 0  # until the daemon has said more, all is paid for at once
        self._moved = 0
        self._unpaid = 0
        self._next_tick = time.monotonic() + TICK_S

    def check(self) -> None:
        """Tell how far the walk is, now and then, and take notice of another limit."""
        if time.monotonic() < self._next_tick:
            return
        self.tell()
        while self._line.is_readable():
            message = self._line.receive()
            if not isinstance(message, Limit):
                raise ProtocolError(f"{type(message).__name__} that was not asked for")
            self._allowance = message.allowance

    def pay(self, count: int) -> None:
        self._moved += count
        self._unpaid += count
        if 0 <= self._allowance <= self._unpaid:
            self.tell(waits=True)
            self._go()
        else:
            self.check()

    def built(self, report: BuildReport) -> FilterOrder | None:
        self.tell()
        self._line.send(report)
        answer = self._answer()
        if not isinstance(answer, Orders):
            raise ProtocolError(f"{type(answer).__name__} where orders were meant")
        return answer.order

    def finished(self, report: GroupReport) -> None:
        self.tell()
        self._line.send(report)
        self._go()

    def tell(self, *, waits: bool = False) -> None:
        """Send a Progress."""
        counts = (self.map_bytes, self.map_records, self.filtered_bytes, self._moved)
        self._line.send(Progress(*counts, self._allowance, time.process_time(), waits))
        if waits or self._allowance < 0:
            self._unpaid = 0
        self._next_tick = time.monotonic() + TICK_S

    def _go(self) -> None:
        answer = self._answer()
        if not isinstance(answer, Go):
            raise ProtocolError(f"{type(answer).__name__} where Go was meant")
        self._allowance = answer.allowance

    def _answer(self) -> Message:
        while isinstance(message := self._line.receive(), Limit):
            self._allowance = message.allowance
        return message


class _Files:
    """`WalkFiles` in the working directory."""

    def __init__(self, plan: WalkPlan) -> None:
        self._plan = plan
        self.path = plan.path
        self.file_system = _Here()

    def file(self, base_offset: int, suffix: str, stage: str = "") -> str:
        return f"{self.path}/{file_name(base_offset, suffix, stage)}"

    def open_segment(self, number: int) -> RealFile:
        return self.file_system.open(self.file(self._plan.segments[number].base_offset, LOG_SUFFIX), writable=False)


class _Here(RealFileSystem):
    """Files of the working directory, whatever directory a path names; `File.path` is the whole path, for messages."""

    __slots__ = ()

    def open(self, path: StrPath, *, create: bool = False, exclusive: bool = False, writable: bool = True) -> RealFile:
        file = super().open(os.path.basename(path), create=create, exclusive=exclusive, writable=writable)
        file.path = os.fspath(path)
        return file

    def read_bytes(self, path: StrPath, limit: int = 64 << 20) -> bytes:
        return super().read_bytes(os.path.basename(path), limit)

    def unlink(self, path: StrPath, *, missing_ok: bool = False) -> None:
        super().unlink(os.path.basename(path), missing_ok=missing_ok)

    def exists(self, path: StrPath) -> bool:
        return super().exists(os.path.basename(path))

    def stat(self, path: StrPath) -> FileStat:
        return super().stat(os.path.basename(path))

    def set_modified_ms(self, path: StrPath, modified_ms: int) -> None:
        super().set_modified_ms(os.path.basename(path), modified_ms)
