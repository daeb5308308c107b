"""The pytest plugin: fixtures, one marker, one setting. Loaded in every run of pytest where tidelog is installed, so it imports
nothing but pytest until a fixture is used.

    tidelog_broker           a broker of the test's own, for sync and async tests; `.bootstrap_servers`, `.clock`, `.faults`,
                             `.clean(topic)`, `.create_topic(name)`
    tidelog_session_broker   one for the whole run; faults that a test makes there end with it
    @pytest.mark.tidelog(settings={"num.partitions": 3}, process=True, seed=7)     how the test's broker is made
    tidelog_settings =       (in pytest's configuration) NAME=VALUE lines for all of them
    --explore-seed N         tests under `tidelog.testing.explore` run this seed alone; what the broker saw is on their reports
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .broker import Broker
    from .process import BrokerProcess

_OPTIONS = {"settings", "seed", "process"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("tidelog_settings", "settings of tidelog's brokers, NAME=VALUE lines", type="linelist", default=[])

    parser.getgroup("tidelog").addoption(
        "--explore-seed",
        type=int,
        default=None,
        metavar="N",
        help="tests that explore run under the faults of seed N alone",
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tell an exploration what the command line and the configuration say."""
    exploration = _exploration_of(item)
    if exploration is not None:
        exploration.only_seed = item.config.getoption("--explore-seed")
        exploration.common_settings = _common_settings(item.config)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the trace of a failed exploration on the test's report."""
    report = yield
    exploration = _exploration_of(item)
    if exploration is not None and report.when == "call" and report.failed:
        report.sections += exploration.sections
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Take away the faults that a test has made at the broker of the whole run: the next test would meet them."""
    shared: Broker | None = getattr(item, "funcargs", {}).get("tidelog_session_broker")
    if shared is None:
        return (yield)
    before = shared.faults.rules
    try:
        return (yield)
    finally:
        for fault in shared.faults.rules:
            if fault not in before:
                shared.faults.remove(fault)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "tidelog(settings={}, process=False, seed=0): how the tidelog_broker fixture makes this test's broker",
    )


@pytest.fixture
def tidelog_broker(request: pytest.FixtureRequest) -> Iterator[Broker | BrokerProcess]:
    """A Kafka broker of the test's own, ready, with a clock that the test moves."""
    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("tidelog"))):  # the nearest one last: it wins
        if marker.args or set(marker.kwargs) - _OPTIONS:
            raise pytest.UsageError(f"pytest.mark.tidelog takes {', '.join(sorted(_OPTIONS))} by name")
        settings = {**options.get("settings", {}), **marker.kwargs.get("settings", {})}
        options = {**options, **marker.kwargs, "settings": settings}
    with _make(request.config, **options) as broker:
        yield broker


@pytest.fixture(scope="session")
def tidelog_session_broker(request: pytest.FixtureRequest) -> Iterator[Broker | BrokerProcess]:
    """One Kafka broker for all tests that use it: they share its topics and its time, and not the faults that one makes."""
    with _make(request.config) as broker:
        yield broker


def _make(
    config: pytest.Config, *, settings: dict[str, object] | None = None, seed: int = 0, process: bool = False
) -> Broker | BrokerProcess:
    from . import Broker, BrokerProcess

    kind = BrokerProcess if process else Broker
    return kind({**_common_settings(config), **(settings or {})}, seed=seed)


def _exploration_of(item: pytest.Item) -> Any:
    """The `Exploration` of a test under `explore`, or None."""
    return getattr(getattr(item, "obj", None), "exploration", None)


def _common_settings(config: pytest.Config) -> dict[str, object]:
    """What `tidelog_settings` has. UsageError."""
    common: dict[str, object] = {}
    for line in config.getini("tidelog_settings"):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"tidelog_settings has lines of NAME=VALUE, not {line!r}")
        common[name.strip()] = value.strip()
    return common
