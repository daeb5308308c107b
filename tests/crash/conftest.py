"""Options and report of the crash ring."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.crash_exploration import Exploration, Figures
from support.crash_report import write_report
from support.crash_ring import Ring, verify

FIGURES = "crash states"
RINGS = pytest.StashKey[list[Ring]]()
LIMIT = pytest.StashKey[int | Exploration]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tidelog")
    group.addoption(
        "--crash-states",
        type=int,
        default=1,
        metavar="N",
        help="crash ring: states after a power cut that are recovered at each moment; 0: all within the bound",
    )
    group.addoption(
        "--crash-distinct",
        type=int,
        default=0,
        metavar="N",
        help="crash ring: inequivalent states that are recovered in each scenario, or all that there are",
    )
    group.addoption(
        "--crash-every",
        type=int,
        default=1,
        metavar="N",
        help="crash ring: look at one of N moments; not when exploring",
    )
    group.addoption(
        "--backup-states",
        type=int,
        default=8,
        metavar="N",
        help="backup ring: states of each kind that are run, spread over all; 0: all",
    )
    group.addoption("--crash-report", metavar="FILE", help="crash ring: write the figures of each scenario there")


@pytest.fixture
def crash_limit(request: pytest.FixtureRequest) -> int | Exploration:
    """How many states a scenario is to look at."""
    distinct: int = request.config.getoption("--crash-distinct", default=0)
    limit = request.config.getoption("--crash-states", default=1)
    # In transactions' scenarios a state is a whole daemon's; they are judged in the end of a run.
    most = 1500 if "transaction" in request.node.nodeid else 1 << 30
    request.node.stash[LIMIT] = Exploration(distinct, most) if distinct else limit
    return request.node.stash[LIMIT]


@pytest.fixture
def ring_of(request: pytest.FixtureRequest, crash_limit: int | Exploration) -> Iterator[Callable[..., Ring]]:
    """Makes rings of a kind; at the end looks at the states after their last call."""
    rings = request.node.stash[RINGS] = []
    every = 1 if isinstance(crash_limit, Exploration) else request.config.getoption("--crash-every", default=1)

    def make(kind: type[Ring], *, ignored: frozenset[str] = frozenset(), **settings: Any) -> Ring:
        rings.append(kind(crash_limit, every=every, verify=lambda system: verify(system, ignored), **settings))
        return rings[-1]

    yield make
    _finish(request.node)


def _finish(node: pytest.Item) -> None:
    """The scenario has run to its end, once."""
    rings = node.stash.get(RINGS, [])
    total = Figures(0, 0, 0, 0)
    for ring in rings:
        ring.finish()
        total = total.plus(ring.figures())
    if rings and not isinstance(node.stash[LIMIT], Exploration):
        node.user_properties.append((FIGURES, [*total, 0.0]))
        print(f"{total.moments:,} moments, {total.choices:,} states, {total.states:,} inequivalent ones")
    rings.clear()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A scenario that is explored runs several times; see support/crash_exploration.py."""
    exploration = pyfuncitem.stash.get(LIMIT, None)
    if not isinstance(exploration, Exploration):
        return None
    began = time.process_time()
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    for _run in exploration.runs():
        pyfuncitem.obj(**arguments)
        _finish(pyfuncitem)
    pyfuncitem.user_properties.append((FIGURES, [*exploration.figures(), time.process_time() - began]))
    return True


class _Totals:
    """Adds up what all workers have counted; a report is written after each scenario, so that an end before time leaves one."""

    def __init__(self, config: pytest.Config) -> None:
        self._path: str | None = config.getoption("--crash-report")
        self._target: int = config.getoption("--crash-distinct")
        self._found: dict[str, tuple[Figures, float]] = {}
        self._verdicts: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == FIGURES:
                *figures, seconds = value  # type: ignore[misc]
                self._found[report.nodeid] = Figures(*figures), seconds
        if report.when == "call":
            self._verdicts[report.nodeid] = report.outcome
        if report.when == "teardown" and self._path and report.nodeid in self._found:
            write_report(Path(self._path), self._found, self._verdicts, self._target)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        total = Figures(0, 0, 0, 0)
        for figures, _seconds in self._found.values():
            total = total.plus(figures)
        if self._found:
            terminalreporter.write_line(
                f"crash ring: {total.choices:,} states after power cuts at {total.moments:,} moments, "
                f"{total.states:,} inequivalent ones recovered"
            )


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Totals(config))
