"""What the mechanisms of SASL have in common: an exchange of messages that ends with a user, or with a refusal."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple, Protocol

WRONG = "authentication failed: the user or the password is wrong"
"""What every mechanism says of an unknown user and of a wrong password alike."""


class Refusal(Exception):
    """The client is not let in. The text is told to the client: it must not say what of its secrets is wrong."""


class Step(NamedTuple):
    """One answer of the server's. `user` is set with the last one.

    `lifetime_ms`: how long what was shown is good for (a token's rest of life); None: for ever. `refused`: why the client
    is not let in, where `reply` tells it before the mechanism ends with a `Refusal`.
    """

    reply: bytes
    user: str | None = None
    lifetime_ms: int | None = None
    refused: str = ""


class Exchange(Protocol):
    """One client's run through a mechanism."""

    def step(self, message: bytes) -> Step | Awaitable[Step]:
        """Answers a message. Raises `Refusal`. Loop thread; what takes long is awaited."""
