"""Memory of answers that their clients do not take: the bound on all of them, and how long a client may take nothing.

`Outbound` holds the bytes; the budget counts a connection from the moment that its socket does not take all of an answer until
it has. Slices of files wait too, but cost no memory and do not count. Unsent bytes in the kernel (SO_SNDBUF) take the kernel's
memory, and TCP stands still for everybody when that is used up: so with many connections here the kernel gets little of each
(`CROWDED_UNSENT_BYTES`). Loop thread; the socket server calls `tick`.
"""

from __future__ import annotations

from typing import Protocol

#: Of the kernel's for each connection, about: twice SO_SNDBUF as it is by default.
_KERNEL_BYTES = 200 * 1024
#: Unsent bytes per connection in the kernel when there are many.
CROWDED_UNSENT_BYTES = 16 * 1024


class Sender(Protocol):
    """A connection with an answer that was not taken whole."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes of answers in memory that the socket has not taken."""

    @property
    def send_progress(self) -> int:
        """A number that changes whenever the socket takes something, or a disk keeps it waiting."""

    def time_is_up(self, reason: str) -> None:
        """Close the connection at once; the log line gives `reason`."""


class _Waiting:
    """One connection that sends: its waiting bytes, its last `send_progress`, and milliseconds since they changed."""

    __slots__ = ("progress", "size", "still_ms")

    def __init__(self, size: int, progress: int) -> None:
        self.size = size
        self.progress = progress
        self.still_ms = 0


class ResponseMemoryBudget:
    """Loop thread.

    Attributes:
        limit: bytes that may wait in all, −1 for any number.
        timeout_ms: for a client that takes nothing.
        held: bytes that wait; of what has gone out in part, the whole counts until all has.
        timed_out, shed: clients that were closed because they took nothing; because there was too much for all.
    """

    __slots__ = ("_by_stillness", "_waiting", "held", "limit", "shed", "timed_out", "timeout_ms")

    def __init__(self, limit: int, timeout_ms: int) -> None:
        self.limit = limit
        self.timeout_ms = timeout_ms
        self.held = self.timed_out = self.shed = 0
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

    def track(self, connection: Sender) -> None:
        """Counts what the socket did not take. Above the limit, those end that took nothing for longest, never the newest."""
        self.untrack(connection)
        waiting = self._waiting[connection] = _Waiting(connection.unsent_bytes, connection.send_progress)
        if waiting.size:
            self._by_stillness[connection] = None
        self.held += waiting.size
        if 0 <= self.limit < self.held:
            self._shed(connection)

    def untrack(self, connection: Sender) -> None:
        """Forgets the connection: all has been taken, or it is gone. Harmless when it is not tracked."""
        waiting = self._waiting.pop(connection, None)
        if waiting is not None:
            self.held -= waiting.size
            self._by_stillness.pop(connection, None)

    def tick(self, elapsed_ms: int) -> None:
        """Ends the connections that took nothing for `timeout_ms`; `elapsed_ms` is the time since the last call."""
        for connection, waiting in list(self._waiting.items()):
            progress = connection.send_progress
            if progress != waiting.progress:
                waiting.progress, waiting.still_ms = progress, 0
                if waiting.size:  # behind all that took nothing since the last call
                    del self._by_stillness[connection]
                    self._by_stillness[connection] = None
                continue
            waiting.still_ms += elapsed_ms
            if waiting.still_ms > self.timeout_ms:
                self.timed_out += 1
                connection.time_is_up(
                    f"the client took nothing of its answer for {waiting.still_ms} ms "
                    f"(response.send.timeout.ms={self.timeout_ms})"
                )
                self.untrack(connection)

    def _shed(self, newest: Sender) -> None:
        """Ends connections until the limit holds: longest without progress first; of equals, the one that came first."""
        while self.held > self.limit:
            connection = next(iter(self._by_stillness))
            if connection is newest:  # it was tracked last, so nobody else is left
                return
            self.shed += 1
            connection.time_is_up(
                f"the client does not take its answer, and {self.held} bytes of answers wait "
                f"(queued.max.response.bytes={self.limit})"
            )
            self.untrack(connection)
