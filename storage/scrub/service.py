"""LogScrubber: the scrubber of a daemon. Each data directory has a pass of its own, in its own lane of the scheduler: a disk that
is slow or hangs holds up no other.

A step reads one block and is scheduled again when the rate allows for it, so that no thread waits for the pace and a changed
`tidelog.log.scrub.bytes.per.second` holds at once. The rate is that of each directory.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING

from ..manager.data_directory import SCRUB_FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...config.broker_config import BrokerConfig
    from ..clock import Time
    from ..io.filesystem import FileSystem
    from ..manager.log_manager import LogManager
    from ..scheduler import LaneScheduler, ScheduledTask, Scheduler
    from .pass_over import DirectoryScrub
    from .status import ScrubStatus

logger = logging.getLogger(__name__)

TASK = "log-scrub"
_RETRY_MS = 60_000


class LogScrubber:
    """Made on the loop thread; started, changed and stopped by one thread at a time. `statuses` from any thread."""

    def __init__(
        self, config: BrokerConfig, logs: LogManager, file_system: FileSystem, time: Time, scheduler: LaneScheduler
    ) -> None:
        """Does no I/O."""
        self._config = config
        self._runners = [
            _Runner(path, partial(_scrub_of, path, logs, file_system, time), scheduler.lane(path), file_system)
            for path in logs.directories
        ]

    def recall(self) -> None:
        """Read what the last daemon has left, so that it is told from the first answer on. Blocks; before the logs are loaded."""
        for runner in self._runners:
            runner.recall()

    def believe(self) -> None:
        """Hold that against the logs, now that they are loaded. Blocks; before `start`."""
        for runner in self._runners:
            runner.believe()

    def start(self) -> None:
        """Begin, when all logs are loaded, after `log.initial.task.delay.ms`. Never blocks."""
        for runner in self._runners:
            runner.start(self._config.tidelog_log_scrub_bytes_per_second, self._config.log_initial_task_delay_ms)

    def use(self, config: BrokerConfig) -> None:
        """Settings were changed while running. Never blocks."""
        self._config = config
        for runner in self._runners:
            runner.set_rate(config.tidelog_log_scrub_bytes_per_second)

    def stop(self) -> None:
        """End, before the logs are closed. Blocks for a second per directory at most, whose disk hangs then."""
        for runner in self._runners:
            runner.stop()

    def statuses(self) -> tuple[ScrubStatus, ...]:
        """State of each data directory, in the order of `log.dirs`. Any thread; no I/O; time grows with the damage alone."""
        return tuple(runner.status() for runner in self._runners)


def _scrub_of(path: str, logs: LogManager, file_system: FileSystem, time: Time) -> DirectoryScrub:
    """Made with the first step, or when there is something to remember: a first start can do without the code that reads logs."""
    from .pass_over import DirectoryScrub

    return DirectoryScrub(path, logs, file_system, time)


class _Runner:
    """Runs the steps of one directory, one after the other. `rate` is 0 while it does not."""

    def __init__(self, path: str, make: Callable[[], DirectoryScrub], lane: Scheduler, file_system: FileSystem) -> None:
        self.rate = 0
        self._fs = file_system
        self._path = path
        self._make = make
        self._lane = lane
        self._scrub: DirectoryScrub | None = None
        self._lock = threading.Lock()  # over what follows; not held during a step
        self._is_started = False
        self._is_running = False
        self._task: ScheduledTask | None = None
        self._ticket: object = None

    def recall(self) -> None:
        """Read what was remembered, if anything was."""
        if self._fs.exists(f"{self._path}/{SCRUB_FILE}"):
            scrub = self._make()
            scrub.recall()
            self._scrub = scrub

    def believe(self) -> None:
        """What can't be looked at now is looked at with the first step: no start fails over it."""
        if self._scrub is None:
            return
        try:
            self._scrub.believe()
        except OSError as error:
            logger.warning("%s: what was damaged can't be looked at yet: %s", self._path, error)

    def start(self, rate: int, delay_ms: float) -> None:
        with self._lock:
            self._is_started = True
            self._set_rate(rate, delay_ms)

    def set_rate(self, rate: int) -> None:
        with self._lock:
            if self._is_started and rate != self.rate:
                self._set_rate(rate, 0)

    def stop(self) -> None:
        with self._lock:
            self._is_started = False
            self._set_rate(0, 0)
        if self._scrub is not None:
            self._scrub.stop()

    def status(self) -> ScrubStatus:
        """State of the directory. Any thread."""
        from .status import NEVER, ScrubState, ScrubStatus

        if self._scrub is not None:
            return self._scrub.status()
        return ScrubStatus(
            self._path,
            ScrubState.OFF,
            "",
            0,
            NEVER,
            0,
            0,
            NEVER,
            NEVER,
            self.rate,
            read_bytes=0,
            found=0,
            damage=(),
            omitted=0,
        )

    def _set_rate(self, rate: int, delay_ms: float) -> None:
        self.rate = rate
        if self._scrub is not None:
            self._scrub.rate = rate
        if self._task is not None:
            self._task.cancel()
            self._task = self._ticket = None
        if not self._is_running:  # else the step schedules the next one
            self._schedule(delay_ms)

    def _schedule(self, delay_ms: float) -> None:
        if self.rate > 0:
            # A task that was cancelled may have begun already.
            self._ticket = ticket = object()
            self._task = self._lane.schedule(TASK, partial(self._run, ticket), delay_ms)

    def _run(self, ticket: object) -> None:
        with self._lock:
            if ticket is not self._ticket:
                return
            self._task = self._ticket = None
            if self._scrub is None:
                try:
                    self._scrub = self._make()
                except BaseException:  # no descriptor for a module
                    self._schedule(_RETRY_MS)
                    raise
                self._scrub.rate = self.rate
            scrub = self._scrub
            self._is_running = True
        delay_ms: float = _RETRY_MS
        try:
            delay_ms = scrub.step()
        finally:
            with self._lock:
                self._is_running = False
                self._schedule(delay_ms)
