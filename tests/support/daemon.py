"""A daemon as a subprocess: started on free ports, watched through /proc, and always ended by its own pid.

Tests, the demo and the benchmarks start every server through this one class. What it runs is
`python -m tidelog.broker serve --set name=value …` of the interpreter that runs it; another server may stand in when
its command takes the same `--set` arguments and prints the same `ready …` line (that is how these tests are checked
against Apache Kafka itself).
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from support.left_behind import LEFT_BEHIND
from support.patience import PATIENCE_S
from tidelog.storage.io.filesystem import RealFileSystem

DEFAULT_COMMAND = (sys.executable, "-m", "tidelog.broker", "serve")
_READY = re.compile(r"^ready\b.*\bPLAINTEXT://(?P<kafka>\S+:\d+)")
_MESSAGE_SET = re.compile(r"\b(?:tcp|tls)://(?P<message_set>\S+:\d+)")
_HTTP = re.compile(r"\bhttps?://(?P<http>\S+:\d+)")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class DaemonError(Exception):
    """The daemon did not start, did not stop, or died by itself; the text carries the end of its stderr."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the kernel says of the process: CPU in seconds since its start, memory in bytes."""

    user_s: float
    system_s: float
    rss_bytes: int
    rss_peak_bytes: int
    descriptors: int

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s


