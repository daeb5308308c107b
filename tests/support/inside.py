"""The daemon within a `tidelog.testing.Broker`: the one place of the tests that reaches into it.

Tests of clients ask the daemon for what no client is told, or do on its loop what no client may.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tidelog.broker.server import Broker as Daemon
from tidelog.testing import Broker

T = TypeVar("T")


def daemon_of(broker: Broker) -> Daemon:
    """The daemon of an open broker; BrokerError when it is closed."""
    return broker._running()


def in_loop(broker: Broker, make: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine on the broker's loop and wait for it. BrokerError."""
    return broker._in_loop(make)
