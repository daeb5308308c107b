"""What the process of a pass takes before its first pass (ADR 89): processor time, which does not depend on who else has the
machine as time by the clock does, and memory, which it holds while it rests.
"""

from __future__ import annotations

import select
import sys
import time

import pytest
from support.patience import PATIENCE_S
from tidelog.cleaner.process.messages import Ready
from tidelog.cleaner.process.walker import PROGRAM, Child, WalkerSettings
from tidelog.cleaner.process_counts import ProcessCounts

MIB = 1 << 20
MOST_CPU_S = 0.3
MOST_BYTES = 24 * MIB
STARTS = 3
"""The least of so many counts: the first may have to compile modules, and any may find its processor's caches empty."""
MAP_BYTES = 128 * MIB
"""As shipped: `log.cleaner.dedupe.buffer.size`. It is a bound, of which a process without a pass has nothing."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's clock of another process, and /proc")


def processor_seconds(pid: int) -> float:
    """User's and system's of another process: by its clock, since the ticks of /proc are hundredths."""
    return time.clock_gettime(~pid << 3 | 2)


def cost_of_a_start() -> tuple[float, int]:
    """Processor seconds, and resident bytes, of a process that has just said Ready."""
    counts = ProcessCounts()
    child = Child.start(PROGRAM, WalkerSettings(MAP_BYTES, 0.9, MIB), counts)
    try:
        said = None
        while said is None:
            assert select.select([child.sock], [], [], PATIENCE_S)[0], "it says nothing"
            said = child.receive()
        assert said == Ready()
        return processor_seconds(child.pid), counts.resident_bytes
    finally:
        child.end()


def test_the_process_of_a_pass_starts_within_its_processor_time_and_memory() -> None:
    costs = [cost_of_a_start() for _ in range(STARTS)]
    seconds, resident = (min(column) for column in zip(*costs, strict=True))
    assert 0 < seconds <= MOST_CPU_S, costs
    assert MIB < resident <= MOST_BYTES, costs
