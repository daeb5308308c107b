"""The pytest plugin: fixtures, one marker, one setting. Loaded in every run of pytest where tidelog is installed, so it imports
nothing but pytest until a fixture is used.

    tidelog_broker           a broker of the test's own, for sync and async tests; `.bootstrap_servers`, `.clock`, `.faults`,
                             `.clean(topic)`, `.create_topic(name)`
    tidelog_session_broker   one for the whole run
    @pytest.mark.tidelog(settings={"num.partitions": 3}, process=True, seed=7)     how the test's broker is made
    tidelog_settings =       (in pytest's configuration) NAME=VALUE lines for all of them
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .broker import Broker
    from .process import BrokerProcess

_OPTIONS = {"settings", "seed", "process"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("tidelog_settings", "settings of tidelog's brokers, NAME=VALUE lines", type="linelist", default=[])


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
    """One Kafka broker for all tests that use it: they share its topics and its time."""
    with _make(request.config) as broker:
        yield broker


def _make(
    config: pytest.Config, *, settings: dict[str, object] | None = None, seed: int = 0, process: bool = False
) -> Broker | BrokerProcess:
    from . import Broker, BrokerProcess

    common: dict[str, object] = {}
    for line in config.getini("tidelog_settings"):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"tidelog_settings has lines of NAME=VALUE, not {line!r}")
        common[name.strip()] = value.strip()
    kind = BrokerProcess if process else Broker
    return kind({**common, **(settings or {})}, seed=seed)
