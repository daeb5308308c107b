"""A plain blocking socket around the core of `clients/kafka`: one request, one answer, in the version that a test wants.

What a test sends need not be a request, and what it waits for need not be an answer, so the socket and its bytes stay in sight.
"""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Self, TypeVar

from support.patience import PATIENCE_S
from tidelog.clients.kafka import protocol
from tidelog.protocol.headers import response_header_bytes
from tidelog.protocol.schema import ApiMessage

ResponseT = TypeVar("ResponseT", bound=ApiMessage)
CORRELATION_ID = 7


def request_frame(request: ApiMessage, version: int, correlation_id: int = CORRELATION_ID) -> bytes:
    """The framed request, with its header: no client id."""
    return bytes(protocol.request_frame(request, version, correlation_id, None))


class WireClient:
    """One connection; every wait is bounded. Use as a context manager."""

    def __init__(self, address: tuple[str, int], timeout_s: float = PATIENCE_S, source: str = "") -> None:
        """`source`: one of this machine's addresses, to come from."""
        self.socket = socket.create_connection(address, timeout_s, source_address=(source, 0) if source else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, data: bytes | bytearray) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """The next frame without its size; EOFError when the connection is closed instead."""
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def ask(self, request: ApiMessage, version: int, response: type[ResponseT]) -> ResponseT:
        exchange = protocol.ClientProtocol(None)
        ticket, data = exchange.send(request, response, version)
        self.send(data)
        answer = self.receive()
        # Stricter than a client is: this broker's headers have no tagged fields.
        assert answer.startswith(response_header_bytes(request.API_KEY, version, ticket.correlation_id))
        return exchange.receive(ticket, answer)

    def is_closed_by_peer(self) -> bool:
        """Waits for the end of the stream (or a reset); TimeoutError when the connection stays open."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return bytes(data)
