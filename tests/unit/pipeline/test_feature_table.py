"""docs/PIPELINE.md: each claim of its tables names a test that exists, and the extras are of the versions that it names."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tidelog.pipeline.options import _KNOWN

ROOT = Path(__file__).resolve().parents[3]
FEATURES = "## Beside Spark's Kafka connector"
OPTIONS = "## Option by option"
FAILURES = "## What goes wrong, and what is said"


def rows(heading: str) -> list[list[str]]:
    page = (ROOT / "docs" / "PIPELINE.md").read_text(encoding="utf-8")
    table = page.split(heading, 1)[1].split("\n## ", 1)[0]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def check_exists(claim: str, test: str) -> None:
    found = re.fullmatch(r"`([\w/]+\.py)::(\w+)`", test)
    assert found, f"{claim}: {test!r} names no test"
    tree = ast.parse((ROOT / "tests" / found[1]).read_text(encoding="utf-8"))
    assert found[2] in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{claim}: {test}"


def test_each_feature_names_a_test_that_exists() -> None:
    assert len(rows(FEATURES)) > 15
    for feature, connector, ours, test in rows(FEATURES):
        assert feature
        assert connector
        if ours == "no":
            assert not test, f"{feature}: what is not there has no test"
        else:
            check_exists(feature, test)


def test_each_failure_names_a_test_that_exists() -> None:
    assert len(rows(FAILURES)) > 10
    for failure, said, test in rows(FAILURES):
        assert said
        check_exists(failure, test)


def test_each_option_of_the_connector_names_a_test_that_sets_it() -> None:
    """Besides, the source (or the sink) takes each by that name."""
    told = rows(OPTIONS)
    assert len(told) > 20
    for option, meaning, test in told:
        name = option.strip("`")
        assert meaning
        check_exists(option, test)
        module = (ROOT / "tests" / test.strip("`").split("::")[0]).read_text(encoding="utf-8")
        assert name in module or name.replace(".", "_") in module, f"{test} says nothing of {name}"
        assert name in _KNOWN or name == "topic"


@pytest.mark.parametrize("heading", [FEATURES, OPTIONS, FAILURES])
def test_nothing_is_told_twice(heading: str) -> None:
    claims = [claim for claim, *_ in rows(heading)]
    assert len(set(claims)) == len(claims)


def test_the_extra_of_tables_is_the_pyspark_that_their_jars_are_made_for() -> None:
    """And the page names the versions that are tried."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    made_for = set()
    versions = {}
    for dependency in ElementTree.parse(ROOT / "tests" / "tables" / "pom.xml").findall(".//{*}dependency"):
        name, version = dependency.findtext("{*}artifactId") or "", dependency.findtext("{*}version") or ""
        if found := re.search(r"[-_](\d+)\.(\d+)_2\.13$", name):
            made_for.add((int(found[1]), int(found[2])))
            versions[name.split("-")[0]] = version
    ((major, minor),) = made_for
    assert f"pyspark>={major}.{minor},<{major}.{minor + 1}" in extras["tables"]
    assert {one.replace(",<26", "") for one in extras["tables"] if "pyspark" not in one} == {  # see `check_state`
        one for one in extras["pipeline"] if "pyspark" not in one
    }
    page = (ROOT / "docs" / "PIPELINE.md").read_text(encoding="utf-8")
    assert f"| {versions['delta']} and {versions['iceberg']}, with PySpark {major}.{minor} (`tidelog[tables]`)" in page
    assert f"io.delta:delta-spark_{major}.{minor}_2.13:{versions['delta']}" in page
