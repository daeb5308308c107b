"""CPU time of a process and all that it has started, from /proc: what one Spark job costs on one machine."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_seconds(root: int) -> float:
    """User and system time of `root` and its descendants, and of those that have ended and were waited for."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The command's name stands in parentheses and may hold spaces: count fields after the last one.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended since it was listed
        pid, parent = int(entry.name), int(fields[1])
        children.setdefault(parent, []).append(pid)
        ticks[pid] = sum(map(int, fields[11:15]))
    found, left = 0, [root]
    while left:
        pid = left.pop()
        found += ticks.get(pid, 0)
        left += children.get(pid, [])
    return found / _TICKS_PER_S
