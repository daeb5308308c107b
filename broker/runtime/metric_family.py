"""Metrics as rows of tables (`Metric`, `Histogram`), and what a snapshot is made of them (`Family`).

    @cache
    def connection_metrics() -> Table[SocketServer]:
        return (
            Metric("tidelog_connections", GAUGE, "Open connections.", lambda server: len(server.connections)),
            …
        )

    families_of(connection_metrics(), server)                       # one Family for each row, now

A row says what a metric is called and how it is read of its subject: the server, one log, one task. The subject keeps its
counts as plain numbers; nothing is registered, and nothing is added up between two scrapes. A `Family` is a plain value too and
not one of prometheus-client's: the loop thread makes families by the hundred and must be done in a moment, and a start does not
import prometheus-client. `monitoring/collector.py` turns them into prometheus-client's families on the thread of the scrape.

Tables stand in functions because mypy looks at a lambda of a module's top level before it knows the attributes that it names.

Names begin with `tidelog_` and end with their unit (`_bytes`, `_seconds`, `_ratio`, `_offset` …); a counter is named without
the `_total` that Prometheus adds. A metric without a value is said all the same, as a family without rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

S = TypeVar("S")

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

Labels = tuple[str, ...]
Reading = float | Mapping[str, float] | Mapping[tuple[str, str], float] | Mapping[Labels, float] | None
"""Value that a row reads of a subject: a number; numbers by the value, or values, of further labels; None where there is no
row.
"""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric of a scrape; rows are (label values, value)."""

    name: str
    kind: str  # "counter" or "gauge"
    help: str
    labels: Labels
    rows: Sequence[tuple[Labels, float]]


@dataclass(frozen=True, slots=True)
class HistogramFamily:
    """A histogram. `bounds` are upper ends; a row is (label values, counts, sum): one count for each bound, not
    cumulative, and one more for values above the last bound.
    """

    name: str
    help: str
    labels: Labels
    bounds: tuple[float, ...]
    rows: Sequence[tuple[Labels, Sequence[int], float]]
    kind: str = HISTOGRAM


AnyFamily = Family | HistogramFamily


@dataclass(frozen=True, slots=True)
class Metric(Generic[S]):
    """One row of a table, about subjects of type S. `labels` are the subject's own, then those that `read` answers by."""

    name: str
    kind: str
    help: str
    read: Callable[[S], Reading]
    labels: Labels = ()

    def family(self, subjects: Sequence[tuple[Labels, S]]) -> Family:
        """The family of these subjects, each with the values of its own labels."""
        if subjects and len(self.labels) > len(subjects[0][0]):
            by_label = cast(Callable[[S], Mapping[str | Labels, float] | None], self.read)
            rows = [
                ((*place, more) if isinstance(more, str) else (*place, *more), value)
                for place, subject in subjects
                for more, value in (by_label(subject) or {}).items()
            ]
        else:
            number = cast(Callable[[S], float | None], self.read)
            rows = [(place, value) for place, subject in subjects if (value := number(subject)) is not None]
        return Family(self.name, self.kind, self.help, self.labels, rows)


@dataclass(frozen=True, slots=True)
class Histogram(Generic[S]):
    """A row whose reading is (counts, sum) by the value of its one label; the counts as `HistogramFamily` has them."""

    name: str
    help: str
    read: Callable[[S], Mapping[str, tuple[Sequence[int], float]]]
    labels: Labels
    bounds: tuple[float, ...]
    kind: str = HISTOGRAM

    def family(self, subjects: Sequence[tuple[Labels, S]]) -> HistogramFamily:
        """Family of these subjects as they are now: a row for each label that `read` gives."""
        rows = [
            ((*place, label), counts, total)
            for place, subject in subjects
            for label, (counts, total) in self.read(subject).items()
        ]
        return HistogramFamily(self.name, self.help, self.labels, self.bounds, rows)


Table = tuple[Metric[S] | Histogram[S], ...]


def families_of(table: Table[S], subject: S) -> Iterator[AnyFamily]:
    """The families of a table whose subject there is one of. The thread that may read the subject."""
    return families_of_each(table, [((), subject)])


def families_of_each(table: Table[S], subjects: Sequence[tuple[Labels, S]]) -> Iterator[AnyFamily]:
    """The families of a table with rows for each of the subjects, which stand beside their label values."""
    for metric in table:
        yield metric.family(subjects)


def if_made(read: Callable[[S], float]) -> Callable[[S | None], float]:
    """Reads a part of the daemon that may not have been made yet: 0 until then."""
    return lambda part: 0 if part is None else read(part)


MAX_LABEL = 200
"""Maximum length of a label that clients choose, in characters: a group's name may have 32,767."""


def label_of(text: str) -> str:
    """Use a client's text as a label: a long one is cut and ends with a part of its hash, so that no two become one
    series.
    """
    if len(text) <= MAX_LABEL:
        return text
    import hashlib

    return f"{text[:MAX_LABEL]}…{hashlib.sha256(text.encode()).hexdigest()[:16]}"
