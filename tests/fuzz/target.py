"""What is fuzzed: a decoder, what it may raise, and what it may take.

A target is a function of bytes. It calls a decoder, and asserts what holds of the result (most often: what was read can be
written, and reads the same again). Only the declared exceptions may come out of it; any other, an assertion that fails, more
memory or more time than is allowed is a finding. Memory is what Python's allocator was asked for, at its peak.
"""

from __future__ import annotations

import random
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

#: What any input may take, however small it is: caches and tables that are made on first use.
BASE_BYTES = 4 << 20
#: Seconds of CPU that a grown input may take besides what its bytes may.
GROWN_CPU_S = 0.5
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
        large: bytes to which inputs are grown, by a part of them again and again: what takes the square of its input's length, or
            much for each of many small parts, shows there and not before. 0: they are not.
        cpu_us: microseconds of CPU that each byte of a grown input may cost.
    """

    name: str
    run: Callable[[bytes], object]
    declared: tuple[type[Exception], ...]
    seeds: Callable[[], Iterable[bytes]]
    max_input: int
    growth: int
    extra: int
    large: int = 0
    cpu_us: float = 0.0


class BoundExceeded(AssertionError):
    """An input took more memory or time than is allowed."""


TARGETS: dict[str, Target] = {}


def target(
    *declared: type[Exception],
    seeds: Callable[[], Iterable[bytes]],
    max_input: int = 2048,
    growth: int = 600,
    extra: int = 0,
    large: int = 0,
    cpu_us: float = 5.0,
) -> Callable[[Callable[[bytes], object]], Callable[[bytes], object]]:
    """Makes the function a target, named after it."""

    def register(run: Callable[[bytes], object]) -> Callable[[bytes], object]:
        assert run.__name__ not in TARGETS
        TARGETS[run.__name__] = Target(run.__name__, run, declared, seeds, max_input, growth, extra, large, cpu_us)
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


def grown(data: bytes, size: int) -> Iterator[bytes]:
    """`data` with a part of it repeated until there are `size` bytes: all behind the first byte, which often says what the rest
    is; and two parts that hang on the data alone."""
    chance = random.Random(zlib.crc32(data))
    parts = [(1, len(data))]
    for _ in range(2):
        start = chance.randrange(len(data) + 1)
        parts.append((start, chance.randrange(start, len(data) + 1)))
    for start, end in parts:
        if start < end:
            yield data[:start] + data[start:end] * max(1, (size - len(data)) // (end - start)) + data[end:]


def attempt_grown(one: Target, data: bytes, cpu_s: Callable[[], float] = time.thread_time) -> None:
    """Runs what `grown` makes of it, with the time measured that this thread's CPU takes: other processes make no finding."""
    for large in grown(data, one.large) if one.large else ():
        started = cpu_s()
        attempt(one, large)
        taken, limit = cpu_s() - started, GROWN_CPU_S + one.cpu_us * 1e-6 * len(large)
        if taken > limit:
            raise BoundExceeded(f"{one.name}: {len(large)} bytes took {taken:.1f} s of CPU; {limit:.1f} are allowed")
