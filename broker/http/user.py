"""Who sent a request by HTTP, as the gate found it and as pages see it."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

USER = "tidelog.user"
"""Where WSGI's environment has the `HttpUser`; nothing there: the path is open, or nobody is asked."""
SUBJECT = "tidelog.subject"
"""Where it has the subject of the client's certificate, which the handshake has found good; nothing there: none was shown."""


PEER = "tidelog.peer"
"""Where it has the connection's `Peer`."""


class Role(IntEnum):
    """What a user of HTTP may do; a higher one may do what a lower one may."""

    READ = 1
    ADMIN = 2


class HttpUser(NamedTuple):
    """Who sent a request. `name` is without Kafka's `User:`. `by_certificate`: with every request, so that nobody signs out."""

    name: str
    role: Role
    by_certificate: bool = False
