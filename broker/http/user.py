"""Authenticated user of an HTTP request, as the gate found it and as pages see it."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

USER = "tidelog.user"
"""Key of the `HttpUser` in WSGI's environment; absent for open paths and without authentication."""
SUBJECT = "tidelog.subject"
"""Key of the subject of the client's verified certificate; absent if the client showed none."""


PEER = "tidelog.peer"
"""Key of the connection's `Peer`."""


class Role(IntEnum):
    """Role of an HTTP user; a higher role includes the lower ones."""

    READ = 1
    ADMIN = 2


class HttpUser(NamedTuple):
    """Sender of a request. `name` is without Kafka's `User:`. `by_certificate`: the browser sends it with every
    request, so the user can't sign out.
    """

    name: str
    role: Role
    by_certificate: bool = False
