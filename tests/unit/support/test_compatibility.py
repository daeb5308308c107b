from __future__ import annotations

from pathlib import Path

import pytest
from support.compatibility import DOCUMENT, replaced, table, write_table

MARKED = "before\n<!-- cells: written by the tests -->\nold\n<!-- end of cells -->\nafter\n"


def test_a_table_in_markdown() -> None:
    made = table("by", ["a", "b"], {"x": ["1", "2"], "y": ["3", "4"]})
    assert made == "| by | a | b |\n| --- | --- | --- |\n| x | 1 | 2 |\n| y | 3 | 4 |\n"


def test_only_what_stands_between_the_marks_is_replaced(tmp_path: Path) -> None:
    new = "before\n<!-- cells: written by the tests -->\n\nnew\n\n<!-- end of cells -->\nafter\n"
    assert replaced(MARKED, "cells", "new\n") == new
    assert replaced(new, "cells", "new\n") == new
    document = tmp_path / "page.md"
    document.write_text(MARKED)
    write_table("cells", "new\n", document)
    assert document.read_text() == new
    with pytest.raises(ValueError, match="no marks of rows"):
        replaced(MARKED, "rows", "")


def test_the_document_has_the_marks() -> None:
    text = DOCUMENT.read_text()
    for name in ("clients", "written by, read by"):
        assert replaced(text, name, "x") != text
