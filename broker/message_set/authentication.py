"""AUTHENTICATE before the message-set protocol's other requests, where `message.set.authentication=plain`.

A connection is handed to the listener's handler when its client is known. Until then AUTHENTICATE is the only request; any other
is answered with ILLEGAL_SASL_STATE, which is the last thing that the connection hears. So is a refusal, which comes late
(`connection.failed.authentication.delay.ms`). The check and its users are PLAIN's. When a session ends
(`connections.max.reauth.ms`), the connection is handed back, and only the same user goes on with it.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable
from typing import TYPE_CHECKING, cast

from ...protocol.errors import ErrorCode, MalformedRequest
from ...protocol.message_set.kafka07 import recognise
from ...protocol.message_set.wire import (
    AUTHENTICATE_VERSION,
    TYPE_SIZE,
    AuthenticateBody,
    RequestType,
    authenticate_answer,
    parse_authenticate,
    refusal_answer,
)
from ..network.kafka07 import refusal
from ..runtime.exceptions import ConnectionAborted
from ..security.principal import user
from ..security.sasl.handshake import check_size
from ..security.sasl.login_attempts import TurnedAway
from ..security.sasl.mechanism import WRONG, Refusal

if TYPE_CHECKING:
    from ..network.connection import Connection, Dispatches, Reply
    from ..security.sasl.handshake import Authentication
    from ..security.sasl.listener_security import ListenerSecurity

log = logging.getLogger(__name__)

_read_type = struct.Struct(">h").unpack_from
_MECHANISM = "PLAIN"


class Session:
    """Session of an authenticated connection. Loop thread."""

    __slots__ = ("done", "expired", "expiry")

    def __init__(self) -> None:
        self.done = False
        """True if the client has authenticated and its session has not ended."""
        self.expired = False
        self.expiry: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        """End the session: the connection is gone."""
        if self.expiry is not None:
            self.expiry.cancel()


class MessageSetGate:
    """Handler of a listener's connections until their clients have authenticated. Loop thread."""

    __slots__ = ("_security", "dispatcher")

    #: As `Dispatches.quick`.
    quick = None

    def __init__(self, dispatcher: Dispatches, security: ListenerSecurity) -> None:
        """`dispatcher` gets the connections whose clients are known."""
        self.dispatcher = dispatcher
        self._security = security

    def dispatch(self, buffer: bytearray, start: int, end: int, connection: Connection) -> Reply:
        """Dispatch as `Dispatches.dispatch`. Raises ConnectionAborted for a request that is too large before
        authentication, and for a set of Kafka 0.7."""
        session = cast("Session | None", connection.authentication)
        if session is None:
            session = Session()
            # As connections see it, the same as SASL's: something to cancel.
            connection.authentication = cast("Authentication", session)
        if session.done:  # it came in one piece with AUTHENTICATE
            return self.dispatcher.dispatch(buffer, start, end, connection)
        check_size(end - start, self._security.max_receive_bytes)
        kind = _read_type(buffer, start)[0] if end - start >= TYPE_SIZE else -1
        if kind != RequestType.AUTHENTICATE:
            request = recognise(buffer, start, end)
            if request is not None and request.is_produce:
                raise refusal(request.kind, request.topic, connection)
            name = RequestType(kind).name if 0 <= kind < len(RequestType) else f"type {kind}"
            when = "after the session's end (connections.max.reauth.ms)" if session.expired else "before AUTHENTICATE"
            return self._refuse(connection, kind, ErrorCode.ILLEGAL_SASL_STATE, f"{name} came {when}")
        try:
            body = parse_authenticate(buffer, start + TYPE_SIZE, end)
        except MalformedRequest as error:
            return self._refuse(connection, kind, ErrorCode.INVALID_REQUEST, str(error))
        if body.version != AUTHENTICATE_VERSION:
            what = f"AUTHENTICATE of version {body.version}; {AUTHENTICATE_VERSION} is known"
            return self._refuse(connection, kind, ErrorCode.UNSUPPORTED_VERSION, what)
        connection.pending_key, connection.pending_since = kind, connection.last_active
        return self._authenticate(connection, session, body)

    def answered(self, key: int, since: int) -> None:
        self.dispatcher.answered(key, since)

    def name_of(self, key: int) -> str:
        return self.dispatcher.name_of(key)

    # -- inside

    async def _authenticate(self, connection: Connection, session: Session, body: AuthenticateBody) -> bytes:
        security, kind = self._security, RequestType.AUTHENTICATE
        known = connection.user if session.expired else None
        attempt = security.attempt(connection.peer_host, known)
        try:
            if "\0" in body.user + body.password:  # it would be another message
                raise Refusal(WRONG)
            exchange = security.exchange(_MECHANISM, connection.peer_host, attempt)
            step = exchange.step(f"\0{body.user}\0{body.password}".encode())
            found = await step if isinstance(step, Awaitable) else step
            assert found.user is not None
            if session.expired and user(found.user) != connection.principal:
                raise Refusal("a connection can't become another user's")
        except TurnedAway as refusal:
            security.turned_away += 1
            answer = await self._late(connection, kind, ErrorCode.SASL_AUTHENTICATION_FAILED, str(refusal))
            if refusal.is_all:  # an error would be the last thing that a client who did nothing wrong tries here
                raise ConnectionAborted(f"turned away with all from its address: {refusal}") from None
            return answer
        except Refusal as refusal:
            attempt.failed()
            return await self._refuse(connection, kind, ErrorCode.SASL_AUTHENTICATION_FAILED, str(refusal))
        if (refused := connection.authenticated_as(user(found.user))) is not None:
            raise ConnectionAborted(refused)
        session.done, session.expired = True, False
        connection.clear_deadline()
        connection.hand_to(self.dispatcher)
        security.successes += 1
        lifetime_ms = security.max_reauth_ms(_MECHANISM)
        session.cancel()
        if lifetime_ms:
            loop = asyncio.get_running_loop()
            session.expiry = loop.call_later(lifetime_ms / 1000, self._expire, connection, session)
        return authenticate_answer(ErrorCode.NONE, lifetime_ms)

    def _expire(self, connection: Connection, session: Session) -> None:
        session.done, session.expired = False, True
        connection.hand_to(self)

    async def _refuse(self, connection: Connection, kind: int, code: ErrorCode, what: str) -> bytes:
        """A refusal is counted, answered late, and is the last thing that the connection hears."""
        self._security.failures += 1
        return await self._late(connection, kind, code, what)

    async def _late(self, connection: Connection, kind: int, code: ErrorCode, what: str) -> bytes:
        log.warning("%s: refused: %s", connection, what)
        await asyncio.sleep(self._security.failure_delay_ms / 1000)
        connection.close_after_sending()
        return refusal_answer(kind, code)
