"""Counters of requests: plain numbers that the loop thread increments and a scrape reads.

The price of a request is one clock reading and two additions. Latencies go to buckets whose bounds are powers of two, so that
the bucket of a duration is the bit length of its nanoseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...protocol.api_keys import ApiKey

#: API keys are small numbers; a list is the cheapest map.
_KEYS = max(ApiKey) + 1
BITS = 64
#: Buckets that are told: up to 2^15 ns = 33 µs, and so on to 2^35 ns = 34 s. A scrape must get few rows.
_FIRST_BIT, _LAST_BIT = 15, 35
BOUNDS_S = tuple((1 << bits) / 1e9 for bits in range(_FIRST_BIT, _LAST_BIT + 1))


class RequestCounters:
    """Totals since the start. Loop thread.

    Attributes:
        latencies: by API key, requests that were answered, by the bit length of the nanoseconds that took.
        nanoseconds: by API key, what those took together.
        produce_errors: error code → batches that were refused so, in Kafka's protocol and in the message-set one.
        errors: (API key, error code) → how often a request, or a part of one, was answered so.
    """

    __slots__ = (
        "errors",
        "fetched_bytes",
        "latencies",
        "nanoseconds",
        "produce_errors",
        "produced_bytes",
        "produced_records",
    )

    def __init__(self) -> None:
        self.latencies = [[0] * BITS for _ in range(_KEYS)]
        self.nanoseconds = [0] * _KEYS
        self.errors: Counter[tuple[int, int]] = Counter()
        self.produce_errors: Counter[int] = Counter()
        self.produced_bytes = 0
        self.produced_records = 0
        self.fetched_bytes = 0


def told_buckets(by_bits: Sequence[int]) -> list[int]:
    """Counts for `BOUNDS_S` and above, from counts by bit length."""
    return [
        sum(by_bits[: _FIRST_BIT + 1]),
        *by_bits[_FIRST_BIT + 1 : _LAST_BIT + 1],
        sum(by_bits[_LAST_BIT + 1 :]),
    ]
