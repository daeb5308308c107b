"""A client that is a plain blocking socket: one request, one answer, as declared messages. For tests of the wire."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Self, TypeVar

from support.patience import PATIENCE_S
from tidelog.protocol.headers import response_header_bytes
from tidelog.protocol.schema import ApiMessage, decode, encode

ResponseT = TypeVar("ResponseT", bound=ApiMessage)
CORRELATION_ID = 7


def request_frame(request: ApiMessage, version: int, correlation_id: int = CORRELATION_ID) -> bytes:
    """The framed request, with its header: no client id."""
    header = struct.pack(">hhih", request.API_KEY, version, correlation_id, -1)
    if request.FLEXIBLE_FROM is not None and version >= request.FLEXIBLE_FROM:
        header += b"\0"  # no tagged fields
    body = encode(request, version)
    return struct.pack(">i", len(header) + len(body)) + header + body


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

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """The next frame without its size; EOFError when the connection is closed instead."""
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def ask(self, request: ApiMessage, version: int, response: type[ResponseT]) -> ResponseT:
        self.send(request_frame(request, version))
        answer = self.receive()
        header = response_header_bytes(request.API_KEY, version, CORRELATION_ID)
        assert answer.startswith(header)
        return decode(response, version, answer, len(header))[0]

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
