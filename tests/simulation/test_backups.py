"""Promise: a cut that a daemon published, whatever happened to it, its disk and the store, is all partitions at one moment.

Its runs are those of the first numbers, with a backup (`simulation.backups`).
"""

from __future__ import annotations

import re

import pytest
from simulation.defects.defect import Defect
from simulation.defects.of_backups import OF_BACKUPS
from simulation.test_simulation import lines_of


def test_cuts_that_are_restored_are_what_was_known_at_their_moments(pytestconfig: pytest.Config) -> None:
    runs = int(pytestconfig.getoption("--simulation-backups"))
    first, *events = lines_of("--backup", "--count", str(runs), "--smaller-s", "0", patience_s=20.0 * runs)
    print(first, *events, sep="\n")
    assert " 0 failed" in first
    counts = {
        name: int(count)
        for line in events
        if (match := re.match(r" *(\d+) (.*)", line))
        for count, name in [match.groups()]
    }
    assert counts["restored"] > runs
    assert counts["cut"] > counts["restored"]
    assert counts["requests to the store that failed"]


def test_a_run_with_a_backup_is_the_same_in_each_process() -> None:
    (first,) = lines_of("--backup", "--seed", "5", hash_seed="1")
    assert [first] == lines_of("--backup", "--seed", "5", hash_seed="2")


@pytest.mark.parametrize("defect", OF_BACKUPS, ids=lambda defect: defect.name)
def test_finds_a_planted_defect_of_backups(defect: Defect) -> None:
    told = lines_of("--backup", "--planted", defect.name, "--count", "30", code=1)
    assert any("FAILED cut" in line for line in told)
