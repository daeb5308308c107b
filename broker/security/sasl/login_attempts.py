"""Protection against password guessing: failures are counted, those who go on are turned away, and checks wait in line.

`Attempts` counts failures by address and by user at an address, bounded. SASL, AUTHENTICATE of the message-set protocol and HTTP
share the counts. `MOST_FAILURES` within `WINDOW_S` of one user at one address turn away that user there, until the first of them
is that long ago, and nobody else; `MOST_OF_ADDRESS` of an address, by whatever names, turn away all who come from there. A user
who has failed elsewhere is let in here: somebody who knows only a name can lock nobody out. Names that are no user's are counted
alike, and so is the name that is missing where nothing can be read, or where a token of HTTP is nobody's. An address of version 6
stands for its /64, of which one customer has 2^64.

`PasswordChecks` is the queue for the one thread that checks passwords, addresses in turn. A check takes milliseconds by design. A
hundred connections that guess from one address wait in one queue, and a client of another address comes after one check of that
queue, not after all. The queues are bounded by the connections: each has one request in work.

`HttpFailures` counts and logs HTTP's failures, one line a second. Threads: each class says its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import NamedTuple

from ...runtime.fair_places import FairPlaces
from .mechanism import Refusal

log = logging.getLogger(__name__)

MOST_FAILURES = 10
WINDOW_S = 60.0
MOST_ADDRESSES = 4096
"""Remembered addresses. An attacker with more is slowed only by the delay of each answer."""
MOST_OF_ADDRESS = 100
"""Failures of all users at an address together: ten users who go on with a wrong password lock nobody else out."""
MOST_USERS = 16384
"""Remembered pairs of user and address: some 300 bytes each, and an address makes at most `MOST_OF_ADDRESS` a window.
"""
LINE_INTERVAL_S = 1.0


class Failures:
    """Times of the last failures by key. Bounded: keys whose last failure is longest ago are dropped first. Not
    thread-safe.
    """

    __slots__ = ("_most", "_most_keys", "_times")

    def __init__(self, most: int, most_keys: int) -> None:
        """`most`: failures of one key allowed within `WINDOW_S`."""
        self._most = most
        self._most_keys = most_keys
        self._times: OrderedDict[str | bytes, array[float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._times)

    def clear(self) -> None:
        """Forget all failures."""
        self._times.clear()

    def times(self, key: str | bytes) -> tuple[float, ...]:
        """Remembered failures of the key, at most `most`."""
        return tuple(self._times.get(key, ()))

    def wait_s(self, key: str | bytes, now: float) -> float:
        """Seconds until the key has fewer than `most` failures in the window; 0 if it has."""
        times = self._times.get(key)
        if times is None or len(times) < self._most:
            return 0.0
        return max(WINDOW_S - (now - times[0]), 0.0)

    def add(self, key: str | bytes, now: float) -> None:
        """Record a failure at `now`."""
        times = self._times.setdefault(key, array("d"))
        if len(times) == self._most:
            del times[0]
        times.append(now)
        self._times.move_to_end(key)
        if len(self._times) > self._most_keys:
            self._times.popitem(last=False)


class TurnedAway(Refusal):
    """The attempt was refused without a look at the password. `is_all`: because of the address, not of this user."""

    def __init__(self, wait_s: float, *, is_all: bool) -> None:
        super().__init__(f"too many attempts have failed; try again in {math.ceil(wait_s)} s")
        self.wait_s = wait_s
        self.is_all = is_all


class Attempts:
    """Login attempts on all listeners, HTTP's too. Safe from any thread.

    Attributes:
        turned_away: attempts that were not looked at.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        """`now_s`: a monotonic clock, in seconds."""
        self.now_s = now_s
        self.lock = threading.Lock()
        self.of_users = Failures(MOST_FAILURES, MOST_USERS)
        self.of_addresses = Failures(MOST_OF_ADDRESS, MOST_ADDRESSES)
        self.turned_away = 0

    def attempt(self, peer: str, known: str | None = None) -> Attempt:
        """Begin one authentication. `known`: the client's user, if it authenticates again: that user is not turned
        away, as there is no use in guessing its password.
        """
        return Attempt(self, network_of(peer), known)


