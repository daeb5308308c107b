"""`--simulation-seconds`: for how long seeds are tried, of the machine's time."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--simulation-seconds", type=float, default=10.0, help="begin no further simulation after so long")


@pytest.fixture
def simulation_seconds(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--simulation-seconds"))
