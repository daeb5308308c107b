"""The cleaner inside of the daemon: from settings to threads, and what it tells about itself.

Its checkpoints are read before anybody is served, its threads start when all else runs, and it is stopped before the logs are
closed. `log.cleaner.enable=false` stops all cleaning, with one warning; `log.cleaner.process.enable=false` has the walks of
passes in the cleaner's threads instead of processes of their own.
"""

from __future__ import annotations

import logging
import math
import os
from typing import TYPE_CHECKING

from ...cleaner.cleaner_manager import CleanerManager
from ...cleaner.cleaner_pool import CleanerPool, PoolSettings
from ...storage.io.filesystem import RealFileSystem
from ..runtime.threads import lower_priority
from .requests import CleanRequests

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ...storage.clock import Time
    from ...storage.io.filesystem import FileSystem
    from ...storage.manager.log_manager import LogManager

log = logging.getLogger(__name__)

#: Beyond this many bytes a second there is no limit: Kafka's default is the largest double there is.
NO_LIMIT_BYTES_PER_SECOND = 1e15


class LogCleaner:
    """Made, started and stopped on the loop thread or a pool's; `manager`, `pool` and `requests` are used by any.

    `load` and `stop` block: for reading checkpoints, and for passes to notice.
    """

    def __init__(self, config: BrokerConfig, logs: LogManager, file_system: FileSystem, time: Time) -> None:
        self.is_enabled = config.log_cleaner_enable
        self._file_system = file_system
        self.manager = CleanerManager(logs, file_system, time)
        self.pool = CleanerPool(
            self.manager,
            pool_settings(config, file_system),
            time=time,
            secret=lambda: os.urandom(16),
            lower_priority=lower_priority,
        )
        self.requests = CleanRequests(self.manager, self.pool.make_cleaner, time, lower_priority)

    def load(self) -> None:
        """Read what earlier passes came to. Called when logs are loaded, before anything can change them. Blocks; OSError when a
        checkpoint can't be read.
        """
        self.manager.load()

    def start(self) -> None:
        """Start the threads, unless cleaning is switched off. `load` comes first."""
        if self.is_enabled:
            self.pool.start()
        else:
            log.warning(
                "log.cleaner.enable is false: compacted topics keep every record, and __consumer_offsets grows with each commit"
            )

    def use(self, config: BrokerConfig) -> None:
        """Settings were changed while running. Blocks as `stop` does where the number of threads or their memory changes."""
        self.pool.configure(pool_settings(config, self._file_system))

    def stop(self) -> None:
        """Passes under way end where they are. Blocks, for less than a second unless a disk hangs."""
        self.requests.stop()
        self.pool.stop()


def pool_settings(config: BrokerConfig, file_system: FileSystem) -> PoolSettings:
    """The cleaner's part of the broker's settings. Another process sees the machine's files alone: over any other file system, as
    tests have, walks run in threads.
    """
    rate = config.log_cleaner_io_max_bytes_per_second
    return PoolSettings(
        threads=config.log_cleaner_threads,
        dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
        load_factor=config.log_cleaner_io_buffer_load_factor,
        io_buffer_bytes=config.log_cleaner_io_buffer_size,
        io_bytes_per_second=rate if rate < NO_LIMIT_BYTES_PER_SECOND else math.inf,
        backoff_ms=config.log_cleaner_backoff_ms,
        in_processes=config.log_cleaner_process_enable and type(file_system) is RealFileSystem,
    )