class Daemon:
    """One server on one data directory, over any number of starts; not for use from two threads at once.

    The first start takes free ports; every later one takes the same again, so that clients find it where it was.
    `settings` are Kafka's names. Use as a context manager: leaving it stops the daemon (kills it after an exception).
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str | int] | None = None,
        *,
        command: Sequence[str] = DEFAULT_COMMAND,
        start_timeout_s: float = PATIENCE_S,
        stop_timeout_s: float = PATIENCE_S,
        damaged: str = "",
    ) -> None:
        """`damaged` says why `tidelog log verify` may find faults in what it leaves (support/left_behind.py)."""
        self.directory = directory
        self.damaged = damaged
        self.settings = {name: str(value) for name, value in (settings or {}).items()}
        self.command = tuple(command)
        self.start_timeout_s = start_timeout_s
        self.stop_timeout_s = stop_timeout_s
        self.bootstrap = "127.0.0.1:0"
        self.http = "127.0.0.1:0"
        self.message_set = ""
        """Where the message-set protocol is served, if `message.set.listeners` is among the settings."""
        self.ready_line = ""
        self.start_s = 0.0
        """Seconds from the fork to the `ready` line of the last start."""
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr_path = directory.with_name(directory.name + ".stderr")

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Starts the daemon and returns once it says that it can serve; DaemonError when it does not in time."""
        if self.running:
            raise DaemonError(f"already running: pid {self.pid}")
        self.directory.mkdir(parents=True, exist_ok=True)
        LEFT_BEHIND.daemon(self)
        settings = {
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "http.listener": self.http,
            "log.dirs": str(self.directory),
            **self.settings,
        }
        arguments = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        began = time.monotonic()
        with self._stderr_path.open("ab") as stderr:
            # A session of its own: Ctrl-C at the terminal reaches the test run, which then stops the daemon in order.
            self._process = subprocess.Popen(
                [*self.command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        try:
            self.ready_line = self._await_ready(began + self.start_timeout_s)
            self.start_s = time.monotonic() - began
            ready = _READY.match(self.ready_line)
            if ready is None:
                raise DaemonError(f"no PLAINTEXT address in the ready line: {self.ready_line!r}")
        except BaseException:
            self.kill()
            raise
        self.bootstrap = ready["kafka"]
        message_set = _MESSAGE_SET.search(self.ready_line)
        if message_set is not None:
            self.message_set = message_set["message_set"]
            self.settings["message.set.listeners"] = f"tcp://{self.message_set}"
        http = _HTTP.search(self.ready_line)
        if http is not None:
            self.http = http["http"]
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """A signal, then waits; DaemonError unless the daemon exits with 0 in time."""
        process = self._running_process()
        process.send_signal(number)
        try:
            code = process.wait(self.stop_timeout_s)
        except subprocess.TimeoutExpired:
            tail = self._stderr_tail()
            self.kill()
            raise DaemonError(f"still running {self.stop_timeout_s:g} s after {number.name}\n{tail}") from None
        self._forget(process)
        if code != 0:
            raise DaemonError(f"exit code {code} after {number.name}\n{self._stderr_tail()}")

    def kill(self) -> None:
        """SIGKILL, as a crash would; does nothing when nothing runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._forget(self._process)

    def restart(self) -> Self:
        """A clean stop and a start on the same directory and ports."""
        self.stop()
        return self.start()

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self.running:
            self.stop()
        else:
            self.kill()

    # -- what it is doing ---------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_in_use(self) -> bool:
        return self.running

    def left(self) -> tuple[RealFileSystem, tuple[str, ...]] | None:
        """Its data directories, unless the server is another."""
        if not any("tidelog" in part for part in self.command):
            return None
        named = self.settings.get("log.dirs", str(self.directory))
        return RealFileSystem(), tuple(part.strip() for part in named.split(","))

    @property
    def pid(self) -> int:
        return self._running_process().pid

    @property
    def message_set_address(self) -> tuple[str, int]:
        """Host and port of the first message-set listener."""
        host, _, port = self.message_set.rpartition(":")
        return host, int(port)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the Kafka listener."""
        host, _, port = self.bootstrap.rpartition(":")
        return host, int(port)

    def stderr(self) -> str:
        """Everything the daemon has logged, over all its starts."""
        try:
            return self._stderr_path.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def stderr_lines_since(self, position: int) -> list[str]:
        """The lines logged after `position`, which an earlier len(stderr()) gave."""
        return self.stderr()[position:].splitlines()

    def usage(self) -> Usage:
        """CPU, memory and descriptors of the running process, from /proc."""
        process = Path(f"/proc/{self.pid}")
        # The command's name stands in parentheses and may hold spaces: count fields after the last one (utime is 14th).
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        return Usage(
            user_s=int(fields[11]) / _TICKS_PER_S,
            system_s=int(fields[12]) / _TICKS_PER_S,
            rss_bytes=_kilobytes(status["VmRSS"]),
            rss_peak_bytes=_kilobytes(status["VmHWM"]),
            descriptors=len(os.listdir(process / "fd")),
        )

    def sockets(self) -> int:
        """Sockets that the process holds open: listeners, connections, and the duplicates that sends use."""
        directory = Path(f"/proc/{self.pid}/fd")
        held = 0
        for entry in directory.iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed since it was listed
                held += os.readlink(entry).startswith("socket:")
        return held

    # -- inside -------------------------------------------------------------------------------------------------------

    def _running_process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise DaemonError("not running")
        if (code := self._process.poll()) is not None:
            raise DaemonError(f"died by itself, exit code {code}\n{self._stderr_tail()}")
        return self._process

    def _await_ready(self, deadline: float) -> str:
        assert self._process is not None
        stdout = self._process.stdout
        assert stdout is not None
        seen = b""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                if not selector.select(left):
                    continue
                chunk = os.read(stdout.fileno(), 4096)
                if not chunk:
                    code = self._process.wait()
                    raise DaemonError(f"exit code {code} before it was ready\n{self._stderr_tail()}")
                seen += chunk
                for line in seen.split(b"\n")[:-1]:
                    if line.startswith(b"ready"):
                        return line.decode()
        raise DaemonError(f"no ready line within {self.start_timeout_s:g} s, stdout {seen!r}\n{self._stderr_tail()}")

    def _forget(self, process: subprocess.Popen[bytes]) -> None:
        stdout: IO[bytes] | None = process.stdout
        if stdout is not None:
            stdout.close()
        self._process = None

    def _stderr_tail(self) -> str:
        return "\n".join(self.stderr().splitlines()[-30:])


def _kilobytes(text: str) -> int:
    """`  1234 kB`, as /proc says it, in bytes."""
    return int(text.split()[0]) * 1024
