"""The table of mutations belongs to the sources as they are: a text that has drifted would say nothing any more."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest
from mutations.mutation import ROOT, Mutation, faults
from mutations.run import judged
from mutations.table import MUTATIONS


def test_every_mutations_text_is_found_exactly_once_and_its_tests_exist() -> None:
    assert faults(MUTATIONS) == []


def test_a_row_that_has_drifted_is_told() -> None:
    row = MUTATIONS[0]
    assert "0 times" in faults([replace(row, old="no such text")])[0]
    assert "times" in faults([replace(row, old="self.")])[0]
    assert "is the source" in faults([replace(row, new=row.old)])[0]
    assert faults([replace(row, file="storage/gone.py")]) == [f"{row.name}: there is no storage/gone.py"]
    gone = f"{row.tests[0].partition('::')[0]}::test_gone"
    assert faults([replace(row, tests=(gone,))]) == [f"{row.name}: there is no {gone}"]
    assert faults([replace(row, tests=())]) == [f"{row.name}: no test is named"]
    assert "more than one row" in faults([row, row])[0]


def test_a_mutant_differs_from_its_source_in_the_named_place_alone() -> None:
    row = MUTATIONS[0]
    source = (ROOT / row.file).read_text()
    mutant = row.apply(source)
    assert mutant != source
    assert mutant.replace(row.new, row.old, 1) == source
    with pytest.raises(ValueError, match="once"):
        row.apply(mutant)
    assert isinstance(row, Mutation)


@pytest.mark.parametrize(
    ("code", "output", "equivalent", "expected"),
    [
        (0, "2 passed", "", ("survived", "")),
        (0, "2 passed", "no reader sees it", ("equivalent", "")),
        (1, "FAILED tests/a.py::test_b - assert 0", "", ("killed", "tests/a.py::test_b")),
        (1, "ERROR tests/a.py::test_b - fixture", "", ("killed", "tests/a.py::test_b")),
        (1, "+++++ Timeout +++++", "", ("killed", "a test that hung")),
        (-11, "", "", ("killed", "the process died of signal 11")),
        (1, "FAILED tests/a.py::test_b", "no reader sees it", ("broken", "noticed after all: tests/a.py::test_b")),
        # A mutant that cannot be imported, or tests that are not found, say nothing.
        (2, "1 error during collection", "", ("broken", "pytest said 2: 1 error during collection")),
        (4, "not found", "", ("broken", "pytest said 4: not found")),
        (5, "no tests ran", "", ("broken", "pytest said 5: no tests ran")),
        (
            1,
            "ERROR    tidelog:disk.py:1 a log line",
            "",
            ("broken", "pytest said 1: ERROR    tidelog:disk.py:1 a log line"),
        ),
    ],
)
def test_a_verdict_is_what_the_tests_said_of_the_mutant(
    code: int, output: str, equivalent: str, expected: tuple[str, str]
) -> None:
    tested = subprocess.CompletedProcess([], code, output)
    assert judged(replace(MUTATIONS[0], equivalent=equivalent), tested) == expected
