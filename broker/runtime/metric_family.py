"""What a snapshot is made of: one metric as whoever knows the numbers says it, and `collector.py` hands it to Prometheus.

Names begin with `tidelog_` and end with their unit (`_bytes`, `_seconds`, `_ratio`, `_offset` …); a counter is named without
the `_total` that Prometheus adds. A family without rows is said all the same: docs/METRICS.md is made from a snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric of a snapshot: rows are (label values, value)."""

    name: str
    kind: str  # "counter" or "gauge"
    help: str
    labels: tuple[str, ...]
    rows: Sequence[tuple[tuple[str, ...], float]]


@dataclass(frozen=True, slots=True)
class HistogramFamily:
    """A histogram. `bounds` are upper ends; a row is (label values, counts, sum): one count for each bound, none of them
    cumulative, and one more for what is above the last.
    """

    name: str
    help: str
    labels: tuple[str, ...]
    bounds: tuple[float, ...]
    rows: Sequence[tuple[tuple[str, ...], Sequence[int], float]]
    kind: str = HISTOGRAM


MAX_LABEL = 200
"""Characters of a label that clients choose: a group's name may have 32,767."""


def label_of(text: str) -> str:
    """A client's name as a label: a long one is cut, and has a part of its hash so that no two become one series."""
    if len(text) <= MAX_LABEL:
        return text
    import hashlib

    return f"{text[:MAX_LABEL]}…{hashlib.sha256(text.encode()).hexdigest()[:16]}"


AnyFamily = Family | HistogramFamily


def one(name: str, kind: str, text: str, value: float) -> Family:
    """A metric without labels."""
    return Family(name, kind, text, (), [((), value)])


def by(name: str, kind: str, text: str, label: str, values: Mapping[str, float]) -> Family:
    """A metric with one label."""
    return Family(name, kind, text, (label,), [((key,), value) for key, value in values.items()])
