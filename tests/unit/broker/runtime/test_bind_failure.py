"""Promise: an address that can't be bound is told with what to do about that cause."""

from __future__ import annotations

import errno
import os

import pytest
from tidelog.broker.runtime.bind_failure import bind_failure


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EADDRINUSE, "stop what uses it, or set listeners to an address that is free on this machine"),
        (errno.EACCES, "set listeners to a port from 1024 on, or give the daemon CAP_NET_BIND_SERVICE"),
        (errno.EADDRNOTAVAIL, "set listeners to an address that this machine has"),
        (errno.EAFNOSUPPORT, "set listeners to another address"),
    ],
)
def test_the_advice_is_about_the_cause(number: int, advice: str) -> None:
    """A port that only root may use was said to be in use: `stop what uses it`."""
    failure = bind_failure("listener h:80", OSError(number, os.strerror(number)), "listeners")
    assert failure.errno == number
    assert str(failure.strerror).startswith(f"listener h:80 can't be bound: {os.strerror(number)}; {advice}")
