"""The table of README.md that compares with Apache Kafka, made from the samples of docs/benchmarks/full.json.

`python benchmarks/readme_table.py` writes it between its marks, and so does a full run; with `--check` it is compared instead,
and the exit status is 1 where the page has another.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import report
from kafka_peer import numbers
from measure import KAFKA, OURS, QUIET, Samples, figure

README = report.ROOT / "README.md"
STORED = report.ROOT / "docs" / "benchmarks" / "full.json"
BEGIN, END = "<!-- Written by benchmarks/readme_table.py from docs/benchmarks/full.json. -->\n", "<!-- End of it. -->\n"


class Line(NamedTuple):
    """One line: what it says, the rows of the run that it shows, and their unit. `factor`: of the rows' own unit."""

    title: str
    rows: tuple[str, ...]
    unit: str
    factor: float = 1.0


LINES = (
    Line("memory (RSS), idle", ("idle-memory",), "MiB"),
    Line("memory (RSS) after 36 GB in and out", ("loaded-memory",), "MiB"),
    Line("idle, CPU per minute", ("idle-cpu",), "s"),
    Line("start, empty / with 1,000 partitions, to first answer", ("start", "start-1000"), "s"),
    Line("kill -9 of an empty broker, to first answer", ("start-killed",), "s"),
    Line("one pass of the cleaner, 100-byte records / 1 KiB lz4, one thread", ("clean-100b", "clean-lz4"), "MB/s"),
    Line("p99 of produces beside passes of the cleaner, 2,000 a second", ("clean-produce",), "ms"),
    Line("recovery after kill -9, one core", ("recovery",), "GB/s", 1e-3),
    Line("produce, 64 KiB batches, CPU per GB", ("produce-64k",), "s"),
    Line("the same by TLS", ("produce-64k-tls",), "s"),
    Line("produce, one record a request, CPU, 1 / 16 connections", ("produce-one-1", "produce-one-16"), "µs"),
    Line("produce, 100-byte records by 500, none / lz4, CPU per GB", ("produce-small", "produce-small-lz4"), "s"),
    Line("fetch from memory, 1 MiB / 64 KiB a request, CPU per GB", ("fetch-1m", "fetch-64k"), "s"),
    Line("the same by TLS, 64 KiB a request", ("fetch-64k-tls",), "s"),
    Line("fetch, one record a request, CPU, 1 / 16 connections", ("fetch-one", "fetch-one-16"), "µs"),
    Line("`flush.messages=1`, 64 producers on 1 / 64 partitions, acks/s", ("flush-1", "flush-64"), ""),
)


def table(samples: Mapping[str, Samples]) -> str:
    """The lines whose rows were measured, both sides of one commit."""
    kafka = " and ".join(sorted({one.kafka for one in _shown(samples)}, key=numbers))
    lines = [f"| | tidelog | Apache Kafka {kafka} | ratio | commit |", "|---|---|---|---|---|"]
    for line in LINES:
        rows = [samples[name] for name in line.rows]
        medians = [one.medians() for one in rows]
        (commit,) = {one.commit for one in rows}
        cells = [
            line.title,
            _cell([one[OURS] for one in medians], line) + _quiet(rows),
            _cell([one[KAFKA] for one in medians], line),
            " / ".join(figure(one[OURS] / one[KAFKA]) for one in medians),
            commit,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _shown(samples: Mapping[str, Samples]) -> list[Samples]:
    return [samples[name] for line in LINES for name in line.rows]


def _cell(values: list[float], line: Line) -> str:
    return " / ".join(figure(value * line.factor) for value in values) + (f" {line.unit}" if line.unit else "")


def _quiet(rows: list[Samples]) -> str:
    """What was measured in the same rounds without the work beside it."""
    values = [value for one in rows for value in one.values.get(QUIET, ())]
    return f" ({figure(statistics.median(values))} without)" if values else ""


def replaced(text: str, made: str) -> str:
    """A page's text with the table between its marks."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no marks for the table")
    return f"{head}{BEGIN}\n{made}\n{END}{tail}"


def write(page: Path = README, stored: Path = STORED, *, check: bool = False) -> bool:
    """Have the page show the stored samples; True if it did already."""
    _, samples = report.load(stored)
    before = page.read_text(encoding="utf-8")
    after = replaced(before, table(samples))
    if after != before and not check:
        page.write_text(after, encoding="utf-8")
    return after == before


if __name__ == "__main__":
    sys.exit(0 if write(check="--check" in sys.argv) or "--check" not in sys.argv else 1)
