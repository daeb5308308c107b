from __future__ import annotations

from pathlib import Path

import pytest
from support.linux_only import linux_only

TESTS = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("module", "what"),
    [
        ("unit/storage/io/test_page_cache.py", "the page cache"),
        ("unit/release/test_deb.py", "programs of Linux"),
        ("unit/storage/io/test_memory_map.py", "/proc"),
        ("unit/config/test_page.py", None),
        ("client/test_records.py", None),
        ("property/test_log_model.py", None),
    ],
)
def test_what_needs_linux_says_why(module: str, what: str | None) -> None:
    reason = linux_only(TESTS / module)
    assert reason is None if what is None else reason is not None and what in reason


def test_elsewhere_most_tests_of_the_first_rings_still_run() -> None:
    modules = [path for ring in ("unit", "property", "golden", "client") for path in (TESTS / ring).rglob("test_*.py")]
    skipped = [path for path in modules if linux_only(path)]
    assert 0 < len(skipped) < len(modules) / 5, [str(path.relative_to(TESTS)) for path in skipped]
