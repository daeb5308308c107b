"""A broker as a process: start it and time its first answer, stop it, kill it, read its CPU time and memory.

`Tidelog` runs the daemon of this checkout's virtual environment; `KafkaPeer` (kafka_peer.py) runs Apache Kafka.
Both are given the same Kafka settings, so a benchmark says a setting once.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import wire


class BrokerError(Exception):
    """The broker did not start, or did not stop; the message ends with the last lines of its log."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((wire.HOST, 0))
        return int(probe.getsockname()[1])


class Broker:
    """One broker with its own directory, port and settings; can be started again after `stop` or `kill`."""

    name: ClassVar[str]
    start_limit_s: ClassVar[float] = 120.0

    def __init__(self, directory: Path, settings: Mapping[str, object] | None = None) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.settings = dict(settings or {})
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    # What differs between brokers.

    def prepare(self) -> None:
        """Whatever must be done once before the first start; not part of the start time."""

    def command(self) -> list[str]:
        raise NotImplementedError

    # Life.

    def start(self) -> float:
        """Starts the process; seconds from there to its first ApiVersions answer."""
        if self._process is not None:
            raise BrokerError(f"{self.name} is running already")
        self.prepare()
        command = self.command()
        with (self.directory / "output.log").open("ab") as log:
            begin = time.monotonic()
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            return wire.wait_for_answer(self.port, limit_s=self.start_limit_s, alive=self.is_alive) - begin
        except (TimeoutError, wire.WireError) as error:
            self.kill()
            raise BrokerError(f"{self.name}: {error}\n{self.last_words()}") from None

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self, limit_s: float = 60.0) -> float:
        """SIGTERM, and wait; seconds that took. Nothing to do when it does not run."""
        return self._end(signal.SIGTERM, limit_s)

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL, 10.0)

    def _end(self, how: signal.Signals, limit_s: float) -> float:
        process, self._process = self._process, None
        if process is None:
            return 0.0
        begin = time.monotonic()
        process.send_signal(how)
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerError(
                f"{self.name} did not end within {limit_s:g} s of {how.name}\n{self.last_words()}"
            ) from None
        return time.monotonic() - begin

    def remove(self) -> None:
        """Kills it and removes everything it wrote."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def last_words(self, lines: int = 12) -> str:
        text = []
        for log in sorted(self.directory.glob("*.log")):
            text += [f"{log.name}: {line}" for line in log.read_text(errors="replace").splitlines()[-lines:]]
        return "\n".join(text)

    # Measurements of the process.

    @property
    def pid(self) -> int:
        if self._process is None:
            raise BrokerError(f"{self.name} is not running")
        return self._process.pid

    def children(self) -> list[int]:
        """Processes that it has started: of ours, those of the cleaner's passes."""
        found: list[int] = []
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with suppress(OSError):  # the thread has ended
                found += map(int, (task / "children").read_text().split())
        return found

    def cpu_seconds(self) -> float:
        """User and system time so far of all its threads and processes, those that have ended too: what /proc/PID/stat says,
        but of what runs in finer steps than its ticks.
        """
        ended = sum(map(int, Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[13:15]))
        seconds = ended / os.sysconf("SC_CLK_TCK")
        for pid in (self.pid, *self.children()):
            with suppress(OSError):  # it has ended
                seconds += time.clock_gettime(~pid << 3 | 2)  # the kernel's id of another process's CPU clock
        return seconds

    def rss_bytes(self) -> int:
        """Of it and its processes."""
        others = 0
        for pid in self.children():
            with suppress(OSError):  # it has ended
                others += _rss_bytes(pid)
        return _rss_bytes(self.pid) + others

    def partition_directory(self, topic: str, partition: int = 0) -> Path:
        return self.data / f"{topic}-{partition}"


def _rss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0  # it has ended, and was not waited for yet


class Tidelog(Broker):
    """The daemon, from the virtual environment that runs the benchmark (or the one that $TIDELOG names)."""

    name = "tidelog"

    def __init__(self, directory: Path, settings: Mapping[str, object] | None = None) -> None:
        super().__init__(directory, settings)
        self.http_port = free_port()

    def command(self) -> list[str]:
        settings = {
            "listeners": f"PLAINTEXT://{wire.HOST}:{self.port}",
            "http.listener": f"{wire.HOST}:{self.http_port}",
            "log.dirs": self.data,
            **self.settings,
        }
        assignments = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        return [executable(), "serve", *assignments]


def executable() -> str:
    """The `tidelog` command to measure."""
    named = os.environ.get("TIDELOG")
    beside = Path(sys.executable).parent / "tidelog"
    found = named or (str(beside) if beside.exists() else shutil.which("tidelog"))
    if not found:
        raise BrokerError("no `tidelog` command: run `make setup` first, or set TIDELOG to one")
    return found
