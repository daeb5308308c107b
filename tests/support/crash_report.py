"""The report of a run of the crash ring: date, command, commit, and the figures of each scenario."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from support.crash_exploration import Figures

_HEAD = """# The crash ring, whole

Before every write, sync, rename, unlink, truncation and mkdir of a scenario the power goes, and what a start makes of what is
left is held against what had been promised (tests/support/crash_ring.py). Two states are equivalent when no start can tell
them apart: the same names, the same bytes in all files that a start reads. *Choices* are states that were made out,
*inequivalent* those of them that were recovered. A moment is *exhausted* when every state that there is was looked at: all
combinations of up to 12 undecided sectors, sizes and names; with more the ring takes those that differ from "all lost" or "all
kept" in two at most, then random ones, until the scenario has as many as it should. After `kill -9` there is one state.

"""


def write_report(
    path: Path, found: Mapping[str, tuple[Figures, float]], verdicts: Mapping[str, str], target: int
) -> None:
    """Writes the page for the scenarios of one run, by pytest's name of each; seconds are of CPU."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    total = Figures(0, 0, 0, 0)
    for figures, _seconds in found.values():
        total = total.plus(figures)
    seconds = sum(seconds for _figures, seconds in found.values())
    rows = [
        f"| `{name.removeprefix('tests/crash/')}` | {f.moments:,} | {f.exhausted:,} | {f.choices:,} | {f.states:,} "
        f"| {spent:,.0f} | {verdicts.get(name, '')} |"
        for name, (f, spent) in sorted(found.items())
    ]
    command = " ".join(["pytest", *(part for part in sys.argv[1:])])
    lines = [
        f"Run on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC at commit {commit.stdout.strip()}, "
        f"CPython {platform.python_version()}, {os.cpu_count()} cores. Asked for: {target:,} inequivalent states of each "
        "scenario, or all there are.",
        "",
        f"    {command}",
        "",
        f"{len(found)} scenarios, {total.moments:,} moments, {total.choices:,} choices, **{total.states:,} inequivalent "
        f"states recovered**, {seconds / 60:,.0f} minutes of CPU.",
        "",
        "| scenario | moments | exhausted | choices | inequivalent | CPU s | |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
        *rows,
        "",
    ]
    path.write_text(_HEAD + "\n".join(lines))
