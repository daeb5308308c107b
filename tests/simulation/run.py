"""Runs simulations: `make simulate SEED=N`, or one seed after the other until it is stopped.

    python -m simulation.run --seed 7                    one run, again and again the same
    python -m simulation.run --first 1 --count 200       two hundred
    python -m simulation.run                             until it is stopped
    python -m simulation.run --count 20000 --seconds 200 --state FILE --report PAGE      a go of many, each time the next seeds
    python -m simulation.run --seed 7 --keep 0,3x8 --schedule 2      with some of its parts, in another order of threads

Each seed has a process of its own, forked from one that has imported everything, so that no run knows of another. The last line
of each is `seed N: ok steps=… digest HEX` or `seed N: FAILED …`; with a failure, what was broken stands above: history, trace,
and the
smallest part of the run that was found to fail too (`smaller.py`). `--jobs` run side by side, each on a processor of its own,
since one
thread of a run works at a time; `--limit-s` is the real time after which a run is given up as hung.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import faulthandler
import gc
import itertools
import json
import logging
import os
import select
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from simulation import again, codecs_made, planted, smaller
from simulation.places import Collector
from simulation.plan import CLIENTS, Part, Plan
from simulation.primitives import installed
from simulation.report import Part as Runs
from simulation.report import Parts, Totals, report

#: Events of its history that a failure prints, and steps of its trace.
LAST_EVENTS = int(os.environ.get("SIMULATION_EVENTS", "40"))
#: Seconds that may be spent on making a failure smaller.
SMALLER_S = 120.0
FIRST_ACTS = ("restart", "kill", "delete records", "alter settings", "more partitions", "delete group", "resets")
"""What comes to the run that goes by first, beside one client of each kind."""
SHOWN_ONCE = 3
"""Failures of one call that are made smaller."""

_real_time, _real_cpu = time.monotonic, time.process_time
REAL_SELECT = select.select


class Result(NamedTuple):
    """What became of a run. `events`: what happened how often. Times: virtual, and of the processor."""

    seed: int
    failure: str
    steps: int
    digest: str
    virtual_s: float
    cpu_s: float
    events: dict[str, int]

    @property
    def line(self) -> str:
        if self.failure:
            return f"seed {self.seed}: FAILED {self.failure.splitlines()[0]}"
        return f"seed {self.seed}: ok steps={self.steps} digest {self.digest}"


class Errors(logging.Handler):
    """Errors that the daemon logs: none is in order while its disk is sound.

    It has no lock: one of Python's own, held while a thread waits for its baton, would hold the others for ever.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []
        self.is_expecting = lambda: False

    def createLock(self) -> None:
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        from simulation.scheduler import WORLD, Simulation

        sim = Simulation.active
        if sim is not None and not sim.current.killed and sim.current.group != WORLD and not self.is_expecting():
            self.found.append(self.format(record))


def simulate(plan: Plan, most_steps: int = 5_000_000, collect: Collector | None = None) -> Result:
    """One run, in a process where the primitives are installed and `machine.arrange` was called. `collect`: is told of what it
    comes to."""
    from simulation.history import Broken
    from simulation.loop import SimLoop
    from simulation.scheduler import Simulation, SimulationError
    from simulation.world import World

    began = _real_cpu()
    errors = Errors()
    logging.getLogger().addHandler(errors)
    failure, events, world = "", {}, None
    with Simulation(plan.seed, schedule=plan.schedule, most_steps=most_steps) as sim:
        if collect is not None:
            sim.at_point = collect.at_point
        try:
            with asyncio.Runner(loop_factory=SimLoop) as runner:

                async def whole() -> None:
                    nonlocal world
                    world = World(sim, plan)
                    errors.is_expecting = lambda: not world.is_sound  # type: ignore[union-attr]
                    await world.run()

                runner.run(whole())
            if errors.found:
                failure = "the daemon logs an error\n" + "\n".join(errors.found)
        except BaseExceptionGroup as group:
            failure = _told(group)
        except (Broken, SimulationError, Exception) as error:
            failure = _told(error)
        finally:
            if world is not None:
                events = {**world.history.counts, **sim.counts}
                if failure:
                    failure += "\n".join(["", str(plan), *world.history.events[-LAST_EVENTS:], sim.trace(LAST_EVENTS)])
                world.machine.remove()
        if sim.failure is not None:
            failure = "\n".join([str(sim.failure), failure])
        if failure and errors.found:
            failure += "\nlogged before: " + "\n".join(errors.found)
        result = Result(plan.seed, failure, sim.steps, sim.digest, sim.now_ns / 1e9, _real_cpu() - began, events)
    logging.getLogger().removeHandler(errors)
    return result


def _told(error: BaseException) -> str:
    from simulation.history import Broken

    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, Broken):
        return str(error)
    return f"{type(error).__name__}: {error}\n{''.join(traceback.format_exception(error))}"


