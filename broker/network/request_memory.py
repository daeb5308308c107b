"""Memory of requests that have not come whole: a connection's receive buffer, the pool, and the bound on all of them.

`ReceiveBuffer` is one connection's: the request that has not come whole, or what waits behind one that is in work.

    data:   | handled |  waiting  |   free   |
            0       start        end      capacity

`data` is from the `BufferPool` and may be longer than `capacity`. The loop reads into `free`; requests are handled where they
lie, from `start` on. The buffer never moves while a request in it is handled.

`RequestMemoryBudget` bounds the buffers of all connections, and the time in which a request must come. A buffer grows with the
bytes that came, never with those that are announced; beyond `limit` a connection that wants more is paused until others are
done. Three rules keep everybody going:

- the request that began first always gets its memory, so that requests never wait for each other in a circle;
- requests of up to `SMALL_BYTES` get theirs;
- while somebody waits, a request slower than `SCARCE_BYTES_PER_S` ends its connection.

So the buffers take at most `limit`, one more request, and `SMALL_BYTES` for each connection.

`Connection` asks and is told; the socket server calls `tick` and `wake_waiters`. Loop thread. Answers: `response_memory.py`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from ...protocol.framing import SIZE_BYTES, read_size


class ReceiveBuffer:
    """Loop thread.

    Attributes:
        data: the bytes; `start`, `end` and `capacity` are positions in it.
        frame_end: where the first request ends; 0 where its size has not come, or nobody waits for the rest of it.
    """

    __slots__ = ("_pool", "_view", "capacity", "data", "end", "frame_end", "start")

    def __init__(self, pool: BufferPool, capacity: int) -> None:
        self._pool = pool
        self.data = pool.take(capacity)
        self._view = memoryview(self.data)
        self.capacity = capacity
        self.start = self.end = self.frame_end = 0

    def __len__(self) -> int:
        """Bytes that wait to be handled."""
        return self.end - self.start

    @property
    def free(self) -> memoryview:
        """Free part of the buffer, where the next bytes go."""
        return self._view[self.end : self.capacity]

    @property
    def is_full(self) -> bool:
        """Nothing more can be read; what was handled may still be dropped."""
        return self.end == self.capacity

    def fill(self, source: bytearray, start: int, end: int) -> None:
        """Takes source[start:end] into a buffer that is new."""
        left = end - start
        self.data[:left] = memoryview(source)[start:end]
        self.end = left
        self._look_at_size()

    def make_room(self, capacity: int) -> None:
        """Drops what was handled, and moves the rest to the front, of a larger buffer where `capacity` asks for one."""
        old, left = self.data, len(self)
        if capacity > self.capacity:
            waiting = memoryview(old)[self.start : self.end]
            self._pool.give(old)
            self.data = self._pool.take(capacity)  # may be `old` again, which is longer than its capacity was
            self._view = memoryview(self.data)
            self.capacity = capacity
            self.data[:left] = waiting
            waiting.release()
        elif self.start:
            old[:left] = old[self.start : self.end]
        self.start, self.end = 0, left
        self._look_at_size()

    def give_back(self) -> None:
        """Gives the memory back to the pool; the buffer is not used again."""
        self._pool.give(self.data)

    def _look_at_size(self) -> None:
        self.frame_end = SIZE_BYTES + int(read_size(self.data, 0)[0]) if self.end >= SIZE_BYTES else 0


#: Buffers that are kept for the next large request, in all.
POOLED_BUFFER_BYTES = 16 << 20
#: A request of this size is given its room whatever others hold.
SMALL_BYTES = 16 * 1024
#: Each time so many bytes of a request have come, it has a second more than `request.receive.timeout.ms`.
SLOWEST_BYTES_PER_S = 16 * 1024
#: Rate at which a request must come while others wait for memory.
SCARCE_BYTES_PER_S = 64 * 1024
#: Milliseconds that a request has in any case.
GRACE_MS = 1000


class Receiver(Protocol):
    """A connection with a request that is not whole."""

    @property
    def request_bytes(self) -> int:
        """Bytes of the request that have come."""

    def go_on_receiving(self) -> None:
        """Asks for memory again: there may be some."""

    def time_is_up(self, reason: str) -> None:
        """Close the connection at once; the log line gives `reason`."""


class BufferPool:
    """Receive buffers that were used once: touching fresh memory costs more than a copy. Loop thread.

    Attributes:
        lent: bytes of the buffers that are in use.
    """

    __slots__ = ("_free", "_held", "lent")

    def __init__(self) -> None:
        self._free: dict[int, list[bytearray]] = {}
        self._held = 0
        self.lent = 0

    def take(self, capacity: int) -> bytearray:
        """A buffer of at least `capacity` bytes (a power of two)."""
        size = 1 << max(12, (capacity - 1).bit_length())
        self.lent += size
        free = self._free.get(size)
        if free:
            self._held -= size
            return free.pop()
        return bytearray(size)

    def give(self, buffer: bytearray | None) -> None:
        """Takes a buffer back; None is taken as nothing."""
        if buffer is None:
            return
        size = len(buffer)
        self.lent -= size
        if self._held + size <= POOLED_BUFFER_BYTES:
            self._held += size
            self._free.setdefault(size, []).append(buffer)


class RequestMemoryBudget:
    """Loop thread.

    Attributes:
        buffers: where connections take their buffers from, and give them back to.
        limit: bytes that they may take, −1 for any number.
        timeout_ms: for a request to come whole.
        waits, timed_out, shed: requests that had to wait for memory; that took too long; that were slow while others waited.
    """

    __slots__ = ("_asking", "_incomplete", "_waiting", "buffers", "limit", "shed", "timed_out", "timeout_ms", "waits")

    def __init__(self, limit: int, timeout_ms: int) -> None:
        self.buffers = BufferPool()
        self.limit = limit
        self.timeout_ms = timeout_ms
        self.waits = self.timed_out = self.shed = 0
        # Connection → ms of the clock of `tick` that its request has had; the oldest first.
        self._incomplete: dict[Receiver, int] = {}
        # By their order. Any of them may go, of very many.
        self._waiting: OrderedDict[Receiver, None] = OrderedDict()
        self._asking: Receiver | None = None

    def __len__(self) -> int:
        return len(self._incomplete)

    @property
    def scarce(self) -> bool:
        """True while a quarter of the limit is in use: buffers and reads are to be small."""
        return 0 <= self.limit <= 4 * self.buffers.lent

    @property
    def waiting(self) -> int:
        """Connections that are paused until there is memory."""
        return len(self._waiting)

    def track(self, connection: Receiver) -> None:
        """Measures the time of the connection's request from now on. Harmless while it does already."""
        if connection not in self._incomplete:
            self._incomplete[connection] = 0

    def untrack(self, connection: Receiver) -> None:
        """Forgets the request: it is whole, or its connection gone. Harmless when there is none."""
        if self._incomplete.pop(connection, None) is not None:
            self._waiting.pop(connection, None)

    def try_reserve(self, connection: Receiver, capacity: int, instead_of: int, waits: bool) -> bool:
        """True if the connection may have a buffer of `capacity` bytes in place of the one of `instead_of`. If not, a connection
        that `waits` is told to go on when there is memory. Connections that wait already come first."""
        asking = self._asking is connection
        if (
            self.limit < 0
            or capacity <= SMALL_BYTES
            or next(iter(self._incomplete), connection) is connection
            or (self.buffers.lent + capacity - instead_of <= self.limit and (asking or not self._waiting))
        ):
            return True
        if waits:
            self.waits += not asking
            self._waiting[connection] = None
        return False

    def wake_waiters(self) -> None:
        """Lets waiting connections ask again: first that of the oldest request, which always may have its memory, then the others
        in their order until one has to wait on. Not to be called from within a connection's work."""
        oldest = next(iter(self._incomplete), None)
        if oldest is not None and oldest in self._waiting:
            del self._waiting[oldest]
            self._ask(oldest)
        for _ in range(len(self._waiting)):
            if not self._waiting:
                return
            connection, _ = self._waiting.popitem(last=False)
            self._ask(connection)
            if connection in self._waiting:
                self._waiting.move_to_end(connection, last=False)
                return

    def _ask(self, connection: Receiver) -> None:
        self._asking = connection
        connection.go_on_receiving()
        self._asking = None

    def tick(self, elapsed_ms: int) -> None:
        """Adds `elapsed_ms` to the age of each request that is not whole, and ends the connections that were too slow.
        Connections paused for lack of memory do not age: that delay is ours."""
        waiting = frozenset(self._waiting)
        for connection, had in list(self._incomplete.items()):
            if connection in waiting:
                continue
            age = self._incomplete[connection] = had + elapsed_ms
            have = connection.request_bytes
            if age > self.timeout_ms + 1000 * have // SLOWEST_BYTES_PER_S:
                self.timed_out += 1
                connection.time_is_up(
                    f"{have} bytes of a request came in {age} ms (request.receive.timeout.ms={self.timeout_ms}, and a second "
                    f"more for each {SLOWEST_BYTES_PER_S} bytes)"
                )
            elif waiting and age > GRACE_MS and have > SMALL_BYTES and 1000 * have < SCARCE_BYTES_PER_S * age:
                self.shed += 1
                connection.time_is_up(
                    f"{have} bytes of a request came in {age} ms, while others waited for memory (queued.max.request.bytes)"
                )
        if self._waiting:
            self.wake_waiters()
