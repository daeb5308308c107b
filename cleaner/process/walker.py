"""ProcessWalker: has walks made by a process of its own, which it starts with the first one and ends when it has rested.

    not there ──walk──► started ──Ready──► walking ──Done, Failed──► resting ──a minute──► not there
                           └───────────────────┴──── any trouble: killed, `.cleaned` files removed ──► not there

The thread waits for messages, looks each `TICK_S` whether the pass is to end, and does what they ask for. Every way out but the
walk's own end is the same: the process is killed (SIGKILL; it holds nothing that would have to be put in order), and what
it has written is removed. So an abort takes a tick, and no answer from the process. Troubles are PassProcessErrors: the process
can't be started, has ended, has said nothing for `SILENCE_S`, or says what it can't mean.

A process that is killed while it waits for a hung disk ends when the disk answers. Until then no other pass is made in that
directory.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ...storage.segment.names import CLEANED_STAGE, LOG_SUFFIX
from ..cleaning import remove_cleaned
from ..exceptions import PassProcessError
from ..process_counts import Trouble
from ..walk import BuildReport, GroupReport
from .messages import (
    HEAD,
    MAX_ANSWER_BYTES,
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
    from collections.abc import Callable, Sequence

    from ..cleaning import PassHost
    from ..process_counts import ProcessCounts
    from ..walk import WalkFiles, WalkPlan, WalkProgress

logger = logging.getLogger(__name__)

PROGRAM = (sys.executable or "", "-P", *(("-s",) if sys.flags.no_user_site else ()), "-m", __package__)
"""Its path is that of `_environment`, which has the working directory only if this process has it."""
TICK_S = 0.1
"""Seconds between two looks at whether the pass is to end."""
SILENCE_S = 300.0
"""Seconds without a message after which a process is given up. It says something between any two reads or writes of a buffer;
the longest of its calls is the sync of a whole segment, of which the disk was told to write each 8 MiB as they came: 1 GiB
in five minutes are 3.5 MB/s. A disk that hangs does not let its process be killed either.
"""
REST_S = 60.0
"""Seconds without a walk after which a process ends."""
_END_S = 1.0
"""Seconds to wait for the end of a killed process."""
_MAX_LINES = 200
_LINE_BYTES = 2000
_RECEIVE_BYTES = 1 << 16


class WalkerSettings(NamedTuple):
    """What a process is started with. Sizes in bytes; `niceness` is the least it runs at."""

    map_bytes: int
    load_factor: float
    buffer_bytes: int
    max_segment_bytes: int = 2**31 - 1
    niceness: int = 19


class ProcessWalker:
    """`PassWalker` for one thread at a time; the process ends with the thread that has started it.

    Attributes:
        child: the process, None where there is none.
    """

    def __init__(
        self,
        settings: WalkerSettings,
        counts: ProcessCounts,
        *,
        silence_s: float = SILENCE_S,
        rest_s: float = REST_S,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        """`program`: the command, to which the settings are added."""
        self._settings = settings
        self._counts = counts
        self._silence_s = silence_s
        self._rest_s = rest_s
        self._program = program
        self.child: Child | None = None
        self._rests_since_s = 0.0

    def walk(self, plan: WalkPlan, files: WalkFiles, host: PassHost, progress: WalkProgress) -> None:
        """As `Walker.walk`. PassProcessError: see the module."""
        _LINGERING.check(files.path)
        child = self.child
        if child is not None and child.has_ended:  # while it rested
            self.close()
            child = None
        try:
            is_new = child is None
            if child is None:
                child = self.child = Child.start(self._program, self._settings, self._counts)
            talk = _Conversation(child, host, self._silence_s)
            if is_new:
                talk.expect(Ready)
            failure = _Walk(plan, files, talk, progress).run()
        except ProtocolError as error:
            self._counts.met(Trouble.NONSENSE)
            self._abandon(files)
            raise PassProcessError(f"{plan.name}: the process of the pass says what it can't mean: {error}") from error
        except BaseException:
            self._abandon(files)
            raise
        self._rests_since_s = time.monotonic()
        if failure is not None:
            with contextlib.suppress(OSError):
                remove_cleaned(files.file_system, files.path)
            raise failure

    def rest(self) -> None:
        """End a process that has had nothing to do for `REST_S`, and forget those that have ended by themselves or by a kill."""
        _LINGERING.forget_ended()
        child = self.child
        if child is not None and (child.has_ended or time.monotonic() - self._rests_since_s >= self._rest_s):
            self.close()

    def close(self) -> None:
        """End the process."""
        child, self.child = self.child, None
        if child is not None:
            child.end()

    def _abandon(self, files: WalkFiles) -> None:
        """Kill the process, and remove what it has written."""
        child, self.child = self.child, None
        if child is not None and not child.end():
            _LINGERING.add(child, files.path)
        with contextlib.suppress(OSError):  # the next pass does it, or fails
            remove_cleaned(files.file_system, files.path)


class _Lingering:
    """Killed processes that have not ended yet, with the directories that they may still make a file in. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: list[tuple[Child, str]] = []

    def add(self, child: Child, directory: str) -> None:
        with self._lock:
            self._left.append((child, directory))

    def forget_ended(self) -> None:
        """Collect the exit codes of those that have ended: until then the system keeps a zombie of each."""
        if self._left:
            with self._lock:
                self._left = [(child, path) for child, path in self._left if not child.has_ended]

    def check(self, directory: str) -> None:
        """PassProcessError: one of this directory is left."""
        self.forget_ended()
        with self._lock:
            pids = [child.pid for child, path in self._left if path == directory]
        if pids:
            raise PassProcessError(
                f"{directory}: process {pids[0]} of an earlier pass was killed and has not ended: its disk does not answer"
            )


