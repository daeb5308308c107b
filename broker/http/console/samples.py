"""Throughput of the last minutes: what the daemon's counters have risen by, every `INTERVAL_S`, in a small ring.

    listener's thread, every quarter of a second: `tick`  --every INTERVAL_S-->  loop thread: `_take`  -->  ring of samples

The loop owns the counters, so it reads them: some additions for each API that was used, a twentieth of a millisecond in all.
Only what has risen is kept, so that the ring of an idle daemon holds next to nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ...monitoring.node_state import NodeState

INTERVAL_S = 5.0
KEPT = 180
"""A quarter of an hour."""


class ApiSample(NamedTuple):
    """Requests of one API that were answered in an interval.

    `buckets`: (bits, requests) for those whose nanoseconds have that bit length.
    """

    key: int
    requests: int
    nanoseconds: int
    buckets: tuple[tuple[int, int], ...]


class Totals(NamedTuple):
    """Counters of the whole daemon since its start, as they stand at one moment."""

    received_bytes: int
    sent_bytes: int
    produced_bytes: int
    produced_records: int
    fetched_bytes: int
    cleaned_bytes: int
    errors: int


class Sample(NamedTuple):
    """Counts of one interval of `seconds` that ended at `at_ms` (since 1970).

    `risen`: by how much each total has; `connections` at its end.
    """

    at_ms: int
    seconds: float
    risen: Totals
    connections: int
    apis: tuple[ApiSample, ...]

    @property
    def requests(self) -> int:
        return sum(api.requests for api in self.apis)


class Samples:
    """`tick` is called by one thread, `_take` on the loop; any thread reads the ring."""

    def __init__(self, node: NodeState, now_s: Callable[[], float] = time.monotonic) -> None:
        """`now_s`: a clock that only rises."""
        self._node = node
        self._now_s = now_s
        self._due_s = now_s()
        self._asked = False
        self._as_of_s = 0.0
        self._totals: Totals | None = None
        self._nanoseconds: list[int] = []
        self._latencies: dict[int, list[int]] = {}
        self._ring: deque[Sample] = deque(maxlen=KEPT)

    def samples(self) -> list[Sample]:
        """Samples that are kept, oldest first: a copy. Any thread."""
        return list(self._ring)

    def tick(self) -> None:
        """Takes a sample when one is due. A loop that has not taken the last one is not asked again."""
        now_s = self._now_s()
        if now_s < self._due_s or self._asked or self._node.services is None:
            return
        self._due_s = now_s + INTERVAL_S
        self._asked = True
        try:
            self._node.loop.call_soon_threadsafe(self._take)
        except RuntimeError:  # closed: the process ends
            self._asked = False

    def _take(self) -> None:
        """Take a sample. Loop thread."""
        services, now_s = self._node.services, self._now_s()
        assert services is not None  # looked at by `tick`
        counters, server = services.counters, services.socket_server
        sends = server.send_counters
        totals = Totals(
            server.received_bytes,
            sends.sent_bytes,
            counters.produced_bytes,
            counters.produced_records,
            counters.fetched_bytes,
            services.cleaner.pool.throttler.total_bytes,
            sum(counters.errors.values()) + sum(counters.produce_errors.values()),
        )
        apis = tuple(self._apis(counters.nanoseconds, counters.latencies))
        if self._totals is not None:
            risen = Totals(*(now - before for now, before in zip(totals, self._totals, strict=True)))
            seconds = max(now_s - self._as_of_s, 1e-3)
            self._ring.append(Sample(services.time.milliseconds(), seconds, risen, len(server.connections), apis))
        self._totals, self._as_of_s = totals, now_s
        self._asked = False

    def _apis(self, nanoseconds: Sequence[int], latencies: Sequence[Sequence[int]]) -> Iterator[ApiSample]:
        known = self._nanoseconds or [0] * len(nanoseconds)
        for key, (now, before) in enumerate(zip(nanoseconds, known, strict=True)):
            if now == before:
                continue
            buckets, last = list(latencies[key]), self._latencies.get(key)
            risen = buckets if last is None else [a - b for a, b in zip(buckets, last, strict=True)]
            self._latencies[key] = buckets
            yield ApiSample(key, sum(risen), now - before, tuple((bits, n) for bits, n in enumerate(risen) if n))
        self._nanoseconds = list(nanoseconds)
