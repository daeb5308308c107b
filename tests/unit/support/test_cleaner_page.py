"""docs/CLEANER.md names a test for each promise: every one of them is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_every_test_and_module_that_the_page_names_exists() -> None:
    page = (ROOT / "docs" / "CLEANER.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 60
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }
    assert named - there == set()
    modules = set(re.findall(r"`((?:\w+/)*\w+\.(?:pyx|h|py))`", page)) - {"tests/unit/support/test_cleaner_page.py"}
    files = {path.name for package in ("broker", "cleaner", "storage") for path in (ROOT / package).rglob("*.*")}
    assert {module.rpartition("/")[2] for module in modules if "benchmarks" not in module} - files == set()
