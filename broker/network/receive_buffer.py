"""A connection's own receive buffer: the request that has not come whole, or what waits behind one that is in work.

    data:   | handled |  waiting  |   free   |
            0       start        end      capacity

`data` comes from a pool and may be longer than `capacity`. The loop reads into `free`; requests are handled where they lie, from
`start` on. The buffer never moves while a request in it is handled. Loop thread.
"""

from __future__ import annotations

from ...protocol.framing import SIZE_BYTES, read_size
from .receive_budget import BufferPool


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
