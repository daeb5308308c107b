"""Output of commands: aligned text for people, and progress of long work.

A table is a list of lines. Progress is a bar on a terminal, a line every ten seconds elsewhere, on stderr.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO


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


def print_json(content: object) -> int:
    """Print for programs; returns 0, a command's exit code."""
    import json

    print(json.dumps(content, indent=2))
    return 0


def say_empty(text: str) -> None:
    """Say on stderr that there is nothing to print: standard output stays empty, as programs want it."""
    print(f"tidelog: {text}", file=sys.stderr)


def plural(count: int, noun: str) -> str:
    """A number with its noun: `1 partition`, `2,000 partitions`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def written(count: int) -> str:
    """What became of records: `1 record is written`, `2 records are written`."""
    return f"{plural(count, 'record')} {'is' if count == 1 else 'are'} written"


def print_deletions(deleted: Sequence[str | None], errors: Mapping[str, str], *, as_json: bool) -> int:
    """Print names that were deleted, and on stderr the errors of the others; returns the exit code."""
    if as_json:
        print_json({"deleted": deleted, "errors": errors})
    else:
        for name in deleted:
            print(f"deleted {name}")
    for text in errors.values():
        print(f"tidelog: {text}", file=sys.stderr)
    return 1 if errors else 0


def _text(cell: object) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    return str(cell)


_REDRAW_S = 0.1
_LINE_S = 10.0
_WIDEST_BAR = 40
_MIB = 1 << 20


class ProgressBar:
    """Counts bytes, or with a `unit` things of that name. One thread; use as a context manager, so that the bar is gone at
    the end."""

    def __init__(
        self,
        label: str,
        stream: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
        width: int | None = None,
        unit: str = "",
    ) -> None:
        """`width` in columns, None for the terminal's."""
        self._label = label
        self._stream = sys.stderr if stream is None else stream
        self._now = now
        self._width = width
        self._unit = unit
        self._is_terminal = self._stream.isatty()
        self._start = self._drawn = now()
        self._is_shown = False
        self.total_bytes = 0
        self.done_bytes = 0

    def total(self, count: int) -> None:
        """So many bytes more are to be done."""
        self.total_bytes += count
        self._draw()

    def done(self, count: int) -> None:
        """So many bytes more are done."""
        self.done_bytes += count
        self._draw()

    def advance(self, total: int, done: int) -> None:
        """So many bytes more are to be done, and were done; none of either is not told."""
        if total:
            self.total(total)
        if done:
            self.done(done)

    def clear(self) -> None:
        """Takes the bar away, so that something else can be printed; the next step draws it again."""
        if self._is_shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._is_shown = False

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    @property
    def elapsed_s(self) -> float:
        return self._now() - self._start

    def _draw(self) -> None:
        now = self._now()
        if now - self._drawn < (_REDRAW_S if self._is_terminal else _LINE_S):
            return
        self._drawn = now
        share = min(self.done_bytes / self.total_bytes, 1.0) if self.total_bytes else 0.0
        rate = self.done_bytes / (now - self._start) / _MIB if now > self._start else 0.0
        if self._unit:
            facts = f"{share:4.0%}  {self.done_bytes:,} of {self.total_bytes:,} {self._unit}"
        elif not self.total_bytes:  # a pipe: nobody knows
            facts = f"{self.done_bytes / _MIB:,.0f} MiB  {rate:,.0f} MiB/s"
        else:
            facts = (
                f"{share:4.0%}  {self.done_bytes / _MIB:,.0f} of {self.total_bytes / _MIB:,.0f} MiB  {rate:,.0f} MiB/s"
            )
        if not self._is_terminal:
            self._stream.write(f"{self._label}: {facts.strip()}\n")
            self._stream.flush()
            return
        columns = shutil.get_terminal_size().columns if self._width is None else self._width
        room = min(columns - len(self._label) - len(facts) - 5, _WIDEST_BAR)
        full = round(share * room)
        bar = f" {'█' * full}{'░' * (room - full)}" if room >= 5 else ""
        self._stream.write("\r" + f"{self._label}{bar} {facts}"[:columns] + "\x1b[K")
        self._stream.flush()
        self._is_shown = True
