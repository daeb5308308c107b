"""Runs the test rings beyond `make test`, one after the other, with the time of each printed and held to its limit.

    python tests/support/rings.py check|slow

A ring is a command and two limits in minutes: of its slice (`check`; none where `make test` has it) and of the whole
(`slow`). A ring that fails fails the run, and so do rings that together take longer than SLOWER times their limits together;
the others still run, so that one report tells all. Limits are of two cores that do nothing else; those of `check` add up to 64
minutes at most, so that `make check` and the five minutes of `make test` are over in 90 minutes wherever they pass.
"""

from __future__ import annotations

import os
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
SLOWER = 1.3
"""A machine that is shared, or older, may take so many times as long: one took 1.13 times, with each ring up to 1.5 times."""

RINGS = [
    Ring("lint", ["make", "lint"], ["make", "lint"], 1, 4),
    Ring("packaging", ["tests/packaging/check_wheel.sh"], ["tests/packaging/check_wheel.sh"], 2, 4),
    # `check` has one wheel and one package; those of every Python and processor take longer.
    Ring("wheels", ["make", "package-check"], ["make", "package-check", "wheels-check", "deb-check"], 4, 20),
    # A release of Kafka that came out today is a warning to who tests a change, and a failure of the whole rings.
    Ring("clients", ["make", "compat"], ["make", "compat", "NEWEST_KAFKA=fail"], 16, 23),
    Ring("client suites", [], ["make", "compat-report"], 0, 45),  # `clients` has them against the daemon alone
    Ring("old clients", [], ["make", "old-clients"], 0, 10),
    # `check` has no minutes left for `make explore`, which takes two; `make test` has the rules themselves.
    Ring("explore", [], ["make", "explore-all"], 0, 60),
    Ring("spark", ["make", "spark"], ["make", "spark"], 8, 13),  # has versitygw built, for `backup` too
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
    Ring("mutations", [], ["make", "mutations"], 0, 30),
    Ring("fuzz", ["make", "fuzz", "FUZZ_SECONDS=50", "FUZZ_SEED=1"], ["make", "fuzz", "FUZZ_SECONDS=1800"], 3, 40),
    Ring("sanitizers", ["make", "sanitize-check"], ["make", "sanitize", "FUZZ_SECONDS=600"], 1, 30),
    Ring("backup", ["make", "backup"], ["make", "backup"], 1, 4),
    Ring("lost machine", [], ["make", "backup", "LOST_ROUNDS=50"], 0, 30),
    Ring("prometheus", ["make", "prometheus"], ["make", "prometheus"], 1, 4),
    Ring("browser", ["make", "browser"], ["make", "browser"], 3, 5),
    Ring(
        "adversary",
        [*PYTEST, "-s", "--timeout", "1500", "tests/adversary"],
        ["make", "adversary"],
        1.5,
        15,
    ),
    Ring("site", ["make", "site-check"], ["make", "site-check"], 1.5, 3),
    Ring("addresses", ADDRESSES, ADDRESSES, 1, 3),
    Ring("image", IMAGE, IMAGE, 2, 10),
]


class Result(NamedTuple):
    """What became of a ring."""

    ring: Ring
    minutes: float
    code: int


def limit_of(ring: Ring, which: str) -> float:
    """Minutes; 0 where the ring has no part in this run."""
    return ring.check_minutes if which == "check" else ring.slow_minutes


def report(which: str, results: list[Result]) -> tuple[str, int]:
    """The table, and the exit code: 1 when a ring failed, or when all together took longer than SLOWER times their limits.

    One ring that is late does not fail the run by itself: a shared machine is slow for minutes at a time.
    """
    lines = ["ring            minutes   limit  result"]
    for ring, minutes, code in results:
        limit = limit_of(ring, which)
        verdict = "ok" if not code else f"FAILED ({code})"
        lines.append(f"{ring.name:15} {minutes:7.1f} {limit:7g}  {verdict}{', late' if minutes > limit else ''}")
    total, most = sum(result.minutes for result in results), sum(limit_of(result.ring, which) for result in results)
    late = total > SLOWER * most
    verdict = "FAILED: too slow" if late else "ok, late" if total > most else "within their time"
    lines.append(f"{'all':15} {total:7.1f} {most:7g}  {verdict}")
    return "\n".join(lines), int(late or any(result.code for result in results))


def main(which: str) -> int:
    """Runs every ring; 0 when all passed within their time."""
    results = []
    for ring in RINGS:
        command = ring.check if which == "check" else ring.slow
        if not command:
            continue
        print(f"=== {ring.name}: {' '.join(command)}", flush=True)
        start = time.monotonic()
        code = subprocess.run(command, check=False).returncode
        results.append(Result(ring, (time.monotonic() - start) / 60, code))
    table, code = report(which, results)
    print(f"\n{table}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "check"))
