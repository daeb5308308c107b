"""HTTP's connections by TLS: the handshake, on the thread that will answer, within its time; and the certificate's renewal."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...config.exceptions import ConfigError
from ...config.listener_settings import HTTP
from ...protocol.errors import ErrorCode, ProtocolError
from ..security.principal import subject_of
from ..security.tls import TlsListener

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig

log = logging.getLogger(__name__)

_NO_TLS = (
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"This port speaks https.\n"
)


class Https:
    """TLS of the HTTP listener. `wrap` and `shake` run on HTTP's threads, `renew` on the accepting one, the rest on the
    loop's.
    """

    def __init__(self, config: BrokerConfig, now_s: Callable[[], float] = time.monotonic) -> None:
        """Reads files. Raises `TlsError` naming the setting that is wrong. `now_s`: a clock that only rises."""
        self.tls = TlsListener(HTTP, config)
        self.failed_handshakes = 0
        self._config = config
        self._now_s = now_s
        self._next_look_s = now_s() + config.ssl_files_check_interval_ms / 1000

    def check(self, config: BrokerConfig) -> None:
        """Raises `ProtocolError` INVALID_CONFIG where settings that changed make no TLS context."""
        try:
            if self.tls.is_changed(config):
                self.tls.try_settings(config)
        except ConfigError as error:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, str(error)) from None

    def use(self, config: BrokerConfig) -> None:
        """Take over a changed configuration, from the next look at the certificate on."""
        self._config = config
        self._next_look_s = 0.0

    def renew(self) -> None:
        """Looks at the files now and then; to be called often."""
        now, config = self._now_s(), self._config
        if now >= self._next_look_s:
            self._next_look_s = now + config.ssl_files_check_interval_ms / 1000
            self.tls.renew(config)

    def wrap(self, connection: socket.socket) -> ssl.SSLSocket:
        """The connection by TLS, before the handshake. The given socket can't be used any more."""
        return self.tls.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)

    def shake(self, connection: ssl.SSLSocket, peer: str) -> bool:
        """Does the handshake, which may take ssl.handshake.timeout.ms; whether it came to an end."""
        timeout_ms = int(self._config.of_listener(HTTP, "ssl.handshake.timeout.ms"))
        connection.settimeout(timeout_ms / 1000)
        try:
            connection.do_handshake()
        except (ssl.SSLError, OSError) as error:
            self.failed_handshakes += 1
            reason = getattr(error, "reason", None) or str(error)
            log.debug("http %s: the TLS handshake failed: %s", peer, reason)
            if "HTTP_REQUEST" in str(reason):
                with contextlib.suppress(OSError):
                    socket.socket.sendall(connection, _NO_TLS)
            return False
        return True

    @staticmethod
    def subject_of(connection: ssl.SSLSocket) -> str:
        """The subject of the certificate that the client has shown, "" where it has shown none. The handshake has checked it."""
        return subject_of(connection.getpeercert() or {})
