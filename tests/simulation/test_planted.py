"""The planted defects: all apply, none is a mere crash, and what looks for them says what it saw."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from simulation import hunt
from simulation.defects.obstacles import OBSTACLES
from simulation.places import Place
from simulation.plan import Plan
from simulation.planted import ALL, DEFECTS, PLANTED, PUT_BACK, Defect, Edit, applied, exchanges, with_probes
from simulation.run import Result
from support.patience import PATIENCE_S

TESTS = Path(__file__).resolve().parents[1]
#: Daemons that are started with a defect in each check; all of them with --simulation-seconds above 600.
SANE_IN_A_CHECK = 4
#: One that is found among few seeds, and one that no run comes to.
NAMES = ("log/watermark-before-bytes", "was/late-part-made-twice")


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
        tree = with_probes(source, [(line, defect.name) for line in lines], module)
        assert ast.unparse(tree).count("__planted_line__") == len(edits)
        assert _shell(source_of(module)) == _shell(source), "only functions may change: nothing else is exchanged"


def _shell(source: str) -> str:
    """The module without what its functions do."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [ast.Pass()]
    return ast.unparse(tree)


@pytest.mark.parametrize("defect", ALL, ids=lambda defect: defect.name)
def test_functions_of_the_daemon_get_the_code_of_a_defect(defect: Defect) -> None:
    pairs = exchanges((defect.name,))
    assert all(function.__code__.co_qualname == code.co_qualname for function, code in pairs)
    assert any(function.__code__ != code for function, code in pairs)


def test_an_edit_whose_text_is_gone_is_refused() -> None:
    with pytest.raises(ValueError, match="0 times"):
        applied("a = 1\n", [Edit("m", "b = 2\n", "b = 3\n")])
    with pytest.raises(ValueError, match="changes nothing"):
        applied("a = 1\n", [Edit("m", "a = 1\n", "a = 1\n")])


def test_a_probe_stands_where_the_edit_differs() -> None:
    source = "def f():\n    one()\n    two()\n    three()\n"
    changed, lines = applied(source, [Edit("m", "    one()\n    two()\n", "    one()\n    too()\n")])
    assert ast.unparse(with_probes(changed, [(lines[0], "a")], "m")).splitlines()[2:4] == [
        "    __planted_line__('a')",
        "    too()",
    ]
    changed, lines = applied(source, [Edit("m", "    two()\n", "")])
    assert ast.unparse(with_probes(changed, [(lines[0], "a")], "m")).splitlines()[2:4] == [
        "    __planted_line__('a')",
        "    three()",
    ]


