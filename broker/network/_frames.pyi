"""Types of the compiled part of a connection; the contract stands in `_frames.pyx` and `connection.py`."""

import asyncio

from .connection import Dispatches
from .connection_state import State
from .fair_queue import Ticket
from .outbound import Outbound
from .request_memory import ReceiveBuffer
from .socket_server import SocketServer

class FrameReader:
    _server: SocketServer
    _dispatcher: Dispatches
    _outbound: Outbound | None
    _buffer: ReceiveBuffer | None
    _state: State
    _muted: asyncio.TimerHandle | Ticket | None
    _is_heavy: bool | None
    _mean_ns: int
    _watched_reads: int
    last_active: int
    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
    def _process(self, buffer: bytearray, start: int, end: int) -> int: ...
