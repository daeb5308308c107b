"""`tidelog log verify`, and `log scrub`, over every data directory that a test leaves behind.

`tests/conftest.py` does it, in this process, when a test and the fixtures that end with it are torn down: over the directories of
daemons (`support/daemon.py`), of `tidelog.testing`'s brokers, and of the worlds in memory (`support/logs.py`). A fault fails the
test; notes don't count. What is damaged on purpose says so, and why: `@pytest.mark.damaged("why")` on a test or a module, or
`damaged="why"` to a Daemon, a World or, as an attribute, a broker.

Not looked at: what a power cut left before a start has recovered it, a directory that a test has removed, another server's, and
what a failed test left.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Protocol

from tidelog.storage.exceptions import StorageError
from tidelog.storage.inspect.verify import Progress, verify
from tidelog.storage.io.filesystem import FileSystem
from tidelog.storage.scrub.offline import scrub

KEPT_WORLDS = 20
"""A test may make thousands; of more than these the oldest is looked at, and forgotten, while the test runs."""


class Leaver(Protocol):
    """A daemon, broker or world that has data directories."""

    damaged: str
    """Why they are not sound; empty: they are."""

    def left(self) -> tuple[FileSystem, tuple[str, ...]] | None:
        """The directories; None while they can't be judged."""

    @property
    def is_in_use(self) -> bool:
        """True if it outlives this test, and is looked at later."""


class LeftBehind:
    """Makers of directories since the last look, and faults that were found in them. One thread: the test's."""

    def __init__(self) -> None:
        self.is_watching = False
        self.directories = 0
        self.marked = 0
        self.seconds = 0.0
        """CPU time."""
        self._kept: deque[Leaver] = deque()
        self._worlds: deque[Leaver] = deque()
        self._found: list[str] = []
        self._is_damaged = False

    def figures(self) -> tuple[int, int, float]:
        """Directories looked at and marked as damaged, seconds of CPU, so far."""
        return self.directories, self.marked, self.seconds

    def begin(self, *, is_damaged: bool) -> None:
        """Begin a test; `is_damaged`: its directories are damaged on purpose."""
        self._is_damaged = is_damaged

    def daemon(self, leaver: Leaver) -> None:
        """Take note of a daemon that was started."""
        if self.is_watching and not any(leaver is other for other in self._kept):
            self._kept.append(leaver)

    def world(self, leaver: Leaver) -> None:
        """Take note of a world that was made; the oldest is looked at when there are too many."""
        if self.is_watching:
            self._worlds.append(leaver)
            if len(self._worlds) > KEPT_WORLDS:
                self.look(self._worlds.popleft())

    def look(self, leaver: Leaver) -> None:
        """Verify the directories that a leaver has, and keep what is wrong with them."""
        left = leaver.left()
        if left is None or not self.is_watching:
            return
        system, directories = left
        there = [directory for directory in directories if system.is_directory(directory)]
        if self._is_damaged or leaver.damaged:
            self.marked += len(there)
            return
        began = time.thread_time()
        for directory in there:
            faults = faults_of(system, directory)
            self.directories += faults is not None
            self._found += faults or ()
        self.seconds += time.thread_time() - began

    def end(self, *, has_failed: bool) -> list[str]:
        """A test and its fixtures have ended: the faults in what they left."""
        while self._worlds:
            world = self._worlds.popleft()
            if not has_failed:
                self.look(world)
        for _ in range(len(self._kept)):
            leaver = self._kept.popleft()
            if leaver.is_in_use:
                self._kept.append(leaver)
            elif not has_failed:
                self.look(leaver)
        found, self._found = self._found, []
        return [] if has_failed else found


LEFT_BEHIND = LeftBehind()


def faults_of(system: FileSystem, directory: str) -> list[str] | None:
    """The faults that `tidelog log verify` and `log scrub` find there; None where no data are."""
    try:
        found = [*verify(system, directory), *scrub(system, directory, Progress(), lambda _seconds: None)]
    except StorageError as error:
        if "neither a data directory nor a partition's" in str(error):
            return None
        raise
    return [f"{directory}: {finding}" for finding in found if finding.is_fault]
