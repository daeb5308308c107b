"""What many runs came to, and the page about it: docs/reports/simulation.md."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

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

    @property
    def line(self) -> str:
        return (
            f"{self.runs} runs, {len(self.failed)} failed {self.failed or ''}: {self.virtual_s:.0f} s of virtual time in "
            f"{self.cpu_s:.0f} s of CPU, {self.real_s:.0f} s: {self.virtual_s / max(self.real_s, 1e-9):.0f} × real time"
        )


def report(totals: Totals) -> str:
    """The page, as Markdown."""
    failed = f"Failed: {', '.join(map(str, totals.failed))}." if totals.failed else "None failed."
    lines = [
        "# What simulations met",
        "",
        "Written by `make simulate-report`. Each run is the whole daemon under the clients, troubles and order of threads",
        "of one seed",
        "([ADR 88](../adr/0088-simulation.md), [ADR 91](../adr/0091-simulation-finds.md)).",
        "",
        f"{totals.runs:,} runs, {totals.virtual_s / 3600:.1f} h of virtual time in {totals.cpu_s / 60:.0f} min of CPU "
        f"({totals.virtual_s / max(totals.real_s, 1e-9):.0f} × real time). {failed}",
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