def _in_child(plan: Plan, limit_s: float, processor: int, begin: Callable[[], object]) -> tuple[int, int]:
    """Forks a process for a run; its number, and the pipe with its result."""
    drawn = plan.places
    if plan.planted or drawn:  # made once, and not in each child
        planted.exchanges(plan.planted)
        planted.exchanges_of_places(plan.planted, drawn)
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    os.close(reading)
    faulthandler.dump_traceback_later(limit_s, exit=True)
    # Its threads work by turns: on two processors each turn would wake the other one up.
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {processor})
    # One that is given the baton need not run before the giver waits, which holds the interpreter until then: half the switches.
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    # Daemons that were killed leave tasks and coroutines that nobody ends: as after a kill, and no news.
    logging.getLogger().addHandler(logging.NullHandler())
    sys.unraisablehook = lambda _: None
    warnings.filterwarnings("ignore", "coroutine '.*' was never awaited", RuntimeWarning)
    code = 1
    try:
        if plan.planted or drawn:
            planted.plant(plan.planted, drawn)
        begin()
        codecs = codecs_made.made()
        with os.fdopen(writing, "w") as pipe:
            json.dump([simulate(plan)._asdict(), [*(codecs_made.made() - codecs)]], pipe)
        code = 0
    finally:
        os._exit(code)


def run_all(
    plans: Iterable[Plan], jobs: int, limit_s: float, begin: Callable[[int], object] = lambda _: None
) -> Iterator[tuple[Plan, Result]]:
    """Results as they come, `jobs` at a time. A child that hangs has printed its stacks, and is a failure.

    `begin` is called in each one's process, with its place among them.
    """
    running: dict[int, tuple[int, Plan, int, bytearray]] = {}
    """By pipe: child, plan, processor, what it has told so far."""
    free = [
        processor for _, processor in zip(range(jobs), itertools.cycle(sorted(os.sched_getaffinity(0))), strict=False)
    ]
    waiting, numbers = iter(plans), itertools.count()
    is_over = False
    while running or not is_over:
        while free and not is_over:
            plan = next(waiting, None)
            if plan is None:
                is_over = True
                break
            processor = free.pop()
            child, pipe = _in_child(plan, limit_s, processor, partial(begin, next(numbers)))
            running[pipe] = child, plan, processor, bytearray()
        for pipe in REAL_SELECT(list(running), [], [])[0] if running else ():
            child, plan, processor, told = running[pipe]
            if chunk := os.read(pipe, 1 << 16):
                told += chunk
                continue
            os.close(pipe)
            os.waitpid(child, 0)
            del running[pipe]
            free.append(processor)
            try:
                ended, codecs = json.loads(told)
                result = Result(**ended)
                codecs_made.make(codecs)
            except ValueError:
                result = Result(plan.seed, f"the run hung, or its process ended, within {limit_s:g} s", 0, "", 0, 0, {})
            yield plan, result


def in_order(results: Iterable[tuple[Plan, Result]], first: int) -> Iterator[Result]:
    """Results in the order of their seeds, which are consecutive, from the first on; a single one as it is."""
    waiting: dict[int, Result] = {}
    upcoming = first
    for plan, result in results:
        waiting[plan.seed] = result
        while upcoming in waiting:
            yield waiting.pop(upcoming)
            upcoming += 1
    yield from waiting.values()


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Tasks and coroutines of daemons that were killed are nobody's, and no news."""
    handler, hook = logging.NullHandler(), sys.unraisablehook
    logging.getLogger().addHandler(handler)
    sys.unraisablehook = lambda _: None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)
            sys.unraisablehook = hook


def make_ready() -> None:
    """Imports the daemon, and lets one run go by: what is made once, as codecs are, is there in all children, and is none of
    theirs."""
    from simulation import machine

    machine.arrange()
    machine.import_everything()
    # Printed nowhere: where this run fails, the others do so too, and tell it.
    parts = tuple(Part(index, kind, 0) for index, kind in enumerate([*CLIENTS, *FIRST_ACTS]))
    # Swift, and with much of what a run may have: what this one does not come to is never a place.
    plan = Plan.of(0).keeping(parts)
    plan = replace(
        plan, last="restart", seconds=3.0, pace=0.1, rooms=(), disk={}, durable=True, settles=True,
        settings={**plan.settings, "log.flush.interval.messages": "1"},
    )  # fmt: skip
    gc.disable()  # for good: what daemons leave that end in a run is never collected, since that runs code of theirs
    collector = Collector()
    with _silence():
        simulate(plan, collect=collector)
    collector.keep()
    gc.freeze()  # children don't copy what their collector would look at


