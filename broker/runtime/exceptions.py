"""Exceptions that end the handling of a request before there is an answer."""

from __future__ import annotations


class RequestDeferred(Exception):
    """Raised by a dispatcher for a request that has to wait, with its bytes in the connection's buffer: the connection
    is muted (`mute_in`), and dispatches the same request again later.
    """


class ConnectionAborted(Exception):
    """Raised to close a connection with one log line: what the client did, and where.

    Attributes:
        answer: sent before the end, as far as the socket takes it at once; empty for nothing.
    """

    def __init__(self, reason: str, answer: bytes = b"") -> None:
        super().__init__(reason)
        self.answer = answer
