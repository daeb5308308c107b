"""The whole daemon, simulated: a number is a run, and the runs of the first numbers break no promise.

Each is a process of its own (`simulation.run`), since what it replaces has to be replaced before the daemon is imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from simulation.planted import DEFECTS, Defect
from support.patience import PATIENCE_S

TESTS = Path(__file__).resolve().parents[1]


def lines_of(*arguments: str, hash_seed: str = "random", code: int = 0) -> list[str]:
    """What a run prints; it must end with that code."""
    ran = subprocess.run(
        [sys.executable, "-m", "simulation.run", *arguments], cwd=TESTS, capture_output=True, text=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed}, timeout=20 * PATIENCE_S, check=False,
    )  # fmt: skip
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.parametrize("seed", ["3", "11"])
def test_a_seed_is_the_same_run_in_each_process_whatever_the_hashes(seed: str) -> None:
    (first,) = lines_of("--seed", seed, hash_seed="1")
    assert first.startswith(f"seed {seed}: ok steps=")
    assert [first] == lines_of("--seed", seed, hash_seed="2")


def test_two_seeds_are_two_runs() -> None:
    (one,), (other,) = lines_of("--seed", "3"), lines_of("--seed", "4")
    assert one.split()[-1] != other.split()[-1]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_finds_a_planted_defect(defect: Defect) -> None:
    told = lines_of("--planted", defect.name, "--count", str(defect.seeds), code=1)
    print(*[line for line in told if line.startswith("seed ")])
    assert any("FAILED" in line and "hung" not in line for line in told)


def test_no_promise_is_broken(simulation_seconds: float) -> None:
    first, *events = lines_of("--seconds", str(simulation_seconds))
    print(first, *events, sep="\n")
    assert " 0 failed" in first
