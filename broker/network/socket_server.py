"""Listeners and the limits that hold for all connections, whichever protocol they speak: a listener's requests are framed
alike, and go to the listener's own handler.

Owns, on the loop thread: the bound sockets, the set of open connections, the scratch buffer that they share, and the bounds
on requests and answers that are not whole (`request_memory.py`, `response_memory.py`). `stop_accepting` and `close_all` are the
two halves of a clean stop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns, thread_time_ns, time
from typing import TYPE_CHECKING

from ..runtime.garbage import malloc_trim
from ..runtime.log_flood import FLOOD
from .advertised_address import HINT, container_network, plain_host
from .cold_reads import ColdReads
from .connection import Connection
from .descriptor_limit import Descriptors, open_limit
from .fair_queue import FairQueue
from .outbound import SendCounters
from .request_memory import RequestMemoryBudget
from .response_memory import CROWDED_UNSENT_BYTES, ResponseMemoryBudget

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ...config.broker_config import BrokerConfig
    from ...config.listener import Listener
    from ..security.sasl.listener_security import ListenerSecurity
    from .connection import Dispatches

log = logging.getLogger(__name__)

#: One read takes at most this much; all connections of a loop share the buffer.
SCRATCH_BYTES = 256 * 1024
#: Bytes of one read while memory for incomplete requests is scarce.
SCARCE_READ_BYTES = 16 * 1024
#: Requests and answers that are not whole are looked at so often, in seconds.
TICK_S = 1.0
#: Where they held more, the memory is given back to the system when there are none any more.
MUCH_BYTES = 32 << 20
#: So are the buffers of so many connections that have gone.
MANY_CLOSED = 500


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A bound listener. `advertised` is None when clients are told the address that they dialled."""

    name: str
    security_protocol: str
    host: str
    port: int
    advertised: tuple[str, int] | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(slots=True)
class ListenerCounts:
    """Counters of one listener: open connections, outcomes of all that came, milliseconds that new ones had to wait, and those
    closed because their clients are of Kafka 0.7."""

    open: int = 0
    accepted: int = 0
    refused: int = 0
    waited_ms: int = 0
    kafka07: int = 0


