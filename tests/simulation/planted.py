"""Defects of order that are put in on purpose, for the simulation to find: each a small diff of the daemon's source.

`plant(name)` has the modules compiled with the defect when they are imported; nothing on disk changes. The defects are written
from what can go wrong in the daemon (`defects/`), no part of the workload and no oracle is made for one of them. One whose
text the source no longer has fails, and has to be written anew.

    PLANTED     thirty
    PUT_BACK    those that the daemon has had, put back
    DEFECTS     some of them, which a test looks for each time
    OF_BACKUPS  two more, of backups: looked for in runs with one (`test_backups.py`)
    OF_RIGHTS   two more, of access rights
    hunt.py     looks for all, and writes docs/reports/planted.md

A run counts how often it came to a changed line (`REACHED`): a defect that no run has come to can't be found by any.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from simulation.defects.defect import Defect, Edit
from simulation.defects.of_backups import OF_BACKUPS
from simulation.defects.of_cleaning import OF_CLEANING
from simulation.defects.of_coordinators import OF_COORDINATORS
from simulation.defects.of_logs import OF_LOGS
from simulation.defects.of_requests import OF_REQUESTS
from simulation.defects.of_rights import OF_RIGHTS
from simulation.defects.put_back import PUT_BACK

__all__ = ["ALL", "DEFECTS", "PLANTED", "PUT_BACK", "REACHED", "Defect", "Edit", "applied", "plant"]

PLANTED = [*OF_LOGS, *OF_CLEANING, *OF_COORDINATORS, *OF_REQUESTS]
ALL = [*PLANTED, *PUT_BACK]

#: Of those that are found among few seeds: what a check looks for.
_QUICK = ("producers/repeated-batch", "log/watermark-before-bytes")
DEFECTS = [defect for defect in ALL if defect.name in _QUICK]

REACHED = "planted defect: its line"
"""What a run's counts call it."""
_PROBE = "__planted_line__"


def applied(source: str, edits: Iterable[Edit]) -> tuple[str, list[int]]:
    """The source with the edits, and the lines on which they begin. ValueError: a text does not stand there once."""
    places: list[int] = []
    for edit in edits:
        if (count := source.count(edit.old)) != 1:
            raise ValueError(f"{edit.module}: the text stands there {count} times:\n{edit.old}")
        if edit.old == edit.new:
            raise ValueError(f"{edit.module}: the edit changes nothing:\n{edit.old}")
        at = source.index(edit.old)
        shift = len(edit.new) - len(edit.old)
        places = [place + shift if place > at else place for place in places]
        places.append(at + _first_change(edit))
        source = source.replace(edit.old, edit.new)
    return source, [source.count("\n", 0, place) + 1 for place in places]


def _first_change(edit: Edit) -> int:
    """Where the new text differs, and not where it begins; the end of its last line where that is all of it."""
    if edit.new and edit.old.startswith(edit.new):
        return len(edit.new) - 1
    pairs = enumerate(zip(edit.old, edit.new, strict=False))
    return next((place for place, (one, other) in pairs if one != other), len(edit.new))


def with_probes(source: str, lines: Iterable[int], path: str) -> ast.Module:
    """The module, with a call before the statement at each of the lines."""
    tree = ast.parse(source, path)
    for line in lines:
        home = _home_of(tree, line)
        if home is not None:
            statements, at = home
            probe = ast.Expr(ast.Call(ast.Name(_PROBE, ast.Load()), [], []))
            statements.insert(at, ast.copy_location(probe, statements[at]))
    return ast.fix_missing_locations(tree)


def _home_of(tree: ast.Module, line: int) -> tuple[list[ast.stmt], int] | None:
    """The list of statements, and the place in it, of the innermost statement at the line, or of the first one behind it."""
    best: tuple[int, int, list[ast.stmt], int] | None = None
    for statements in _blocks_in_functions(tree):
        for at, statement in enumerate(statements):
            end = statement.end_lineno or statement.lineno
            if end < line or isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            # Its own line before a block around it, and what comes soon before what comes late.
            distance = max(statement.lineno - line, 0)
            key = (distance, end - statement.lineno)
            if best is None or key < best[:2]:
                best = (*key, statements, at)
    return None if best is None else best[2:]


def _blocks_in_functions(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                for name in ("body", "orelse", "finalbody"):
                    block = getattr(node, name, None)
                    if isinstance(block, list) and block:
                        yield block


class _Loader(SourceFileLoader):
    """Compiles a module with its edits; no byte code of it is kept."""

    edits: Sequence[Edit]

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source, lines = applied(self.get_data(path).decode(), self.edits)
        return compile(with_probes(source, lines, path), path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, defect: Defect) -> None:
        self._defect = defect

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        edits = [edit for edit in self._defect.edits if edit.module == fullname]
        if not edits:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = loader = _Loader(fullname, spec.origin)
        loader.edits = edits
        return spec


def _reached() -> None:
    """Called at each changed line."""
    scheduler = sys.modules.get("simulation.scheduler")
    sim = None if scheduler is None else scheduler.Simulation.active
    if sim is not None:
        sim.counts[REACHED] += 1


def named(name: str) -> Defect:
    """The defect of that name."""
    return next(defect for defect in [*ALL, *OF_BACKUPS, *OF_RIGHTS] if defect.name == name)


def plant(name: str) -> None:
    """Puts the defect of that name into its modules, which must not be imported yet."""
    defect = named(name)
    for edit in defect.edits:
        assert edit.module not in sys.modules, f"{edit.module} is imported already"
    setattr(builtins, _PROBE, _reached)
    sys.meta_path.insert(0, _Finder(defect))
