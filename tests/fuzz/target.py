"""What is fuzzed: a decoder, what it may raise, and what it may take.

A target is a function of bytes. It calls a decoder, and asserts what holds of the result (most often: what was read can be
written, and reads the same again). Only the declared exceptions may come out of it; any other, an assertion that fails, more
memory or more time than is allowed is a finding. Memory is what Python's allocator was asked for, at its peak.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterable
from typing import NamedTuple

#: What any input may take, however small it is: caches and tables that are made on first use.
BASE_BYTES = 4 << 20
#: Seconds of CPU that one input may take, under tracing and on a slow machine; all take milliseconds.
MOST_CPU_S = 10.0


class Target(NamedTuple):
    """One decoder.

    Attributes:
        run: raises what is declared, or what is a finding.
        declared: exceptions that the decoder promises for bytes that it can't read.
        seeds: inputs to begin with, made by our own encoders: always the same.
        max_input: longest input in bytes.
        growth: bytes of memory that each byte of input may cost.
        extra: bytes that any input may cost besides (a decoder with a limit of its own).
    """

    name: str
    run: Callable[[bytes], object]
    declared: tuple[type[Exception], ...]
    seeds: Callable[[], Iterable[bytes]]
    max_input: int
    growth: int
    extra: int


class BoundExceeded(AssertionError):
    """An input took more memory or time than is allowed."""


TARGETS: dict[str, Target] = {}


def target(
    *declared: type[Exception],
    seeds: Callable[[], Iterable[bytes]],
    max_input: int = 2048,
    growth: int = 600,
    extra: int = 0,
) -> Callable[[Callable[[bytes], object]], Callable[[bytes], object]]:
    """Makes the function a target, named after it."""

    def register(run: Callable[[bytes], object]) -> Callable[[bytes], object]:
        assert run.__name__ not in TARGETS
        TARGETS[run.__name__] = Target(run.__name__, run, declared, seeds, max_input, growth, extra)
        return run

    return register


def attempt(one: Target, data: bytes) -> None:
    """Runs it once. Raises the finding, if `data` is one."""
    try:
        one.run(data)
    except one.declared:
        return


def attempt_bounded(one: Target, data: bytes) -> None:
    """As `attempt`, with memory and time measured; the first run pays for what is made once."""
    attempt(one, data)
    tracemalloc.start()
    started = time.process_time()
    try:
        attempt(one, data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    taken = time.process_time() - started
    limit = BASE_BYTES + one.extra + one.growth * len(data)
    if peak > limit:
        raise BoundExceeded(f"{one.name}: {len(data)} bytes of input took {peak} bytes of memory; {limit} are allowed")
    if taken > MOST_CPU_S:
        raise BoundExceeded(f"{one.name}: {len(data)} bytes of input took {taken:.1f} s of CPU")
