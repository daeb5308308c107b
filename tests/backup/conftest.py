"""Options of the backup ring."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tidelog")
    group.addoption("--lost-rounds", type=int, default=0, help="rounds of test_lost_machine.py in each store")
    group.addoption("--lost-seed", default="1", help="seed of the moments at which the machine is lost")
