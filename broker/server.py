"""The daemon's life: what is started in which order, who owns it, and how it stops.

Start: HTTP (so that a probe sees "loading") → logs are loaded and recovered in threads → metadata → coordinators → the
listeners → background work → the ready line. Stop is the reverse, and ends with the clean-shutdown mark: no request is
answered after its log was closed.

Threads: one event loop thread owns connections, appends and all coordinator state. `io_pool` does what may block for a
client (syncs, cold reads, look-ups by time); the log manager's scheduler does retention, flushes and checkpoints; SQLite
and HTTP have threads of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import resource
import signal
import threading
import time as clock
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING

from ..config.log_config import log_config
from ..storage.clock import SystemTime, Time
from ..storage.deletion_policy import check_policies
from ..storage.io.filesystem import FileSystem, RealFileSystem
from ..storage.manager.log_manager import LogManager
from ..storage.scheduler import ThreadPoolScheduler
from ..storage.segment.names import CLUSTER_METADATA_TOPIC, partition_directory_name
from .cleaning.service import LogCleaner
from .coordinator.parts import CoordinatorParts
from .groups.coordinator import GroupCoordinator
from .http.server import HttpServer
from .metadata.client_telemetry import ClientTelemetry
from .metadata.dynamic_config import DynamicSettings
from .metadata.features import Features
from .metadata.producer_ids import ProducerIds
from .metadata.resource_config import ResourceConfigs
from .metadata.store import ACL, QUOTA, SCRAM, MetadataStore
from .metadata.topics import SHARE_GROUP_STATE, TRANSACTION_STATE, TopicRegistry
from .network.socket_server import SocketServer
from .partitions.fetch_session import FetchSessions
from .partitions.format_conversion import Conversions
from .partitions.partition import PartitionTable
from .partitions.purgatory import FetchPurgatory
from .quotas.manager import QuotaManager
from .requests.audited_requests import Changes
from .requests.bulk_lane import BulkRequestLane
from .requests.counters import RequestCounters
from .requests.dispatcher import Dispatcher
from .requests.registry import listed_versions, load_apis
from .runtime.durability import durability_line
from .runtime.garbage import gc_paused
from .runtime.thread_priority import lower_priority, prefer_latency
from .runtime.timer import LoopTimer, Timer
from .security.open_listeners import ADVICE, open_listeners

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..config.broker_config import BrokerConfig
    from ..config.listener import Listener
    from .message_set.listener import MessageSetListener
    from .network.connection import Dispatches
    from .partitions.log_mover import LogMover
    from .requests.audit_log import AuditLog
    from .security.acl.authorizer import Authorizer
    from .security.credentials import Users
    from .security.sasl.listener_security import ListenerSecurity, SaslCommons
    from .security.sasl.password_checks import Guesses
    from .share.manager import SharePartitions
    from .transactions.coordinator import TransactionCoordinator

log = logging.getLogger(__name__)

IO_THREADS = 8
#: How long a clean stop waits for answers that are on their way.
STOP_GRACE_S = 1.0
#: A recovery that takes longer than this says how far it is.
PROGRESS_INTERVAL_S = 5.0


class RecoveryProgress:
    """Bytes of segments that this start checks. Written by recovery threads, read by anyone."""

    __slots__ = ("_next_line", "done_bytes", "total_bytes")

    def __init__(self) -> None:
        self.done_bytes = 0
        self.total_bytes = 0
        self._next_line = clock.monotonic() + PROGRESS_INTERVAL_S

    def update(self, done_bytes: int, total_bytes: int) -> None:
        """Called by the log manager now and then; logs a line every few seconds."""
        self.done_bytes, self.total_bytes = done_bytes, total_bytes
        if total_bytes and clock.monotonic() >= self._next_line:
            self._next_line = clock.monotonic() + PROGRESS_INTERVAL_S
            log.info("recovery: %d of %d MB checked", done_bytes // 1_000_000, total_bytes // 1_000_000)


class Broker:
    """Everything that a request handler may need. Made, started and stopped on the loop thread.

    `ready` is True from the moment that listeners are bound until the stop begins; `stopping` from then on.
    """

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        *,
        time: Time | None = None,
        timer: Timer | None = None,
        file_system: FileSystem | None = None,
        randomness: random.Random | None = None,
        around: Callable[[Dispatcher], Dispatches] = lambda dispatcher: dispatcher,
    ) -> None:
        """Clock, timer, file system and randomness are the real ones unless given. Opens and locks nothing.

        `around` may put something between connections and the dispatcher: tests let requests fail there.
        """
        self.config = config
        self.loop = loop
        self.time = time or SystemTime()
        self.timer = timer or LoopTimer(loop)
        self.ready = False
        self.stopping = False
        self.fetch_max_bytes = config.fetch_max_bytes
        self.counters = RequestCounters()
        self.recovery = RecoveryProgress()
        self.io_pool = ThreadPoolExecutor(IO_THREADS, "io")
        self._passwords: ThreadPoolExecutor | None = None
        self._commons: SaslCommons | None = None
        self.conversions = Conversions(loop)
        # Session ids need not be secret, only unlike those of the last run.
        randomness = randomness or random.SystemRandom()
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, self.time, randomness)
        self.purgatory = FetchPurgatory(loop, self.timer)
        self.scheduler = ThreadPoolScheduler(config.background_threads, time=self.time)
        registrations = load_apis()
        self.listed_apis = listed_versions(registrations, telemetry=config.telemetry_enable)
        """What ApiVersions tells: whatever takes an API out of it makes it anew, no request does."""
        dispatcher = around(Dispatcher(self, registrations, self.counters))
        self.changes = Changes(loop)
        self.long_requests = BulkRequestLane(loop)
        """Those with very many names that only look; `long_changes`: those that change something."""
        self.long_changes = BulkRequestLane(loop)
        self._message_sets: MessageSetListener | None = None
        self.socket_server = SocketServer(
            loop, config, dispatcher, self._gated_message_sets, self.io_pool, self._security_of
        )
        self._file_system = file_system or RealFileSystem()
        self.http: HttpServer | None = None
        self.features = Features()
        self._transactions: TransactionCoordinator | None = None
        self.known_mover: LogMover | None = None
        self._users: Users | None = None
        self.authorizer: Authorizer | None = None
        self.known_audit: AuditLog | None = None
        self._stored_credentials: Mapping[str, Mapping[str, str]] = {}
        self._share: SharePartitions | None = None
        # Made in `start`, in this order, when the directories are locked.
        self.logs: LogManager
        self.metadata: MetadataStore
        self.dynamic: DynamicSettings
        self.quotas: QuotaManager
        self.resources: ResourceConfigs
        self.telemetry: ClientTelemetry
        self.topics: TopicRegistry
        self._coordinator_parts: CoordinatorParts
        self.partitions: PartitionTable
        self.producer_ids: ProducerIds
        self.groups: GroupCoordinator
        self.cleaner: LogCleaner

    @property
    def message_sets(self) -> MessageSetListener:
        """Made, and its code imported, when it is first asked for."""
        if self._message_sets is None:
            from .message_set.listener import MessageSetListener

            self._message_sets = MessageSetListener(self)
        return self._message_sets

    def _gated_message_sets(self, security: ListenerSecurity | None) -> Dispatches:
        """`message_sets`, behind AUTHENTICATE where a listener's security asks who its clients are."""
        if security is None or not security.sasl:
            return self.message_sets
        from .message_set.authentication import MessageSetGate

        return MessageSetGate(self.message_sets, security)

    @property
    def users(self) -> Users:
        """Users with credentials; the code is imported when they are first asked for."""
        if self._users is None:
            from .security.credentials import Users

            self._users = Users(self._stored_credentials, self.metadata)
        return self._users

    @property
    def audit(self) -> AuditLog:
        """Made, and its code imported, when there is first something to note."""
        if self.known_audit is None:
            from .requests.audit_log import AuditLog

            self.known_audit = AuditLog(self.time)
        return self.known_audit

    def _security_of(self, listener: Listener) -> ListenerSecurity:
        """What a listener that does not speak PLAINTEXT asks for. Reads files: pool thread."""
        from .security.sasl.listener_security import ListenerSecurity

        return ListenerSecurity(listener, self.config, self._commons_of(listener))

    def _commons_of(self, listener: Listener) -> SaslCommons | None:
        """What its clients share with those of other listeners, where they have to say who they are. One listener at a time."""
        if not listener.security_protocol.startswith("SASL_"):
            return None
        if self._commons is None:
            from .security.sasl.disguise import SECRET
            from .security.sasl.listener_security import SaslCommons

            self._commons = SaslCommons.of(self.users, self.metadata.secret(SECRET), self._guesses)
        return self._commons

    @cached_property
    def _guesses(self) -> Guesses:
        """What all listeners that check passwords share. Asked for by one thread at a time."""
        from .security.sasl.password_checks import Guesses

        # One thread: whoever guesses gets no more of the machine, and no thread that files need.
        self._passwords = ThreadPoolExecutor(1, "passwords", lower_priority)
        return Guesses.of(self._passwords)

    def _http_of(self, listener: Listener) -> HttpServer:
        """What serves HTTP, bound. Reads files: pool thread."""
        https = gate = None
        if self.config.authorizer_class_name and not self.config.http_authentication:
            log.warning(
                "access rules do not hold by HTTP: whoever reaches http.listener reads all (http.authentication)"
            )
        if listener.security_protocol == "SSL":
            from .http.https import Https

            https = Https(self.config)
        if self.config.http_authentication:
            from .http.authentication import HttpGate

            gate = HttpGate.of(
                self.config,
                lambda: self._users,
                self._guesses,
                partial(asyncio.run_coroutine_threadsafe, loop=self.loop),
            )
        return HttpServer(self, listener.host, listener.port, https=https, gate=gate)

    @property
    def transactions(self) -> TransactionCoordinator:
        """Made when first asked for, or at start when there is something to load: who has no transactions pays nothing."""
        if self._transactions is None:
            from .transactions.coordinator import TransactionCoordinator

            self._transactions = TransactionCoordinator.of(
                self._coordinator_parts, self.groups, self.features, self.producer_ids.next
            )
        return self._transactions

    @property
    def mover(self) -> LogMover:
        """Made when a log is first to be moved to another data directory."""
        if self.known_mover is None:
            from .partitions.log_mover import LogMover

            self.known_mover = LogMover(
                self.config, self.logs, self.partitions, self.cleaner.manager, self.time, self.loop
            )
        return self.known_mover

    @property
    def known_transactions(self) -> TransactionCoordinator | None:
        """`transactions`, unless nobody has asked for it yet."""
        return self._transactions

    @property
    def share(self) -> SharePartitions:
        """Made when first asked for, or at start when there is something to load, as `transactions` is."""
        if self._share is None:
            from .share.coordinator import ShareCoordinator
            from .share.manager import SharePartitions

            parts = self._coordinator_parts
            self._share = SharePartitions(
                parts, ShareCoordinator.of(parts), self.groups, self.resources, self.purgatory
            )
            self.socket_server.on_closed.append(self._share.connection_closed)
        return self._share

    @property
    def known_share(self) -> SharePartitions | None:
        """`share`, unless nobody has asked for it yet."""
        return self._share

    async def start(self) -> list[str]:
        """Starts everything; returns the address of each listener, Kafka's first.

        Raises DataDirectoryError, OSError … with one clear line; then nothing is left running but what `stop` ends.
        """
        check_policies(self.config.log_deletion_policies)
        raise_descriptor_limit()
        for notice in self.config.notices:
            log.info("%s", notice)
        if found := open_listeners(self.config):
            log.warning("%s; %s", "; ".join(listener.text for listener in found), ADVICE)
        if (listener := self.config.http_listener) is not None:
            self.http = await self.loop.run_in_executor(self.io_pool, self._http_of, listener)
            self.http.start()
        await self._open_logs()
        self.partitions = PartitionTable(self.topics, self.loop, self.conversions)
        self.topics.on_deleted.append(self.partitions.forget)
        self._coordinator_parts = CoordinatorParts(
            self.partitions, self.topics, self.dynamic, self.time, self.timer, self.loop, self.io_pool
        )
        self.producer_ids = ProducerIds(self.metadata)
        self.producer_ids.never_below(self.topics.producer_id_floor)
        self.groups = GroupCoordinator.of(self._coordinator_parts, self.resources)
        self.socket_server.wait_of = self.quotas.connected
        await self.groups.start()
        if self.topics.get(TRANSACTION_STATE) is not None:
            await self.transactions.start()
        if self.topics.get(SHARE_GROUP_STATE) is not None:
            await self.share.coordinator.start()
        await self.socket_server.start()
        self.logs.start()
        self.cleaner = LogCleaner(self.config, self.logs, self._file_system, self.time)
        self.topics.on_deleted.append(self.cleaner.manager.forget_topic)
        await self.loop.run_in_executor(self.io_pool, self.cleaner.start)
        self.loop.run_in_executor(self.io_pool, prefer_latency, threading.get_native_id())
        if self.logs.interrupted_moves:
            self.mover.resume()
        self.ready = True
        server = self.socket_server
        addresses = [str(endpoint) for endpoint in (*server.endpoints, *server.message_set_endpoints)]
        return [*addresses, self.http.url] if self.http is not None else addresses

    async def _open_logs(self) -> None:
        """Locks the directories, reads what topics there are, loads and recovers their logs."""
        logs = LogManager(self.config, self._file_system, self.time, self.scheduler)
        run = self.loop.run_in_executor
        await run(self.io_pool, logs.open)
        self.logs = logs
        self.metadata = MetadataStore(logs.directories[0])
        await run(self.io_pool, self._read_metadata)
        self.topics = TopicRegistry(self.config, self.metadata, self.io_pool, self.time, uuid.uuid4)
        with gc_paused(lambda: len(logs.logs())):
            await run(self.io_pool, lambda: logs.load(self.topics.config_of, self.recovery.update))
            await self.topics.start(logs)
        self.dynamic.on_changed.append(self._use)
        self.dynamic.checks.append(self.socket_server.check)
        if self.http is not None:
            self.dynamic.checks.append(self.http.check)
        if "basic" in self.config.http_authentication:
            _ = self.users  # read here, on the loop thread: HTTP's threads may look at them then

    def _read_metadata(self) -> None:
        """What Apache Kafka kept of topics, settings and features comes first: logs are loaded with it. Pool thread."""
        directories = self.logs.directories
        kafkas = partition_directory_name(CLUSTER_METADATA_TOPIC, 0)
        if any(self._file_system.exists(os.path.join(directory, kafkas)) for directory in directories):
            from .kraft.import_ import import_metadata

            now_ms = self.time.milliseconds()
            stored = import_metadata(self.metadata, self._file_system, directories, self.logs.node_id, now_ms)
        else:
            stored = self.metadata.read()
        # Clients take the answer with the higher epoch for the newer one: it rises from start to start.
        self.features = Features(stored.features, self.time.milliseconds())
        self.resources = ResourceConfigs(stored.resources, self.metadata, lambda: self.config)
        self._stored_credentials = stored.resources.get(SCRAM, {})
        if self.config.authorizer_class_name:
            from .security.acl.authorizer import AclAuthorizer

            self.authorizer = authorizer = AclAuthorizer.read(stored.resources.get(ACL, {}), self.metadata, self.config)
            authorizer.log_state()
        self.telemetry = ClientTelemetry(self.resources, self.config.telemetry_max_bytes, self.time)
        self.dynamic = DynamicSettings(self.config, stored.broker_configs, self.logs.node_id, self.metadata)
        self.quotas = QuotaManager(self.dynamic.config, stored.resources.get(QUOTA, {}), self.metadata, self.time)
        if self.dynamic.config is not self.config:
            self.config = self.dynamic.config
            self.socket_server.use(self.config)
            self.logs.use(self.config)
            self.scheduler.resize(self.config.background_threads)

    def _use(self, config: BrokerConfig) -> None:
        """Settings were changed while running. Loop thread."""
        self.config = config
        self.socket_server.use(config)
        if self.http is not None:
            self.http.use(config)
        self.quotas.use(config)
        self.logs.use(config)
        self.topics.use(config)
        if self._share is not None:
            self._share.settings.use(config)
        self.scheduler.resize(config.background_threads)
        if self.known_mover is not None:
            self.known_mover.use(config)
        if hasattr(self, "cleaner"):  # new threads wait for passes under way to end
            self.loop.run_in_executor(self.io_pool, self.cleaner.use, config)

    async def stop(self) -> None:
        """Stops cleanly, whatever `start` came to: answers under way go out, logs are closed and marked clean."""
        self.ready, self.stopping = False, True
        await self.socket_server.stop_accepting()
        deadline = self.loop.time() + STOP_GRACE_S
        connections = self.socket_server.connections
        self.purgatory.expire_all()
        # Polled: it happens once in a life, and nothing else needs to know when nobody is busy.
        while any(connection.busy for connection in connections) and self.loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await self.socket_server.close_all()
        await self.changes.finish(STOP_GRACE_S)  # of clients that did not wait for the answer
        run = self.loop.run_in_executor
        if self.known_mover is not None:
            await self.known_mover.stop()
        if hasattr(self, "groups"):
            self.groups.close()
        if self._transactions is not None:
            self._transactions.close()
        if self._share is not None:
            self._share.close()
            self._share.coordinator.close()
        await run(None, self.conversions.close)
        await run(None, self.long_requests.close)
        await run(None, self.long_changes.close)
        if hasattr(self, "partitions"):
            self.partitions.close()
            await run(None, self.partitions.join_writers)
        if hasattr(self, "topics"):
            await self.topics.stop()
        if hasattr(self, "cleaner"):
            await run(None, self.cleaner.stop)
        if hasattr(self, "logs"):
            await run(None, self.logs.shutdown)
        if hasattr(self, "metadata"):
            await run(None, self.metadata.close)
        if self.http is not None:
            await run(None, self.http.stop)
        await run(None, self.scheduler.shutdown)
        self.io_pool.shutdown()
        if self._passwords is not None:
            self._passwords.shutdown()


