"""Construction of a node's parts: nothing is started here.

read_metadata   what the directories keep of settings, topics, access rules and quotas
make_services   every part that handlers of requests use, made once
Securities      what listeners ask of their clients; made for each that does not speak PLAINTEXT
"""

from __future__ import annotations

import os
import random
import uuid
from asyncio import AbstractEventLoop
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...storage.scrub.service import LogScrubber
from ...storage.segment.names import CLUSTER_METADATA_TOPIC, partition_directory_name
from ..cleaning.service import LogCleaner
from ..coordinator.parts import CoordinatorParts
from ..groups.coordinator import GroupCoordinator
from ..metadata.client_telemetry import ClientTelemetry
from ..metadata.dynamic_config import DynamicSettings
from ..metadata.features import Features
from ..metadata.producer_ids import ProducerIds
from ..metadata.resource_config import ResourceConfigs
from ..metadata.store import ACL, QUOTA, SCRAM, MetadataStore
from ..metadata.topics import TopicRegistry
from ..metadata.topology_descriptions import TopologyDescriptions
from ..partitions.conversion_thread import Conversions
from ..partitions.fetch_session import FetchSessions
from ..partitions.partition import PartitionTable
from ..partitions.purgatory import FetchPurgatory
from ..quotas.manager import QuotaManager
from ..requests.audited_requests import Changes
from ..requests.bulk_lane import BulkRequestLane
from ..requests.counters import RequestCounters
from ..requests.services import Services
from ..runtime.lazy import Lazy
from ..runtime.threads import lower_priority

if TYPE_CHECKING:
    from ...backup.cut.service import BackupService
    from ...config.broker_config import BrokerConfig
    from ...config.listener import Listener
    from ...protocol.messages.api_versions import ApiVersion
    from ...storage.clock import Time
    from ...storage.io.filesystem import FileSystem
    from ...storage.manager.log_manager import LogManager
    from ...storage.scheduler import ThreadPoolScheduler
    from ..message_set.listener import MessageSetListener
    from ..network.connection import Dispatches
    from ..network.socket_server import SocketServer
    from ..partitions.log_mover import LogMover
    from ..requests.audit_log import AuditLog
    from ..runtime.timer import Timer
    from ..security.acl.authorizer import Authorizer
    from ..security.credentials import Users
    from ..security.sasl.listener_security import ListenerSecurity, SaslCommons
    from ..security.sasl.login_attempts import Guesses
    from ..share.manager import SharePartitions
    from ..transactions.coordinator import TransactionCoordinator


class Basics(NamedTuple):
    """Parts of a node before it looks at its directories."""

    config: BrokerConfig
    loop: AbstractEventLoop
    time: Time
    timer: Timer
    file_system: FileSystem
    randomness: random.Random
    io_pool: ThreadPoolExecutor
    scheduler: ThreadPoolScheduler
    socket_server: SocketServer
    listed_apis: Sequence[ApiVersion]


class KeptMetadata(NamedTuple):
    """State in the directories besides logs. `credentials`: by user and mechanism, as texts."""

    settings: DynamicSettings
    features: Features
    resources: ResourceConfigs
    credentials: Mapping[str, Mapping[str, str]]
    authorizer: Authorizer | None
    quotas: QuotaManager
    descriptions: TopologyDescriptions


def read_metadata(basics: Basics, logs: LogManager, store: MetadataStore) -> KeptMetadata:
    """Import Apache Kafka's topics, settings and features first: logs are loaded with them. Pool thread."""
    config, file_system, time = basics.config, basics.file_system, basics.time
    kafkas = partition_directory_name(CLUSTER_METADATA_TOPIC, 0)
    if any(file_system.exists(os.path.join(directory, kafkas)) for directory in logs.directories):
        from ..kraft.import_ import import_metadata

        stored = import_metadata(store, file_system, logs.directories, logs.node_id, time.milliseconds())
    else:
        stored = store.read()
    # Clients take the answer with the higher epoch for the newer one: it rises from start to start.
    features = Features(stored.features, time.milliseconds())
    authorizer = None
    if config.authorizer_class_name:
        from ..security.acl.authorizer import AclAuthorizer

        authorizer = AclAuthorizer.read(stored.resources.get(ACL, {}), store, config)
        authorizer.log_state()
    settings = DynamicSettings(config, stored.broker_configs, logs.node_id, store)
    return KeptMetadata(
        settings,
        features,
        ResourceConfigs(stored.resources, store, lambda: settings.config),
        stored.resources.get(SCRAM, {}),
        authorizer,
        QuotaManager(settings.config, stored.resources.get(QUOTA, {}), store, time),
        TopologyDescriptions(stored.descriptions, store, lambda: settings.config),
    )


