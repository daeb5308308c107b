"""Runs the test rings beyond `make test`, one after the other, with the time of each printed and held to its limit.

    python tests/support/rings.py check|slow

A ring is a command and two limits in minutes: of its slice (`check`; none where `make test` has it) and of the whole
(`slow`). A ring that fails fails the run; the others still run, so that one report tells all. Limits are of two cores that do
nothing else; those of `check` add up to 64 minutes at most.

Who has only so much time says until when (RINGS_UNTIL, seconds since the epoch; `.ci/run` does): rings stand in the order in
which they are worth their time, and one that what is left would not suffice for, at the pace of those before it, is left out.
The table says so, and it fails nothing: on a machine that is three times as slow, a run without its last rings says more than one
that is killed in the middle of them. A ring that has taken HUNG times its limit hangs, and fails.

In a slice, tests that fail are run once more, and the table says so where they pass then: what others do on a machine for a
minute must not keep a change out, and what a change has broken fails twice. The whole rings know no second attempt.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from typing import NamedTuple


class Ring(NamedTuple):
    """One kind of test. Commands are make targets or programs, run from the checkout."""

    name: str
    check: list[str]
    slow: list[str]
    check_minutes: float
    slow_minutes: float


PYTEST = [sys.executable, "-m", "pytest", "-q"]
# Builds file systems as root; the client in it is this environment's.
AS_ROOT = ["sudo"] if os.geteuid() else []
IMAGE = [*AS_ROOT, sys.executable, "docker/check-image"]
# Network namespaces with NAT.
ADDRESSES = [*AS_ROOT, sys.executable, "docker/check-addresses"]
UNLIMITED = ["--timeout", "0"]
RANDOM_SEED = ["--kill-seed", "random"]
CRASH_WHOLE = ["--crash-distinct", "10000", "--backup-states", "0", "--crash-report", "docs/reports/crash-ring.md"]
COMPACTION = [*PYTEST, "tests/compat/test_log_compaction_tester.py"]
STRESS = [*PYTEST, *UNLIMITED, "tests/unit/storage/log/test_unified_log.py", "-k", "overtake or readers_race"]
# `make test` has a fifth of the fixed examples.
FIXED = [
    *PYTEST,
    "-n",
    "2",
    "-m",
    "hypothesis or sliced",
    "tests/unit",
    "tests/property",
    "tests/crash",
    "tests/client",
]
RANDOM = [*PYTEST, *UNLIMITED, "-n", "2", "tests/unit", "tests/property"]
HUNG = 6.0
"""A ring that takes so many times its limit hangs: a shared machine has been three times as slow for an hour."""
UNTIL = "RINGS_UNTIL"
ONCE_MORE = {"PYTEST_ADDOPTS": "--last-failed"}
"""pytest runs what has failed, or all of it where it does not know; what is not pytest runs whole."""
LEFT_OUT = "NOT RUN: no time was left"
BROKEN_OFF = "BROKEN OFF: no time was left"

# In the order in which they are worth their time. `clients` installs other clients, which rings behind it need.
RINGS = [
    Ring("lint", ["make", "lint"], ["make", "lint"], 1, 4),
    Ring("packaging", ["tests/packaging/check_wheel.sh"], ["tests/packaging/check_wheel.sh"], 2, 4),
    # A release of Kafka that came out today is a warning to who tests a change, and a failure of the whole rings.
    Ring("clients", ["make", "compat"], ["make", "compat", "NEWEST_KAFKA=fail"], 16, 23),
    Ring(
        "kill -9",
        [*PYTEST, "--timeout", "1800", "tests/compat/test_kill.py", "--kill-rounds", "20"],
        [*PYTEST, *UNLIMITED, "tests/compat/test_kill.py", "--kill-rounds", "400", *RANDOM_SEED],
        2.5,
        90,
    ),
    Ring(
        "transactions",  # `clients` has the first rounds
        [*PYTEST, "tests/compat/test_transactions_over_kills.py", "--kill-rounds", "8"],
        [*PYTEST, *UNLIMITED, "tests/compat/test_transactions_over_kills.py", "--kill-rounds", "300", *RANDOM_SEED],
        0.5,
        30,
    ),
    Ring(
        "streams",  # `clients` has the first rounds
        [],
        [*PYTEST, *UNLIMITED, "tests/compat/test_streams.py", "--kill-rounds", "20", *RANDOM_SEED],
        0,
        30,
    ),
    Ring(
        "compaction",  # `clients` has the runs without a kill
        [*COMPACTION, "-k", "killed", "--compaction-kill-s", "15"],
        [*COMPACTION, *UNLIMITED, "--compaction-kill-s", "120", *RANDOM_SEED],
        1,
        15,
    ),
    Ring(
        "crash",
        [*PYTEST, "-n", "2", "tests/crash", "--crash-states", "5", "--backup-states", "60"],
        [*PYTEST, *UNLIMITED, "-n", "2", "tests/crash", *CRASH_WHOLE],
        1,
        60,
    ),
    Ring("examples", ["env", "HYPOTHESIS_PROFILE=fixed", *FIXED], ["env", "HYPOTHESIS_PROFILE=random", *RANDOM], 2, 30),
    Ring("readers", ["env", "TIDELOG_STRESS_S=20", *STRESS], ["env", "TIDELOG_STRESS_S=600", *STRESS], 0.5, 12),
    Ring(
        "simulation",
        # 1,000 seeds, or as many as four minutes have time for.
        [*PYTEST, "tests/simulation", "--simulation-seeds", "1000", "--simulation-seconds", "240"],
        [
            *PYTEST,
            *UNLIMITED,
            "tests/simulation",
            "--simulation-seconds",
            "2400",
            "--simulation-seeds",
            "20000",
            "--simulation-defects",
            "100",
            "--simulation-backups",
            "400",
        ],
        6,
        90,
    ),
    Ring("spark", ["make", "spark"], ["make", "spark"], 8, 13),  # has versitygw built, for `backup` too
    Ring("backup", ["make", "backup"], ["make", "backup"], 1, 4),
    Ring("image", IMAGE, IMAGE, 2, 10),
    Ring("fuzz", ["make", "fuzz", "FUZZ_SECONDS=50", "FUZZ_SEED=1"], ["make", "fuzz", "FUZZ_SECONDS=1800"], 3, 40),
    Ring("sanitizers", ["make", "sanitize-check"], ["make", "sanitize", "FUZZ_SECONDS=600"], 1, 30),
    Ring("prometheus", ["make", "prometheus"], ["make", "prometheus"], 1, 4),
    Ring("addresses", ADDRESSES, ADDRESSES, 1, 3),
    # `check` has one wheel and one package; those of every Python and processor take longer.
    Ring("wheels", ["make", "package-check"], ["make", "package-check", "wheels-check", "deb-check"], 4, 20),
    Ring("site", ["make", "site-check"], ["make", "site-check"], 1.5, 3),
    Ring("browser", ["make", "browser"], ["make", "browser"], 3, 5),
    Ring(
        "adversary",
        [*PYTEST, "-s", "--timeout", "1500", "tests/adversary"],
        ["make", "adversary"],
        1.5,
        15,
    ),
    # The driver that is killed is in the whole ring.
    Ring("cluster", ["make", "cluster", "CLUSTER=-k archive"], ["make", "cluster-all"], 4, 12),
    # Airflow is heavy, and what it runs is tried in `spark`.
    Ring("airflow", [], ["make", "airflow"], 0, 12),
    Ring(
        "sink kills",  # `spark` has the first
        [],
        [*PYTEST, *UNLIMITED, "tests/spark/test_sink_kills.py", "--sink-kills", "100", "--sink-seed", "random"],
        0,
        60,
    ),
    Ring("client suites", [], ["make", "compat-report"], 0, 45),  # `clients` has them against the daemon alone
    Ring("old clients", [], ["make", "old-clients"], 0, 10),
    # `check` has no minutes left for `make explore`, which takes two; `make test` has the rules themselves.
    Ring("explore", [], ["make", "explore-all"], 0, 60),
    Ring("mutations", [], ["make", "mutations"], 0, 30),
    Ring("lost machine", [], ["make", "backup", "LOST_ROUNDS=50"], 0, 30),
]


class Result(NamedTuple):
    """What became of a ring: its minutes, those of a processor in it, and what it said; `code` is None where it has none.

    `at_first`: the code of a first attempt that failed.
    """

    ring: Ring
    minutes: float
    processor: float
    code: int | None
    at_first: int = 0


class Clock:
    """The wall's, as far as rings need it; tests have one of their own."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def run(self, command: list[str], most: float, **more: str) -> tuple[int | None, float]:
        """Exit code and the processor's seconds; None when `most` seconds were not enough: what it started is ended.

        `more`: variables of its environment.
        """
        before = _children()
        # A session of its own: what a broken off make has started goes with it.
        with subprocess.Popen(command, start_new_session=True, env=os.environ | more) as process:
            try:
                code = process.wait(most)
            except subprocess.TimeoutExpired:
                code = None
                _end(process)
            except BaseException:  # Ctrl-C: it is not this one's session any more
                _end(process)
                raise
        return code, _children() - before


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks a session to end, and kills it after ten seconds; a part that runs as root has to see that its parent went."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)


