"""Services: what a handler of requests may use of its node.

`server/composition.py` makes one when a node's metadata are read, before its logs are; it never changes. Parts that only some
nodes need are `Lazy`, so that the others pay neither its memory nor the import of its code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...backup.cut.service import BackupService
    from ...config.broker_config import BrokerConfig
    from ...protocol.messages.api_versions import ApiVersion
    from ...storage.clock import Time
    from ...storage.manager.log_manager import LogManager
    from ...storage.scheduler import ThreadPoolScheduler
    from ...storage.scrub.service import LogScrubber
    from ..cleaning.service import LogCleaner
    from ..groups.coordinator import GroupCoordinator
    from ..metadata.client_telemetry import ClientTelemetry
    from ..metadata.dynamic_config import DynamicSettings
    from ..metadata.features import Features
    from ..metadata.producer_ids import ProducerIds
    from ..metadata.resource_config import ResourceConfigs
    from ..metadata.store import MetadataStore
    from ..metadata.topics import TopicRegistry
    from ..network.socket_server import SocketServer
    from ..partitions.conversion_thread import Conversions
    from ..partitions.fetch_session import FetchSessions
    from ..partitions.log_mover import LogMover
    from ..partitions.partition import PartitionTable
    from ..partitions.purgatory import FetchPurgatory
    from ..quotas.manager import QuotaManager
    from ..runtime.lazy import Lazy
    from ..runtime.timer import Timer
    from ..security.acl.authorizer import Authorizer
    from ..security.credentials import Users
    from ..share.manager import SharePartitions
    from ..transactions.coordinator import TransactionCoordinator
    from .audit_log import AuditLog
    from .audited_requests import Changes
    from .bulk_lane import BulkRequestLane
    from .counters import RequestCounters


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Services:
    """Parts of one node. Loop thread, but for what a part's class allows to others.

    Attributes:
        io_pool: does what may block for a client: syncs, cold reads, look-ups by time.
        settings: the configuration, and what changes it while the node runs.
        fetch_max_bytes: of one answer to a fetch.
        http_port: that http.listener is bound to; 0 without one.
        backup: None without backup.url.
        authorizer: None without access control.
        listed_apis: what ApiVersions tells.
        long_requests, long_changes: requests with very many names that only look, and those that change something.
        changes: administrative requests that are under way.
    """

    loop: asyncio.AbstractEventLoop
    time: Time
    timer: Timer
    io_pool: Executor
    scheduler: ThreadPoolScheduler
    settings: DynamicSettings
    fetch_max_bytes: int
    http_port: int

    metadata: MetadataStore
    features: Features
    resources: ResourceConfigs
    topics: TopicRegistry
    producer_ids: ProducerIds
    telemetry: ClientTelemetry

    logs: LogManager
    partitions: PartitionTable
    conversions: Conversions
    fetch_sessions: FetchSessions
    purgatory: FetchPurgatory
    cleaner: LogCleaner
    scrubber: LogScrubber
    backup: BackupService | None
    mover: Lazy[LogMover]

    groups: GroupCoordinator
    transactions: Lazy[TransactionCoordinator]
    share: Lazy[SharePartitions]

    authorizer: Authorizer | None
    audit: Lazy[AuditLog]
    users: Lazy[Users]
    quotas: QuotaManager

    socket_server: SocketServer
    counters: RequestCounters
    listed_apis: Sequence[ApiVersion]
    changes: Changes
    long_requests: BulkRequestLane
    long_changes: BulkRequestLane

    @property
    def config(self) -> BrokerConfig:
        """The configuration as it is now."""
        return self.settings.config
