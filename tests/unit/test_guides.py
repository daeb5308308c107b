"""What ARCHITECTURE.md and CONTRIBUTING.md point to is there: files, functions and classes, tests."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
#: `path/to/module.py:Class.method`
PLACE = re.compile(r"`([\w/]+\.py):([\w.]+)`")
#: What the rooms were to make easy to find (ADR 56).
SIX = {
    "Where does a group's session time out?",
    "What happens to a produce while a disk hangs?",
    "Who decides that a segment is cleaned?",
    "Where is a fetch's answer written?",
    "What does a connection do while its client reads nothing?",
    "Where is a new setting added?",
}


def questions(page: str) -> dict[str, str]:
    """Question → answer, of the page's table "Where is …?"."""
    table = page.partition("\n## Where is …?\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+\?) \| (.+) \|$", table, flags=re.MULTILINE)
    return dict(rows)


@cache
def defined(path: str) -> frozenset[str]:
    """Functions, classes and constants of a module: `f`, `C`, `C.method`, `NAME`. Empty where there is no such file."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    found: set[str] = set()

    def look(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
                if isinstance(node, ast.ClassDef):
                    look(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update(prefix + target.id for target in targets if isinstance(target, ast.Name))

    look(ast.parse(file.read_text(encoding="utf-8")).body, "")
    return frozenset(found)


def lost(text: str) -> list[str]:
    """The places in `text` that are not there."""
    return [f"{path}:{name}" for path, name in PLACE.findall(text) if name not in defined(path)]


QUESTIONS = questions(ARCHITECTURE)


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_names_a_place_that_is_there(question: str) -> None:
    answer = QUESTIONS[question]
    assert PLACE.search(answer), "no `room/file.py:function` in it"
    assert lost(answer) == []


def test_the_questions_that_the_rooms_were_made_for_are_answered() -> None:
    assert set(QUESTIONS) >= SIX
    assert len(QUESTIONS) >= 20


def test_a_function_that_has_another_name_is_told() -> None:
    assert lost("`cleaner/eligibility.py:evaluate`, `cleaner/eligibility.py:Cause.NOT_COMPACTED_ANY_MORE`") == [
        "cleaner/eligibility.py:Cause.NOT_COMPACTED_ANY_MORE"
    ]
    assert lost("`cleaner/eligible.py:evaluate`") == ["cleaner/eligible.py:evaluate"]
    assert lost("`storage/retention/plan.py:evaluate`") == ["storage/retention/plan.py:evaluate"]


@pytest.mark.parametrize("page", [ARCHITECTURE, CONTRIBUTING], ids=["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_that_are_named_are_there(page: str) -> None:
    """From the checkout's root; what is of the broker or of storage may leave that out. NAME stands for any."""
    named = set(re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|pyx|md|yml|css|js))(?::[\w.]+)?`", page))
    folders = (ROOT, ROOT / "broker", ROOT / "storage")
    gone = [name for name in named if "NAME" not in name and not any((folder / name).exists() for folder in folders)]
    assert gone == []
    assert len(named) > 10


def test_tests_that_a_recipe_names_are_there() -> None:
    """`test_definitions.py` alone is looked for among all tests."""
    named = set(re.findall(r"`(?:[\w/]*/)?(test_\w+\.py)`", CONTRIBUTING))
    present = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert named <= present, named - present
    assert len(named) > 10
