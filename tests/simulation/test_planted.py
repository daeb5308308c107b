"""The planted defects: all apply, none is a mere crash, and what looks for them says what it saw."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from simulation import hunt
from simulation.planted import ALL, DEFECTS, PLANTED, PUT_BACK, Defect, Edit, applied, with_probes
from support.patience import PATIENCE_S

TESTS = Path(__file__).resolve().parents[1]
#: Daemons that are started with a defect in each check; all of them with --simulation-seconds above 600.
SANE_IN_A_CHECK = 4


def source_of(module: str) -> str:
    """The module's source, which is not imported for it."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text()


def test_there_are_thirty_and_those_that_were_found() -> None:
    assert len(PLANTED) == 30
    names = [defect.name for defect in ALL]
    assert sorted(set(names)) == sorted(names)
    assert all(defect.was for defect in PUT_BACK)
    assert not any(defect.was for defect in PLANTED)
    assert sum(len(defect.needs) >= 3 for defect in PLANTED) >= 10
    assert DEFECTS


@pytest.mark.parametrize("defect", ALL, ids=lambda defect: defect.name)
def test_each_defect_applies_once_and_compiles(defect: Defect) -> None:
    for module in {edit.module for edit in defect.edits}:
        edits = [edit for edit in defect.edits if edit.module == module]
        source, lines = applied(source_of(module), edits)
        tree = with_probes(source, lines, module)
        compile(tree, module, "exec")
        assert ast.unparse(tree).count("__planted_line__()") == len(edits)


def test_an_edit_whose_text_is_gone_is_refused() -> None:
    with pytest.raises(ValueError, match="0 times"):
        applied("a = 1\n", [Edit("m", "b = 2\n", "b = 3\n")])
    with pytest.raises(ValueError, match="changes nothing"):
        applied("a = 1\n", [Edit("m", "a = 1\n", "a = 1\n")])


def test_a_probe_stands_where_the_edit_differs() -> None:
    source = "def f():\n    one()\n    two()\n    three()\n"
    changed, lines = applied(source, [Edit("m", "    one()\n    two()\n", "    one()\n    too()\n")])
    assert ast.unparse(with_probes(changed, lines, "m")).splitlines()[2:4] == ["    __planted_line__()", "    too()"]
    changed, lines = applied(source, [Edit("m", "    two()\n", "")])
    assert ast.unparse(with_probes(changed, lines, "m")).splitlines()[2:4] == ["    __planted_line__()", "    three()"]


def test_a_daemon_with_a_defect_starts_and_serves(simulation_seconds: float) -> None:
    names = [defect.name for defect in (ALL if simulation_seconds > 600 else PLANTED[:: 30 // SANE_IN_A_CHECK])]
    ran = subprocess.run(
        [sys.executable, "-m", "simulation.sane", *names], cwd=TESTS, capture_output=True, text=True, env={**os.environ},
        timeout=len(names) * PATIENCE_S, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [line for line in ran.stdout.splitlines() if line.endswith(" ok")] == [f"{name} ok" for name in names]


def test_a_hunt_keeps_what_it_found_and_goes_on(tmp_path: Path) -> None:
    (defect,) = [defect for defect in DEFECTS if defect.name == "producers/repeated-batch"]
    options = [defect.name, "--state", str(tmp_path / "state.json"), "--page", str(tmp_path / "page.md")]
    assert hunt.main([*options, "--seeds", "1"]) == 0
    first = hunt.load(tmp_path / "state.json")[defect.name]
    assert first.upto == 1
    assert hunt.main([*options, "--seeds", str(defect.seeds)]) == 0
    found = hunt.load(tmp_path / "state.json")[defect.name]
    assert found.seed == found.upto > 1 or first.seed == 1
    assert found.reached > 0
    assert found.oracle != "another"
    assert f"| {found.seed} | {found.oracle} | {found.upto} |" in (tmp_path / "page.md").read_text()
    assert hunt.main([*options]) == 0  # it is known
    assert hunt.load(tmp_path / "state.json")[defect.name] == found


@pytest.mark.parametrize(
    ("why", "oracle"),
    [
        ("writer-3/7 was acknowledged at 14, and is gone; the log starts at 0", "nothing acknowledged is lost"),
        ("('plain', 0): offset 3 was a, and is b", "one name for each offset"),
        ("the daemon logs an error", "no error in the daemon's log"),
        ("writer-1: Produce is not answered within 90 s, nor its connection closed", "an answer within 90 s"),
        ("KeyError: 3", "clients understand what they are told"),
    ],
)  # fmt: skip
def test_a_failure_is_told_by_its_promise(why: str, oracle: str) -> None:
    assert hunt.oracle_of(why) == oracle


def test_the_page_tells_what_was_not_looked_for() -> None:
    page = hunt.page_of({}, 2000)
    assert page.count("| not looked for |") == len(ALL)
    assert f"0 of {len(PLANTED)} planted" in page
