"""Exploration of a test under many schedules of faults: one run for each seed, each with a broker of its own.

    @explore(seeds=200)
    def test_orders_arrive_once(broker):
        ...

The test is run without faults first, and then under the rules of each seed until one run fails. The rules that struck in that
run are shrunk to the shortest list with which it still fails in the same way; that list, as Python, is in a note on the
exception, and the broker's trace on pytest's report. `pytest --explore-seed N` runs seed N alone.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .broker import Broker
from .schedule import USUAL, Rule, Schedule, as_code
from .shrink import Shrunk, shrink

#: Names of the parameter that is given the broker.
PARAMETERS = ("broker", "tidelog_broker")
#: Lines of a trace on a report: its end, where the failure is.
MOST_LINES = 400
#: How often the rules of a failed run are tried again before they count as not to blame.
ATTEMPTS = 3


class StuckError(AssertionError):
    """The test was not done in its time; says where it stood."""


@dataclass(frozen=True)
class Run:
    """One run of the test.

    Attributes:
        failure: None if it passed.
        struck: rules that struck, in the order of the schedule.
    """

    rules: tuple[Rule, ...]
    failure: BaseException | None
    struck: tuple[Rule, ...]
    trace: str


@dataclass
class Exploration:
    """One test and how it is explored. Made by `explore`, held by the function that pytest collects.

    Attributes:
        only_seed: run this seed and no other.
        common_settings: of all brokers, below the exploration's own.
        sections: (title, text) for the report of the last failure.
        runs: how many runs there have been in all.
    """

    test: Callable[..., Any]
    parameter: str
    seeds: int
    settings: Mapping[str, object]
    topics: Mapping[str, int]
    kinds: tuple[str, ...]
    apis: tuple[str, ...] | None
    within: float
    shrink_tries: int
    shrink_seconds: float
    only_seed: int | None = None
    common_settings: Mapping[str, object] = field(default_factory=dict)
    sections: list[tuple[str, str]] = field(default_factory=list)
    runs: int = 0

    def explore(self, args: Sequence[Any], arguments: Mapping[str, Any]) -> None:
        """Run all seeds; raises the failure of the first that fails."""
        self.sections.clear()
        run = functools.partial(self.run, args=args, arguments=arguments)
        if self.only_seed is None:
            plain = run(())
            if plain.failure is not None:
                self._show(plain)
                plain.failure.add_note("tidelog: it fails without any fault")
                raise plain.failure
        for seed in range(self.seeds) if self.only_seed is None else (self.only_seed,):
            found = run(Schedule(seed=seed, kinds=self.kinds, apis=self.apis).rules)
            if found.failure is not None:
                self._tell(seed, found, run)

    def run(self, rules: Sequence[Rule], args: Sequence[Any] = (), arguments: Mapping[str, Any] | None = None) -> Run:
        """Run the test once, with a new broker that follows the rules. BrokerError."""
        self.runs += 1
        with Broker({**self.common_settings, **self.settings}, faults=Schedule(rules)) as broker:
            for topic, partitions in self.topics.items():
                broker.create_topic(topic, partitions)
            failure = self._outcome(args, {**(arguments or {}), self.parameter: broker})
            struck = set(broker.struck)
            return Run(tuple(rules), failure, tuple(rule for rule in rules if rule in struck), str(broker.trace))

    def _outcome(self, args: Sequence[Any], arguments: Mapping[str, Any]) -> BaseException | None:
        """How the test ended. It has a thread, which is left behind if it is stuck. Raises what is no failure (a skip)."""
        ended: list[BaseException | None] = []
        context = contextvars.copy_context()

        def target() -> None:
            try:
                context.run(self._call, args, arguments)
                ended.append(None)
            except BaseException as error:
                ended.append(error)

        thread = threading.Thread(target=target, name="tidelog-explored-test", daemon=True)
        thread.start()
        thread.join(self.within)
        if not ended:
            frame = sys._current_frames().get(thread.ident or 0)
            where = "".join(traceback.format_stack(frame)[-6:]) if frame is not None else ""
            return StuckError(f"the test is not done after {self.within:g} s; it stands here:\n{where}")
        error = ended[0]
        if error is None or isinstance(error, Exception) or type(error).__name__ == "Failed":  # pytest.fail's
            return error
        raise error

    def _call(self, args: Sequence[Any], arguments: Mapping[str, Any]) -> None:
        if inspect.iscoroutinefunction(self.test):
            asyncio.run(self.test(*args, **arguments))
        else:
            self.test(*args, **arguments)

    def _tell(self, seed: int, found: Run, run: Callable[[Sequence[Rule]], Run]) -> None:
        """Raise the failure of this seed with the shortest rules that lead to it."""
        failure = found.failure
        assert failure is not None
        last = [found]

        def fails(rules: Sequence[Rule]) -> bool:
            again = run(rules)
            if type(again.failure) is not type(failure):
                return False
            last[0] = again
            return True

        text = f"tidelog: seed {seed} fails"
        if any(fails(found.struck) for _ in range(ATTEMPTS)):
            until = time.monotonic() + self.shrink_seconds
            shrunk = shrink(
                found.struck, fails, most_tries=self.shrink_tries, has_time=lambda: time.monotonic() < until
            )
            text += _of(shrunk)
        else:
            text += f"; of {ATTEMPTS} runs with the same rules none failed so: it depends on more than the order of requests"
        final = last[0]
        assert final.failure is not None
        self._show(final)
        final.failure.add_note(
            f"{text}\n\n{_imports(final.rules)}\n\nBroker(faults={as_code(final.rules)})\n\n"
            f"again: pytest --explore-seed {seed} ..."
        )
        raise final.failure

    def _show(self, run: Run) -> None:
        lines = run.trace.splitlines()
        left = len(lines) - MOST_LINES
        shown = [f"... {left} lines before", *lines[-MOST_LINES:]] if left > 0 else lines
        self.sections.append(("what tidelog saw and did", "\n".join(shown)))


def explore(
    seeds: int = 200,
    *,
    settings: Mapping[str, object] | None = None,
    topics: Mapping[str, int] | None = None,
    kinds: Iterable[str] = USUAL,
    apis: Iterable[str] | None = None,
    within: float = 60.0,
    shrink_tries: int = 60,
    shrink_seconds: float = 120.0,
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Have a test run under the faults of so many seeds, and without any. A decorator for sync and async tests alike.

    The test's parameter `broker` (or `tidelog_broker`) is a `Broker` of each run's own, with `settings`, and `topics` by name
    and number of partitions; other parameters are fixtures as ever, made once for all runs. `kinds` are those of
    `schedule.KINDS`; `apis` leaves only rules about those requests. A run that takes longer than `within` seconds has failed
    (StuckError). Shrinking ends after so many tries or seconds.
    """

    def decorate(test: Callable[..., Any]) -> Callable[..., None]:
        signature = inspect.signature(test)
        parameter = next((name for name in PARAMETERS if name in signature.parameters), None)
        if parameter is None:
            raise TypeError(f"{test.__name__} has no parameter {' or '.join(PARAMETERS)} for its broker")
        Schedule(seed=0, kinds=kinds, apis=apis)  # unknown names are told here
        exploration = Exploration(
            test,
            parameter,
            seeds,
            dict(settings or {}),
            dict(topics or {}),
            tuple(kinds),
            None if apis is None else tuple(apis),
            within,
            shrink_tries,
            shrink_seconds,
        )

        @functools.wraps(test)
        def explored(*args: Any, **arguments: Any) -> None:
            exploration.explore(args, arguments)

        others = [value for name, value in signature.parameters.items() if name != parameter]
        # What pytest takes for the test's fixtures.
        explored.__signature__ = signature.replace(parameters=others, return_annotation=None)  # type: ignore[attr-defined]
        explored.exploration = exploration  # type: ignore[attr-defined]
        return explored

    return decorate


def _of(shrunk: Shrunk[Rule]) -> str:
    count = len(shrunk.items)
    if not count:
        return "; so it does without any rule, sometimes: look for what is left to chance in the test"
    bound = "" if shrunk.is_minimal else ", and no time to look for a shorter list"
    return f" by {count} rule{'s' if count > 1 else ''} (found in {shrunk.tries} tries{bound})"


def _imports(rules: Sequence[Rule]) -> str:
    names = {"Broker", "Rule", "Schedule", "request"} | {repr(rule.what).partition("(")[0] for rule in rules}
    return f"from tidelog.testing import {', '.join(sorted(names))}"
