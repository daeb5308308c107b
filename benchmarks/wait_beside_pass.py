"""What a produce waits for beside a cleaner's pass: the processor, or the interpreter's lock.

    python benchmarks/wait_beside_pass.py [--seconds 5] [--rounds 3] [--short] [--directory DIR]

An open loop of 2,000 one-record produces a second on four connections, without a pass and beside passes that go on all the time:
in a process of their own, as it ships; in threads of the daemon (log.cleaner.process.enable=false), at several priorities;
and in a second daemon on the same cores. For each: the latency, how long the loop's thread stood in a run queue (schedstat), and
how long it waited for the interpreter's lock (`gil_wait.c`, preloaded). Linux only. `docs/adr/0074-…` decides by its figures.
"""

from __future__ import annotations

import argparse
import mmap
import os
import shutil
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import wire
from brokers import Broker, BrokerError, Tidelog
from measure import OURS
from session import HERE, Session, finish_load

MIB = 1 << 20
SHAPE = ("--value-bytes", 76, "--records", 500, "--keys", 1_000_000, "--depth", 5)
LOAD = ("--rate", 2000, "--connections", 4, "--warmup", 0.3)
SETTINGS = {"log.cleaner.threads": 1, "log.cleaner.dedupe.buffer.size": 32 * MIB, "log.cleaner.backoff.ms": 100}
_WAITS = struct.Struct("=10q")
_THREADS = 256
BOUNDS_US = (50, 100, 200, 500, 1000, 5000)


class Place(NamedTuple):
    """Where passes run. `threads`: in the daemon's own; `apart`: in those of another daemon. `niceness` of the cleaner's thread,
    None as it is; `idle`: SCHED_IDLE.
    """

    name: str
    threads: bool = True
    apart: bool = False
    niceness: int | None = None
    idle: bool = False


QUIET = Place("no pass", threads=False)
PLACES = (
    QUIET,
    Place("a process of its own, as shipped", threads=False),
    Place("a thread, nice 4"),
    Place("a thread, nice 0", niceness=0),
    Place("a thread, nice 19", niceness=19),
    Place("a thread, SCHED_IDLE", idle=True),
    Place("another daemon, nice 4", apart=True),
    Place("another daemon, nice 19", apart=True, niceness=19),
    Place("another daemon, SCHED_IDLE", apart=True, idle=True),
)


class Waits(NamedTuple):
    """The loop's thread so far: time on a processor, in run queues, slices; waits for the interpreter's lock."""

    ran_ns: int
    queued_ns: int
    slices: int
    lock_count: int
    lock_ns: int
    lock_longest_ns: int
    lock_at_least: tuple[int, ...]

    def since(self, before: Waits) -> Waits:
        """What came on top; the longest wait stays that of the whole life."""
        return Waits(
            self.ran_ns - before.ran_ns,
            self.queued_ns - before.queued_ns,
            self.slices - before.slices,
            self.lock_count - before.lock_count,
            self.lock_ns - before.lock_ns,
            self.lock_longest_ns,
            tuple(now - then for now, then in zip(self.lock_at_least, before.lock_at_least, strict=True)),
        )


class Watched(Tidelog):
    """The daemon with the probe of the interpreter's lock in it."""

    def __init__(self, directory: Path, probe: Path, *, threads: bool) -> None:
        """`threads`: passes run in its threads."""
        own = {"log.segment.delete.delay.ms": 100, "auto.create.topics.enable": "false"}
        super().__init__(directory, {**SETTINGS, **own, "log.cleaner.process.enable": "false" if threads else "true"})
        self._probe = probe
        self._file = directory / "gil-wait"

    def command(self) -> list[str]:
        return ["env", f"LD_PRELOAD={self._probe}", f"GIL_WAIT={self._file}", *super().command()]

    def waits(self) -> Waits:
        """The loop runs in the process's first thread."""
        ran, queued, slices = map(int, Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text().split())
        lock = (0,) * 10
        with self._file.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as room:
            for at in range(0, _THREADS * _WAITS.size, _WAITS.size):
                found = _WAITS.unpack_from(room, at)
                if found[0] == self.pid:
                    lock = found
        return Waits(ran, queued, slices, lock[1], lock[2], lock[3], lock[4:])

    def cleaners(self) -> Iterator[int]:
        """Native ids of cleaner threads: nobody else in the daemon has lowered its priority."""
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            if int(task.name) != self.pid and os.getpriority(os.PRIO_PROCESS, int(task.name)) > 0:
                yield int(task.name)


class Sample(NamedTuple):
    """One run of the load."""

    p50_us: float
    p99_us: float
    p999_us: float
    waits: Waits
    seconds: float
    cleaner_mb_s: float


def built_probe(directory: Path) -> Path:
    """The probe, compiled. BrokerError when there is no compiler."""
    target = directory / "gil_wait.so"
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise BrokerError("the probe is C: install a compiler (Debian: gcc libc6-dev)")
    command = [compiler, "-O2", "-std=gnu11", "-shared", "-fPIC", "-o", str(target), str(HERE / "gil_wait.c"), "-ldl"]
    subprocess.run(command, check=True)
    return target


