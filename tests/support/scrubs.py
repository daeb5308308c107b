"""What a scrubber might tell: statuses and damage made of a few facts, and a stand-in that tells them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tidelog.storage.scrub.status import NEVER, ScrubDamage, ScrubState, ScrubStatus

MIB = 1 << 20


def damage(
    topic: str = "t",
    partition: int = 0,
    file: str = "00000000000000000000.log",
    *,
    rule: str = "batch-crc",
    **more: Any,
) -> ScrubDamage:
    """One damaged place, of a file in /data."""
    facts = {"position": 61, "detail": "it is 1, and the bytes have 2", "found_ms": 1_700_000_000_000} | more
    return ScrubDamage(topic, partition, f"/data/{topic}-{partition}/{file}", rule=rule, **facts)


def status(damage: Sequence[ScrubDamage] = (), **more: Any) -> ScrubStatus:
    """One directory's: half through its first pass, at 1 MiB a second."""
    facts: dict[str, Any] = {
        "directory": "/data", "state": ScrubState.READING, "reason": "", "pass_number": 1, "begun_ms": 1_700_000_000_000,
        "done_bytes": 5 * MIB, "total_bytes": 10 * MIB, "whole_begun_ms": NEVER, "whole_ms": NEVER,
        "bytes_per_second": MIB, "read_bytes": 6 * MIB, "found": len(damage), "damage": tuple(damage), "omitted": 0,
    }  # fmt: skip
    return ScrubStatus(**facts | more)


def scrubber(*statuses: ScrubStatus) -> Any:
    """A scrubber that tells these."""
    return SimpleNamespace(statuses=lambda: statuses)
