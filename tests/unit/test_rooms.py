"""The house (ADR 56): what `ls` shows of a room, and the sentence that says where to start in it."""

from __future__ import annotations

import ast
from collections.abc import KeysView
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOPS = ["backup", "broker", "cleaner", "cli", "clients", "config", "pipeline", "protocol", "storage", "testing"]
MOST_NAMES = 20
SOURCES = {".py", ".pyx", ".pxi", ".h", ".css", ".js"}
MOST_LINES = 70
"""Of a function, its docstring included."""
LONG = {"protocol/records/conversion.py: down_convert"}
MOST_IN_A_CIRCLE = 3
"""Modules that import each other, for annotations alone too."""
INDEXES = {"broker/apis", "protocol/messages"}
"""A module for each API: looked up by its name, and not read through."""


def rooms() -> dict[str, set[str]]:
    """Folders with modules, and the names in each; without what a build leaves there, and stubs beside their kernels."""
    found: dict[str, set[str]] = {}
    for path in (path for top in TOPS for path in (ROOT / top).rglob("*") if path.suffix in SOURCES):
        below = path.relative_to(ROOT)
        for folder, name in zip(below.parents, reversed(below.parts), strict=True):
            if str(folder) != ".":
                found.setdefault(str(folder), set()).add(name)
    return found


ROOMS = rooms()


@pytest.mark.parametrize("room", sorted(set(ROOMS) - INDEXES))
def test_a_room_has_no_more_names_than_one_looks_at(room: str) -> None:
    shown = ROOMS[room] - {"__init__.py"}
    assert len(shown) <= MOST_NAMES, sorted(shown)


@pytest.mark.parametrize(
    "room", sorted(room for room, names in ROOMS.items() if any(name.endswith(".py") for name in names))
)
def test_a_room_says_what_it_is_for_and_where_to_start(room: str) -> None:
    path = ROOT / room / "__init__.py"
    assert path.exists(), f"{room} has modules, and is no package: setuptools would leave it out"
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert "Start reading" in text, text


@cache
def modules() -> dict[str, ast.Module]:
    """By name below the project."""
    paths = (path for top in TOPS for path in (ROOT / top).rglob("*.py"))
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text(encoding="utf-8"))
        for path in paths
    }


def imports_of(name: str, tree: ast.Module, known: KeysView[str]) -> set[str]:
    """Modules of the project that this one imports, wherever it does."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = name.split(".")[: -node.level] if node.level else []
            full = ".".join([*base, *((node.module or "").split(".") if node.module else [])]).removeprefix("tidelog.")
            for each in node.names:
                found.update({f"{full}.{each.name}", full, f"{full}.__init__"} & known)
    return found - {name}


def reached_from(name: str, edges: dict[str, set[str]]) -> set[str]:
    found, waiting = set(), [name]
    while waiting:
        new = edges[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_circles_of_modules_are_small() -> None:
    trees = modules()
    edges = {name: imports_of(name, tree, trees.keys()) for name, tree in trees.items()}
    reached = {name: reached_from(name, edges) for name in edges}
    circles = {frozenset(other for other in seen if name in reached[other]) for name, seen in reached.items()}
    assert not [sorted(circle) for circle in circles if len(circle) > MOST_IN_A_CIRCLE]


def test_functions_are_short() -> None:
    long = {
        f"{name.replace('.', '/')}.py: {node.name}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None and node.end_lineno - node.lineno >= MOST_LINES
    }  # fmt: skip
    assert long == LONG


def test_lines_of_java_are_as_short_as_those_of_python() -> None:
    """Which ruff holds to 130 characters."""
    sources = [*(ROOT / "pipeline" / "jvm").rglob("*.java"), *(ROOT / "tests" / "jvm").rglob("*.java")]
    assert len(sources) > 30
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 130
    ]
    assert not long
