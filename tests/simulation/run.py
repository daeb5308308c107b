"""Runs simulations: `make simulate SEED=N`, or one seed after the other until it is stopped.

    python -m simulation.run --seed 7                    one run, again and again the same
    python -m simulation.run --first 1 --count 200       two hundred
    python -m simulation.run                             until it is stopped

Each seed has a process of its own, forked from one that has imported everything, so that no run knows of another. The last line
of each is `seed N: ok steps=… digest HEX` or `seed N: FAILED …`; with a failure, what was broken stands above. `--jobs` run side
by side; `--limit-s` is the real time after which a run is given up as hung.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import itertools
import json
import logging
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from simulation import planted
from simulation.primitives import installed

#: Events of its history that a failure prints.
LAST_EVENTS = int(os.environ.get("SIMULATION_EVENTS", "40"))

_real_time, _real_cpu = time.monotonic, time.process_time


class Result(NamedTuple):
    """What became of a seed. `events`: what happened how often. Times: virtual, and of the processor."""

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
    """Errors that the daemon logs: none is in order while its disk is sound."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        from simulation.scheduler import Simulation

        sim = Simulation.active
        if sim is not None and not sim.current.killed and sim.current.group != "world":
            self.found.append(self.format(record))


def simulate(seed: int, most_steps: int = 5_000_000) -> Result:
    """One run. In a process where the primitives are installed and `machine.arrange` was called."""
    from simulation.history import Broken
    from simulation.loop import SimLoop
    from simulation.scheduler import Simulation, SimulationError
    from simulation.workload import World

    began = _real_cpu()
    errors = Errors()
    logging.getLogger().addHandler(errors)
    failure, events, world = "", {}, None
    with Simulation(seed, most_steps=most_steps) as sim:
        try:
            with asyncio.Runner(loop_factory=SimLoop) as runner:

                async def whole() -> None:
                    nonlocal world
                    world = World(sim)
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
                    failure += "\n" + "\n".join([str(world.profile), *world.history.events[-LAST_EVENTS:]])
                world.machine.remove()
        if sim.failure is not None:
            failure = str(sim.failure)
        if failure and errors.found:
            failure += "\nlogged before: " + "\n".join(errors.found)
        result = Result(seed, failure, sim.steps, sim.digest, sim.now_ns / 1e9, _real_cpu() - began, events)
    logging.getLogger().removeHandler(errors)
    return result


def _told(error: BaseException) -> str:
    from simulation.history import Broken

    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, Broken):
        return str(error)
    return f"{type(error).__name__}: {error}\n{''.join(traceback.format_exception(error))}"


def _in_child(seed: int, limit_s: float) -> tuple[int, int]:
    """Forks a process for a seed; its number, and the pipe with its result."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    os.close(reading)
    faulthandler.dump_traceback_later(limit_s, exit=True)
    # Daemons that were killed leave tasks and coroutines that nobody ends: as after a kill, and no news.
    logging.getLogger().addHandler(logging.NullHandler())
    sys.unraisablehook = lambda _: None
    code = 1
    try:
        with os.fdopen(writing, "w") as pipe:
            json.dump(simulate(seed)._asdict(), pipe)
        code = 0
    finally:
        os._exit(code)


def run_all(seeds: Iterator[int], jobs: int, limit_s: float) -> Iterator[Result]:
    """Results as they come, `jobs` at a time. A child that hangs has printed its stacks, and is a failure."""
    running: dict[int, tuple[int, int]] = {}
    for seed in itertools.chain(seeds, itertools.repeat(None)):
        if seed is not None:
            running.update({child: (seed, pipe) for child, pipe in [_in_child(seed, limit_s)]})
        if not running:
            return
        if seed is None or len(running) >= jobs:
            # The oldest one's result is read whole before it is waited for: a full pipe would hold it.
            child, (its_seed, pipe) = next(iter(running.items()))
            del running[child]
            with os.fdopen(pipe) as file:
                text = file.read()
            os.waitpid(child, 0)
            try:
                yield Result(**json.loads(text))
            except ValueError:
                yield Result(its_seed, f"the run hung, or its process ended, within {limit_s:g} s", 0, "", 0, 0, {})


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make simulate")
    parser.add_argument("--seed", type=int, help="one run")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, help="so many; without it, until stopped")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit-s", type=float, default=300.0)
    parser.add_argument("--seconds", type=float, help="begin no further run after so long")
    parser.add_argument(
        "--planted", metavar="NAME", help="with a defect of `planted.py`; stops at the first seed that fails"
    )
    options = parser.parse_args(arguments)
    seeds: Iterator[int] = itertools.count(options.first)
    if options.seed is not None:
        seeds = iter([options.seed])
    elif options.count is not None:
        seeds = iter(range(options.first, options.first + options.count))
    began = _real_time()
    if options.seconds is not None:
        seeds = itertools.takewhile(lambda _: _real_time() - began < options.seconds, seeds)
    total: Counter[str] = Counter()
    failed, runs, virtual_s, cpu_s = [], 0, 0.0, 0.0
    if options.planted is not None:
        planted.plant(options.planted)
    with installed():
        from simulation import machine

        machine.arrange()
        machine.import_everything()
        try:
            for result in run_all(seeds, options.jobs, options.limit_s):
                runs += 1
                virtual_s += result.virtual_s
                cpu_s += result.cpu_s
                total.update(result.events)
                if result.failure:
                    failed.append(result.seed)
                    print(result.failure, flush=True)
                if result.failure or options.seed is not None or runs % 100 == 0:
                    print(result.line, flush=True)
                if result.failure and options.planted is not None:
                    break
        except KeyboardInterrupt:
            print("stopped")
    if options.seed is None:
        print(
            f"{runs} runs, {len(failed)} failed {failed or ''}: {virtual_s:.0f} s of virtual time in {cpu_s:.0f} s of CPU"
        )
        for event, count in total.most_common():
            print(f"{count:9} {event}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
