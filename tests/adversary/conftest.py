"""How hard the adversary tries, and where the figures go."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--adversary-connections", type=int, default=500, help="connections of each attack")
    parser.addoption("--adversary-seconds", type=float, default=2.0, help="seconds that each is measured")
    parser.addoption("--adversary-report", default="", help="Markdown file that the figures are written to")
