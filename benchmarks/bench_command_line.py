"""Our side alone: `tidelog produce` and `consume` through a file, and how soon a test has its broker."""

from __future__ import annotations

import filecmp
import os
import subprocess
import sys
import time
from pathlib import Path

import wire
from measure import OURS, Goal, Row
from session import Session

PRODUCE = Row("cli-produce", "`tidelog produce`, lines of 1 KB", "MB/s", (Goal(100, at_least=True),))
CONSUME = Row("cli-consume", "`tidelog consume`, lines of 1 KB", "MB/s", (Goal(100, at_least=True),))
SMALL_PRODUCE = Row("cli-produce-100b", "`tidelog produce`, lines of 100 bytes", "MB/s")
SMALL_CONSUME = Row("cli-consume-100b", "`tidelog consume`, lines of 100 bytes", "MB/s")
FIRST = Row("testing-first", "tidelog.testing: imports and first broker", "s", (Goal(0.3),))
NEXT = Row("testing-next", "tidelog.testing: each further broker", "ms")
PROCESS = Row("testing-process", "tidelog.testing: imports and a broker in a process of its own", "s", (Goal(0.3),))
ROWS = (PRODUCE, CONSUME, SMALL_PRODUCE, SMALL_CONSUME, FIRST, NEXT, PROCESS)
TIDELOG = [sys.executable, "-m", "tidelog.broker"]

START = """
import time
begin = time.perf_counter()
from tidelog.testing import Broker
Broker().open()
first = time.perf_counter() - begin
begin = time.perf_counter()
for _ in range(10):
    Broker().open()
print(first, (time.perf_counter() - begin) * 100)
import os
os._exit(0)  # eleven clean stops are not what is measured
"""
START_PROCESS = """
import time
begin = time.perf_counter()
from tidelog.testing import BrokerProcess
broker = BrokerProcess().open()
print(time.perf_counter() - begin)
broker.close()
"""


def run(session: Session) -> None:
    if OURS not in session.sides:
        return
    for _ in session.rounds():
        environment = {**os.environ, "TMPDIR": str(session.directory)}  # what is left there goes with the session
        if session.wants(PROCESS):
            command = [sys.executable, "-c", START_PROCESS]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            session.add(PROCESS, OURS, float(done.stdout))
        if session.wants(FIRST, NEXT):
            command = [sys.executable, "-c", START]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            first, following = map(float, done.stdout.split())
            session.add(FIRST, OURS, first)
            session.add(NEXT, OURS, following)
        for size, megabytes, produce, consume in (
            (1000, session.seconds(100, 1000), PRODUCE, CONSUME),
            (100, session.seconds(50, 200), SMALL_PRODUCE, SMALL_CONSUME),
        ):
            if session.wants(produce, consume):
                _through_a_file(session, size, int(megabytes * 1e6 / size), produce, consume)


def _through_a_file(session: Session, size: int, count: int, produce: Row, consume: Row) -> None:
    """Distinct lines go in and come out, and must be the same."""
    source, target = session.directory / "lines", session.directory / "lines.out"
    with source.open("wb") as file:
        for begin in range(0, count, 10_000):
            file.write(
                b"".join(b"%d " % n + b"x" * (size - 2 - len(str(n))) + b"\n" for n in range(begin, begin + 10_000))
            )
    broker = session.fresh(OURS)
    broker.start()
    wire.create_topic(broker.port, "lines", 1)
    server = ["--bootstrap-server", f"{wire.HOST}:{broker.port}"]
    total = source.stat().st_size
    with source.open("rb") as file:
        session.add(produce, OURS, total / 1e6 / _timed([*TIDELOG, "produce", "lines", *server], stdin=file))
    command = [*TIDELOG, "consume", "lines", "--from-beginning", "--max-messages", str(total // size), *server]
    with target.open("wb") as file:
        session.add(consume, OURS, total / 1e6 / _timed(command, stdout=file))
    _same(source, target)
    broker.stop()
    broker.remove()


def _timed(command: list[str], **streams: object) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, **streams)  # type: ignore[call-overload]
    return time.perf_counter() - begin


def _same(source: Path, target: Path) -> None:
    if not filecmp.cmp(source, target, shallow=False):
        raise AssertionError("what came out is not what went in")
    for path in (source, target):
        os.remove(path)
