"""How bytes get to a broker and back. TLS wraps the socket here, and nowhere else."""

from __future__ import annotations

import socket
from typing import Protocol

from ...protocol.client_security import ClientSecurity, ClientSecurityError, tls_failure
from ..exceptions import AuthenticationError
from .settings import Address, ClientSettings


class Transport(Protocol):
    """What a connection needs of a socket; every call may raise OSError, TimeoutError among them."""

    def sendall(self, data: bytes | bytearray | memoryview, /) -> None:
        """All of it."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """At least a byte, or 0 at the end."""

    def settimeout(self, seconds: float | None, /) -> None:
        """For each of the calls above."""

    def close(self) -> None:
        """Gives it back."""


def open_transport(address: Address, settings: ClientSettings) -> Transport:
    """A connected socket, by TLS where the settings say so. OSError; AuthenticationError, for what stays wrong."""
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
    """Whether the other side has ended TLS, rather than the network."""
    import ssl

    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)


def _secured(plain: socket.socket, host: str, security: ClientSecurity) -> socket.socket:
    import ssl

    try:
        # Made for each connection: certificates are renewed while workers live.
        return security.tls_context().wrap_socket(plain, server_hostname=host)
    except ClientSecurityError as error:
        raise AuthenticationError(f"kafka.{error}") from None
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        raise  # the broker went away: it may come back
    except ssl.SSLError as error:
        raise AuthenticationError(str(tls_failure(host, error))) from None