_LINGERING = _Lingering()


class Child:
    """A process, and this end of the sockets. One thread, `pid` and `has_ended` any.

    Attributes:
        pid: its process id.
        cpu_s: processor time that it has told of.
        errors_fd, errors_are_open: its standard error, and whether it has that still.
    """

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket, counts: ProcessCounts) -> None:
        self.process = process
        self.sock = sock
        self.pid = process.pid
        self.cpu_s = 0.0
        self._counts = counts
        self._read = bytearray()
        self._lines: deque[str] = deque(maxlen=5)
        self._line_count = 0
        self._torn = b""
        assert process.stderr is not None
        self.errors_fd = process.stderr.fileno()
        self.errors_are_open = True
        os.set_blocking(self.errors_fd, False)
        sock.setblocking(False)

    @classmethod
    def start(cls, program: Sequence[str], settings: WalkerSettings, counts: ProcessCounts) -> Child:
        """Start a process; it says Ready when it is. PassProcessError."""
        ours, theirs = socket.socketpair()
        values = (
            os.getpid(), settings.niceness, settings.map_bytes, settings.load_factor, settings.buffer_bytes,
            settings.max_segment_bytes,
        )  # fmt: skip
        try:
            # A fresh interpreter: a fork would have the daemon's locks and memory. Descriptors are closed although none that
            # Python has opened is inherited: who has started the daemon may have left it some, and wait for their end.
            process = subprocess.Popen(  # noqa: S603 - this interpreter and numbers
                [*program, *map(str, values)],
                stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0, env=_environment(),
            )  # fmt: skip
        except (OSError, ValueError) as error:
            ours.close()
            counts.met(Trouble.START)
            raise PassProcessError(
                f"no process could be started for a pass: {error}; where there can't be one, set log.cleaner.process.enable=false"
            ) from error
        finally:
            theirs.close()
        counts.began(process.pid)
        return cls(process, ours, counts)

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def end(self) -> bool:
        """Kill it, whatever it does; False: it has not ended within a second. More than once is harmless."""
        self.sock.close()
        with contextlib.suppress(OSError):
            self.process.kill()
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            logger.warning("process %d of a pass was killed and does not end: its disk does not answer", self.pid)
        self.take_lines()
        if self.process.stderr is not None:
            self.process.stderr.close()
        self._counts.ended(self.pid)
        return self.process.returncode is not None

    def told_cpu(self, cpu_s: float) -> None:
        """Book the processor time that it has used since its start."""
        self._counts.used(max(0.0, cpu_s - self.cpu_s))
        self.cpu_s = max(self.cpu_s, cpu_s)

    def receive(self) -> Message | None:
        """A message that is there; None: not all of it. EOFError at the end; ProtocolError."""
        while True:
            if len(self._read) >= HEAD.size:
                (length,) = HEAD.unpack_from(self._read)
                if length > MAX_ANSWER_BYTES:
                    raise ProtocolError(f"a message of {length} bytes")
                end = HEAD.size + length
                if len(self._read) >= end:
                    data = bytes(self._read[HEAD.size : end])
                    del self._read[:end]
                    return decode(data)
            try:
                received = self.sock.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return None
            except ConnectionError:
                received = b""
            if not received:
                raise EOFError
            self._read += received

    def take_lines(self) -> None:
        """Log what it has printed, up to a bound. Never blocks."""
        if self.process.stderr is None or self.process.stderr.closed:
            return
        while True:
            try:
                data = os.read(self.errors_fd, _RECEIVE_BYTES)
            except OSError:
                return
            if not data:
                return
            *lines, torn = (self._torn + data).split(b"\n")
            self._torn = torn[:_LINE_BYTES]
            for line in lines:
                self._log(line[:_LINE_BYTES].decode(errors="replace").rstrip())

    def _log(self, line: str) -> None:
        if not line:
            return
        self._lines.append(line)
        self._line_count += 1
        if self._line_count <= _MAX_LINES:
            logger.warning("process %d of a pass: %s", self.pid, line)

    def how_it_ended(self) -> str:
        """How the process has ended, in words. Waits for the end, up to a second."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_S)
        self.take_lines()
        code = self.process.returncode
        if code is None:
            return "has closed its socket"
        last = f": {self._lines[-1]}" if self._lines else ""
        if code >= 0:
            return f"has ended with code {code}{last}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        hint = "; the kernel does so where memory is short" if -code == signal.SIGKILL else ""
        return f"was killed by {name}{hint}{last}"


def _environment() -> dict[str, str]:
    """The environment of a process: it finds modules where this one does, whatever has made that path, and takes no more from the
    environment than this one has (`python -E`, `python -I`).
    """
    is_ignored = sys.flags.ignore_environment
    kept = {name: value for name, value in os.environ.items() if not (is_ignored and name.startswith("PYTHON"))}
    paths = [os.path.abspath(entry) for entry in sys.path if os.pathsep not in entry]
    return kept | {"PYTHONPATH": os.pathsep.join(paths)}


class _Conversation:
    """Messages to and from a child, with a look each `TICK_S` at whether the pass is to end."""

    def __init__(self, child: Child, host: PassHost, silence_s: float) -> None:
        self.child = child
        self.host = host
        self._silence_s = silence_s
        self._poll = select.poll()

    def receive(self) -> Message:
        """The next message. PassProcessError, ProtocolError, and what the host's `check` raises."""
        deadline = time.monotonic() + self._silence_s
        while True:
            try:
                if (message := self.child.receive()) is not None:
                    return message
            except EOFError:
                raise self._died() from None
            self._wait(select.POLLIN, deadline)

    def expect(self, kind: type[Message]) -> None:
        """Receive a message of this kind. As `receive`."""
        message = self.receive()
        if not isinstance(message, kind):
            raise ProtocolError(f"{type(message).__name__} where {kind.__name__} was meant")

    def send(self, message: Message) -> None:
        """PassProcessError, and what the host's `check` raises."""
        self._push(lambda left: self.child.sock.send(left), encode(message))

    def send_descriptor(self, descriptor: int) -> None:
        """As `send`."""
        self._push(lambda left: socket.send_fds(self.child.sock, [left], [descriptor]), b"\0")

    def _push(self, send: Callable[[memoryview], int], data: bytes) -> None:
        left = memoryview(data)
        deadline = time.monotonic() + self._silence_s
        while left:
            try:
                left = left[send(left) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline)
            except ConnectionError:
                raise self._died() from None

    def _wait(self, event: int, deadline: float) -> None:
        """Wait for the socket, for a tick at most."""
        child = self.child
        self._poll.register(child.sock, event)
        if child.errors_are_open:
            self._poll.register(child.errors_fd, select.POLLIN)
        ready = dict(self._poll.poll(TICK_S * 1000))
        if child.errors_fd in ready:
            child.take_lines()
            if ready[child.errors_fd] & select.POLLHUP:
                child.errors_are_open = False
                self._poll.unregister(child.errors_fd)
        self.host.check()
        if child.sock.fileno() not in ready and time.monotonic() >= deadline:
            child._counts.met(Trouble.SILENCE)
            raise PassProcessError(
                f"the process of the pass has said nothing for {self._silence_s:g} s, and was killed"
            )

    def look(self) -> None:
        """PassProcessError: the process has ended."""
        if self.child.has_ended:
            raise self._died()

    def _died(self) -> PassProcessError:
        self.host.check()  # an abort is none of its faults
        self.child._counts.met(Trouble.END)
        return PassProcessError(f"the process of the pass {self.child.how_it_ended()}")


