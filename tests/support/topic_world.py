"""A topic registry on a real `metadata.db`, on fake logs or a real `LogManager`, and what a handler needs around it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from support.fake_logs import FakeLogs, InlineExecutor
from support.mock_time import MockScheduler, MockTime
from support.permissions import EVERYTHING
from tidelog.broker.metadata.client_telemetry import ClientTelemetry
from tidelog.broker.metadata.dynamic_config import DynamicSettings
from tidelog.broker.metadata.features import Features
from tidelog.broker.metadata.producer_ids import ProducerIds
from tidelog.broker.metadata.resource_config import ResourceConfigs
from tidelog.broker.metadata.store import QUOTA, MetadataStore
from tidelog.broker.metadata.topics import TopicRegistry
from tidelog.broker.partitions.conversion_thread import Conversions
from tidelog.broker.partitions.log_mover import LogMover
from tidelog.broker.partitions.partition import PartitionTable
from tidelog.broker.quotas.manager import QuotaManager
from tidelog.broker.runtime.lazy import Lazy
from tidelog.cleaner.cleaner_manager import CleanerManager
from tidelog.config.broker_config import BrokerConfig
from tidelog.storage.io.filesystem import RealFileSystem


class TopicWorld:
    """What is alive between a start and a stop. Ids of topics count from 1."""

    def __init__(self, directory: Path, logs: Any, config: BrokerConfig, ids: itertools.count[int]) -> None:
        self.logs = logs
        self.authorizer = None
        self.http_port = 0
        self.store = self.metadata = MetadataStore(str(directory))
        self.time = MockTime()
        self.pool = InlineExecutor()
        self.topics = TopicRegistry(config, self.store, self.pool, self.time, lambda: UUID(int=next(ids), version=4))
        self.quotas = QuotaManager(config, self.store.read().resources.get(QUOTA, {}), self.store, self.time)
        self.features = Features(self.store.read().features)
        self.settings = DynamicSettings(config, self.store.read().broker_configs, logs.node_id, self.store)
        self.resources = ResourceConfigs(self.store.read().resources, self.store, lambda: self.config)
        self.telemetry = ClientTelemetry(self.resources, config.telemetry_max_bytes, self.time)
        self.scheduler = MockScheduler(MockTime())
        self.producer_ids = ProducerIds(self.store)
        self.loop = asyncio.get_running_loop()
        self.io_pool = InlineExecutor()
        self.conversions = Conversions(self.loop)
        self.partitions = PartitionTable(self.topics, self.loop, self.conversions)
        self.cleaner = SimpleNamespace(manager=CleanerManager(logs, RealFileSystem(), self.time))
        self.mover = Lazy(self._mover)

    @property
    def config(self) -> BrokerConfig:
        """The configuration as it is now, as of `Services`."""
        return self.settings.config

    def _mover(self) -> LogMover:
        return LogMover(self.config, self.logs, self.partitions, self.cleaner.manager, self.time, self.loop)

    def context(
        self,
        version: int,
        address: tuple[str, int] = ("127.0.0.1", 9092),
        client_id: str | None = "test",
        user: str = "ANONYMOUS",
    ) -> Any:
        """A `RequestContext` as far as these APIs look at it."""
        return SimpleNamespace(
            services=self,
            api_version=version,
            local_address=address,
            client_id=client_id,
            user=user,
            principal=f"User:{user}",
            **EVERYTHING,
        )


@asynccontextmanager
async def topic_world(
    directory: Path, logs: Any = None, *, first_id: int = 1, **settings: Any
) -> AsyncIterator[TopicWorld]:
    """A world over `directory`: started on what is there, stopped at the end.

    `logs` are fake ones unless given; a real LogManager is the caller's to stop. `settings` are `BrokerConfig`'s.
    """
    world = TopicWorld(directory, logs or FakeLogs(), BrokerConfig(**settings), itertools.count(first_id))
    try:
        await world.topics.start(world.logs)
        yield world
        await world.topics.stop()
    finally:
        world.conversions.close()
        world.store.close()
