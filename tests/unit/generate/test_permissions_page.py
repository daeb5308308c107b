from __future__ import annotations

from pathlib import Path

import pytest
from generate.permissions_page import table, with_table

PAGE = Path(__file__).resolve().parents[3] / "docs" / "ACCESS_CONTROL.md"


def test_the_committed_page_has_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert with_table(text) == text, "run `make docs` and commit the result"


def test_rows() -> None:
    rows = table().splitlines()
    assert "| Heartbeat | `READ` group, of the request | the request is refused: GROUP_AUTHORIZATION_FAILED |" in rows
    assert "| ApiVersions | nothing | |" in rows
    at = rows.index("| ListGroups | `DESCRIBE` cluster | what follows is asked |")
    assert rows[at + 1] == "|  | `DESCRIBE` group, each | it is left out of the answer |"


def test_a_page_without_a_place_for_it() -> None:
    with pytest.raises(ValueError, match="substring"):
        with_table("nothing")
