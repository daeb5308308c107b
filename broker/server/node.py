"""The daemon's life: what is started in which order, who owns it, and how it stops.

Start: HTTP (so that a probe sees "loading") → metadata → all parts are made → logs are loaded and recovered in threads →
coordinators → the listeners → background work → the ready line. Stop is the reverse, and ends with the clean-shutdown mark: no
request is answered after its log was closed.

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
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from ...config.log_config import log_config
from ...storage.clock import SystemTime, Time
from ...storage.deletion_policy import check_policies
from ...storage.io.filesystem import FileSystem, RealFileSystem
from ...storage.manager.data_directory import RESTORE_FILE
from ...storage.manager.log_manager import LogManager
from ...storage.scheduler import ThreadPoolScheduler
from ..http.server import HttpServer
from ..metadata.store import MetadataStore
from ..metadata.topics import SHARE_GROUP_STATE, TRANSACTION_STATE
from ..monitoring.node_state import NodeState
from ..network.socket_server import SocketServer
from ..produce_fetch._quick import QuickPath
from ..requests.dispatcher import Dispatcher
from ..requests.registry import listed_versions, load_apis
from ..runtime.durability import durability_line
from ..runtime.garbage import gc_paused
from ..runtime.lazy import Lazy
from ..runtime.service_manager import ServiceManager
from ..runtime.threads import prefer_latency
from ..runtime.timer import LoopTimer, Timer
from ..security.open_listeners import ADVICE, open_listeners
from .composition import (
    Basics,
    Securities,
    gated_message_sets,
    gated_requests,
    make_message_sets,
    make_services,
    read_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...config.broker_config import BrokerConfig
    from ...config.listener import Listener
    from ..network.connection import Dispatches, QuickDispatch
    from ..requests.services import Services

log = logging.getLogger(__name__)

IO_THREADS = 8
#: Time that a clean stop waits for answers that are on their way.
STOP_GRACE_S = 1.0
#: Time that the last cut of a clean stop may take.
BACKUP_STOP_S = 10.0


class Node:
    """One daemon. Made, started and stopped on the loop thread.

    Attributes:
        state: how far it is; whether it is ready, and the services that handlers use.
        http: None without `http.listener`, and before `start`.
        securities: makes what listeners ask of their clients.
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
        self._registrations = load_apis()
        time, io_pool = time or SystemTime(), ThreadPoolExecutor(IO_THREADS, "io")
        self._basics = Basics(
            config,
            loop,
            time,
            timer or LoopTimer(loop),
            file_system or RealFileSystem(),
            # Session ids need not be secret, only unlike those of the last run.
            randomness or random.SystemRandom(),
            io_pool,
            ThreadPoolScheduler(config.background_threads, time=time),
            SocketServer(loop, config, io_pool),
            listed_versions(self._registrations, telemetry=config.telemetry_enable),
        )
        self._around = around
        self.securities = Securities()
        self._message_sets = Lazy(lambda: make_message_sets(self.services))
        self.state = NodeState(config, loop, self._message_sets)
        self.http: HttpServer | None = None
        self._cleaner_lock = threading.Lock()
        # Open from when the directories are locked.
        self._logs: LogManager | None = None
        self._metadata: MetadataStore | None = None

    @property
    def socket_server(self) -> SocketServer:
        return self._basics.socket_server

    @property
    def services(self) -> Services:
        """Services for the handlers. There from the moment that the metadata are read."""
        assert self.state.services is not None
        return self.state.services

    async def start(self) -> list[str]:
        """Starts everything; returns the address of each listener, Kafka's first.

        Raises DataDirectoryError, OSError … with one clear line; then nothing is left running but what `stop` ends.
        """
        config, loop, io_pool = self._basics.config, self._basics.loop, self._basics.io_pool
        check_policies(config.log_deletion_policies)
        raise_descriptor_limit()
        for notice in config.notices:
            log.info("%s", notice)
        if found := open_listeners(config):
            log.warning("%s; %s", "; ".join(listener.text for listener in found), ADVICE)
        if (listener := config.http_listener) is not None:
            self.http = await loop.run_in_executor(io_pool, self._http_of, listener)
            self.http.start()
        services = await self._make_services()
        await self._load_logs(services)
        self._follow_settings(services)
        self.socket_server.wait_of = services.quotas.connected
        await self._start_coordinators(services)
        await self._listen(services)
        services.logs.start()
        await loop.run_in_executor(io_pool, services.cleaner.start)
        services.scrubber.start()
        if services.backup is not None:
            services.backup.start()
        loop.run_in_executor(io_pool, prefer_latency, threading.get_native_id())
        if services.logs.interrupted_moves:
            services.mover.get().resume()
        self.state.ready = True
        server = self.socket_server
        addresses = [str(endpoint) for endpoint in (*server.endpoints, *server.message_set_endpoints)]
        return [*addresses, self.http.url] if self.http is not None else addresses

    def _http_of(self, listener: Listener) -> HttpServer:
        """The HTTP server, bound. Reads files: pool thread."""
        config, https, gate = self._basics.config, None, None
        if config.authorizer_class_name and not config.http_authentication:
            log.warning(
                "access rules do not hold by HTTP: whoever reaches http.listener reads all (http.authentication)"
            )
        if listener.security_protocol == "SSL":
            from ..http.https import Https

            https = Https(config)
        if config.http_authentication:
            from ..http.authentication import HttpGate

            state = self.state
            gate = HttpGate.of(
                config,
                lambda: None if state.services is None else state.services.users.if_made,
                self.securities.guesses.get(),
                partial(asyncio.run_coroutine_threadsafe, loop=self._basics.loop),
            )
        return HttpServer(self.state, listener.host, listener.port, https=https, gate=gate)

    async def _make_services(self) -> Services:
        """Locks the directories, and makes all parts of what they keep besides logs."""
        basics = self._basics
        run = partial(basics.loop.run_in_executor, basics.io_pool)
        await run(_refuse_unfinished_restores, basics.file_system, basics.config.log_dirs)
        logs = LogManager(basics.config, basics.file_system, basics.time, basics.scheduler)
        await run(logs.open)
        self._logs = logs
        self._metadata = store = MetadataStore(logs.directories[0])
        kept = await run(read_metadata, basics, logs, store)
        config = kept.settings.config
        if config is not basics.config:
            self.socket_server.use(config)
            if self.http is not None:  # it listens since before the metadata were read
                self.http.use(config)
            logs.use(config)
            basics.scheduler.resize(config.background_threads)
        services = make_services(basics, logs, store, kept, 0 if self.http is None else self.http.port)
        await run(services.scrubber.recall)  # HTTP answers for services from now on
        self.state.services = services
        return services

    async def _load_logs(self, services: Services) -> None:
        """Loads and recovers the logs of all topics."""
        logs, topics = services.logs, services.topics
        run = partial(services.loop.run_in_executor, services.io_pool)
        with gc_paused(lambda: len(logs.logs())):
            await run(lambda: logs.load(topics.config_of, self.state.recovery.update))
            await topics.start(logs)
        # Before requests come: they move logs and delete topics, and the cleaner's checkpoints have to follow.
        await run(services.cleaner.load)
        services.producer_ids.never_below(topics.producer_id_floor)
        await run(services.scrubber.believe)
        if "basic" in self._basics.config.http_authentication:
            services.users.get()  # read here, on the loop thread: HTTP's threads may look at them then

    def _follow_settings(self, services: Services) -> None:
        """Have settings that are changed while running checked, and take effect, from now on."""
        settings = services.settings
        settings.on_changed.append(self._use)
        settings.checks.append(self.socket_server.check)
        if self.http is not None:
            settings.checks.append(self.http.check)

    def _use(self, config: BrokerConfig) -> None:
        """Hand settings that were changed while running to the parts that read them once. Loop thread."""
        services = self.services
        self.socket_server.use(config)
        if self.http is not None:
            self.http.use(config)
        services.quotas.use(config)
        services.logs.use(config)
        services.topics.use(config)
        if (shares := services.share.if_made) is not None:
            shares.settings.use(config)
        services.scheduler.resize(config.background_threads)
        services.scrubber.use(config)
        if (mover := services.mover.if_made) is not None:
            mover.use(config)
        # New threads wait for passes under way to end.
        services.loop.run_in_executor(services.io_pool, self._use_in_cleaner)

    def _use_in_cleaner(self) -> None:
        """Of two changes soon after each other either may come here first: both find the newest settings. Pool thread."""
        with self._cleaner_lock:
            self.services.cleaner.use(self.services.settings.config)

    async def _start_coordinators(self, services: Services) -> None:
        await services.groups.start()
        if services.topics.get(TRANSACTION_STATE) is not None:
            await services.transactions.get().start()
        if services.topics.get(SHARE_GROUP_STATE) is not None:
            await services.share.get().coordinator.start()

    async def _listen(self, services: Services) -> None:
        every = Dispatcher(services, self._registrations)
        every.quick = _quick_unless_fenced(QuickPath(services, every.metered).take, services.partitions.fence)
        dispatcher = self._around(every)
        await self.socket_server.start(
            partial(gated_requests, dispatcher),
            partial(gated_message_sets, self._message_sets),
            partial(self.securities.of, services),
        )

    async def stop(self) -> None:
        """Stops cleanly, whatever `start` came to: answers under way go out, logs are closed and marked clean."""
        run = self._aside
        self.state.ready, self.state.stopping = False, True
        services = self.state.services
        await self.socket_server.stop_accepting()
        if services is not None:
            await self._finish_requests(services)
            await self._close_parts(services)
        if self._logs is not None:
            await run(self._logs.shutdown)
        if self._metadata is not None:
            await run(self._metadata.close)
        if self.http is not None:
            await run(self.http.stop)
        await run(self._basics.scheduler.shutdown)
        self._basics.io_pool.shutdown()
        self.securities.close()

    async def _aside(self, task: Callable[..., object], *arguments: object) -> None:
        """Run what blocks in a thread; here, where the system gives none: a stop goes on to its end all the same, or threads that
        wait for it would keep the process, and its locks, for ever.
        """
        begun: list[None] = []

        def once() -> None:
            if not begun:  # a pool that can't grow may run later what it refused
                begun.append(None)
                task(*arguments)

        try:
            done = self._basics.loop.run_in_executor(None, once)
        except RuntimeError as error:
            log.warning("stopping without further threads: %s", error)
            try:
                once()
            except RuntimeError as failure:  # it needs a thread of its own
                log.error("a part could not be stopped: %s", failure)
        else:
            await done

    async def _finish_requests(self, services: Services) -> None:
        """Returns when all connections are closed; those that wait for an answer have had a moment."""
        deadline = services.loop.time() + STOP_GRACE_S
        connections = self.socket_server.connections
        services.purgatory.expire_all()
        # Polled: it happens once in a life, and nothing else needs to know when nobody is busy.
        while any(connection.busy for connection in connections) and services.loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await self.socket_server.close_all()
        await services.changes.finish(STOP_GRACE_S)  # of clients that did not wait for the answer

    async def _close_parts(self, services: Services) -> None:
        """Parts that requests use, above the logs."""
        run = self._aside
        if (mover := services.mover.if_made) is not None:
            await mover.stop()
        services.groups.close()
        if (transactions := services.transactions.if_made) is not None:
            transactions.close()
        if (shares := services.share.if_made) is not None:
            shares.close()
            shares.coordinator.close()
        await run(services.conversions.close)
        await run(services.long_requests.close)
        await run(services.long_changes.close)
        if services.backup is not None:
            # What was acknowledged is in the logs; a writer that still appends does so for nobody.
            await run(services.backup.stop, BACKUP_STOP_S)
        services.partitions.close()
        await run(services.partitions.join_writers)
        await services.topics.stop()
        await run(services.cleaner.stop)
        await run(services.scrubber.stop)


