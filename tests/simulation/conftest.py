"""How much is simulated: `--simulation-seconds` of seeds, `--simulation-seeds` at most, so many with a backup, and so many
planted defects."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--simulation-backups", type=int, default=6, help="simulations with a backup whose cuts are restored"
    )
    parser.addoption("--simulation-seconds", type=float, default=10.0, help="begin no further simulation after so long")
    parser.addoption("--simulation-seeds", type=int, default=1000, help="simulate no more seeds than so many")
    parser.addoption(
        "--simulation-defects", type=int, default=2, help="planted defects to look for, the soonest found first"
    )


_TOLD = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_TOLD, []):
        terminalreporter.write_line(f"simulation: {line}")


@pytest.fixture
def simulation_told(request: pytest.FixtureRequest) -> list[str]:
    """Lines that the session's summary is to have."""
    return request.config.stash.setdefault(_TOLD, [])


@pytest.fixture
def simulation_seconds(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--simulation-seconds"))


@pytest.fixture
def simulation_seeds(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--simulation-seeds"))
