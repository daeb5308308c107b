"""Option and report of the crash ring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.crash_ring import Ring, verify

STATES = "crash states"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("tidelog").addoption(
        "--crash-states",
        type=int,
        default=1,
        metavar="N",
        help="crash ring: states after a power cut that are recovered at each moment; 0: all within the bound",
    )


@pytest.fixture
def ring_of(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Iterator[Callable[..., Ring]]:
    """Makes rings of a kind; at the end looks at the states after their last call, and counts."""
    limit = request.config.getoption("--crash-states", default=1)
    rings: list[Ring] = []

    def make(kind: type[Ring], *, ignored: frozenset[str] = frozenset(), **settings: Any) -> Ring:
        rings.append(kind(limit, verify=lambda system: verify(system, ignored), **settings))
        return rings[-1]

    yield make
    for ring in rings:
        ring.finish()
    counts = [
        sum(ring.moments for ring in rings),
        sum(ring.states for ring in rings),
        sum(len(ring.distinct) for ring in rings),
    ]
    record_property(STATES, counts)
    print(f"{counts[0]:,} moments, {counts[1]:,} states, {counts[2]:,} different ones")


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
