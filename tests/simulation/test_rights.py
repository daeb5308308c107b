"""A daemon that lets in who is denied is found out: `lost right` and its oracle, tried on defects of rights."""

from __future__ import annotations

import ast

import pytest
from simulation.defects.defect import Defect
from simulation.defects.of_rights import OF_RIGHTS
from simulation.planted import applied, with_probes
from simulation.test_planted import source_of
from simulation.test_simulation import lines_of


@pytest.mark.parametrize("defect", OF_RIGHTS, ids=lambda defect: defect.name)
def test_a_defect_of_rights_applies(defect: Defect) -> None:
    (edit,) = defect.edits
    source, (line,) = applied(source_of(edit.module), defect.edits)
    tree = with_probes(source, [(line, defect.name)], edit.module)
    assert ast.unparse(tree).count(f"__planted_line__({defect.name!r})") == 1


@pytest.mark.parametrize("defect", OF_RIGHTS, ids=lambda defect: defect.name)
def test_finds_that_a_rule_is_ignored(defect: Defect) -> None:
    told = lines_of("--planted", defect.name, "--count", str(defect.seeds), code=1, patience_s=3600.0)
    # Either side of the oracle: who writes without the right, or who has it and is refused by what was decided before.
    assert any("FAILED" in line and "right to write" in line for line in told)
