"""Against guessing passwords over HTTP: failures by address, counted, bounded, and told to the log without filling it.

Whoever has failed `MOST_FAILURES` times within `WINDOW_S` is turned away unheard until the first of them is that long ago. An
address of version 6 stands for its /64, of which one customer has 2^64. Any thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

log = logging.getLogger(__name__)

MOST_FAILURES = 10
WINDOW_S = 60.0
MOST_ADDRESSES = 4096
"""Remembered; whoever has more of them than that is slowed down by the delay of each answer alone."""
LINE_INTERVAL_S = 1.0


class Attempts:
    """Failed attempts of the last minute.

    Attributes:
        failures: since the start.
        turned_away: requests that were not looked at, because their address had failed too often.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        """`now_s`: a clock that only rises."""
        self._now_s = now_s
        self._lock = threading.Lock()
        self._by_address: OrderedDict[str, deque[float]] = OrderedDict()
        self._next_line_s = float("-inf")
        self._unsaid = 0
        self.failures = 0
        self.turned_away = 0

    def wait_s(self, peer: str) -> float:
        """Seconds until requests from there are looked at again; 0: now. Counts those that have to wait."""
        now = self._now_s()
        with self._lock:
            found = self._by_address.get(network_of(peer))
            if found is None or len(found) < MOST_FAILURES or now - found[0] >= WINDOW_S:
                return 0.0
            self.turned_away += 1
            wait = WINDOW_S - (now - found[0])
        self._tell(peer, "turned away, after too many failures", now)
        return wait

    def failed(self, peer: str, what: str) -> None:
        """An attempt from there has failed. `what` goes to the log: nothing of what the client sent."""
        now = self._now_s()
        with self._lock:
            self.failures += 1
            times = self._by_address.setdefault(network_of(peer), deque(maxlen=MOST_FAILURES))
            times.append(now)
            self._by_address.move_to_end(network_of(peer))
            if len(self._by_address) > MOST_ADDRESSES:
                self._by_address.popitem(last=False)
        self._tell(peer, what, now)

    def _tell(self, peer: str, what: str, now: float) -> None:
        with self._lock:
            self._unsaid += 1
            if now < self._next_line_s:
                return
            unsaid, self._unsaid = self._unsaid, 0
            self._next_line_s = now + LINE_INTERVAL_S
        more = f" ({unsaid} such since the last line)" if unsaid > 1 else ""
        log.warning("http %s: authentication failed: %s%s", peer, what, more)


def network_of(peer: str) -> str:
    """What an attacker can't change at will: the address, or the /64 that it is in."""
    if ":" not in peer:
        return peer
    from ipaddress import IPv6Address

    try:
        address = IPv6Address(peer.partition("%")[0])
    except ValueError:
        return peer
    mapped = address.ipv4_mapped
    return str(mapped) if mapped is not None else f"{int(address) >> 64:x}::/64"
