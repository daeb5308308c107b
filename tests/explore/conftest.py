"""The exploring ring: how many seeds it takes."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--explore-seeds", type=int, default=8, help="seeds of each case of a current client")
    parser.addoption(
        "--explore-all", action="store_true", help="every defect and its mended release, not the quick ones alone"
    )
