"""docs/CLEANER.md and docs/DURABILITY.md name a test for each promise: every one of them is there."""

from __future__ import annotations

import re
from pathlib import Path

from tidelog.broker.runtime.durability import LEVELS

ROOT = Path(__file__).resolve().parents[3]


def names_there() -> set[str]:
    return {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }


def test_every_test_and_module_that_the_page_names_exists() -> None:
    page = (ROOT / "docs" / "CLEANER.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 60
    assert named - names_there() == set()
    modules = set(re.findall(r"`((?:\w+/)*\w+\.(?:pyx|h|py))`", page)) - {"tests/unit/support/test_cleaner_page.py"}
    files = {path.name for package in ("broker", "cleaner", "storage") for path in (ROOT / package).rglob("*.*")}
    assert {module.rpartition("/")[2] for module in modules if "benchmarks" not in module} - files == set()


def test_every_test_that_the_page_of_durability_names_exists_and_it_has_the_levels_that_there_are() -> None:
    page = (ROOT / "docs" / "DURABILITY.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) >= 10
    assert named - names_there() == set()
    assert f"\n| what happens | {' | '.join(LEVELS)} |\n" in page
    table = page.partition("## The three levels")[2].partition("\n\nAt ")[0]
    assert [level for level in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE) if "-" not in level][1:] == [*LEVELS]
