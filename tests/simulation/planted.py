"""Defects of order that are put in on purpose, for the simulation to find: each a small diff of the daemon's source.

`plant(names)` gives functions of the imported daemon the code that they have with the defects; nothing on disk changes. The
defects are written from what can go wrong in the daemon (`defects/`), no part of the workload and no oracle is made for one
of them. One whose text the source no longer has fails, and has to be written anew.

    PLANTED     thirty
    PUT_BACK    those that the daemon has had, put back
    DEFECTS     some of them, which a test looks for each time
    OF_BACKUPS  two more, of backups: looked for in runs with one (`test_backups.py`)
    OF_RIGHTS   two more, of access rights
    hunt.py     looks for all, and writes docs/reports/planted.md

A run counts how often it came to a changed line (`reached`): a defect that no run has come to can't be found by any.
"""

from __future__ import annotations

import ast
import builtins
import gc
import importlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType

from simulation import places
from simulation.defects.defect import Defect, Edit
from simulation.defects.of_backups import OF_BACKUPS
from simulation.defects.of_cleaning import OF_CLEANING
from simulation.defects.of_coordinators import OF_COORDINATORS
from simulation.defects.of_logs import OF_LOGS
from simulation.defects.of_requests import OF_REQUESTS
from simulation.defects.of_rights import OF_RIGHTS
from simulation.defects.put_back import PUT_BACK
from simulation.places import Place

__all__ = ["ALL", "DEFECTS", "PLANTED", "PUT_BACK", "Defect", "Edit", "applied", "exchanges", "plant", "reached"]

PLANTED = [*OF_LOGS, *OF_CLEANING, *OF_COORDINATORS, *OF_REQUESTS]
ALL = [*PLANTED, *PUT_BACK]

#: Of those that are found among few seeds: what a check looks for.
_QUICK = ("producers/repeated-batch", "log/watermark-before-bytes")
DEFECTS = [defect for defect in ALL if defect.name in _QUICK]

_REACHED = "planted defect's line: "
"""What a run's counts call it, before the defect's name."""
_PROBE = "__planted_line__"
_BY_NAME = {defect.name: defect for defect in [*ALL, *OF_BACKUPS, *OF_RIGHTS]}


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


def with_probes(source: str, lines: Iterable[tuple[int, str]], path: str) -> ast.Module:
    """The module, with a call before the statement at each of the lines, which tells the name that stands beside it."""
    tree = ast.parse(source, path)
    for line, name in lines:
        home = _home_of(tree, line)
        if home is not None:
            statements, at = home
            probe = ast.Expr(ast.Call(ast.Name(_PROBE, ast.Load()), [ast.Constant(name)], []))
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


def _codes(code: CodeType, found: dict[tuple[str, int], CodeType] | None = None) -> dict[tuple[str, int], CodeType]:
    """All code objects of a module: by qualified name, and a number among those of one name."""
    found = {} if found is None else found
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            number = 0
            while (constant.co_qualname, number) in found:
                number += 1
            found[constant.co_qualname, number] = constant
            _codes(constant, found)
    return found


@lru_cache(maxsize=1)
def _functions(modules: int) -> dict[str, list[FunctionType]]:
    """All functions that there are, by the files of their code, while so many modules are imported."""
    found: defaultdict[str, list[FunctionType]] = defaultdict(list)
    gc.unfreeze()
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            found[each.__code__.co_filename].append(each)
    gc.freeze()
    return found


def _changed(module: str, rows: tuple[tuple[str, Edit], ...]) -> tuple[str, str, ast.Module]:
    """Where the module's source is, the source, and the module with edits and probes."""
    path = importlib.import_module(module).__file__
    assert path is not None
    source = Path(path).read_text()
    changed, lines = applied(source, [edit for _, edit in rows])
    return path, source, with_probes(changed, [(line, name) for line, (name, _) in zip(lines, rows, strict=True)], path)


def _pairs(path: str, source: str, tree: ast.Module) -> list[tuple[FunctionType, CodeType]]:
    """Functions of a module, and the code that they have where it is the tree."""
    old = _codes(compile(source, path, "exec", dont_inherit=True))
    new = _codes(compile(tree, path, "exec", dont_inherit=True))
    keys = {(code.co_qualname, code.co_firstlineno): key for key, code in old.items()}
    pairs = []
    for function in _functions(len(sys.modules))[path]:
        key = keys.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
        if key is not None and key in new:
            pairs.append((function, new[key]))
    return pairs