def make_services(
    basics: Basics, logs: LogManager, store: MetadataStore, kept: KeptMetadata, http_port: int
) -> Services:
    """Parts of a node whose logs are not loaded yet. Loop thread. `http_port`: that is bound, 0 without HTTP."""
    loop, time, timer, io_pool = basics.loop, basics.time, basics.timer, basics.io_pool
    settings, resources = kept.settings, kept.resources
    topics = TopicRegistry(settings.config, store, io_pool, time, uuid.uuid4)
    conversions = Conversions(loop)
    partitions = PartitionTable(topics, loop, conversions)
    topics.on_deleted.append(partitions.forget)
    parts = CoordinatorParts(partitions, topics, settings, time, timer, loop, io_pool)
    groups = GroupCoordinator.of(parts, resources, kept.descriptions)
    producer_ids = ProducerIds(store)
    purgatory = FetchPurgatory(loop, timer)
    cleaner = LogCleaner(settings.config, logs, basics.file_system, time)
    topics.on_deleted.append(cleaner.manager.forget_topic)
    logs.forget_cleaned = cleaner.manager.forget_checkpoint
    backup = _backup(settings.config, logs, store, time, loop)
    if backup is not None and settings.config.backup_fence_ms:
        partitions.fence = backup.refusal
    counters = RequestCounters()
    basics.socket_server.cold_reads.written = lambda: counters.produced_bytes
    return Services(
        loop=loop,
        time=time,
        timer=timer,
        io_pool=io_pool,
        scheduler=basics.scheduler,
        settings=settings,
        fetch_max_bytes=basics.config.fetch_max_bytes,
        http_port=http_port,
        metadata=store,
        features=kept.features,
        resources=resources,
        topics=topics,
        producer_ids=producer_ids,
        telemetry=ClientTelemetry(resources, basics.config.telemetry_max_bytes, time),
        logs=logs,
        partitions=partitions,
        conversions=conversions,
        fetch_sessions=FetchSessions(basics.config.max_incremental_fetch_session_cache_slots, time, basics.randomness),
        purgatory=purgatory,
        cleaner=cleaner,
        scrubber=LogScrubber(settings.config, logs, basics.file_system, time, basics.scheduler),
        backup=backup,
        mover=Lazy(partial(_mover, settings, logs, partitions, cleaner, time, loop)),
        groups=groups,
        transactions=Lazy(partial(_transactions, parts, groups, kept.features, producer_ids)),
        share=Lazy(partial(_share, parts, groups, resources, purgatory, basics.socket_server)),
        authorizer=kept.authorizer,
        audit=Lazy(partial(_audit, time)),
        users=Lazy(partial(_users, kept.credentials, store)),
        quotas=kept.quotas,
        socket_server=basics.socket_server,
        counters=counters,
        listed_apis=basics.listed_apis,
        changes=Changes(loop),
        long_requests=BulkRequestLane(loop),
        long_changes=BulkRequestLane(loop),
    )


def _backup(
    config: BrokerConfig, logs: LogManager, store: MetadataStore, time: Time, loop: AbstractEventLoop
) -> BackupService | None:
    """None without backup.url: who has no backup pays nothing."""
    if not config.backup_url:
        return None
    from .backup import make_backup

    return make_backup(config, logs, store, time, loop)


def _mover(
    settings: DynamicSettings,
    logs: LogManager,
    partitions: PartitionTable,
    cleaner: LogCleaner,
    time: Time,
    loop: AbstractEventLoop,
) -> LogMover:
    """Made when a log is first to be moved to another data directory."""
    from ..partitions.log_mover import LogMover

    return LogMover(settings.config, logs, partitions, cleaner.manager, time, loop)


