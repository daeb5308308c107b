"""The house (ADR 56): what `ls` shows of a room, and the sentence that says where to start in it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOPS = ["backup", "broker", "cleaner", "cli", "clients", "config", "pipeline", "protocol", "storage", "testing"]
MOST_NAMES = 20
SOURCES = {".py", ".pyx", ".pxi", ".h", ".css", ".js"}
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