class SocketServer:
    """All listeners of one daemon but HTTP's. Loop thread only.

    Attributes:
        endpoints: bound listeners of Kafka's protocol: what clients are told of.
        message_set_endpoints: bound listeners of the message-set protocol.
        container: the network of the container that the daemon runs in; None outside of one.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: BrokerConfig,
        io_pool: Executor,
    ) -> None:
        self.loop = loop
        # Not the loop's clock: uvloop's counts milliseconds, and stands still while what came in is handled.
        self.now = perf_counter_ns
        self.thread_now = thread_time_ns
        self.io_pool = io_pool
        self.cold_reads = ColdReads(loop, config.fetch_cold_disk_percent)
        self.send_counters = SendCounters()
        self.received_bytes = 0
        self.heavy_bytes = 0
        """Of these, what came on connections that take tickets, or are new."""
        self.refused_connections = 0
        self.aborted_connections = 0
        self.accepted_connections = 0
        self.listeners: dict[str, ListenerCounts] = {}
        """By the name of each endpoint; those of one name (all message-set listeners) together."""
        self.failed_handshakes = 0
        self.securities: dict[str, ListenerSecurity] = {}
        """Security of each listener, by name; listeners that ask for nothing are not there."""
        self.max_request_bytes = config.socket_request_max_bytes
        self.max_outbound_bytes = config.connection_outbound_max_bytes
        self.scratch = bytearray(SCRATCH_BYTES)
        self._whole_view = memoryview(self.scratch)
        self._scarce_view = self._whole_view[:SCARCE_READ_BYTES]
        self.scratch_view = self._whole_view
        """Scratch buffer of connections that have none of their own."""
        self._ciphertext_view: memoryview | None = None
        self._plaintext_view: memoryview | None = None
        self.receiving = RequestMemoryBudget(config.queued_max_request_bytes, config.request_receive_timeout_ms)
        self.sending = ResponseMemoryBudget(
            config.queued_max_response_bytes, config.response_send_timeout_ms, config.queued_max_response_bytes_per_client
        )  # fmt: skip
        self.fair_queue = FairQueue(
            loop.call_soon, lambda: self.received_bytes - self.heavy_bytes, self.sending.held_back
        )  # fmt: skip
        self.sending.is_waited_for, self.sending.on_released = self.fair_queue.holds, self.fair_queue.release
        self.descriptors = Descriptors(open_limit())
        self._ticker: asyncio.TimerHandle | None = None
        self._crowded = False
        self._ticked = 0.0
        self._most_held = 0
        self._closed = 0
        self._waking = False
        self.endpoints: list[Endpoint] = []
        self.container = container_network(os.environ)
        self._warned = False
        self.message_set_endpoints: list[Endpoint] = []
        self.on_closed: list[Callable[[Connection], object]] = []
        """Called with each connection that has ended."""
        self.connections: set[Connection] = set()
        self.wait_of: Callable[[str, str], int] = lambda _address, _listener: 0
        """Milliseconds for which a new connection from an address to a listener is not read: quotas on connections (KIP-612)."""
        self._per_host: Counter[str] = Counter()
        self._per_principal: Counter[str] = Counter()
        self._known: dict[Connection, str] = {}
        self._config = config
        self._servers: list[asyncio.Server] = []
        self._sweeper: asyncio.TimerHandle | None = None
        self._renewal: asyncio.TimerHandle | None = None

    @property
    def ciphertext_view(self) -> memoryview:
        """Buffer that TLS connections read into: one for all, made with the first."""
        if self._ciphertext_view is None:
            self._ciphertext_view = memoryview(bytearray(SCRATCH_BYTES))
        return self._ciphertext_view

    @property
    def plaintext_view(self) -> memoryview:
        """Buffer that TLS connections encrypt files from, as above. Another: answers are sent while a read is worked on."""
        if self._plaintext_view is None:
            self._plaintext_view = memoryview(bytearray(SCRATCH_BYTES // 2))
        return self._plaintext_view

    def use(self, config: BrokerConfig) -> None:
        """Applies a changed configuration: limits hold for connections that come from now on; open ones stay."""
        self._config = config
        self.receiving.limit, self.receiving.timeout_ms = (
            config.queued_max_request_bytes, config.request_receive_timeout_ms
        )  # fmt: skip
        self.sending.limit, self.sending.timeout_ms = (
            config.queued_max_response_bytes, config.response_send_timeout_ms
        )  # fmt: skip
        self.sending.set_client_limit(config.queued_max_response_bytes_per_client)
        self.cold_reads.percent = config.fetch_cold_disk_percent
        for security in self.securities.values():
            security.use(config)
        self.renew_certificates()

    def check(self, config: BrokerConfig) -> None:
        """Raises `ProtocolError` INVALID_CONFIG where a listener's certificates can't be used. Reads small files."""
        for security in self.securities.values():
            security.check(config)

    async def start(
        self,
        requests: Callable[[ListenerSecurity | None], Dispatches],
        message_sets: Callable[[ListenerSecurity | None], Dispatches],
        security_of: Callable[[Listener], ListenerSecurity],
    ) -> None:
        """Binds every listener of the configuration. Raises OSError naming the listener that can't be had.

        `requests` makes the handler of one of `listeners`, `message_sets` that of one of `message.set.listeners`; clients
        authenticate first if the listener's security asks for it. `security_of` is asked for listeners that do not speak
        PLAINTEXT, in a pool thread.
        """
        advertised = {listener.name: (listener.host, listener.port) for listener in self._config.advertised_listeners}
        for listener in self._config.listeners:
            endpoint = await self._listen(listener, "listeners", requests, security_of, advertised.get(listener.name))
            self.endpoints.append(endpoint)
            self._counts(endpoint.name)
        for listener in self._config.message_set_listeners:
            endpoint = await self._listen(listener, "message.set.listeners", message_sets, security_of)
            self.message_set_endpoints.append(endpoint)
        self._schedule_sweep()
        self._schedule_renewal()

    def advertised_to(self, endpoint: Endpoint, dialled: tuple[str, int], peer: str) -> tuple[str, int]:
        """The address that a client from `peer` is told, which came in at `dialled` (the accepted socket's local address)."""
        if endpoint.advertised is not None:
            return endpoint.advertised
        host, port = plain_host(dialled[0]), dialled[1]
        if self.container is not None:
            peer = plain_host(peer)
            if peer in self.container.gateways:
                if self._config.container_gateway_localhost:
                    return "localhost", port
            elif not self._warned and self.container.is_beyond(peer):
                self._warned = True
                log.warning(
                    "a client from %s, beyond the container's networks, is told to connect to %s:%d, which it may not reach: set "
                    "advertised.listeners=%s://HOST:PORT to the address that it dials",
                    peer, host, port, endpoint.name,
                )  # fmt: skip
        return host, port

    @property
    def hint(self) -> str:
        """Text that the ready line adds if the address that clients are told may be wrong for some; else empty."""
        open_endpoints = [
            endpoint
            for endpoint in self.endpoints
            if not endpoint.advertised and endpoint.host not in ("127.0.0.1", "::1")
        ]
        return HINT if self.container is not None and open_endpoints else ""

    def connection_opened(self, connection: Connection) -> str | None:
        """Counts a connection in; a text says why it is refused."""
        config, host, name = self._config, connection.peer_host, connection.listener.name
        counts = self._counts(name)
        limit, own = config.max_connections, config.listener_limits.get(name)
        per_host = config.max_connections_per_ip_overrides.get(host, config.max_connections_per_ip)
        if own is not None and own.connections is not None and counts.open >= own.connections:
            self._refuse(counts)
            setting = f"listener.name.{name.lower()}.max.connections"
            return f"{own.connections} connections are open at listener {name} ({setting})"
        if len(self.connections) >= limit:
            self._refuse(counts)
            return f"{limit} connections are open (max.connections)"
        if self._per_host[host] >= per_host:
            self._refuse(counts)
            name = "max.connections.per.ip" + (".overrides" if host in config.max_connections_per_ip_overrides else "")
            return f"{per_host} connections are open from there ({name})"
        if not self.descriptors.has_room(len(self.connections)):
            self._refuse(counts)
            return f"of {self.descriptors.limit} file descriptors an eighth is kept for files (ulimit -n)"
        self.connections.add(connection)
        self._per_host[host] += 1
        counts.open += 1
        counts.accepted += 1
        self.accepted_connections += 1
        if wait_ms := self.wait_of(host, name):
            counts.waited_ms += wait_ms
            connection.mute(wait_ms)
        security = self.securities.get(connection.listener.name)
        if security is not None and security.tls is None:
            security.expect(connection)
        return None

    def connection_known(self, connection: Connection, principal: str) -> str | None:
        """A client has said who it is; a text says why it is refused. Once more for the same connection changes nothing."""
        if connection in self._known:
            return None
        most = self._config.max_connections_per_principal
        if self._per_principal[principal] >= most:
            self._refuse(self._counts(connection.listener.name))
            return f"{most} connections of {principal} are open (max.connections.per.principal)"
        self._known[connection] = principal
        self._per_principal[principal] += 1
        return None

    def schedule_tick(self) -> None:
        """Check unfinished requests and answers each second from now on, until there are none."""
        self._look_at_crowd()
        if self._ticker is None:
            self._ticked = self.loop.time()
            self._ticker = self.loop.call_later(TICK_S, self._tick)

    def _look_at_crowd(self) -> None:
        """Limit each connection's unsent bytes in the kernel while many answers wait; lift the limit afterwards."""
        crowded = self.sending.is_crowded(self._crowded)
        if crowded is self._crowded:
            return
        self._crowded = crowded
        unsent = self.send_counters.unsent_bytes = CROWDED_UNSENT_BYTES if crowded else 0
        for connection in self.connections:
            connection.leave_unsent(unsent)

    def memory_changed(self) -> None:
        """Called when a receive buffer was taken or given back: makes reads small while memory is scarce, and has connections
        that wait for memory ask again in the next round of the loop."""
        receiving = self.receiving
        self.scratch_view = self._scarce_view if receiving.scarce else self._whole_view
        if receiving.waiting and not self._waking:
            self._waking = True
            self.loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._waking = False
        self.receiving.wake_waiters()

    def _tick(self) -> None:
        now = self.loop.time()
        # The time that the loop itself stood still is not the clients'.
        elapsed_ms = int(1000 * min(now - self._ticked, 2 * TICK_S))
        self._ticked = now
        try:
            self.receiving.tick(elapsed_ms)
            self.sending.tick(elapsed_ms)
            self._look_at_crowd()
        finally:  # not before: a connection closed within schedules a tick, and there would be two tickers
            self._ticker = None
        FLOOD.flush(time())
        self._most_held = max(self._most_held, self.receiving.buffers.lent + self.sending.held)
        if self.receiving or self.sending or FLOOD.pending:
            self._ticker = self.loop.call_later(TICK_S, self._tick)
        elif self._most_held > MUCH_BYTES or self._closed >= MANY_CLOSED:
            self._most_held = self._closed = 0
            self.loop.run_in_executor(self.io_pool, malloc_trim)

    def _counts(self, name: str) -> ListenerCounts:
        counts = self.listeners.get(name)
        if counts is None:
            counts = self.listeners[name] = ListenerCounts()
        return counts

    def _refuse(self, counts: ListenerCounts) -> None:
        self.refused_connections += 1
        counts.refused += 1

    def connection_closed(self, connection: Connection) -> None:
        """Counts a connection out; one that was refused was never in."""
        if connection in self.connections:
            self.connections.discard(connection)
            self._closed += 1
            if self._closed >= MANY_CLOSED:
                self.schedule_tick()
            self._counts(connection.listener.name).open -= 1
            if (principal := self._known.pop(connection, None)) is not None:
                self._per_principal[principal] -= 1
                if not self._per_principal[principal]:
                    del self._per_principal[principal]
            self._per_host[connection.peer_host] -= 1
            if not self._per_host[connection.peer_host]:
                del self._per_host[connection.peer_host]
            for callback in self.on_closed:
                callback(connection)

    async def stop_accepting(self) -> None:
        """Closes the listeners; open connections stay."""
        for timer in (self._sweeper, self._renewal):
            if timer is not None:
                timer.cancel()
        for server in self._servers:
            server.close()
        await asyncio.sleep(0)

    async def close_all(self) -> None:
        """Closes every connection and waits until the loop has let go of them."""
        self.cold_reads.close()
        for connection in list(self.connections):
            connection.close()
        while self.connections:  # noqa: ASYNC110 - a few turns of the loop, at shutdown only
            await asyncio.sleep(0)
        if self._ticker is not None:  # until here it looks at those that are answered while the daemon stops
            self._ticker.cancel()
            self._ticker = None

    # -- inside

    async def _listen(
        self,
        listener: Listener,
        setting: str,
        handler_for: Callable[[ListenerSecurity | None], Dispatches],
        security_of: Callable[[Listener], ListenerSecurity],
        advertised: tuple[str, int] | None = None,
    ) -> Endpoint:
        security = None
        if listener.security_protocol != "PLAINTEXT":
            security = self.securities.get(listener.name)  # all message-set listeners of one scheme have one
            if security is None:
                security = await self.loop.run_in_executor(self.io_pool, security_of, listener)
                self.securities[listener.name] = security
        sock = self._bind(listener.host, listener.port, setting)
        host, port = sock.getsockname()[:2]
        endpoint = Endpoint(listener.name, listener.security_protocol, host, port, advertised)
        server = await self.loop.create_server(
            self._factory(endpoint, handler_for(security), security),
            sock=sock, backlog=self._config.socket_listen_backlog_size,
        )  # fmt: skip
        self._servers.append(server)
        return endpoint

    def _factory(
        self, endpoint: Endpoint, handler: Dispatches, security: ListenerSecurity | None
    ) -> Callable[[], Connection]:
        """Factory of a listener's connections."""
        if security is None or security.tls is None:
            return lambda: Connection(self, endpoint, handler)
        from .tls_connection import TlsConnection

        return lambda: TlsConnection(self, endpoint, handler, security)

    def _schedule_renewal(self) -> None:
        if any(security.tls is not None for security in self.securities.values()):
            interval = self._config.ssl_files_check_interval_ms / 1000
            self._renewal = self.loop.call_later(interval, self._renew_and_again)

    def _renew_and_again(self) -> None:
        self.renew_certificates()
        self._schedule_renewal()

    def renew_certificates(self) -> None:
        """Read certificates and keys again whose files have changed, on a pool thread."""
        for security in self.securities.values():
            if security.tls is not None:
                self.loop.run_in_executor(self.io_pool, security.tls.renew, self._config)

    def _bind(self, host: str, port: int, setting: str) -> socket.socket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Accepted sockets inherit these.
            for option, size in (
                (socket.SO_SNDBUF, self._config.socket_send_buffer_bytes),
                (socket.SO_RCVBUF, self._config.socket_receive_buffer_bytes),
            ):
                if size > 0:
                    sock.setsockopt(socket.SOL_SOCKET, option, size)
            sock.bind((host, port))
        except OSError as error:
            sock.close()
            from ..runtime.bind_failure import bind_failure  # no start needs it that succeeds

            raise bind_failure(f"listener {host}:{port}", error, setting) from None
        return sock

    def _schedule_sweep(self) -> None:
        # Four looks a limit: a connection is closed at most a quarter late.
        interval = min(max(self._config.connections_max_idle_ms / 4000, 0.05), 60.0)
        self._sweeper = self.loop.call_later(interval, self._sweep)

    def _sweep(self) -> None:
        oldest = self.now() - self._config.connections_max_idle_ms * 1_000_000
        for connection in list(self.connections):
            if connection.last_active < oldest and not connection.busy:
                connection.close(f"idle for {self._config.connections_max_idle_ms} ms (connections.max.idle.ms)")
        self._schedule_sweep()
