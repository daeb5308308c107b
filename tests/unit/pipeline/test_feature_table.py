"""docs/PIPELINE.md beside Spark's connector: each feature that is claimed has a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HEADING = "## Beside Spark's Kafka connector"


def rows() -> list[tuple[str, str, str, str]]:
    page = (ROOT / "docs" / "PIPELINE.md").read_text(encoding="utf-8")
    table = page.split(HEADING, 1)[1].split("\n## ", 1)[0]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    found = []
    for line in lines:
        feature, connector, ours, test = (cell.strip() for cell in line.strip("|").split("|"))
        found.append((feature, connector, ours, test))
    return found


def test_each_claim_names_a_test_that_exists() -> None:
    assert len(rows()) > 15
    for feature, connector, ours, test in rows():
        assert feature
        assert connector
        if ours == "no":
            assert not test, f"{feature}: what is not there has no test"
            continue
        found = re.fullmatch(r"`([\w/]+\.py)::(\w+)`", test)
        assert found, f"{feature}: {test!r} names no test"
        tree = ast.parse((ROOT / "tests" / found[1]).read_text(encoding="utf-8"))
        assert found[2] in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{feature}: {test}"


def test_no_feature_is_told_twice() -> None:
    features = [feature for feature, *_ in rows()]
    assert len(set(features)) == len(features)
