"""For every test: how hypothesis works, and a look at the directories that it leaves (support/left_behind.py).

The examples are the same each time and on every machine, so that a change is judged by what it changed. `make test` tries the
first fifth of them (HYPOTHESIS_PROFILE=slice), `make check` and whoever names a test all, and `make slow` draws new ones
(random). No example is timed: a machine may be busy.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from support.left_behind import LEFT_BEHIND
from support.left_brokers import watch_brokers
from support.linux_only import is_linux, linux_only
from support.slices import SLICES, is_slice

NOT_TIMED = (HealthCheck.too_slow,)

settings.register_profile("fixed", deadline=None, derandomize=True, suppress_health_check=NOT_TIMED)
settings.register_profile("slice", settings.get_profile("fixed"))
settings.register_profile("random", deadline=None, suppress_health_check=NOT_TIMED)
# Hypothesis also tries the constants of whatever modules are imported by then, which is another set with each worker and
# each selection of tests.
providers._get_local_constants = lambda: providers._local_constants

LEAST_EXAMPLES = 5
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

FAILED = pytest.StashKey[bool]()
LEFT = "left behind"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "damaged(why): `tidelog log verify` may find faults in what this test leaves")
    config.addinivalue_line("markers", "sliced: `make test` goes through a share of it (support/slices.py)")
    LEFT_BEHIND.is_watching = True
    watch_brokers(LEFT_BEHIND)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Totals())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What collection makes stays until the end: the garbage collector need not look at it time and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A slice takes a share of whatever number of examples a test says, by its own settings or a state machine's. On another
    system, what needs Linux is skipped.
    """
    for item in () if is_linux() else items:
        if reason := linux_only(item.path):
            item.add_marker(pytest.mark.skip(reason=reason))
    done: set[int] = set()
    for item in items if is_slice() else ():
        function, machine = getattr(item, "function", None), getattr(item, "cls", None)
        if isinstance(getattr(machine, "settings", None), settings):
            holder, name = machine, "settings"
        elif hasattr(function, "hypothesis"):
            holder, name = function, "_hypothesis_internal_use_settings"
        else:
            continue
        if id(holder) not in done:
            done.add(id(holder))
            whole = getattr(holder, name, None) or settings()
            setattr(holder, name, settings(whole, max_examples=max(LEAST_EXAMPLES, whole.max_examples // SLICES)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    marker = item.get_closest_marker("damaged")
    if marker is not None and not (marker.args and marker.args[0]):
        raise pytest.UsageError("pytest.mark.damaged says why")
    LEFT_BEHIND.begin(is_damaged=marker is not None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """All fixtures that end with this test have ended behind the `yield`."""
    yield
    faults = LEFT_BEHIND.end(has_failed=item.stash.get(FAILED, False))
    item.user_properties.append((LEFT, LEFT_BEHIND.figures()))
    if faults:
        pytest.fail("`tidelog log verify` finds in what this test left behind:\n" + "\n".join(faults), pytrace=False)


class _Totals:
    """Of all workers."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[int, int, float]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == LEFT:
                self._of[getattr(report, "worker_id", "")] = value  # type: ignore[assignment]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        looked, marked, seconds = map(sum, zip((0, 0, 0.0), *self._of.values(), strict=True))
        terminalreporter.write_line(
            f"log verify: {looked:,} directories that tests left behind, in {seconds:.1f} s of CPU; "
            f"{marked:,} are marked as damaged"
        )
