"""What is measured and what is wanted: rows, goals, samples, verdicts. Values only; nothing here runs anything."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

OURS, KAFKA, FLOOR = "tidelog", "kafka", "c-floor"
KFAKE = "kfake"
"""franz-go's broker in memory."""
LOOP = "c-loop"
"""A protocol in C on the daemon's own event loop: what a request costs where everything above the loop costs nothing."""
PLAINTEXT = "plaintext"
"""Ours again, without what the row is about: TLS."""
QUIET = "quiet"
"""Ours again, without what the row is about: work beside it."""
SIDES = (OURS, KAFKA, FLOOR, LOOP, KFAKE, PLAINTEXT, QUIET)
NAMES = {
    KAFKA: "Kafka", FLOOR: "C", LOOP: "C on the same loop", KFAKE: "kfake", PLAINTEXT: "our plaintext", QUIET: "quiet",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Goal:
    """`limit` times the median of `against`, or `limit` itself; an upper bound unless `at_least`. `allowed`: no less."""

    limit: float
    against: str | None = None
    at_least: bool = False
    plus: float = 0.0
    allowed: float = 0.0

    def bound(self, medians: Mapping[str, float]) -> float | None:
        """The figure to stay below (or reach); None when the other side was not measured."""
        if self.against is None:
            return self.limit + self.plus
        other = medians.get(self.against)
        return None if other is None else max(self.allowed, self.limit * other + self.plus)

    def met(self, medians: Mapping[str, float]) -> bool | None:
        bound = self.bound(medians)
        if bound is None or OURS not in medians:
            return None
        return medians[OURS] >= bound if self.at_least else medians[OURS] <= bound

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        if self.against is None:
            return f"{sign} {figure(self.limit + self.plus)}"
        text = f"{figure(self.limit)} × {NAMES[self.against]}" + (f" + {figure(self.plus)}" if self.plus else "")
        return f"{sign} max({figure(self.allowed)}, {text})" if self.allowed else f"{sign} {text}"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `name` is what --only takes, `unit` that of every sample."""

    name: str
    title: str
    unit: str
    goals: tuple[Goal, ...] = ()


@dataclass(slots=True)
class Samples:
    """The samples of one row, in the order of the rounds, and what the load generator said besides."""

    values: dict[str, list[float]] = field(default_factory=dict)
    details: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    commit: str = ""
    date: str = ""
    command: str = ""
    error: str = ""
    kafka: str = "4.3.1"
    """Release of Apache Kafka; the default is that of all rows from before it was noted."""

    def medians(self) -> dict[str, float]:
        return {side: statistics.median(values) for side, values in self.values.items() if values}


def verdict(row: Row, samples: Samples) -> str:
    """PASS, short, or a dash where there is nothing to judge by."""
    if samples.error:
        return "failed"
    met = [goal.met(samples.medians()) for goal in row.goals]
    if False in met:
        return "short"
    return "PASS" if True in met else "–"


def figure(value: float) -> str:
    """Three significant digits, no exponent."""
    if value == 0:
        return "0"
    magnitude = abs(value)
    if magnitude >= 100:
        return f"{value:,.0f}"
    digits = 1 if magnitude >= 10 else 2 if magnitude >= 1 else 3 if magnitude >= 0.1 else 4
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def spread(values: Sequence[float]) -> str:
    """Median, and the extremes when there are several."""
    if not values:
        return "–"
    middle = figure(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({figure(min(values))}–{figure(max(values))})"
