"""What a connection is tested between: a transport that does as it is told, and a server with what connections ask of it."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from tidelog.broker.network.connection import Connection
from tidelog.broker.network.fair_queue import FairQueue
from tidelog.broker.network.outbound import SendCounters
from tidelog.broker.network.receive_budget import RequestMemoryBudget
from tidelog.broker.network.send_budget import ResponseMemoryBudget
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


class Server:
    """What a connection needs of its server, with small buffers."""

    def __init__(self, pool: ThreadPoolExecutor, max_request_bytes: int = 1 << 20) -> None:
        self.loop = asyncio.get_running_loop()
        self.now_ns = 1
        """Stands still unless a test moves it: nobody takes long by chance."""
        self.io_pool = pool
        self.send_counters = SendCounters()
        self.received_bytes = 0
        self.aborted_connections = 0
        self.failed_handshakes = 0
        self.max_request_bytes = max_request_bytes
        self.max_outbound_bytes = 500_000
        self.scratch = bytearray(4096)
        self.scratch_view = memoryview(self.scratch)
        self.ciphertext_view = memoryview(bytearray(8192))
        self.receiving = RequestMemoryBudget(-1, 30_000)
        self.sending = ResponseMemoryBudget(-1, 300_000)
        self.fair_queue = FairQueue(self.loop.call_soon)

    def now(self) -> int:
        return self.now_ns

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
