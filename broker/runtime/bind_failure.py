"""What to do about an address that can't be bound: one text for Kafka's listeners, message sets and HTTP."""

from __future__ import annotations

import errno


def bind_failure(what: str, error: OSError, setting: str) -> OSError:
    """The error for `what` (`listener 127.0.0.1:9092`) that could not be bound, with what to do about its cause.

    `setting` is the name of the one that has the address.
    """
    if error.errno == errno.EADDRINUSE:
        advice = f"stop what uses it, or set {setting} to an address that is free on this machine"
    elif error.errno in (errno.EACCES, errno.EPERM):
        capability = "CAP_NET_BIND_SERVICE (AmbientCapabilities= of its unit)"
        advice = f"set {setting} to a port from 1024 on, or give the daemon {capability}"
    elif error.errno == errno.EADDRNOTAVAIL:
        advice = f"set {setting} to an address that this machine has"
    else:
        advice = f"set {setting} to another address"
    return OSError(error.errno, f"{what} can't be bound: {error.strerror}; {advice}")
