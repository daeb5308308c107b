"""What many runs came to, and the page about it: docs/reports/simulation.md.

Runs are made in goes (`make simulate-report`): what each came to is a `Part` of docs/reports/simulation.json, which is kept
with the page, so that any machine can go on behind what was run before. The page is about all of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_CROSS = " × "


@dataclass
class Totals:
    """Sums over runs. Times: virtual, of the processor, and real."""

    runs: int = 0
    failed: list[int] = field(default_factory=list)
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    real_s: float = 0.0
    events: Counter[str] = field(default_factory=Counter)
    in_runs: Counter[str] = field(default_factory=Counter)
    """In how many runs each event was."""

    def add(self, seed: int, has_failed: bool, virtual_s: float, cpu_s: float, events: dict[str, int]) -> None:
        self.runs += 1
        if has_failed:
            self.failed.append(seed)
        self.virtual_s += virtual_s
        self.cpu_s += cpu_s
        self.events.update(events)
        self.in_runs.update(dict.fromkeys(events, 1))

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.runs + other.runs, self.failed + other.failed, self.virtual_s + other.virtual_s, self.cpu_s + other.cpu_s,
            self.real_s + other.real_s, self.events + other.events, self.in_runs + other.in_runs,
        )  # fmt: skip

    @property
    def speed(self) -> float:
        """Virtual seconds in a real one."""
        return self.virtual_s / max(self.real_s, 1e-9)

    @property
    def cpu_of_run_s(self) -> float:
        return self.cpu_s / max(self.runs, 1)

    @property
    def line(self) -> str:
        return (
            f"{self.runs} runs, {len(self.failed)} failed {self.failed or ''}: {self.virtual_s:.0f} s of virtual time in "
            f"{self.cpu_s:.0f} s of CPU, {self.real_s:.0f} s: {self.speed:.0f} × real time"
        )


@dataclass
class Part:
    """Runs of consecutive seeds, from `first` on, of one commit."""

    commit: str
    first: int
    totals: Totals

    @property
    def last(self) -> int:
        return self.first + self.totals.runs - 1


class Parts:
    """What is known of runs, in a file. A seed that was run once, by whichever commit, is not run again."""

    def __init__(self, path: Path) -> None:
        """An empty list where no file is."""
        self._path = path
        self.parts: list[Part] = []
        if path.exists():
            for row in json.loads(path.read_text(encoding="utf-8")):
                counted = {name: Counter(row["totals"].pop(name)) for name in ("events", "in_runs")}
                self.parts.append(Part(row["commit"], row["first"], Totals(**row["totals"], **counted)))

    @property
    def upto(self) -> int:
        """The last seed that was run; 0 for none."""
        return max((part.last for part in self.parts), default=0)

    def add(self, part: Part) -> None:
        """Keeps what was run behind all others, in the file too."""
        assert part.first > self.upto, "these seeds were run before"
        before = self.parts[-1] if self.parts else None
        if before is not None and before.commit == part.commit and before.last + 1 == part.first:
            before.totals += part.totals
        elif part.totals.runs:
            self.parts.append(part)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"commit": each.commit, "first": each.first, "totals": vars(each.totals)} for each in self.parts]
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(rows), encoding="utf-8")
        new.replace(self._path)


def report(parts: Iterable[Part]) -> str:
    """The page, as Markdown."""
    parts = list(parts)
    totals = sum((part.totals for part in parts), Totals())
    failed = f"Failed: {', '.join(map(str, totals.failed))}." if totals.failed else "None failed."
    lines = [
        "# What simulations met",
        "",
        "Written by `make simulate-report`. Each run is the whole daemon under the clients, troubles and order of threads",
        "of one seed",
        "([ADR 88](../adr/0088-simulation.md), [ADR 91](../adr/0091-simulation-finds.md)).",
        "",
        f"{totals.runs:,} runs, {totals.virtual_s / 3600:.1f} h of virtual time in {totals.cpu_s / 60:.0f} min of CPU "
        f"({totals.speed:.0f} × real time, {totals.cpu_of_run_s:.2f} s of CPU a run). {failed} In goes, beside other work:",
        "",
        "| commit | seeds | failed | virtual time, h | CPU of a run, s | × real time |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        *map(_row, parts),
        "",
        "## Which trouble met what",
        "",
        "How often threads of the daemon were there when it came.",
        "",
        *_matrix(totals.events),
        "",
        "## What happened",
        "",
        "| event | times | in runs |",
        "| --- | ---: | ---: |",
    ]
    for event, count in sorted(totals.events.items()):
        if _CROSS not in event:
            lines.append(f"| {event} | {count:,} | {totals.in_runs[event]:,} |")
    return "\n".join(lines) + "\n"


def _row(part: Part) -> str:
    totals = part.totals
    return (
        f"| {part.commit} | {part.first:,} to {part.last:,} | {len(totals.failed)} | {totals.virtual_s / 3600:.1f} "
        f"| {totals.cpu_of_run_s:.2f} | {totals.speed:.0f} |"
    )


def _matrix(events: Counter[str]) -> list[str]:
    cells = {tuple(event.split(_CROSS, 1)): count for event, count in events.items() if _CROSS in event}
    troubles, states = sorted({key[0] for key in cells}), sorted({key[1] for key in cells})
    if not cells:
        return ["None came."]
    lines = [f"| | {' | '.join(troubles)} |", f"| --- |{' ---: |' * len(troubles)}"]
    lines += [
        f"| {state} | {' | '.join(str(cells.get((trouble, state), '–')) for trouble in troubles)} |" for state in states
    ]
    return lines
