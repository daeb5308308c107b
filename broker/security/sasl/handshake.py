"""SASL in front of the dispatcher: requests of a connection reach the dispatcher once its client is authenticated.

`network/sasl_gate.py` decides which requests a client may send before that is done.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode
from ....protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from ....protocol.messages.sasl_handshake import SaslHandshakeResponse
from ...runtime.exceptions import ConnectionAborted
from ..principal import user
from .login_attempts import TurnedAway
from .mechanism import Refusal, Step

if TYPE_CHECKING:
    from .listener_security import Client, ListenerSecurity
    from .login_attempts import Attempt
    from .mechanism import Exchange

log = logging.getLogger(__name__)

_SIZE = struct.Struct(">i")
#: No mechanism here needs more: a client that goes on for ever is not authenticating.
MAX_STEPS = 8


def check_size(size: int, most: int) -> None:
    """Raise ConnectionAborted for a request before authentication of more than `most` bytes."""
    if size > most:
        raise ConnectionAborted(
            f"a request of {size} bytes before authentication; at most {most} are read (sasl.server.max.receive.size)"
        )


class Authentication:
    """SASL state of one connection, for the first authentication and later ones. Loop thread."""

    __slots__ = (
        "_attempt", "_connection", "_exchange", "_expiry", "_hand_over", "_is_logged", "_security", "_steps", "done",
        "expired", "mechanism", "raw",
    )  # fmt: skip

    def __init__(self, connection: Client, security: ListenerSecurity, hand_over: Callable[[bool], None]) -> None:
        """`hand_over` is called when the client is known (True) and when its session has ended (False)."""
        self._connection = connection
        self._security = security
        self._hand_over = hand_over
        self._exchange: Exchange | None = None
        self._attempt: Attempt | None = None
        self._steps = 0
        self._is_logged = False
        self._expiry: asyncio.TimerHandle | None = None
        self.mechanism = ""
        self.done = False
        """True while the client is authenticated and its session has not expired."""
        self.expired = False
        self.raw = False
        """True if tokens come without a header: after a handshake of version 0."""

    def cancel(self) -> None:
        """Called when the connection is closed."""
        if self._expiry is not None:
            self._expiry.cancel()

    def handshake(self, mechanism: str, version: int) -> SaslHandshakeResponse:
        """Handle the client's choice of a mechanism, which must be the same in a re-authentication."""
        offered = self._security.mechanisms
        if self._exchange is not None:
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=offered)
        if mechanism not in offered or (self.mechanism and mechanism != self.mechanism):
            log.info("%s: SASL mechanism %r is not offered; there are %s", self._connection, mechanism, offered)
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
        connection = self._connection
        known = connection.user if self.done or self.expired else None
        self._attempt = self._security.attempt(connection.peer_host, known)
        self._exchange = self._security.exchange(mechanism, connection.peer_host, self._attempt)
        self._steps = 0
        self.mechanism = mechanism
        self.raw = version == 0 and not self.done
        return SaslHandshakeResponse(mechanisms=offered)

    async def authenticate(self, message: bytes) -> SaslAuthenticateResponse:
        """Handle one message of the mechanism. A refusal is answered late, and closes the connection."""
        if self._exchange is None:
            raise ConnectionAborted("SaslAuthenticate came before SaslHandshake")
        try:
            step = await self._step(message)
        except Refusal as refusal:
            await self._held_back(refusal)
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=f"{self.mechanism}: {refusal}"
            )
        lifetime = self._admit(step) if step.user is not None else 0
        return SaslAuthenticateResponse(auth_bytes=step.reply, session_lifetime_ms=lifetime)

    async def token(self, message: bytes) -> bytes:
        """Handle one message without a header. Raises `ConnectionAborted` on refusal: such a message can't carry an
        error.
        """
        try:
            step = await self._step(message)
        except Refusal as refusal:
            await self._held_back(refusal)
            raise ConnectionAborted(f"authentication failed: {refusal}") from None
        if step.user is not None:
            self._admit(step)
        return _SIZE.pack(len(step.reply)) + step.reply

    # -- inside

    async def _step(self, message: bytes) -> Step:
        assert self._exchange is not None
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise Refusal("this authentication takes too many steps")
        answer = self._exchange.step(message)
        step = await answer if isinstance(answer, Awaitable) else answer
        if step.refused:
            await self._noted(step.refused)
            self._is_logged = True
        if step.user is not None and self.expired | self.done and user(step.user) != self._connection.principal:
            raise Refusal("a connection can't become another user's")
        return step

    async def _held_back(self, refusal: Refusal) -> None:
        self._exchange = None
        if isinstance(refusal, TurnedAway):
            self._security.turned_away += 1
            await self._late("was turned away", str(refusal))
            if refusal.is_all:  # an error would be the last thing that a client who did nothing wrong tries here
                raise ConnectionAborted(f"turned away with all from its address: {refusal}")
        elif not self._is_logged:
            await self._noted(str(refusal))
        self._connection.close_after_sending()

    async def _noted(self, why: str) -> None:
        """Count, log and delay the answer to a failure, once."""
        assert self._attempt is not None
        self._attempt.failed()
        self._security.failures += 1
        await self._late("failed", why)

    async def _late(self, what: str, why: str) -> None:
        log.warning("%s: authentication by %s %s: %s", self._connection, self.mechanism, what, why)
        await asyncio.sleep(self._security.failure_delay_ms / 1000)

    def _admit(self, step: Step) -> int:
        """Mark the client as authenticated; returns the session's lifetime in ms, 0 for unlimited."""
        assert step.user is not None
        connection, security = self._connection, self._security
        if (refusal := connection.authenticated_as(user(step.user))) is not None:
            raise ConnectionAborted(refusal)
        self._exchange = None
        self.done, self.expired, self.raw = True, False, False
        connection.clear_deadline()
        self._hand_over(True)
        security.successes += 1
        lifetimes = [lifetime for lifetime in (security.max_reauth_ms(self.mechanism), step.lifetime_ms) if lifetime]
        self.cancel()
        self._expiry = None
        if not lifetimes:
            return 0
        self._expiry = asyncio.get_running_loop().call_later(min(lifetimes) / 1000, self._expire)
        return min(lifetimes)

    def _expire(self) -> None:
        """End the session: the next request must be an authentication."""
        self.done, self.expired = False, True
        self._hand_over(False)
