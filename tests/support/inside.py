"""The daemon within a `tidelog.testing.Broker`: the one place of the tests that reaches into it.

Tests of clients ask the daemon for what no client is told, or do on its loop what no client may.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tidelog.broker.requests.services import Services
from tidelog.broker.security.credentials import new_credential
from tidelog.broker.server.node import Node
from tidelog.testing import Broker

T = TypeVar("T")

SALT = b"salt" * 4


def node_of(broker: Broker) -> Node:
    """The daemon of an open broker; BrokerError when it is closed."""
    return broker._running()


def services_of(broker: Broker) -> Services:
    """Services of the daemon's handlers; BrokerError when it is closed."""
    return node_of(broker).services


def set_authorizer(broker: Broker, authorizer: object) -> None:
    """Exchange what answers questions of access in a running daemon; None: no access control."""
    object.__setattr__(services_of(broker), "authorizer", authorizer)


def in_loop(broker: Broker, make: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine on the broker's loop and wait for it. BrokerError."""
    return broker._in_loop(make)


def add_scram_user(broker: Broker, name: str, password: str, mechanisms: Sequence[str] = ("SCRAM-SHA-256",)) -> None:
    """A user with the same password for each mechanism."""
    users = services_of(broker).users.get()
    changes = {mechanism: new_credential(mechanism, password, SALT) for mechanism in mechanisms}
    in_loop(broker, lambda: users.change(name, changes))


def alter_settings(broker: Broker, settings: dict[str, str]) -> None:
    """Set the dynamic settings of the node to exactly these. BrokerError."""
    dynamic = services_of(broker).settings
    in_loop(broker, lambda: dynamic.alter("1", lambda _: settings))


def principals(broker: Broker) -> set[str]:
    """Principals of all open connections."""
    return {connection.principal for connection in list(services_of(broker).socket_server.connections)}


def forget_guesses(broker: Broker) -> None:
    """Forget failed logins, so that those of one test are not counted in the next."""
    attempts = node_of(broker).securities.guesses.get().attempts
    attempts.of_users.clear()
    attempts.of_addresses.clear()
