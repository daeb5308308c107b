"""Memory of answers that their clients do not take: the bounds on all of them and on each client's, and how long a client may
take nothing.

`Outbound` holds the bytes; the budget counts a connection from the moment that its socket does not take all of an answer until
it has. Slices of files wait too, but cost no memory and do not count. Unsent bytes in the kernel (SO_SNDBUF) take the kernel's
memory, and TCP stands still for everybody when that is used up: so with many connections here the kernel gets little of each
(`CROWDED_UNSENT_BYTES`).

A client is a principal, or the address of one that has not said who it is; it may have any number of connections. From half of
its bound on, `held_back` has it: requests of its that are large, or come on connections that are new or known to take long, do
not begin (`fair_queue.py`). While some wait for that, its connections that keep an answer for too long are closed (`STILL_MS`,
`OLD_MS`), so that the wait has an end. Above the bound, its connections are closed that took nothing for longest.

Loop thread; the socket server calls `tick`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

#: Of the kernel's for each connection, about: twice SO_SNDBUF as it is by default.
_KERNEL_BYTES = 200 * 1024
#: Unsent bytes per connection in the kernel when there are many.
CROWDED_UNSENT_BYTES = 16 * 1024
#: An unread answer counts as this much of its client's bound at least, so that this bounds their number too.
LEAST_CHARGE = 4096
#: Milliseconds. While requests of its client are held back, a connection that took nothing for so long is closed.
STILL_MS = 2000
#: The same for one whose answer waits for so long though something is taken now and then.
OLD_MS = 30_000


class Sender(Protocol):
    """A connection with an answer that was not taken whole."""

    @property
    def client(self) -> str:
        """Client that the connection belongs to, of which others may be: a principal or an address."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes of answers in memory that the socket has not taken."""

    @property
    def send_progress(self) -> int:
        """A number that changes whenever the socket takes something, or a disk keeps it waiting."""

    def time_is_up(self, reason: str) -> None:
        """Close the connection at once; the log line gives `reason`."""


class _Waiting:
    """One connection that sends: its client, its waiting bytes, its last `send_progress`, milliseconds since they changed, and
    since it is counted."""

    __slots__ = ("age_ms", "charge", "client", "progress", "size", "still_ms")

    def __init__(self, client: str, size: int, progress: int) -> None:
        self.client = client
        self.size = size
        self.charge = max(size, LEAST_CHARGE)
        self.progress = progress
        self.still_ms = self.age_ms = 0


class _Client:
    """A client's unread answers: bytes that count for its bound, and who keeps them; who took nothing for longest is first."""

    __slots__ = ("by_stillness", "charge")

    def __init__(self) -> None:
        self.charge = 0
        self.by_stillness: dict[Sender, None] = {}