def limit_of(ring: Ring, which: str) -> float:
    """Minutes; 0 where the ring has no part in this run."""
    return ring.check_minutes if which == "check" else ring.slow_minutes


def report(which: str, results: list[Result]) -> tuple[str, int]:
    """The table, and the exit code: 1 when a ring failed.

    Rings that are late, or for which there was no time, are told and fail nothing: a shared machine is slow for an hour.
    """
    lines = ["ring            minutes  of a core   limit  result"]
    for result in results:
        limit, verdict = limit_of(result.ring, which), _verdict(result, which)
        late = ", late" if result.minutes > limit else ""
        lines.append(
            f"{result.ring.name:15} {result.minutes:7.1f} {result.processor:10.1f} {limit:7g}  {verdict}{late}"
        )
    total, cores = sum(result.minutes for result in results), sum(result.processor for result in results)
    most = sum(limit_of(result.ring, which) for result in results)
    failed = any(_verdict(result, which).startswith("FAILED") for result in results)
    missing = sum(result.code is None for result in results)
    verdict = "FAILED" if failed else f"ok, without {missing}" if missing else "ok, late" if total > most else "ok"
    lines.append(f"{'all':15} {total:7.1f} {cores:10.1f} {most:7g}  {verdict}")
    return "\n".join(lines), int(failed)


