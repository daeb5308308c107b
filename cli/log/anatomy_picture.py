"""Draws a log's anatomy for a terminal: a bar of its bytes, and a table of its segments. Pure.

compact-0  offsets 0–1500  first dirty 1440  dirty ratio 0.12
████████████████████│███████████│▓▓▓▓│░░░░░░░░
█ clean 15.1 KiB  ▓ dirty 2.1 KiB  ░ active 6.0 KiB
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ...storage.inspect.anatomy import LogAnatomy, Section, SegmentAnatomy, Totals

_FILL = {Section.CLEAN: "█", Section.DIRTY: "▓", Section.ACTIVE: "░"}
_COLOUR = {Section.CLEAN: "\x1b[32m", Section.DIRTY: "\x1b[33m", Section.ACTIVE: "\x1b[36m"}
_PLAIN = "\x1b[0m"
_BORDER = "│"
_HEADINGS = ("segment", "section", "size", "records", "keys", "tombstones", "largest timestamp")
_SHOWN_SEGMENTS = 40
_SHOWN_HOLES = 5
# Columns that are left out first when the terminal is narrow.
_DISPENSABLE = ("largest timestamp", "tombstones", "keys", "section")


def draw(log: LogAnatomy, width: int, *, is_coloured: bool = False) -> list[str]:
    """Lines no wider than `width` columns, colours apart (the first and the table's least columns excepted)."""
    dirty = "never cleaned" if log.first_dirty_offset is None else f"first dirty {log.first_dirty_offset}"
    title = f"{log.topic}-{log.partition}  offsets {log.log_start_offset}–{log.log_end_offset}  {dirty}"
    lines = [f"{title}  dirty ratio {log.ratio:.2f}"]
    if bar := _bar(log, width, is_coloured):
        lines.append(bar)
    if log.holes:
        lines.append(holes_line([(hole.first_offset, hole.last_offset) for hole in log.holes]))
    lines.append("  ".join(_legend(section, log.sections[section], is_coloured) for section in Section))
    lines += _table(log, width)
    return lines


def holes_line(holes: Sequence[tuple[int, int]]) -> str:
    """Line with the first and last offset of each hole, as many as fit."""
    shown = ", ".join(f"{first}–{last}" for first, last in holes[:_SHOWN_HOLES])
    more = f" and {len(holes) - _SHOWN_HOLES} more" if len(holes) > _SHOWN_HOLES else ""
    return f"lost to damage: offsets {shown}{more}"


def size_text(size: int) -> str:
    """Bytes in the unit that fits."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def _paint(section: Section, text: str, is_coloured: bool) -> str:
    return f"{_COLOUR[section]}{text}{_PLAIN}" if is_coloured else text


def _legend(section: Section, totals: Totals, is_coloured: bool) -> str:
    return f"{_paint(section, _FILL[section], is_coloured)} {section.value} {size_text(totals.size)}"


def _bar(log: LogAnatomy, width: int, is_coloured: bool) -> str:
    """The log's bytes from left to right, segments parted while there is room for it."""
    pieces = [piece for segment in log.segments for piece in _pieces(segment)]
    total = sum(size for _, _, size in pieces)
    if not total or width < 10:
        return ""
    borders = sum(begins for _, begins, _ in pieces) - 1
    is_parted = len(pieces) * 4 <= width
    # With borders, none is so small that it isn't seen: one column each, the rest by size.
    least = 1 if is_parted else 0
    columns = width - (borders if is_parted else 0) - least * len(pieces)
    text = ""
    position = drawn = 0
    for index, (section, begins, size) in enumerate(pieces):
        position += size
        end = round(position / total * columns)
        if is_parted and index and begins:
            text += _BORDER
        text += _paint(section, _FILL[section] * (end - drawn + least), is_coloured)
        drawn = end
    return text


def _pieces(segment: SegmentAnatomy) -> list[tuple[Section, bool, int]]:
    """(section, whether a segment begins, bytes); a segment that a pass ended in has two."""
    size, clean = segment.totals.size, segment.clean_size
    if 0 < clean < size:
        return [(Section.CLEAN, True, clean), (Section.DIRTY, False, size - clean)]
    return [(segment.section, True, size)] if size else []


def _table(log: LogAnatomy, width: int) -> list[str]:
    segments: Sequence[SegmentAnatomy | None] = log.segments
    if len(log.segments) > _SHOWN_SEGMENTS:
        segments = [*log.segments[: _SHOWN_SEGMENTS // 2], None, *log.segments[-_SHOWN_SEGMENTS // 2 :]]
    headings = list(_HEADINGS)
    rows = [dict(zip(_HEADINGS, _row(segment), strict=True)) if segment else None for segment in segments]
    whole = _sum(log)
    rows.append(dict(zip(_HEADINGS, ("total", "", *whole), strict=True)))
    for dispensable in (*_DISPENSABLE, ""):
        columns = [max(len(name), *(len(row[name]) for row in rows if row)) for name in headings]
        if sum(columns) + 2 * (len(columns) - 1) <= width or not dispensable:
            break
        headings.remove(dispensable)
    lines = [_join(headings, columns)]
    hidden = len(log.segments) - _SHOWN_SEGMENTS
    lines += [_join([row[name] for name in headings], columns) if row else f"… {hidden} more" for row in rows]
    return lines


def _join(cells: Sequence[str], columns: Sequence[int]) -> str:
    return "  ".join(
        cell.ljust(size) if index < 2 and len(cells) > 2 else cell.rjust(size)
        for index, (cell, size) in enumerate(zip(cells, columns, strict=True))
    ).rstrip()


def _row(segment: SegmentAnatomy) -> tuple[str, ...]:
    totals = segment.totals
    is_split = 0 < segment.clean_size < totals.size
    section = "clean+dirty" if is_split and segment.section is Section.CLEAN else segment.section.value
    return (str(segment.base_offset), section, *_cells(totals))


def _cells(totals: Totals) -> tuple[str, ...]:
    time = "–"
    if totals.largest_timestamp >= 0:
        try:
            time = (
                datetime.fromtimestamp(totals.largest_timestamp / 1000, UTC).isoformat(" ", "milliseconds")[:23] + "Z"
            )
        except (OverflowError, ValueError, OSError):  # beyond the year 9999
            time = str(totals.largest_timestamp)
    keys = f"{totals.keys:,}" if totals.keys_exact else f"≈{totals.keys:,}"
    return (size_text(totals.size), f"{totals.records:,}", keys, f"{totals.tombstones:,}", time)


def _sum(log: LogAnatomy) -> tuple[str, ...]:
    size, records, _, tombstones, time = _cells(
        Totals(
            size=sum(totals.size for totals in log.sections.values()),
            records=sum(totals.records for totals in log.sections.values()),
            tombstones=sum(totals.tombstones for totals in log.sections.values()),
            largest_timestamp=max(totals.largest_timestamp for totals in log.sections.values()),
        )
    )
    keys = f"{log.keys:,}" if log.keys_exact else f"≈{log.keys:,}"
    return size, records, keys, tombstones, time
