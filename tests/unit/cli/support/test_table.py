"""Aligned text."""

from __future__ import annotations

from tidelog.cli.support.output import table


def test_numbers_stand_right_and_texts_left() -> None:
    lines = table(("name", "count", "flag"), [("a", 1_234_567, True), ("longer", None, False)])
    assert lines == ["name        count  flag", "a       1,234,567  yes", "longer          –  no"]


def test_a_column_with_a_text_in_it_is_text() -> None:
    assert table(("x",), [(1,), ("b",)], indent="  ") == ["  x", "  1", "  b"]


def test_without_rows_there_are_no_headings() -> None:
    assert table(("a", "b"), []) == []
