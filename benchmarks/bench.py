"""Every benchmark, ours and Apache Kafka's side by side in one run: `make bench`, or

    python benchmarks/bench.py                    the full run: about half an hour, 30 GB of disk
    python benchmarks/bench.py --quick            three minutes, to see where one stands
    python benchmarks/bench.py --only NAME[,NAME] only these rows or groups (--list has them), replaced in the results
    python benchmarks/bench.py --side tidelog     only that side, nothing is written: for work on one figure

Results go to docs/benchmarks/full.{md,json,svg} (quick.* for --quick). Exit status 1 when a benchmark could not be
measured or what came back failed its checks; a goal that is missed is a result, not an error.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import bench_busy
import bench_catch_up
import bench_clean
import bench_command_line
import bench_connections
import bench_fetch
import bench_flush
import bench_groups
import bench_idle
import bench_memory
import bench_produce
import bench_recovery
import bench_scale
import bench_start
import bench_tls
import bench_waits
import readme_table
import report
from brokers import BrokerError, executable
from kafka_peer import NEWEST, jars, java
from measure import KAFKA, OURS, Row, Samples
from session import BUILD, LoadError, Session, built
from wire import WireError

ROOT = Path(__file__).resolve().parent.parent
# Those that start brokers of their own come first; then the ones that share the warm pair.
GROUPS: dict[str, ModuleType] = {
    "start": bench_start,
    "scale": bench_scale,
    "groups": bench_groups,
    "waits": bench_waits,
    "idle": bench_idle,
    "recovery": bench_recovery,
    "cleaning": bench_clean,
    "memory": bench_memory,
    "produce": bench_produce,
    "fetch": bench_fetch,
    "flush": bench_flush,
    "connections": bench_connections,
    "tls": bench_tls,
    "catch-up": bench_catch_up,
    "busy": bench_busy,
    "command-line": bench_command_line,
}
ROWS: tuple[Row, ...] = tuple(row for module in GROUPS.values() for row in module.ROWS)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    assert __doc__
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="bench.py", description=__doc__, formatter_class=raw)
    parser.add_argument("--quick", action="store_true", help="short rounds and small data")
    parser.add_argument("--only", default="", metavar="NAME[,NAME]", help="rows or groups to measure")
    parser.add_argument("--side", choices=(OURS, KAFKA), help="one side alone; writes no result")
    parser.add_argument("--rounds", type=int, metavar="N", help="interleaved rounds (5; quick: 2)")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks", metavar="DIR", help="for results")
    parser.add_argument("--directory", type=Path, default=BUILD, metavar="DIR", help="for the brokers' data meanwhile")
    parser.add_argument("--list", action="store_true", help="name the groups and rows, and end")
    parser.add_argument("--draw", action="store_true", help="make page and plot again from the stored samples, and end")
    return parser.parse_args(arguments)


def chosen(text: str) -> tuple[str, ...]:
    """Row names out of row and group names; SystemExit with the known ones for a name that is neither."""
    names: list[str] = []
    for word in filter(None, text.split(",")):
        if word in GROUPS:
            names += [row.name for row in GROUPS[word].ROWS]
        elif any(row.name == word for row in ROWS):
            names.append(word)
        else:
            sys.exit(
                f"bench: no benchmark is called {word}; there are: {', '.join([*GROUPS, *(row.name for row in ROWS)])}"
            )
    return tuple(names)


def check_machine(sides: Sequence[str], directory: Path, *, quick: bool) -> None:
    """Says what is missing before anything runs, in one line each."""
    try:
        built("loadgen"), built("sendfile_floor")
        if OURS in sides:
            executable()
        if KAFKA in sides:
            java(), jars()
    except BrokerError as error:
        sys.exit(f"bench: {error}")
    directory.mkdir(parents=True, exist_ok=True)
    free, wanted = shutil.disk_usage(directory).free / 1e9, 8 if quick else 30
    if free < wanted:
        sys.exit(f"bench: {directory} has {free:.0f} GB free, {wanted} are needed; --directory names another place")


def measure(session: Session, command: str) -> None:
    """Runs the wanted groups; a group that fails is recorded as such and the others go on."""
    commit = report.commit()
    for name, module in GROUPS.items():
        rows: tuple[Row, ...] = module.ROWS
        if not session.wants(*rows):
            continue
        session.say(f"--- {name}")
        try:
            module.run(session)
        except (BrokerError, LoadError, WireError, OSError, subprocess.SubprocessError) as error:
            session.say(f"{name} FAILED: {error}")
            if not isinstance(error, (BrokerError, LoadError)):
                traceback.print_exc()
            for row in rows:
                if session.wants(row):
                    session.samples.setdefault(row.name, Samples()).error = str(error)
            session.drop_pair()
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        for row in rows:
            if row.name in session.samples:
                samples = session.samples[row.name]
                samples.commit, samples.date, samples.command, samples.kafka = commit, today, command, NEWEST


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    name = "quick" if options.quick else "full"
    if options.list:
        for group, module in GROUPS.items():
            print(group, *(f"  {row.name:<18} {row.title}, {row.unit}" for row in module.ROWS), sep="\n")
        return 0
    machine, samples = report.load(options.output / f"{name}.json")
    if options.draw:
        print(*report.write(options.output, name, machine, samples, ROWS), sep="\n")
        return 0
    only = chosen(options.only)
    sides = (options.side,) if options.side else (OURS, KAFKA)
    check_machine(sides, options.directory, quick=options.quick)
    # An interrupted or terminated run takes its brokers with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rounds = options.rounds or (2 if options.quick else 5)
    command = "python benchmarks/bench.py" + "".join(f" {word}" for word in arguments)
    work = options.directory / f"run-{os.getpid()}"
    session = Session(work, quick=options.quick, rounds=rounds, sides=sides, only=only)
    interrupted = False
    try:
        session.keep_awake()
        measure(session, command)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        session.close()
    measured = [row for row in ROWS if row.name in session.samples]
    print("\n" + report.terminal(measured, session.samples))
    if not options.side and not interrupted:
        samples.update(session.samples)
        print(*report.write(options.output, name, report.machine(options.directory), samples, ROWS), sep="\n")
        if options.output / f"{name}.json" == readme_table.STORED:
            readme_table.write()
    return 130 if interrupted else int(any(one.error for one in session.samples.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