def raise_descriptor_limit() -> None:
    """Lifts the soft limit of open files to the hard one: connections and segments share it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def serve(config: BrokerConfig) -> int:
    """Runs a daemon until SIGTERM, SIGINT or SIGHUP; returns its exit code. Prints the ready line to stdout."""
    if config.event_loop == "asyncio":
        return asyncio.run(_serve(config))
    import uvloop

    return int(uvloop.run(_serve(config)))


async def _serve(config: BrokerConfig) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # Under nohup a terminal that closes is no reason to stop; otherwise it is one, and in order.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop.set)
    broker = Broker(config, loop)
    starting = loop.create_task(broker.start())
    stopping = loop.create_task(stop.wait())
    try:
        # A stop during a long recovery is obeyed when the directory in work is done; a second signal is not waited for.
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        addresses = await starting
        hint = broker.socket_server.hint
        print("ready", *addresses, *([f"({hint})"] if hint else []), flush=True)
        log.info("serving %s", " ".join(addresses))
        if hint:
            log.info("%s; see docs/CONTAINER.md", hint)
        log.info(
            "%s",
            durability_line(
                log_config(broker.config, {}), (partition_log.config for partition_log in broker.logs.logs())
            ),
        )
        await stopping
        log.info("stopping")
    finally:
        stopping.cancel()
        await broker.stop()
    log.info("stopped")
    return 0