class ResponseMemoryBudget:
    """Loop thread.

    Attributes:
        limit: bytes that may wait in all, −1 for any number.
        client_limit: bytes that may wait of one client, −1 for any number. Changed by `set_client_limit`.
        timeout_ms: for a client that takes nothing.
        held: bytes that wait; of what has gone out in part, the whole counts until all has.
        timed_out, shed, client_shed: clients that were closed because they took nothing; because there was too much for all; of
            their client.
        held_back: clients that keep more than half of their bound.
        is_waited_for: says of a client in `held_back` whether requests of its wait.
        on_released: called with a client that has left `held_back`.
    """

    __slots__ = (
        "_by_stillness", "_clients", "_waiting", "client_limit", "client_shed", "held", "held_back", "is_waited_for", "limit",
        "on_released", "shed", "timed_out", "timeout_ms",
    )  # fmt: skip

    def __init__(self, limit: int, timeout_ms: int, client_limit: int = -1) -> None:
        self.limit = limit
        self.client_limit = client_limit
        self.timeout_ms = timeout_ms
        self.held = self.timed_out = self.shed = self.client_shed = 0
        self.held_back: set[str] = set()
        self.is_waited_for: Callable[[str], bool] = lambda _client: False
        self.on_released: Callable[[str], object] = lambda _client: None
        self._clients: dict[str, _Client] = {}  # those that keep something
        self._waiting: dict[Sender, _Waiting] = {}
        # Those that hold memory; who took nothing for longest is first. Kept in order, since ten thousand may wait.
        self._by_stillness: dict[Sender, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def is_crowded(self, was: bool) -> bool:
        """True if so many connections wait that the kernel's memory for them may exceed the limit; from then on until they are
        half as many.
        """
        return 0 <= self.limit < len(self._waiting) * _KERNEL_BYTES * (1 + was)

    def set_client_limit(self, limit: int) -> None:
        """Changes the bound of each client."""
        self.client_limit = limit
        for client in list(self._clients):
            self._look_at(client)

    def track(self, connection: Sender) -> None:
        """Counts what the socket did not take. Above a limit, those end that took nothing for longest, never the newest."""
        self.untrack(connection)
        waiting = self._waiting[connection] = _Waiting(
            connection.client, connection.unsent_bytes, connection.send_progress
        )
        if waiting.size:
            self._by_stillness[connection] = None
            account = self._clients.setdefault(waiting.client, _Client())
            account.by_stillness[connection] = None
            account.charge += waiting.charge
            self._look_at(waiting.client)
        self.held += waiting.size
        if waiting.size and 0 <= self.client_limit < self._clients[waiting.client].charge:
            self._shed_of(waiting.client, connection)
        if 0 <= self.limit < self.held:
            self._shed(connection)

    def untrack(self, connection: Sender) -> None:
        """Forgets the connection: all has been taken, or it is gone. Harmless when it is not tracked."""
        waiting = self._waiting.pop(connection, None)
        if waiting is None or not waiting.size:
            return
        self.held -= waiting.size
        del self._by_stillness[connection]
        account = self._clients[waiting.client]
        del account.by_stillness[connection]
        account.charge -= waiting.charge
        self._look_at(waiting.client)
        if not account.by_stillness:
            del self._clients[waiting.client]

    def tick(self, elapsed_ms: int) -> None:
        """Ends the connections that took nothing for `timeout_ms`, and earlier where requests of their client are held back;
        `elapsed_ms` is the time since the last call."""
        for connection, waiting in list(self._waiting.items()):
            progress = connection.send_progress
            waiting.age_ms += elapsed_ms
            if progress != waiting.progress:
                waiting.progress, waiting.still_ms = progress, 0
                if waiting.size:  # behind all that took nothing since the last call
                    for order in (self._by_stillness, self._clients[waiting.client].by_stillness):
                        del order[connection]
                        order[connection] = None
                continue
            waiting.still_ms += elapsed_ms
            if waiting.still_ms > self.timeout_ms:
                self.timed_out += 1
                self._end(
                    connection,
                    f"the client took nothing of its answer for {waiting.still_ms} ms "
                    f"(response.send.timeout.ms={self.timeout_ms})",
                )
        for client in [client for client in self.held_back if self.is_waited_for(client)]:
            self._make_room(client)

    def _look_at(self, client: str) -> None:
        """Note whether the client keeps more than half of its bound."""
        if 0 <= self.client_limit < 2 * self._clients[client].charge:
            self.held_back.add(client)
        elif client in self.held_back:
            self.held_back.discard(client)
            self.on_released(client)

    def _make_room(self, client: str) -> None:
        """Ends connections that keep an answer for too long, until the client is not held back any more."""
        for connection in list(self._clients[client].by_stillness):
            if client not in self.held_back:
                return
            waiting = self._waiting[connection]
            if waiting.still_ms >= STILL_MS or waiting.age_ms >= OLD_MS:
                self.client_shed += 1
                self._end(
                    connection,
                    f"the client keeps an answer for {waiting.age_ms} ms while other requests of {client} wait for room "
                    f"(queued.max.response.bytes.per.client={self.client_limit})",
                )

    def _shed_of(self, client: str, newest: Sender) -> None:
        """Ends connections of the client until its limit holds, as `_shed`."""
        account = self._clients[client]
        while account.charge > self.client_limit:
            connection = next(iter(account.by_stillness))
            if connection is newest:
                return
            self.client_shed += 1
            self._end(
                connection,
                f"the client does not take its answer, and {account.charge} bytes of answers to {client} wait "
                f"(queued.max.response.bytes.per.client={self.client_limit})",
            )

    def _shed(self, newest: Sender) -> None:
        """Ends connections until the limit holds: longest without progress first; of equals, the one that came first."""
        while self.held > self.limit:
            connection = next(iter(self._by_stillness))
            if connection is newest:  # it was tracked last, so nobody else is left
                return
            self.shed += 1
            self._end(
                connection,
                f"the client does not take its answer, and {self.held} bytes of answers wait "
                f"(queued.max.response.bytes={self.limit})",
            )

    def _end(self, connection: Sender, reason: str) -> None:
        connection.time_is_up(reason)
        self.untrack(connection)