def _verdict(result: Result, which: str) -> str:
    if result.code is None:
        if result.minutes >= HUNG * limit_of(result.ring, which):
            return "FAILED: hung"
        return BROKEN_OFF if result.minutes else LEFT_OUT
    if result.code:
        return f"FAILED ({result.code})"
    return f"ok at the second attempt, FAILED ({result.at_first}) at first" if result.at_first else "ok"


def run(which: str, rings: list[Ring], until: float, clock: Clock) -> list[Result]:
    """Runs rings one after the other, as long as there is time.

    Args:
        which: `check` or `slow`.
        rings: in the order in which they are run.
        until: seconds since the epoch at which all must be over; infinite for who has time.
        clock: the wall's.
    """
    results: list[Result] = []
    for ring in rings:
        limit = limit_of(ring, which)
        done = [result for result in results if result.minutes]
        pace = (
            sum(result.minutes for result in done) / sum(limit_of(result.ring, which) for result in done) if done else 1
        )
        start = clock.now()
        if start + 60 * limit * pace > until:
            results.append(Result(ring, 0, 0, None))
            continue
        command = ring.check if which == "check" else ring.slow
        print(f"=== {ring.name}: {' '.join(command)}", flush=True)
        code, processor = clock.run(command, min(60 * limit * HUNG, until - start))
        at_first = 0
        if code and which == "check" and clock.now() < until:
            at_first = code
            print(f"=== {ring.name}: what has failed, once more", flush=True)
            code, more = clock.run(command, min(60 * limit * HUNG, until - clock.now()), **ONCE_MORE)
            code, processor = at_first if code is None else code, processor + more
        results.append(Result(ring, (clock.now() - start) / 60, processor / 60, code, at_first))
    return results


def main(which: str) -> int:
    """Runs every ring that has a part in this; 0 when none failed."""
    rings = [ring for ring in RINGS if (ring.check if which == "check" else ring.slow)]
    table, code = report(which, run(which, rings, float(os.environ.get(UNTIL, "inf")), Clock()))
    print(f"\n{table}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "check"))
