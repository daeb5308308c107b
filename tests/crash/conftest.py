"""Option and report of the crash ring."""

from __future__ import annotations

from typing import Any

import pytest

STATES = "crash states"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("tidelog").addoption(
        "--crash-states",
        type=int,
        default=1,
        metavar="N",
        help="crash ring: states after a power cut that are recovered at each moment; 0: all within the bound",
    )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The number of states, however many workers counted them."""
    totals = [0, 0, 0]
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == STATES and getattr(report, "when", "") == "teardown":
                    totals = [total + count for total, count in zip(totals, value, strict=True)]
    if any(totals):
        moments, states, distinct = totals
        terminalreporter.write_line(
            f"crash ring: {states:,} states after power cuts at {moments:,} moments, {distinct:,} different ones recovered"
        )
