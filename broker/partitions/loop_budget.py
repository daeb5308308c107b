"""LoopBudget: what appending one request's batches may cost the loop thread before the rest goes to another thread.

    compressed batches   until the request has taken LOOP_NS, each for CHECK_NS at most, and what `quick_expansion` allows
    plain batches        of any number; large ones (TIMED_BYTES) until the request has taken LOOP_NS, very large ones never
    other formats        quick ones (`is_quick`), until `convertible` bytes are used up

Batches at the conversion thread must not be overtaken: `ahead` has their partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .partition import Partition

LOOP_NS = 20_000_000
"""Loop time for compressed batches of one client's requests that came together; further ones go to the conversion thread."""

CHECK_NS = 5_000_000
"""Loop time for one compressed batch; one that takes longer is checked again from its beginning by that thread."""

TIMED_BYTES = 64 << 10
"""Plain batches above this size are looked at by that thread too, behind `LOOP_NS`: smaller ones take microseconds."""

CONVERTIBLE_BYTES = 64 << 10
"""Bytes of one request, or of one chunk of a long one, that the loop may convert: 16 ms of the smallest records."""


class LoopBudget:
    """Budget of loop time for one request. `Partition.append` reads and writes it; loop thread.

    Attributes:
        client: in whose turn the conversions' thread has what is handed to it.
        since: when the loop began with what the client sent, by `perf_counter_ns`.
        convertible: bytes whose format the loop may still change.
        ahead: partitions of which the conversions' thread has been handed a batch; None: it has nothing of this request.
    """

    __slots__ = ("ahead", "client", "convertible", "since")

    def __init__(self, client: str, since: int, convertible: int = CONVERTIBLE_BYTES) -> None:
        self.client = client
        self.since = since
        self.convertible = convertible
        self.ahead: set[Partition] | None = None
