"""A log on this machine's files whose passes read and write in a process: what tests of `cleaner/process/` stand on."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.cleaning import CleaningWorld, Producer, keyed, put
from tidelog.cleaner.process.walker import PROGRAM, SILENCE_S, ProcessWalker, WalkerSettings
from tidelog.cleaner.process_counts import ProcessCounts
from tidelog.storage.io.filesystem import RealFileSystem

FAILING = Path(__file__).with_name("failing_process.py")
REST_S = 3600.0


def failing(what: str, step: int = 0) -> tuple[str, ...]:
    """A process that something happens to: see `failing_process.py`."""
    return (sys.executable, "-P", str(FAILING), f"{what}:{step}")


class ProcessWorld(CleaningWorld):
    """`CleaningWorld` in a directory of this machine. `close` ends its process; it is to be called."""

    def __init__(
        self,
        directory: Path,
        *,
        program: Sequence[str] = PROGRAM,
        silence_s: float = SILENCE_S,
        rest_s: float = REST_S,
        **settings: Any,
    ) -> None:
        self.data = directory
        self.counts = ProcessCounts()
        self.program = program
        self.silence_s = silence_s
        self.rest_s = rest_s
        self.walker: ProcessWalker | None = None
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(file_system=RealFileSystem(), directories=(str(directory),), **settings)

    def make_walker(self) -> ProcessWalker:
        """Another one after a restart of the log; the process stays."""
        if self.walker is None:
            settings = WalkerSettings(24 * self.map_entries, 1.0, self.buffer_bytes, self.max_segment_bytes)
            self.walker = ProcessWalker(
                settings, self.counts, silence_s=self.silence_s, rest_s=self.rest_s, program=self.program
            )
        return self.walker

    def take_program(self, program: Sequence[str]) -> None:
        """Have later passes run this one."""
        self.program = program
        self.close_walker()
        self.make_cleaner()

    @property
    def pid(self) -> int:
        """Of the process, which is there."""
        (pid,) = self.counts.pids
        return pid

    def names(self) -> list[str]:
        """Files of the log."""
        return sorted(os.listdir(self.log().directory))

    def left_over(self) -> list[str]:
        """Files of a pass or a swap that did not come to its end."""
        return [name for name in self.names() if name.endswith((".cleaned", ".swap"))]

    def failure(self) -> str:
        """Why the last pass failed; empty: it did not."""
        return "".join(failure.cause for _, failure in self.cleaners.uncleanable())

    def close_walker(self) -> None:
        walker, self.walker = self.walker, None
        if walker is not None:
            walker.close()

    def close(self) -> None:
        self.close_walker()
        if self.running:
            self.stop()


def fill(world: CleaningWorld) -> dict[bytes, bytes]:
    """A log of several groups, with transactions; returns what a table that follows it holds in the end."""
    log = world.log()
    table: dict[bytes, bytes] = {}
    producer = Producer(7)
    for number in range(12):
        key, value = b"k%d" % (number % 5), b"v%d" % number
        keyed(log, (key, value + b"x" * 60))
        table[key] = value + b"x" * 60
        if number % 4 == 1:
            producer.send(log, (b"k0", b"never"), (b"t%d" % number, b"never"))
            producer.end(log, commit=False)
    put(log, "k3", None)
    del table[b"k3"]
    log.roll()
    put(log, "~active", "x")
    return table | {b"~active": b"x"}


def children(pid: int) -> list[int]:
    """Processes that this one has started, and that have not been waited for."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # ended since it was listed
            if int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def is_alive(pid: int) -> bool:
    """True if the process is there and has not ended."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
