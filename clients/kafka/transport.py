"""Transport to a broker: a blocking socket, with TLS where the settings ask for it."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import Protocol

from ...protocol.client_security import ClientSecurity, ClientSecurityError

Address = tuple[str, int]

#: The largest answer that is waited for. Kafka's own limit of a batch is 2 GiB, but who sends one above this is not Kafka.
MOST_ANSWER_BYTES = 1_100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Pickled with each task of a pipeline. Times in milliseconds, sizes in bytes; a buffer size of −1 leaves it to the system.

    Attributes:
        client_id: the name in the header of each request, for the broker's quotas and logs.
        software: this client's name, for the broker's statistics; "" to give none.
        most_answer_bytes: an answer that announces more ends the connection.
    """

    client_id: str = "tidelog"
    software: str = ""
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    receive_buffer_bytes: int = -1
    send_buffer_bytes: int = -1
    most_answer_bytes: int = MOST_ANSWER_BYTES
    security: ClientSecurity = field(default_factory=ClientSecurity)


class Transport(Protocol):
    """Interface of a socket for a connection; calls take a bounded time and may raise OSError, TimeoutError among them."""

    def sendall(self, data: bytes | bytearray | memoryview, /) -> None:
        """Send all of `data`."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Waits for at least a byte; 0 at the end."""

    def close(self) -> None:
        """Close the socket."""


class TlsSettingsError(ClientSecurityError):
    """A file that TLS needs can't be used."""


class TlsFailedError(OSError):
    """The broker was reached, and TLS with it was not agreed on; `error` says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(*error.args)
        self.error = error


def open_transport(address: Address, settings: ConnectionSettings) -> Transport:
    """A connected socket. OSError, TlsFailedError among them; TlsSettingsError."""
    # In time to find no one there; what comes later has the request's time.
    opened = socket.create_connection(address, settings.connect_timeout_ms / 1000)
    try:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if settings.receive_buffer_bytes >= 0:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        if settings.send_buffer_bytes >= 0:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
        if settings.security.has_tls:
            opened = _secured(opened, address[0], settings.security)
        opened.settimeout(settings.request_timeout_ms / 1000)
    except BaseException:
        opened.close()
        raise
    return opened


def is_alert(error: OSError) -> bool:
    """True if the peer has ended TLS with an alert; False for a failure of the network."""
    import ssl

    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)


def _secured(plain: socket.socket, host: str, security: ClientSecurity) -> socket.socket:
    try:
        # Made for each connection: certificates are renewed while workers live.
        context = security.tls_context()
    except ClientSecurityError as error:
        raise TlsSettingsError(str(error)) from None
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except OSError as error:
        raise TlsFailedError(error) from error
