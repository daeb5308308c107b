"""LogMover: moves logs to other data directories while they are written to and read (docs/adr/0032-moving-logs.md).

    copy        in a thread, throttled, round after round, until less than a MiB is missing
    hand over   appends to the partition queue behind the change-over; then they go to the new directory

One task for each move, as many in work at once as num.replica.alter.log.dirs.threads says; the others wait in their order.
What the disk refuses ends a move with one line; the log stays where it is, or (`LogMove.commit`) fails and the next start
completes the move.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ...cleaner.throttler import Throttler
from ...protocol.errors import ErrorCode, ProtocolError
from ...storage.exceptions import MoveCancelledError, StorageError
from ...storage.manager.move import CLOSE_ENOUGH_BYTES
from ..runtime.error_codes import error_code
from .append_offload import AppendOffload
from .disk_workers import DiskWorkers

if TYPE_CHECKING:
    from ...cleaner.cleaner_manager import CleanerManager
    from ...config.broker_config import BrokerConfig
    from ...storage.clock import Time
    from ...storage.manager.log_manager import LogManager
    from ...storage.manager.move import LogMove
    from .partition import PartitionTable

log = logging.getLogger(__name__)

_HOLD_POLL_S = 0.05
"""A pass of the cleaner looks after each chunk whether to end."""
_NO_LIMIT = 1 << 62


class _Handover:
    """The pace of the `AppendOffload` of a move: slow, so that the offload is active, until the move is over."""

    def __init__(self) -> None:
        self.is_slow = True
        self.on_slow: Any = None


class LogMover:
    """Loop thread. `stop` before logs are closed.

    Attributes:
        moved, cancelled, failed: how many moves ended so since the start.
    """

    def __init__(
        self,
        config: BrokerConfig,
        logs: LogManager,
        partitions: PartitionTable,
        cleaner: CleanerManager,
        time: Time,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._config = config
        self._logs = logs
        self._partitions = partitions
        self._cleaner = cleaner
        self._loop = loop
        self._throttler = Throttler(_rate(config), time)
        workers = config.num_replica_alter_log_dirs_threads or len(logs.directories)
        self._pool = ThreadPoolExecutor(workers, "log-mover")
        self._slots = asyncio.Semaphore(workers)
        self._tasks: dict[LogMove, asyncio.Task[None]] = {}
        self._stopping = threading.Event()
        self.moved = self.cancelled = self.failed = 0

    @property
    def bytes_per_second(self) -> float:
        """Limit of what all moves together copy a second; inf: no limit. Any thread."""
        return self._throttler.bytes_per_second

    @property
    def copied_bytes(self) -> int:
        """Bytes of `.log` files copied since the start. Any thread."""
        return self._throttler.total_bytes

    def use(self, config: BrokerConfig) -> None:
        """Settings were changed while running."""
        if (
            config.replica_alter_log_dirs_io_max_bytes_per_second
            != self._config.replica_alter_log_dirs_io_max_bytes_per_second
        ):
            self._throttler.set_rate(_rate(config))
        self._config = config

    def resume(self) -> None:
        """Begin anew what the last stop cut short. Once. Clients may have moved or deleted some of it already."""
        interrupted, self._logs.interrupted_moves = self._logs.interrupted_moves, []
        for topic, partition, path in interrupted:
            if self._logs.move_of(topic, partition) is not None:
                continue
            log.info("%s-%d: its move to %s is begun anew", topic, partition, path)
            try:
                self._begin(topic, partition, path)
            except ProtocolError as error:
                log.warning("%s-%d: its move to %s ends here: %s", topic, partition, path, error)

    async def move(self, topic: str, partition: int, path: str) -> None:
        """Have a log moved to the data directory `path`; returns when that has begun.

        A move that goes there already goes on, one to elsewhere ends.

        Raises `ProtocolError`: INVALID_REPLICA_ASSIGNMENT, INVALID_TOPIC_EXCEPTION, KAFKA_STORAGE_ERROR.
        """
        present = self._logs.move_of(topic, partition)
        if present is not None:
            if present.target.directory.path == path:
                return
            await self._loop.run_in_executor(None, present.cancel)
            if (task := self._tasks.get(present)) is not None:
                await asyncio.wait({task})
        if path in self._config.cordoned_log_dirs:
            raise ProtocolError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{path} is in cordoned.log.dirs")
        self._begin(topic, partition, path)

    def _begin(self, topic: str, partition: int, path: str) -> None:
        if self._stopping.is_set() or self._logs.move_of(topic, partition) is not None:
            raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{partition} can't be moved at this moment")
        try:
            move = self._logs.new_move(topic, partition, path)
        except ValueError as error:
            raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)) from error
        except StorageError as error:
            raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, error_code(error)[1]) from error
        if move is not None:
            self._tasks[move] = self._loop.create_task(self._run(move))

    async def idle(self) -> None:
        """Waits for all moves under way to end."""
        while self._tasks:
            await asyncio.wait(set(self._tasks.values()))

    async def stop(self) -> None:
        """Copies stay as they are, for the next start; a change-over under way is waited for."""
        self._stopping.set()
        if self._tasks:
            await asyncio.wait(set(self._tasks.values()))
        self._pool.shutdown(wait=False)

    # --- one move ---

    async def _run(self, move: LogMove) -> None:
        name, target = move.log.name, move.target.directory.path
        run = self._loop.run_in_executor
        try:
            async with self._slots:
                log.info("%s: moving from %s to %s", name, move.source.directory.path, target)
                await run(self._pool, self._copy, move)
                await self._hand_over(move)
            self.moved += 1
            log.info("%s: moved to %s", name, target)
        except MoveCancelledError as error:
            if self._stopping.is_set():
                return
            self.cancelled += 1
            log.info("%s", error)
        except (OSError, StorageError) as error:
            self.failed += 1
            log.error("%s could not be moved to %s: %s", name, target, error)
        finally:
            if not self._stopping.is_set() or move.is_done:
                try:
                    await run(self._pool, self._logs.end_move, move)
                except OSError as error:
                    log.error("%s: the copy could not be removed: %s", move.path, error)
                self._cleaner.let_go(move.log)
            del self._tasks[move]

    def _copy(self, move: LogMove) -> None:
        """Copy the log's segments. Pool thread."""
        while not self._cleaner.hold(move.log):
            self._wait(move, _HOLD_POLL_S * 1000)
        self._check(move)
        move.begin()
        while move.copy(lambda count: self._pay(move, count)) > CLOSE_ENOUGH_BYTES:
            self._check(move)
        self._cleaner.carry(move.log, move.target.directory.path)

    def _pay(self, move: LogMove, count: int) -> None:
        self._check(move)
        self._throttler.pay(count, lambda milliseconds: self._wait(move, milliseconds))

    def _wait(self, move: LogMove, milliseconds: float) -> None:
        self._stopping.wait(milliseconds / 1000)
        self._check(move)

    def _check(self, move: LogMove) -> None:
        move.check()
        if self._stopping.is_set():
            raise MoveCancelledError(f"{move.log.name} is not moved further: the daemon stops")

    async def _hand_over(self, move: LogMove) -> None:
        """Appends of clients wait in a queue of the partition's own while the directories change."""
        partition = self._partitions.get(move.log.topic, move.log.partition)
        if partition is None or partition.log is not move.log:
            raise MoveCancelledError(f"{move.log.name} is gone")
        before = partition.disk_binding
        pace, thread = _Handover(), DiskWorkers[Any](self._loop, "log-move", threads=1)
        queue = AppendOffload(pace, thread, self._loop)
        drained = threading.Event()

        def commit() -> None:
            drained.wait()
            move.commit()

        outcome = queue.submit(commit)
        partition.rebind(before[0], queue)
        try:
            if before[1].active:
                await before[1].submit(_nothing)  # appends of this log that its thread has come first
            drained.set()
            with contextlib.suppress(OSError, StorageError):
                await asyncio.shield(outcome)
            pace.is_slow = False
            while queue.active:
                await queue.submit(_nothing)
        finally:
            drained.set()
            partition.rebind(*(self._partitions.disk_binding_of(move.log) if move.is_done else before))
            thread.close()
        await outcome


def _nothing() -> None:
    pass


def _rate(config: BrokerConfig) -> float:
    limit = config.replica_alter_log_dirs_io_max_bytes_per_second
    return math.inf if limit >= _NO_LIMIT else float(limit)
