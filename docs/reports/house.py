"""The figures of house.md, of any checkout: python docs/reports/house.py [ROOT].

git worktree add /tmp/before 666469e && python docs/reports/house.py /tmp/before
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

TOPS = ("backup", "broker", "cleaner", "cli", "clients", "config", "pipeline", "protocol", "storage", "testing")
INDEXES = ("broker/apis", "protocol/messages")
LONG = 70


def functions(trees: list[ast.Module]) -> list[int]:
    """Lines of each function."""
    return [
        (node.end_lineno or 0) - node.lineno + 1
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def imports(node: ast.AST, *, typed: bool) -> Iterator[ast.ImportFrom]:
    """Import statements that a module runs when it is imported; `typed`: those that only type checkers read too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test) and not typed:
            continue
        if isinstance(child, ast.ImportFrom):
            yield child
        yield from imports(child, typed=typed)


def graph(modules: dict[str, ast.Module], packages: set[str], *, typed: bool) -> dict[str, set[str]]:
    """Module → modules of ours that it imports."""
    found: dict[str, set[str]] = {}
    for name, tree in modules.items():
        package = name if name in packages else name.rpartition(".")[0]
        found[name] = set()
        for statement in imports(tree, typed=typed):
            if not statement.level:
                continue
            above = package.split(".")
            base = ".".join([*above[: len(above) - statement.level + 1], *filter(None, [statement.module])])
            for alias in statement.names:
                target = f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules else base
                found[name] |= {target} & (modules.keys() - {name})
    return found


def circles(of: dict[str, set[str]]) -> list[int]:
    """Numbers of modules in each circle, the largest first."""
    reach: dict[str, set[str]] = {}
    for start in of:
        seen, left = set[str](), [start]
        while left:
            for target in of[left.pop()] - seen:
                seen.add(target)
                left.append(target)
        reach[start] = seen
    groups = {frozenset(other for other in reach[name] if name in reach[other]) for name in of if name in reach[name]}
    return sorted(map(len, groups), reverse=True)


def main(root: Path) -> None:
    """Prints the figures of a checkout."""
    files = [path for top in TOPS if (root / top).is_dir() for path in sorted((root / top).rglob("*.py"))]
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    modules: dict[str, ast.Module] = {}
    packages: set[str] = set()
    names: dict[str, set[str]] = {}
    for path, text in texts.items():
        below = path.relative_to(root).with_suffix("")
        name = ".".join(below.parts).removesuffix(".__init__")
        modules[name] = ast.parse(text)
        if below.name == "__init__":
            packages.add(name)
            below = below.parent
        names.setdefault(str(below.parent), set()).add(below.name)
    lines = {path: text.count("\n") for path, text in texts.items()}
    lengths = functions(list(modules.values()))
    print(f"modules               {len(files) - len(packages):,}, in {len(packages)} packages")
    print(f"lines                 {sum(lines.values()):,}")
    print(
        f"of them broker/       {sum(count for path, count in lines.items() if path.is_relative_to(root / 'broker')):,}"
    )
    full = {room: len(inside) for room, inside in names.items() if len(inside) > 20 and room not in INDEXES}
    print(f"more than 20 names    {full}")
    print(f"functions             {len(lengths):,}, above {LONG} lines {sum(length > LONG for length in lengths)}")
    for typed, what in ((False, "circles at run time "), (True, "with annotations    ")):
        print(f"{what}  {circles(graph(modules, packages, typed=typed)) or 'none'}")
    tests = list((root / "tests").rglob("*.py"))
    print(f"tests                 {len(tests)} files, {sum(path.read_text().count(chr(10)) for path in tests):,} lines")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
