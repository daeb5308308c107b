from __future__ import annotations

from pathlib import Path

import pytest
from generate.metrics_page import exposed_names, render, sample_families, section_of
from tidelog.broker.runtime.metric_family import AnyFamily

DOCS = Path(__file__).resolve().parents[3] / "docs"
#: What a series may be measured in, as the end of its name; counts of things need none.
UNITS_OF_OTHERS = ("_ms", "_milliseconds", "_kilobytes", "_mb", "_minutes", "_micros", "_nanoseconds")


@pytest.fixture(scope="module")
def families() -> list[AnyFamily]:
    return sample_families()


def test_the_committed_page_is_what_the_daemon_says(families: list[AnyFamily]) -> None:
    assert (DOCS / "METRICS.md").read_text(encoding="utf-8") == render(families), (
        "docs/METRICS.md is not what the daemon says: run `make docs`"
    )


def test_names_and_help(families: list[AnyFamily]) -> None:
    names = [family.name for family in families]
    assert len(set(names)) == len(names), "a family is told twice"
    for family in families:
        assert family.name.startswith("tidelog_"), family.name
        assert not family.name.endswith("_total"), f"{family.name}: prometheus-client adds it"
        assert family.help.endswith((".", ")")), family
        assert "|" not in family.help, family
        assert not family.name.endswith(UNITS_OF_OTHERS), f"{family.name}: times are seconds, sizes bytes"
    stored = [name for family in families for name in exposed_names(family)]
    assert len(set(stored)) == len(stored)


def test_each_subject_has_its_section(families: list[AnyFamily]) -> None:
    sections = {section_of(family.name) for family in families}
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
