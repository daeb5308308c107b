"""Family: one metric of a snapshot, as whoever knows the numbers says it and `metrics.py` hands it to Prometheus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """One metric of a snapshot: rows are (label values, value)."""

    name: str
    kind: str  # "counter" or "gauge"
    help: str
    labels: tuple[str, ...]
    rows: Sequence[tuple[tuple[str, ...], float]]
