"""The whole daemon, simulated: a number is a run, and the runs of the first numbers break no promise.

Each is a process of its own (`simulation.run`), since what it replaces has to be replaced before the daemon is imported.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from simulation.planted import DEFECTS, Defect
from simulation.regressions import REGRESSIONS, Regression
from support.patience import PATIENCE_S

TESTS = Path(__file__).resolve().parents[1]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "defect" in metafunc.fixturenames:
        count = metafunc.config.getoption("--simulation-defects")
        chosen = sorted(DEFECTS, key=lambda defect: defect.seeds)[:count]
        metafunc.parametrize("defect", chosen, ids=lambda defect: defect.name)


def lines_of(
    *arguments: str, hash_seed: str = "random", code: int = 0, patience_s: float = 0.0, **environment: str
) -> list[str]:
    """What a run prints; it must end with that code."""
    ran = subprocess.run(
        [sys.executable, "-m", "simulation.run", *arguments], cwd=TESTS, capture_output=True, text=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, **environment}, timeout=patience_s + 20 * PATIENCE_S, check=False,
    )  # fmt: skip
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.parametrize("seed", ["3", "11"])
def test_a_seed_is_the_same_run_in_each_process_whatever_the_hashes(seed: str) -> None:
    (first,) = lines_of("--seed", seed, hash_seed="11")
    assert first.startswith(f"seed {seed}: ok steps=")
    assert [first] == lines_of("--seed", seed, hash_seed="13")


def test_a_seed_is_the_same_run_wherever_its_objects_lie() -> None:
    (line,) = lines_of("--seed", "3", "--again", "4")
    assert line.startswith("4 times seed 3: ok steps=")


def test_a_seed_is_the_same_run_whatever_the_machine_says_of_containers() -> None:
    """Its lines are switch points: one more that the daemon comes to makes another run."""
    inside, outside = (
        lines_of("--seed", "3", container="podman"),
        lines_of("--seed", "3", KUBERNETES_SERVICE_HOST="10.0.0.1"),
    )
    assert inside == outside


def test_two_seeds_and_two_schedules_are_two_runs() -> None:
    lines = [lines_of("--seed", "3"), lines_of("--seed", "4"), lines_of("--seed", "3", "--schedule", "1")]
    assert len({line.split()[-1] for (line,) in lines}) == 3


def test_parts_of_a_run_are_a_run() -> None:
    (line,) = lines_of("--seed", "3", "--keep", "0x3")
    assert line.startswith("seed 3: ok steps=")


def test_runs_that_are_kept_are_gone_on_with(tmp_path: Path) -> None:
    state, page = tmp_path / "runs.json", tmp_path / "page.md"
    how = "--state", str(state), "--report", str(page)
    assert any(line.startswith("1 runs, 0 failed") for line in lines_of("--count", "1", *how))
    assert any(line.startswith("1 runs, 0 failed") for line in lines_of("--count", "2", *how))
    assert any(line.startswith("0 runs, 0 failed") for line in lines_of("--count", "2", *how))
    assert "\n2 runs, " in page.read_text(encoding="utf-8")


def test_finds_a_planted_defect(defect: Defect) -> None:
    told = lines_of("--planted", defect.name, "--count", str(defect.seeds), code=1, patience_s=3600.0)
    print(*[line for line in told if line.startswith("seed ")])
    assert any("FAILED" in line and "hung" not in line for line in told)


@pytest.mark.parametrize("regression", REGRESSIONS, ids=str)
def test_a_defect_that_was_found_stays_mended(regression: Regression) -> None:
    arguments = ["--seed", str(regression.seed), "--schedule", str(regression.schedule)]
    if regression.keep:
        arguments += ["--keep", regression.keep]
    (line,) = lines_of(*arguments)
    assert line.startswith(f"seed {regression.seed}: ok ")


def test_no_promise_is_broken(simulation_seconds: float, simulation_seeds: int, simulation_told: list[str]) -> None:
    told = lines_of(
        "--seconds", str(simulation_seconds), "--count", str(simulation_seeds), patience_s=simulation_seconds
    )
    print(*told, sep="\n")
    simulation_told += [f"{line} (of {simulation_seeds} seeds)" for line in told if re.match(r"\d+ runs, ", line)]
    assert any(re.match(r"[1-9]\d* runs, 0 failed", line) for line in told)
