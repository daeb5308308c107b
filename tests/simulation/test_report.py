"""What is kept of runs, and the page about them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from simulation.report import Part, Parts, Totals, report


def runs(count: int, failed: tuple[int, ...] = (), **events: int) -> Totals:
    totals = Totals(real_s=2.0)
    for number in range(count):
        totals.add(number, number in failed, 50.0, 0.5, dict(events))
    return totals


def test_goes_of_one_commit_are_one_part_and_of_another_another(tmp_path: Path) -> None:
    path = tmp_path / "made" / "runs.json"
    for part in (
        Part("a", 1, runs(3, kills=1)),
        Part("a", 4, runs(2, kills=1)),
        Part("b", 6, runs(4)),
        Part("b", 11, runs(1)),
    ):
        kept = Parts(path)
        kept.add(part)
        assert Parts(path).parts == kept.parts
        assert kept.upto == part.last
    assert [(part.commit, part.first, part.last) for part in kept.parts] == [("a", 1, 5), ("b", 6, 9), ("b", 11, 11)]


def test_a_go_without_a_run_is_none(tmp_path: Path) -> None:
    kept = Parts(tmp_path / "runs.json")
    kept.add(Part("a", 1, runs(0)))
    assert (kept.parts, kept.upto) == ([], 0)


def test_a_seed_is_not_counted_twice(tmp_path: Path) -> None:
    kept = Parts(tmp_path / "runs.json")
    kept.add(Part("a", 1, runs(3)))
    with pytest.raises(AssertionError, match="run before"):
        kept.add(Part("b", 3, runs(1)))


def test_sums_of_parts_are_those_of_the_runs_together() -> None:
    assert runs(3, (1,), kills=2) + runs(2, kills=1, resets=1) == Totals(
        5, [1], 250.0, 2.5, 4.0, Counter(kills=8, resets=2), Counter(kills=5, resets=2)
    )


def test_the_page_tells_of_all_parts() -> None:
    page = report([Part("a", 1, runs(3, **{"kill × append": 2})), Part("b", 4, runs(1200, (7,), fetched=1))])
    assert (
        "1,203 runs, 16.7 h of virtual time in 10 min of CPU (15038 × real time, 0.50 s of CPU a run). Failed: 7."
        in page
    )
    assert "| a | 1 to 3 | 0 | 0.0 | 0.50 | 75 |" in page
    assert "| b | 4 to 1,203 | 1 | 16.7 | 0.50 | 30000 |" in page
    assert "| append | 6 |" in page
    assert "| fetched | 1,200 | 1,200 |" in page
