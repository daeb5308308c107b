from __future__ import annotations

from pathlib import Path

from generate.metrics_page import exposed_names, render, section_of
from tidelog.broker.monitoring.collector import every_metric

DOCS = Path(__file__).resolve().parents[3] / "docs"
#: What a series may be measured in, as the end of its name; counts of things need none.
UNITS_OF_OTHERS = ("_ms", "_milliseconds", "_kilobytes", "_mb", "_minutes", "_micros", "_nanoseconds")


def test_the_committed_page_is_what_the_tables_say() -> None:
    assert (DOCS / "METRICS.md").read_text(encoding="utf-8") == render(every_metric()), (
        "docs/METRICS.md is not what the tables say: run `make docs`"
    )


def test_names_and_help() -> None:
    names = [metric.name for metric in every_metric()]
    assert len(set(names)) == len(names), "a metric is in the tables twice"
    for metric in every_metric():
        assert metric.name.startswith("tidelog_"), metric.name
        assert not metric.name.endswith("_total"), f"{metric.name}: prometheus-client adds it"
        assert metric.help.endswith((".", ")")), metric
        assert "|" not in metric.help, metric
        assert not metric.name.endswith(UNITS_OF_OTHERS), f"{metric.name}: times are seconds, sizes bytes"
    stored = [name for metric in every_metric() for name in exposed_names(metric)]
    assert len(set(stored)) == len(stored)


def test_each_subject_has_its_section() -> None:
    sections = {section_of(metric.name) for metric in every_metric()}
    assert sections >= {
        "Requests",
        "Connections and bytes",
        "Groups",
        "Cleaner",
        "Retention",
        "Disks",
        "Logs",
        "The daemon",
    }