def test_a_daemon_with_a_defect_starts_and_serves(simulation_seconds: float) -> None:
    names = [defect.name for defect in (ALL if simulation_seconds > 600 else PLANTED[:: 30 // SANE_IN_A_CHECK])]
    ran = subprocess.run(
        [sys.executable, "-m", "simulation.sane", *names], cwd=TESTS, capture_output=True, text=True, env={**os.environ},
        timeout=len(names) * PATIENCE_S, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [line for line in ran.stdout.splitlines() if line.endswith(" ok")] == [f"{name} ok" for name in names]


def test_a_hunt_keeps_what_it_found_and_goes_on(tmp_path: Path) -> None:
    """Two defects at once, of which one is found, and is the one to blame."""
    state, page = tmp_path / "state.json", tmp_path / "page.md"

    def hunt_for(*arguments: str) -> dict[str, hunt.Finding]:
        command = [
            sys.executable,
            "-m",
            "simulation.hunt",
            *NAMES,
            "--state",
            str(state),
            "--page",
            str(page),
            *arguments,
        ]
        subprocess.run(command, cwd=TESTS, env={**os.environ}, timeout=20 * PATIENCE_S, check=True)
        return hunt.load(state)

    found, other = NAMES
    first = hunt_for("--seeds", "1")
    assert [first[name].upto for name in NAMES] == [1, 1]
    last = hunt_for("--seeds", "12")
    assert last[found].seed == last[found].upto
    assert last[found].oracle != "another"
    assert last[found].came
    assert not last[other].seed
    assert last[other].upto > 1
    assert f"| {last[found].seed} | {last[found].oracle} | {last[found].upto} |" in page.read_text()
    assert hunt_for("--alone", "--seconds", "0") == last


def test_those_that_fail_alone_are_to_blame() -> None:
    def failure(names: Sequence[str], schedule: int) -> str:
        if set(names) & {"b", "d"}:
            return "".join(sorted(set(names) & {"b", "d"}))
        return (
            "together"
            if {"a", "e"} <= set(names) or (set(names) == {"g"} and schedule == 2) or set("gh") <= set(names)
            else ""
        )

    assert hunt.to_blame("abcde", failure) == {"b": hunt.Blamed("b", 0), "d": hunt.Blamed("d", 0)}
    assert hunt.to_blame("acef", failure) == {}
    assert hunt.to_blame("gcfh", failure) == {"g": hunt.Blamed("together", 2)}
    assert list(hunt.fewer("afceg", lambda names: bool(failure(names, 0)))) == ["a", "e"]


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
    assert OBSTACLES.keys() <= {defect.name for defect in ALL}
    assert page.count("\n- was/late-part-made-twice: HTTP is not simulated") == 1
    found = hunt.Finding("", "", seed=3, oracle="order", why="a stands behind b")
    assert "HTTP is not simulated" not in hunt.page_of({"was/late-part-made-twice": found}, 2000)
    assert page.count("| not looked for |") == len(ALL)
    assert f"0 of {len(PLANTED)} planted" in page


def test_a_seed_whose_plan_has_what_a_defect_needs_is_tried_before_others() -> None:
    suits = hunt.Suits(next(defect for defect in ALL if defect.name == "transactions/markers-before-decision"))
    plans = sorted((Plan.of(seed) for seed in range(1, 40)), key=lambda plan: -suits.of(plan, Counter()))
    first, last = plans[0], plans[-1]
    assert any(part.kind == "transactional" for part in first.parts)
    assert first.durable
    assert not any(part.kind == "transactional" for part in last.parts)
    marker = Place("broker/transactions/markers.py", "Completions.begin")
    assert suits.of(last, Counter([marker])) > suits.of(last, Counter([Place("a.py", "b")]))


def test_defects_that_change_runs_are_not_looked_for_in_company(tmp_path: Path) -> None:
    """And what is kept by another hunt meanwhile stays."""
    options = hunt.options_of(["--state", str(tmp_path / "state.json"), "--seeds", "2"])
    quiet, loud, other = ALL[:3]
    ran: list[tuple[int, tuple[str, ...]]] = []

    def run(plans: Iterable[Plan]) -> Iterator[tuple[Plan, Result]]:
        for plan in plans:
            ran.append((plan.seed, plan.planted))
            digest = f"{plan.seed} {loud.name in plan.planted}"
            yield plan, Result(plan.seed, "", 1, digest, 1.0, 1.0, {})

    looked = hunt.Hunt([quiet, loud], options, run)
    hunt.save(options.state, {other.name: hunt.Finding("", "", seed=7)})
    looked.measure()
    kept = hunt.load(options.state)
    assert [kept[one.name].changes for one in (quiet, loud)] == [False, True]
    assert kept[other.name].seed == 7
    ran.clear()
    looked.in_company()
    assert ran == [(1, (quiet.name,)), (2, (quiet.name,))]
    ran.clear()
    options.best, options.seeds = True, 5
    looked.in_company()
    assert sorted(ran) == [(seed, (quiet.name,)) for seed in (3, 4, 5)]
    assert sorted(hunt.load(options.state)[quiet.name].chosen) == [3, 4, 5]
    ran.clear()
    looked.in_company()
    assert not ran
