"""What systemd is told of this process, in sd_notify's protocol: that it serves, that its loop turns, that it stops.

A unit with `Type=notify` gives an address in NOTIFY_SOCKET, one with `WatchdogSec=` a time in WATCHDOG_USEC; without them nothing
is sent. A message is one datagram of lines NAME=VALUE (sd_notify(3)); that is all, so no library is used for it (ADR 72).

The watchdog's message comes from a timer of the event loop: a loop that hangs sends none, and systemd ends the process. While it
starts and while it stops, each message asks for more time instead, so that recovery takes as long as it takes, and a loop that
hangs in it is noticed too.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

from .timer import Timer, TimerHandle

#: Between two messages where no watchdog says how often, in seconds.
PERIOD_S = 10.0
#: Time that each message of a start or a stop asks for, in seconds.
EXTENSION_S = 60.0


class ServiceManager:
    """The service manager that started this process, or nobody. Loop thread.

    Attributes:
        address: its socket; None when there is no manager.
        watchdog_s: time without a message after which it takes the process for hung, in seconds; None without a watchdog.
    """

    def __init__(self, address: str | None, watchdog_s: float | None, timer: Timer) -> None:
        self.address = address
        self.watchdog_s = watchdog_s
        self._timer = timer
        self._line = f"EXTEND_TIMEOUT_USEC={EXTENSION_S * 1e6:.0f}"
        self._next: TimerHandle | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str], timer: Timer) -> ServiceManager:
        """The manager that the environment names. A watchdog for another process is none of ours."""
        address, microseconds = environment.get("NOTIFY_SOCKET"), environment.get("WATCHDOG_USEC", "")
        mine = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        watches = mine and microseconds.isdecimal() and int(microseconds) > 0
        return cls(address or None, int(microseconds) / 1e6 if watches else None, timer)

    def starting(self) -> None:
        """Ask for time from now on, as long as the loop turns."""
        self._beat()

    def serving(self, status: str) -> None:
        """The daemon can be used: systemd starts what waits for it, and begins to watch."""
        self._line = "WATCHDOG=1"
        self._send(f"READY=1\nSTATUS={' '.join(status.split())}")
        self._beat()

    def stopping(self) -> None:
        """The daemon stops. Asks for time until `close`."""
        self._line = f"EXTEND_TIMEOUT_USEC={EXTENSION_S * 1e6:.0f}"
        self._send("STOPPING=1\nSTATUS=stopping")
        self._beat()

    def close(self) -> None:
        """Send nothing more."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _beat(self) -> None:
        """Send the line of the moment now, and again before half of the watchdog's time is over."""
        self.close()
        if self.address is None:
            return
        self._send(self._line)
        period_s = PERIOD_S if self.watchdog_s is None else min(PERIOD_S, self.watchdog_s / 3)
        self._next = self._timer.call_later(period_s * 1000, self._beat)

    def _send(self, text: str) -> None:
        """One datagram. A manager that can't be reached, or whose queue is full, is no reason to fail or to wait."""
        if self.address is None:
            return
        # "@" stands for the zero byte of Linux's abstract names.
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as one,
        ):
            one.setblocking(False)
            one.sendto(text.encode(), address)