def arguments_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make simulate")
    parser.add_argument("--seed", type=int, help="one run")
    parser.add_argument("--keep", help="parts of that run, as a failure names them")
    parser.add_argument("--schedule", type=int, default=0, help="another order of threads")
    parser.add_argument("--again", metavar="TIMES", type=int, help="that run so often; tells whether it is the same")
    parser.add_argument("--steps", metavar="FILE", type=Path, help="has that run write its steps there")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, help="so many; without it, until stopped")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--limit-s", type=float, default=300.0)
    parser.add_argument("--seconds", type=float, help="begin no further run after so long")
    parser.add_argument(
        "--smaller-s", type=float, default=SMALLER_S, help="for making a failure smaller; 0: not at all"
    )
    parser.add_argument("--backup", action="store_true", help="with a backup; cuts are restored and judged at the end")
    parser.add_argument("--report", type=Path, help="writes what met what there")
    parser.add_argument(
        "--state", type=Path, help="keeps there what runs came to, goes on behind them, and reports on all of them"
    )
    parser.add_argument(
        "--planted", metavar="NAME", help="with a defect of `planted.py`; stops at the first seed that fails"
    )
    return parser.parse_args(arguments)


def plan_of(seed: int, options: argparse.Namespace) -> Plan:
    plan = Plan.of(seed)
    if options.backup:
        from simulation.backups import with_backup

        plan = with_backup(plan)
    return plan if options.planted is None else replace(plan, planted=(options.planted,))


def plans_of(options: argparse.Namespace) -> Iterator[Plan]:
    """What is to be run."""
    if options.seed is not None:
        plan = plan_of(options.seed, options)
        if options.keep is not None:
            plan = plan.kept(options.keep)
        yield plan.keeping(plan.parts, options.schedule)
        return
    began = _real_time()
    for seed in itertools.count(options.first) if options.last is None else range(options.first, options.last + 1):
        if options.seconds is not None and _real_time() - began >= options.seconds:
            return
        yield plan_of(seed, options)


def main(arguments: list[str]) -> int:
    options = arguments_of(arguments)
    options.last = None if options.count is None else options.first + options.count - 1
    runs = Runs(_commit(), options.first, totals := Totals())
    kept = None if options.state is None else Parts(options.state)
    if kept is not None:
        runs.first = options.first = max(options.first, kept.upto + 1)
    if options.planted is not None:
        options.smaller_s = 0.0
    with installed():
        make_ready()
        if options.again is not None:
            return _again(options)
        began = _real_time()

        def begin(_: int) -> None:
            if options.steps is not None:
                again.write_steps(options.steps)

        try:
            for result in in_order(run_all(plans_of(options), options.jobs, options.limit_s, begin), options.first):
                totals.add(result.seed, bool(result.failure), result.virtual_s, result.cpu_s, result.events)
                if result.failure:
                    _tell(result, options, len(totals.failed))
                if result.failure or options.seed is not None or totals.runs % 100 == 0:
                    print(result.line, flush=True)
                if result.failure and options.planted is not None:
                    break
        except KeyboardInterrupt:
            print("stopped")
    totals.real_s = _real_time() - began
    if kept is not None:
        kept.add(runs)
    if options.seed is None:
        print(totals.line)
        for event, count in totals.events.most_common():
            print(f"{count:9} {event}")
    if options.report is not None:
        options.report.write_text(report([runs] if kept is None else kept.parts), encoding="utf-8")
    return 1 if totals.failed else 0


def _again(options: argparse.Namespace) -> int:
    """One run so often: 1 where it is not the same each time, or fails."""
    (plan,) = plans_of(options)
    with tempfile.TemporaryDirectory(prefix="tidelog-simulation-") as directory:
        ended, difference = again.again(
            plan,
            options.again,
            Path(directory),
            lambda plans, begin: run_all(plans, options.jobs, options.limit_s, begin),
        )
    for line, count in Counter(result.line for _, result in ended).items():
        print(f"{count} times {line}")
    if difference:
        print(difference)
    return 1 if difference or any(result.failure for _, result in ended) else 0


def _commit() -> str:
    """The commit that is simulated; `-dirty`: with changes."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    told = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return told.stdout.strip() or "unknown"


def _tell(result: Result, options: argparse.Namespace, number: int) -> None:
    """A failure, and what is left of it when it is made smaller."""
    print(result.failure, flush=True)
    if not options.smaller_s or number > SHOWN_ONCE or options.keep is not None:
        return
    until = _real_time() + options.smaller_s
    found = smaller.smaller(
        plan_of(result.seed, options),
        lambda plans: run_all(plans, options.jobs, options.limit_s),
        lambda: _real_time() < until,
    )
    print(found, flush=True)


def fix_hashes() -> None:
    """Starts this program anew where Python would draw the hashes of strings, by which they stand in sets, once more."""
    if os.environ.get("PYTHONHASHSEED", "random") == "random":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, sys.orig_argv)


if __name__ == "__main__":
    fix_hashes()
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # daemons that ended in the first run are not to end once more
