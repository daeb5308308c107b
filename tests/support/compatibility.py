"""The tables of docs/COMPATIBILITY.md, which the tests write that fill them (`--write-compatibility`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "COMPATIBILITY.md"


def table(corner: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """A table in Markdown, with a row for each key."""
    lines = [[corner, *columns], ["---"] * (len(columns) + 1), *([name, *cells] for name, cells in rows.items())]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def replaced(text: str, name: str, content: str) -> str:
    """`text` with what stands between the marks of that name replaced. ValueError without marks."""
    begin, end = f"<!-- {name}: written by the tests -->\n", f"<!-- end of {name} -->\n"
    before, mark, rest = text.partition(begin)
    _, other, after = rest.partition(end)
    if not mark or not other:
        raise ValueError(f"there are no marks of {name}")
    return f"{before}{begin}\n{content}\n{end}{after}"


def write_table(name: str, content: str, document: Path = DOCUMENT) -> None:
    """Puts the table between its marks in the document."""
    document.write_text(replaced(document.read_text(), name, content))
