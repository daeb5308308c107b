"""One place names the releases of Apache Kafka; what else names them is what was made with one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.kafka_versions import NEWEST, PREVIOUS, TOOLS, numbers, versions

ROOT = Path(__file__).parents[3]
POMS = sorted([*ROOT.glob("tests/compat/*/pom.xml"), *ROOT.glob("benchmarks/*/pom.xml")])


def test_names_and_releases_are_read_and_comments_passed_over() -> None:
    assert versions("# a\nONE = 1.2.3\n\nTWO =4.0.0 \n") == {"ONE": "1.2.3", "TWO": "4.0.0"}


@pytest.mark.parametrize("line", ["ONE", "ONE =", "ONE: 1.2.3"])
def test_a_line_that_is_none_is_told(line: str) -> None:
    with pytest.raises(ValueError, match="is not NAME = RELEASE"):
        versions(f"A = 1.0.0\n{line}\n")


def test_releases_are_ordered_by_their_numbers() -> None:
    assert numbers("4.10.0") > numbers("4.9.1")
    assert numbers(PREVIOUS) < numbers(NEWEST)
    assert numbers(TOOLS) <= numbers(NEWEST)


@pytest.mark.parametrize("pom", POMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_pom_is_told_the_release(pom: Path) -> None:
    kafkas = re.findall(
        r"<groupId>org\.apache\.kafka</groupId>\s*<artifactId>[^<]+</artifactId>\s*<version>([^<]+)</version>",
        pom.read_text(),
    )
    assert set(kafkas) == {"${kafka}"}


def test_no_program_names_a_release_beside_that_place() -> None:
    """Goldens and published figures name the release that they were made with: those are no programs."""
    named = {
        path.relative_to(ROOT)
        for folder in ("tests/compat", "tests/support", "benchmarks")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".mk", ".java", ".go"}
        if re.search(rf"(?<![\w.])({re.escape(NEWEST)}|{re.escape(PREVIOUS)})(?![\w.])", path.read_text())
    }
    assert named == {Path("benchmarks/measure.py")}
