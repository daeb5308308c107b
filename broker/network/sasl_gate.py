"""SASL before the dispatcher: a connection of such a listener is handed to the dispatcher when its client is known.

Until then the gate lets three requests through: ApiVersions, SaslHandshake and SaslAuthenticate (KIP-152), or, after a
handshake of version 0, tokens without a header as Kafka 0.10 had them. Anything else ends the connection. When a session
ends (KIP-368), the connection is handed back to the gate, where only authentication helps.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ..runtime.exceptions import ConnectionAborted
from ..security.sasl.handshake import Authentication, check_size

if TYPE_CHECKING:
    from ..security.sasl.listener_security import ListenerSecurity
    from .connection import Connection, Dispatches, Reply

_read_header = struct.Struct(">hhi").unpack_from  # api key, api version, correlation id
_ALLOWED = frozenset((ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))


class SaslGate:
    """Handler of a listener's connections until their clients have authenticated. Loop thread."""

    __slots__ = ("_security", "dispatcher")

    #: Nothing is answered before it is known who asks.
    quick = None

    def __init__(self, dispatcher: Dispatches, security: ListenerSecurity) -> None:
        """`dispatcher` gets what may pass, and the connections whose clients are known."""
        self.dispatcher = dispatcher
        self._security = security

    def dispatch(self, buffer: bytearray, start: int, end: int, connection: Connection) -> Reply:
        """Dispatch as `Dispatcher.dispatch`. Raises ConnectionAborted for requests that need an authenticated client."""
        state = connection.authentication
        if state is None:
            hand_over = partial(self._hand_over, connection)
            state = connection.authentication = Authentication(connection, self._security, hand_over)
        if state.done:  # it came in one piece with the last step
            return self.dispatcher.dispatch(buffer, start, end, connection)
        check_size(end - start, self._security.max_receive_bytes)
        if state.raw:
            return state.token(bytes(memoryview(buffer)[start:end]))
        if end - start < 8:
            raise ConnectionAborted(f"a request of {end - start} bytes is shorter than its header")
        key, _, _ = _read_header(buffer, start)
        if key not in _ALLOWED:
            name = next((known.name for known in ApiKey if known == key), f"API key {key}")
            if state.expired:
                raise ConnectionAborted(f"{name} came after the session's end (connections.max.reauth.ms)")
            from .kafka07 import kafka_refusal  # few clients are that old

            raise kafka_refusal(buffer, start, end, connection, answers=False) or ConnectionAborted(
                f"{name} came before authentication: a client of this listener needs security.protocol="
                f"{connection.listener.security_protocol} and sasl.mechanism={' or '.join(self._security.mechanisms)}"
            )
        return self.dispatcher.dispatch(buffer, start, end, connection)

    def answered(self, key: int, since: int) -> None:
        self.dispatcher.answered(key, since)

    def name_of(self, key: int) -> str:
        return self.dispatcher.name_of(key)

    def _hand_over(self, connection: Connection, is_known: bool) -> None:
        connection.hand_to(self.dispatcher if is_known else self)