def _transactions(
    parts: CoordinatorParts, groups: GroupCoordinator, features: Features, producer_ids: ProducerIds
) -> TransactionCoordinator:
    """Made when first asked for, or at start when there is something to load: who has no transactions pays nothing."""
    from ..transactions.coordinator import TransactionCoordinator

    return TransactionCoordinator.of(parts, groups, features, producer_ids.next)


def _share(
    parts: CoordinatorParts,
    groups: GroupCoordinator,
    resources: ResourceConfigs,
    purgatory: FetchPurgatory,
    socket_server: SocketServer,
) -> SharePartitions:
    """Made when first asked for, or at start when there is something to load, as the transactions' coordinator is."""
    from ..share.coordinator import ShareCoordinator
    from ..share.manager import SharePartitions

    shares = SharePartitions(parts, ShareCoordinator.of(parts), groups, resources, purgatory)
    socket_server.on_closed.append(shares.connection_closed)
    return shares


def _audit(time: Time) -> AuditLog:
    """Made when there is first something to note."""
    from ..requests.audit_log import AuditLog

    return AuditLog(time)


def _users(credentials: Mapping[str, Mapping[str, str]], store: MetadataStore) -> Users:
    """Made when somebody's password is first checked or changed."""
    from ..security.credentials import Users

    return Users(credentials, store)


def make_message_sets(services: Services) -> MessageSetListener:
    """Made with the first listener of the message-set protocol, or the first scrape of its metrics."""
    from ..message_set.listener import MessageSetListener

    return MessageSetListener(services)


def gated_requests(dispatcher: Dispatches, security: ListenerSecurity | None) -> Dispatches:
    """Handler of the requests of a listener of Kafka's protocol: with SASL, clients authenticate first."""
    if security is None or not security.sasl:
        return dispatcher
    from ..network.sasl_gate import SaslGate

    return SaslGate(dispatcher, security)


def gated_message_sets(listener: Lazy[MessageSetListener], security: ListenerSecurity | None) -> Dispatches:
    """The listener, behind AUTHENTICATE where a listener's security asks who its clients are."""
    if security is None or not security.sasl:
        return listener.get()
    from ..message_set.authentication import MessageSetGate

    return MessageSetGate(listener.get(), security)


class Securities:
    """Makes what listeners ask of their clients, and what those share: users, a secret, and a thread that checks passwords.

    Attributes:
        guesses: what all listeners that check passwords share, HTTP's too. Asked for by one thread at a time.
    """

    def __init__(self) -> None:
        self.guesses = Lazy(self._make_guesses)
        self._pool: ThreadPoolExecutor | None = None
        self._commons: SaslCommons | None = None

    def of(self, services: Services, listener: Listener) -> ListenerSecurity:
        """Security of a listener that does not speak PLAINTEXT. Reads files: pool thread."""
        from ..security.sasl.listener_security import ListenerSecurity

        return ListenerSecurity(listener, services.config, self._commons_of(services, listener))

    def _commons_of(self, services: Services, listener: Listener) -> SaslCommons | None:
        """State that its clients share with those of other listeners, if they have to authenticate. One listener at a time."""
        if not listener.security_protocol.startswith("SASL_"):
            return None
        if self._commons is None:
            from ..security.sasl.disguise import SECRET
            from ..security.sasl.listener_security import SaslCommons

            secret = services.metadata.secret(SECRET)
            self._commons = SaslCommons.of(services.users.get(), secret, self.guesses.get())
        return self._commons

    def _make_guesses(self) -> Guesses:
        from ..security.sasl.login_attempts import Guesses

        # One thread: whoever guesses gets no more of the machine, and no thread that files need.
        self._pool = ThreadPoolExecutor(1, "passwords", lower_priority)
        return Guesses.of(self._pool)

    def close(self) -> None:
        """Waits for the passwords that are being checked."""
        if self._pool is not None:
            self._pool.shutdown()
