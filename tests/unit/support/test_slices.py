"""What a slice leaves out is what the other slices have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.slices import SLICES, slice_of

TESTS = Path(__file__).resolve().parents[2]
COUNTED = """
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

@settings(max_examples=60, database=None)
@given(st.integers())
def test_function(value):
    with open("function", "a") as file:
        file.write("x")

class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        with open("machine", "a") as file:
            file.write("x")

    @rule()
    def step(self):
        pass

TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=30, stateful_step_count=2, database=None)
"""


def test_the_slices_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPOTHESIS_PROFILE", "fixed")
    assert slice_of(range(10), 1) == range(10)
    monkeypatch.setenv("HYPOTHESIS_PROFILE", "slice")
    parts = [set(slice_of(range(10), start)) for start in range(5, 5 + SLICES)]
    assert set().union(*parts) == set(range(10))
    assert sum(map(len, parts)) == 10


@pytest.mark.parametrize(("profile", "most"), [("fixed", (60, 31)), ("slice", (12, 7))])
def test_a_share_is_taken_of_the_examples_that_a_test_asks_for(
    tmp_path: Path, profile: str, most: tuple[int, int]
) -> None:
    """Of a function's and of a state machine's, which hypothesis makes once more than it counts."""
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(COUNTED)
    environment = {**os.environ, "HYPOTHESIS_PROFILE": profile, "PYTHONPATH": str(TESTS)}
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path, env=environment, check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    counts = tuple((tmp_path / name).stat().st_size for name in ("function", "machine"))
    assert all(most[i] - 2 <= counts[i] <= most[i] for i in range(2)), counts
