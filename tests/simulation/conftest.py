"""How much is simulated: `--simulation-seconds` of seeds, so many with a backup, and so many planted defects."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--simulation-backups", type=int, default=6, help="simulations with a backup whose cuts are restored"
    )
    parser.addoption("--simulation-seconds", type=float, default=10.0, help="begin no further simulation after so long")
    parser.addoption(
        "--simulation-defects", type=int, default=2, help="planted defects to look for, the soonest found first"
    )


@pytest.fixture
def simulation_seconds(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--simulation-seconds"))