def _quick_unless_fenced(quick: QuickDispatch, fence: Callable[[], str | None] | None) -> QuickDispatch:
    """The quick path, which asks nobody whether records may be taken: while they may not, the general way refuses them."""
    if fence is None:
        return quick

    def take(*request: Any) -> Any:
        return NotImplemented if fence() is not None else quick(*request)

    return take


def _refuse_unfinished_restores(file_system: FileSystem, directories: Sequence[str]) -> None:
    """DataDirectoryError where `tidelog restore` has not come to its end. Blocks."""
    if any(file_system.exists(f"{directory}/{RESTORE_FILE}") for directory in directories):
        from ...backup.restore.marker import refuse_unfinished

        refuse_unfinished(file_system, directories)


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
    manager = ServiceManager.of(os.environ, LoopTimer(loop))
    if manager.watchdog_s is not None:
        # Its signal is SIGABRT: the journal then has what each thread was doing.
        import faulthandler

        faulthandler.enable()
    manager.starting()
    node = Node(config, loop)
    starting = loop.create_task(node.start())
    stopping = loop.create_task(stop.wait())
    try:
        # A stop during a long recovery is obeyed when the directory in work is done; a second signal is not waited for.
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        addresses = await starting
        hint = node.socket_server.hint
        print("ready", *addresses, *([f"({hint})"] if hint else []), flush=True)
        manager.serving(f"serving {' '.join(addresses)}")
        log.info("serving %s", " ".join(addresses))
        if hint:
            log.info("%s; see docs/CONTAINER.md", hint)
        log.info(
            "%s",
            durability_line(
                log_config(node.services.config, {}),
                (partition_log.config for partition_log in node.services.logs.logs()),
            ),
        )
        await stopping
        log.info("stopping")
    finally:
        stopping.cancel()
        manager.stopping()
        await node.stop()
        manager.close()
    log.info("stopped")
    return 0
