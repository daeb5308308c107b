"""Aligned text for people, and JSON for programs. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def table(headings: Sequence[str], rows: Sequence[Sequence[object]], *, indent: str = "") -> list[str]:
    """Lines: numbers to the right, all else to the left; None is shown as a dash. No line when there is no row."""
    if not rows:
        return []
    texts = [[_text(cell) for cell in row] for row in rows]
    is_number = [
        all(row[column] is None or type(row[column]) is int for row in rows) for column in range(len(headings))
    ]
    widths = [max(len(heading), *(len(row[column]) for row in texts)) for column, heading in enumerate(headings)]
    lines = []
    for row in (list(headings), *texts):
        cells = (
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(row, widths, is_number, strict=True)
        )
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def _text(cell: object) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    return str(cell)
