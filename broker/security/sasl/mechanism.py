"""Base of the SASL mechanisms: an exchange of messages that ends with a user or a refusal."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple, Protocol

WRONG = "authentication failed: the user or the password is wrong"
"""Error of every mechanism for an unknown user and for a wrong password alike."""


class Refusal(Exception):
    """Authentication failed. The text goes to the client: it must not say which of its secrets is wrong."""


class Step(NamedTuple):
    """One answer of the server. `user` is set in the last one.

    `lifetime_ms`: how long what was shown is good for (a token's rest of life); None: for ever. `refused`: why the client
    is not let in, where `reply` tells it before the mechanism ends with a `Refusal`.
    """

    reply: bytes
    user: str | None = None
    lifetime_ms: int | None = None
    refused: str = ""


class Exchange(Protocol):
    """One authentication of a client by a mechanism."""

    def step(self, message: bytes) -> Step | Awaitable[Step]:
        """Answer a message. Raises `Refusal`. Loop thread; slow work is awaited."""
