"""The table of mutations belongs to the sources as they are: a text that has drifted would say nothing any more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mutations.mutation import ROOT, Mutation, faults
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