def prepare(session: Session, broker: Broker, count: int, size: int) -> list[str]:
    """Topics that a pass finds dirty from end to end."""
    names = [f"dirty-{broker.port}-{time.monotonic_ns()}-{number}" for number in range(count)]
    for name in names:
        wire.create_topic(broker.port, name, 1, {"segment.bytes": 64 * MIB, "retention.ms": -1})
        session.load(broker, "produce", name, *SHAPE, "--bytes", size)
    os.sync()
    return names


def cleaned_bytes(broker: Tidelog) -> float:
    """Bytes that passes of the daemon have read and written so far, by its metrics."""
    import urllib.request

    with urllib.request.urlopen(f"http://{wire.HOST}:{broker.http_port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    name = "tidelog_cleaner_io_bytes_total"
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


@contextmanager
def passes(session: Session, place: Place, cleaner: Watched | None, size: int) -> Iterator[None]:
    """Passes over enough topics that one is under way all the time."""
    if cleaner is None:
        yield
        return
    names = prepare(session, cleaner, 3, size)
    for thread in cleaner.cleaners():
        os.setpriority(os.PRIO_PROCESS, thread, 4 if place.niceness is None else place.niceness)
        os.sched_setscheduler(thread, os.SCHED_IDLE if place.idle else os.SCHED_OTHER, os.sched_param(0))
    for name in names:
        wire.alter_topic(cleaner.port, name, "cleanup.policy", "compact")
    time.sleep(0.3)  # the cleaner's back-off
    yield
    for name in names:
        wire.delete_topic(cleaner.port, name)


class Daemons(NamedTuple):
    """`shipped`: its passes are in processes; those of the others in threads."""

    shipped: Watched
    threads: Watched
    other: Watched


def sample(session: Session, daemons: Daemons, place: Place, seconds: float, size: int) -> Sample:
    daemon = daemons.threads if place.threads else daemons.shipped
    cleaner = None if place is QUIET else daemons.other if place.apart else daemon
    with session.topic(daemon) as target, passes(session, place, cleaner, size):
        before, cleaned, begin = daemon.waits(), cleaned_bytes(cleaner or daemon), time.monotonic()
        load = finish_load(session.begin_load(daemon, "produce", target, *LOAD, "--seconds", seconds))
        took = time.monotonic() - begin
        waits = daemon.waits().since(before)
        rate = (cleaned_bytes(cleaner or daemon) - cleaned) / took / 1e6
    return Sample(load["p50_us"], load["p99_us"], load["p999_us"], waits, took, rate)


def cells(one: Sample) -> list[float]:
    """Figures of a sample, in the order of HEAD."""
    waits = one.waits
    return [
        one.p50_us,
        one.p99_us,
        one.p999_us,
        waits.queued_ns / max(1, waits.slices) / 1e3,
        waits.queued_ns / one.seconds / 1e6,
        waits.lock_count / one.seconds,
        waits.lock_ns / max(1, waits.lock_count) / 1e3,
        waits.lock_ns / one.seconds / 1e6,
        *(count / one.seconds for count in waits.lock_at_least),
        waits.lock_longest_ns / 1e6,
        one.cleaner_mb_s,
    ]


def line(place: Place, samples: list[Sample]) -> str:
    """The medians of a place's rounds, as a row of Markdown."""
    medians = [statistics.median(column) for column in zip(*map(cells, samples), strict=True)]
    return (
        " | ".join(["| " + place.name, *(f"{figure:.0f}" if figure >= 20 else f"{figure:.1f}" for figure in medians)])
        + " |"
    )


COLUMNS = (
    "p50 µs", "p99 µs", "p99.9 µs", "run queue µs/slice", "run queue ms/s", "lock waits/s", "lock µs each", "lock ms/s",
    *(f"≥ {bound} µs, /s" for bound in BOUNDS_US), "longest so far ms", "cleaner MB/s",
)  # fmt: skip
HEAD = "| pass | " + " | ".join(COLUMNS) + " |\n" + "|---" * (len(COLUMNS) + 1) + "|"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=float, default=600e6, help="bytes of each topic that is cleaned")
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp/tidelog-bench"))
    parser.add_argument("--short", action="store_true", help="the first three places alone")
    options = parser.parse_args(arguments)
    places = PLACES[:3] if options.short else PLACES
    found: dict[Place, list[Sample]] = {place: [] for place in places}
    work = options.directory / f"wait-{os.getpid()}"
    session = Session(work, quick=False, rounds=1, sides=(OURS,), only=())
    with ExitStack() as stack:
        stack.callback(session.close)
        probe = built_probe(work)
        daemons = Daemons(*(Watched(work / name, probe, threads=name != "shipped") for name in Daemons._fields))
        for broker in daemons:
            stack.callback(broker.remove)
            broker.start()
            session.warm_up(broker, 3.0)
        for number in range(options.rounds):
            for place in places if number % 2 == 0 else places[::-1]:
                found[place].append(sample(session, daemons, place, options.seconds, int(options.size)))
                session.say(line(place, found[place][-1:]))
    print(HEAD)
    for place, samples in found.items():
        print(line(place, samples))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
