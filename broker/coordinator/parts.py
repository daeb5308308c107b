"""CoordinatorParts: what the coordinators of groups, transactions and share state are all made of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from .internal_topic import PartitionCoordinatorLog

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ...storage.clock import Time
    from ..metadata.dynamic_config import DynamicSettings
    from ..metadata.topics import TopicRegistry
    from ..partitions.partition import PartitionTable
    from ..runtime.timer import Timer

T = TypeVar("T")


class CoordinatorParts(NamedTuple):
    """Parts of the broker that coordinators are made with: their logs, settings, clock and threads. Loop thread."""

    partitions: PartitionTable
    topics: TopicRegistry
    settings: DynamicSettings
    time: Time
    timer: Timer
    loop: asyncio.AbstractEventLoop
    io_pool: Executor

    @property
    def config(self) -> BrokerConfig:
        """The configuration as it is now."""
        return self.settings.config

    def log_of(self, topic: str) -> PartitionCoordinatorLog:
        """Log of the coordinator whose state is in this internal topic."""
        return PartitionCoordinatorLog(topic, self.partitions, self.topics)

    def run_blocking(self, task: Callable[[], T]) -> asyncio.Future[T]:
        """Runs `task` in a pool thread."""
        return self.loop.run_in_executor(self.io_pool, task)