class Attempt:
    """One authentication of a client. Any thread, one at a time."""

    __slots__ = ("_attempts", "_has_failed", "_known", "_name", "_network")

    def __init__(self, attempts: Attempts, network: str, known: str | None) -> None:
        self._attempts = attempts
        self._network = network
        self._known = known
        self._name = ""
        self._has_failed = False

    def claims(self, name: str) -> None:
        """Called with the user that the client claims to be, before its password or proof is verified; "" for an
        unreadable name, which is counted as one more user. Raises `TurnedAway`.
        """
        self._name = name
        if name == self._known:
            return
        attempts = self._attempts
        now = attempts.now_s()
        with attempts.lock:
            of_user = attempts.of_users.wait_s(self._key, now)
            wait = of_user or attempts.of_addresses.wait_s(self._network, now)
            if not wait:
                return
            attempts.turned_away += 1
        raise TurnedAway(wait, is_all=not of_user)

    def failed(self) -> None:
        """Record that the verification failed. Harmless when called again."""
        if self._has_failed:
            return
        self._has_failed = True
        if self._name != self._known or not self._name:
            attempts = self._attempts
            now = attempts.now_s()
            with attempts.lock:
                attempts.of_users.add(self._key, now)
                attempts.of_addresses.add(self._network, now)

    @property
    def _key(self) -> bytes:
        """Key of user and address, of a fixed size."""
        return hashlib.blake2b(f"{self._network}\0{self._name}".encode(), digest_size=16).digest()


class HttpFailures:
    """Counts and logs failed logins over HTTP, beside the limits of `Attempts`. Safe from any thread.

    Attributes:
        failures: since the start.
        turned_away: requests that were not looked at.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        """`now_s`: a monotonic clock, in seconds."""
        self._now_s = now_s
        self._lock = threading.Lock()
        self._next_line_s = float("-inf")
        self._unsaid = 0
        self.failures = 0
        self.turned_away = 0

    def was_turned_away(self, peer: str) -> None:
        """Count a request that was turned away."""
        with self._lock:
            self.turned_away += 1
        self._tell(peer, "turned away, after too many failures")

    def failed(self, peer: str, what: str) -> None:
        """Count a failed attempt. `what` is logged, and contains nothing that the client sent."""
        with self._lock:
            self.failures += 1
        self._tell(peer, what)

    def _tell(self, peer: str, what: str) -> None:
        now = self._now_s()
        with self._lock:
            self._unsaid += 1
            if now < self._next_line_s:
                return
            unsaid, self._unsaid = self._unsaid, 0
            self._next_line_s = now + LINE_INTERVAL_S
        more = f" ({unsaid} such since the last line)" if unsaid > 1 else ""
        log.warning("http %s: authentication failed: %s%s", peer, what, more)


def network_of(peer: str) -> str:
    """The part of an address that an attacker can't change at will: the IPv4 address, or the /64 of an IPv6 address."""
    if ":" not in peer:
        return peer
    from ipaddress import IPv6Address

    try:
        address = IPv6Address(peer.partition("%")[0])
    except ValueError:
        return peer
    mapped = address.ipv4_mapped
    return str(mapped) if mapped is not None else f"{int(address) >> 64:x}::/64"


Run = Callable[[Callable[[], bool]], Awaitable[bool]]


class PasswordChecks:
    """Checks passwords on a thread, each address in its turn. Loop thread."""

    def __init__(self, pool: Executor) -> None:
        """`pool`: an executor with one thread, used for nothing else."""
        self._pool = pool
        self._places = FairPlaces(1)

    @property
    def waiting(self) -> int:
        """Number of checks that wait for their turn."""
        return self._places.waiting

    @asynccontextmanager
    async def turn(self, peer: str) -> AsyncIterator[Run]:
        """Wait for the turn of a client at that address; yields the function that runs its check on the thread."""
        async with self._places.place(network_of(peer)):
            loop = asyncio.get_running_loop()
            yield lambda check: loop.run_in_executor(self._pool, check)


class Guesses(NamedTuple):
    """Limits on guessing, shared by all listeners and HTTP: an address has one queue and one count."""

    attempts: Attempts
    checks: PasswordChecks

    @classmethod
    def of(cls, pool: Executor) -> Guesses:
        """Make the limits; `pool` as for `PasswordChecks`."""
        return cls(Attempts(), PasswordChecks(pool))