class _Walk:
    """One walk, as the thread sees it."""

    def __init__(self, plan: WalkPlan, files: WalkFiles, talk: _Conversation, progress: WalkProgress) -> None:
        self._plan = plan
        self._files = files
        self._talk = talk
        self._host = talk.host
        self._progress = progress
        self._allowance: int | None = None
        self._moved = 0
        self._paid = 0
        self._next_number = 0
        self._stop: int | None = None  # number of segments to filter; None until the map is built

    def run(self) -> Exception | None:
        """Have it made. Returns what ended it early in the process, which is then ready for another walk; None: nothing did."""
        talk, host = self._talk, self._host
        descriptor = self._open_directory()
        try:
            talk.send(self._plan)
            talk.send_descriptor(descriptor)
        finally:
            os.close(descriptor)
        talk.expect(Began)
        while True:
            message = talk.receive()
            host.check()
            if isinstance(message, Progress):
                self._note(message)
            elif isinstance(message, BuildReport):
                self._check_build(message)
                order = host.built(message)
                self._stop = 0 if order is None else order.stop
                talk.send(Orders(order))
            elif isinstance(message, GroupReport):
                self._check_group(message)
                host.finished(message)
                self._go()
            elif isinstance(message, Done):
                if self._next_number != self._stop:
                    raise ProtocolError(f"it is done with {self._next_number} of {self._stop} segments")
                host.pay(self._moved - self._paid, talk.look)
                return None
            elif isinstance(message, Failed):
                return message.error()
            else:
                raise ProtocolError(f"{type(message).__name__} in a walk")
            if self._allowance is not None and self._allowance != (allowance := host.allowance):
                self._allowance = allowance
                talk.send(Limit(allowance))

    def _open_directory(self) -> int:
        """A descriptor of the log's directory, and not of another one that has got its name: a log that is deleted has failed
        before its directory is renamed, and the host knows that.
        """
        try:
            descriptor = os.open(self._files.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            self._host.check()
            raise
        try:
            self._host.check()
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _note(self, told: Progress) -> None:
        progress, count = self._progress, told.moved - self._paid
        if told.moved < self._moved or min(told[:4]) < 0:
            raise ProtocolError(f"it was further before: {told}")
        self._moved = told.moved
        progress.map_bytes, progress.map_records, progress.filtered_bytes = told[:3]
        self._talk.child.told_cpu(told.cpu_s)
        if told.waits:
            self._paid = told.moved
            self._host.pay(count, self._talk.look)
            self._go()
        elif told.allowance < 0:
            self._paid = told.moved
            self._host.note(count)

    def _go(self) -> None:
        self._allowance = self._host.allowance
        self._talk.send(Go(self._allowance))

    # --- what would damage a log, if it was believed ---

    def _check_build(self, report: BuildReport) -> None:
        plan = self._plan
        if self._stop is not None:
            raise ProtocolError("the map is built twice")
        if report.full_at != -1 and not plan.first_dirty <= report.full_at <= plan.first_uncleanable:
            raise ProtocolError(f"the map is full at {report.full_at}")

    def _check_group(self, report: GroupReport) -> None:
        """Groups come in order and without gaps; the files are there, as long as they are said to be."""
        plan, files, first, counts = self._plan, self._files, report.first, report.counts
        if first != self._next_number or not first < report.stop <= (self._stop or 0):
            raise ProtocolError(f"group of segments {first} to {report.stop} after those below {self._next_number}")
        self._next_number = report.stop
        if min(counts.records_read, counts.records_kept, counts.removed) < 0 or (
            counts.records_read != counts.records_kept + counts.removed
        ):
            raise ProtocolError(f"{counts.records_read} records are {counts.records_kept} and {counts.removed} removed")
        if report.new is None:
            if report.stop != first + 1 or counts.removed:
                raise ProtocolError(
                    f"{report.stop - first} segments with {counts.removed} to remove are left as they are"
                )
            return
        bases = [cleaned.base_offset for cleaned in report.new]
        start, end = plan.segments[first].base_offset, plan.segments[report.stop - 1].end_offset
        if not bases or bases[0] != start or bases[-1] >= end or bases != sorted(set(bases)):
            raise ProtocolError(f"segments {bases[:10]} for offsets {start} to {end}")
        for cleaned in report.new:
            size = files.file_system.stat(files.file(cleaned.base_offset, LOG_SUFFIX, CLEANED_STAGE)).size
            if size != cleaned.size:
                raise ProtocolError(f"segment {cleaned.base_offset} has {size} bytes and not {cleaned.size}")
