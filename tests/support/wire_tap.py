"""A tap between clients and a broker: passes everything on, and keeps the requests as they came."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType
from typing import Self

_SIZE = struct.Struct(">i")


class WireTap:
    """Listens on a free port of 127.0.0.1. The broker has to advertise that address, or clients go past the tap."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        #: Where to pass things on to; set before the first client comes.
        self.target = ("127.0.0.1", 0)
        self._lock = threading.Lock()
        self._requests: list[bytes] = []
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sock in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in self._threads:
            thread.join(60)

    def take(self) -> list[bytes]:
        """The requests since the last call, without their sizes."""
        with self._lock:
            taken, self._requests = self._requests, []
            return taken

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self.target)
                self._sockets += [client, broker]
                for work in ((client, broker, True), (broker, client, False)):
                    thread = threading.Thread(target=self._pass, args=work, daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _pass(self, source: socket.socket, drain: socket.socket, keep: bool) -> None:
        buffer = b""
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if keep:  # before it is passed on: what a client has an answer to is there
                    buffer = self._keep(buffer + data)
                drain.sendall(data)
            drain.shutdown(socket.SHUT_WR)

    def _keep(self, buffer: bytes) -> bytes:
        while len(buffer) >= _SIZE.size:
            end = _SIZE.size + _SIZE.unpack_from(buffer)[0]
            if len(buffer) < end:
                break
            with self._lock:
                self._requests.append(buffer[_SIZE.size : end])
            buffer = buffer[end:]
        return buffer