@lru_cache(maxsize=512)
def _exchanges_in(module: str, rows: tuple[tuple[str, Edit], ...]) -> list[tuple[FunctionType, CodeType]]:
    pairs = _pairs(*_changed(module, rows))
    told = {name for _, code in pairs for name in _names_told(code)}
    if told != {name for name, _ in rows}:
        raise ValueError(
            f"{module}: no function has the code of {', '.join(sorted({name for name, _ in rows} - told))}"
        )
    return pairs


@lru_cache(maxsize=512)
def _with_places(module: str, rows: tuple[tuple[str, Edit], ...]) -> list[tuple[FunctionType, CodeType]]:
    """As `_exchanges_in`, with a call before each statement too (`places.py`)."""
    path, source, tree = _changed(module, rows)
    return _pairs(path, source, places.with_calls(tree, path))


def _names_told(code: CodeType) -> set[str]:
    """Names that probes in this code, and in what stands in it, may tell."""
    found = {constant for constant in code.co_consts if isinstance(constant, str)} if _PROBE in code.co_names else set()
    return (
        found.union(*(_names_told(constant) for constant in code.co_consts if isinstance(constant, CodeType)))
        & _BY_NAME.keys()
    )


@lru_cache(maxsize=64)
def _rows(names: tuple[str, ...]) -> dict[str, tuple[tuple[str, Edit], ...]]:
    """Edits of the defects of those names, by module."""
    rows: defaultdict[str, list[tuple[str, Edit]]] = defaultdict(list)
    for name in names:
        for edit in named(name).edits:
            rows[edit.module].append((name, edit))
            importlib.import_module(edit.module)
    return {module: tuple(those) for module, those in rows.items()}


@lru_cache(maxsize=64)
def exchanges(names: tuple[str, ...]) -> list[tuple[FunctionType, CodeType]]:
    """Functions of the daemon, and the code that they have with the defects of those names, all of them together.

    ValueError: two of them change the same text, or one is not in the source. Made before processes are forked that `plant`.
    """
    return [pair for module, those in _rows(names).items() for pair in _exchanges_in(module, those)]


def exchanges_of_places(names: tuple[str, ...], drawn: Iterable[Place]) -> list[tuple[FunctionType, CodeType]]:
    """Functions that are places of a run, and their code with the defects of those names, which tells `places.reached`.

    Made before the fork, and applied behind `exchanges`.
    """
    found = []
    for module, qualnames in places.by_module(drawn).items():
        pairs = _with_places(module, _rows(names).get(module, ()))
        found += [pair for pair in pairs if pair[1].co_qualname in qualnames]
    return found


def changed_functions(name: str) -> list[Place]:
    """Functions whose code tells of the defect of that name."""
    pairs = [pair for module, rows in _rows((name,)).items() for pair in _exchanges_in(module, rows)]
    return [
        Place(str(Path(code.co_filename).relative_to(places.ROOT)), code.co_qualname)
        for _, code in pairs
        if name in _names_told(code)
    ]


def _reached(name: str) -> None:
    """Called at each changed line."""
    scheduler = sys.modules.get("simulation.scheduler")
    sim = None if scheduler is None else scheduler.Simulation.active
    if sim is not None:
        sim.counts[_REACHED + name] += 1


def reached(events: dict[str, int]) -> dict[str, int]:
    """How often a run, whose events these are, came to the lines of which defect."""
    return {
        event.removeprefix(_REACHED): count for event, count in events.items() if event.startswith(_REACHED) and count
    }


def named(name: str) -> Defect:
    """The defect of that name; KeyError: there is none."""
    return _BY_NAME[name]


def plant(names: tuple[str, ...], drawn: Iterable[Place] = ()) -> None:
    """Puts the defects of those names, and the places of a run, into the daemon, for the rest of this process. ValueError as of
    `exchanges`."""
    setattr(builtins, _PROBE, _reached)
    places.nothing_is_armed()
    for function, code in exchanges(names) + exchanges_of_places(names, drawn):
        function.__code__ = code
