"""What a connection is tested between: a transport that does as it is told, and a server with what connections ask of it."""

from __future__ import annotations

import asyncio
import socket
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from tidelog.broker.network.cold_reads import ColdReads
from tidelog.broker.network.connection import Connection
from tidelog.broker.network.fair_queue import FairQueue
from tidelog.broker.network.outbound import SendCounters
from tidelog.broker.network.request_memory import RequestMemoryBudget
from tidelog.broker.network.response_memory import ResponseMemoryBudget
from tidelog.broker.network.socket_server import Endpoint


class Transport(asyncio.Transport):
    def __init__(self, sock: socket.socket) -> None:
        super().__init__({"socket": sock, "peername": ("127.0.0.9", 1234), "sockname": ("127.0.0.1", 9092)})
        self.reading = True
        self.aborted = False

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


class Loop:
    """The running loop; what is to be called later is kept, so that a test can see it and call it before its time.

    Attributes:
        timers: handles that were given out, in order.
        writers: by file descriptor, what is called when its socket takes more.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # The handles alone keep what they call: a timer that was cancelled holds nothing.
        self._calls: list[tuple[asyncio.TimerHandle, weakref.ref[Callable[[], object]]]] = []
        self.writers: dict[int, Callable[..., object]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    @property
    def timers(self) -> list[asyncio.TimerHandle]:
        return [handle for handle, _ in self._calls]

    def waiting(self) -> list[asyncio.TimerHandle]:
        """Timers that have neither been cancelled nor fired by a test."""
        return [handle for handle in self.timers if not handle.cancelled()]

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        call = partial(callback, *args)
        handle = self._loop.call_at(when, call)
        self._calls.append((handle, weakref.ref(call)))
        return handle

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        return self.call_at(self._loop.time() + delay, callback, *args)

    def add_writer(self, fd: int, callback: Callable[..., object], *args: Any) -> None:
        self.writers[fd] = partial(callback, *args)
        self._loop.add_writer(fd, callback, *args)

    def remove_writer(self, fd: int) -> None:
        self.writers.pop(fd, None)
        self._loop.remove_writer(fd)

    def fire(self, timer: asyncio.TimerHandle) -> None:
        """Call what the timer is for, now."""
        (call,) = (call() for handle, call in self._calls if handle is timer)
        timer.cancel()
        assert call is not None
        call()


@contextmanager
def cold_reads() -> Iterator[ColdReads]:
    """Reads of pages by real threads, without pauses."""
    made = ColdReads(asyncio.get_running_loop(), 100)
    try:
        yield made
    finally:
        end_cold_reads(made)


def end_cold_reads(reads: ColdReads) -> None:
    """Close, and wait for reads ahead that are under way: until then they hold their files."""
    reads.close()
    for device in reads._devices.values():
        device.threads._pool.shutdown()  # type: ignore[attr-defined]


class Server:
    """Stand-in for a connection's server, with small buffers."""

    def __init__(self, pool: ThreadPoolExecutor, max_request_bytes: int = 1 << 20) -> None:
        self.loop = Loop()
        self.now_ns = 1
        """Stands still unless a test moves it: nobody takes long by chance."""
        self.others_ns = 0
        """Of that, what other threads and processes had: no time of the loop thread's."""
        self.io_pool = pool
        self.cold_reads = ColdReads(self.loop, 100)  # type: ignore[arg-type]
        self.send_counters = SendCounters()
        self.received_bytes = self.heavy_bytes = 0
        self.aborted_connections = 0
        self.failed_handshakes = 0
        self.max_request_bytes = max_request_bytes
        self.max_outbound_bytes = 500_000
        self.scratch = bytearray(4096)
        self.scratch_view = memoryview(self.scratch)
        self.ciphertext_view = memoryview(bytearray(8192))
        self.plaintext_view = memoryview(bytearray(8192))
        self.receiving = RequestMemoryBudget(-1, 30_000)
        self.sending = ResponseMemoryBudget(-1, 300_000)
        self.fair_queue = FairQueue(self.loop.call_soon, held_back=self.sending.held_back)
        self.sending.is_waited_for, self.sending.on_released = self.fair_queue.holds, self.fair_queue.release

    def now(self) -> int:
        return self.now_ns

    def thread_now(self) -> int:
        return self.now_ns - self.others_ns

    def advertised_to(self, endpoint: Endpoint, dialled: tuple[str, int], peer: str) -> tuple[str, int]:
        return dialled

    def connection_opened(self, connection: Connection) -> str | None:
        return None

    def connection_closed(self, connection: Connection) -> None:
        pass

    def connection_known(self, connection: Connection, principal: str) -> str | None:
        return None

    def schedule_tick(self) -> None:
        pass

    def memory_changed(self) -> None:
        pass


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body
