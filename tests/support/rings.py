"""Runs the test rings beyond `make test`, one after the other, with the time of each printed and held to its limit.

    python tests/support/rings.py check|slow

A ring is a command and two limits in minutes: of its slice (`check`; none where `make test` has it) and of the whole
(`slow`). A ring that fails or takes longer fails the run; the others still run, so that one report tells all.
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
COMPACTION = [*PYTEST, "tests/compat/test_log_compaction_tester.py"]
STRESS = [*PYTEST, *UNLIMITED, "tests/unit/storage/test_unified_log.py", "-k", "lesson_51"]
# `make test` has the fixed examples.
RANDOM = [*PYTEST, *UNLIMITED, "-n", "2", "tests/unit", "tests/property"]
RINGS = [
    Ring("lint", ["make", "lint"], ["make", "lint"], 4, 4),
    Ring("packaging", ["tests/packaging/check_wheel.sh"], ["tests/packaging/check_wheel.sh"], 4, 4),
    Ring("clients", ["make", "compat"], ["make", "compat"], 20, 23),
    Ring("client suites", [], ["make", "compat-report"], 0, 45),  # `clients` has them against the daemon alone
    Ring("old clients", [], ["make", "old-clients"], 0, 10),
    Ring("spark", ["make", "spark"], ["make", "spark"], 7, 12),
    Ring(
        "sink kills",  # `spark` has the first
        [],
        [*PYTEST, *UNLIMITED, "tests/spark/test_sink_kills.py", "--sink-kills", "100", "--sink-seed", "random"],
        0,
        60,
    ),
    Ring(
        "kill -9",
        [*PYTEST, "--timeout", "600", "tests/compat/test_kill.py", "--kill-rounds", "20"],
        [*PYTEST, *UNLIMITED, "tests/compat/test_kill.py", "--kill-rounds", "400", *RANDOM_SEED],
        6,
        90,
    ),
    Ring(
        "transactions",  # `clients` has the first rounds
        [*PYTEST, "--timeout", "300", "tests/compat/test_transactions_over_kills.py", "--kill-rounds", "8"],
        [*PYTEST, *UNLIMITED, "tests/compat/test_transactions_over_kills.py", "--kill-rounds", "300", *RANDOM_SEED],
        2,
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
        [*COMPACTION, "--timeout", "300", "-k", "killed", "--compaction-kill-s", "15"],
        [*COMPACTION, *UNLIMITED, "--compaction-kill-s", "120", *RANDOM_SEED],
        4,
        15,
    ),
    Ring(
        "crash",
        [*PYTEST, "-n", "2", "tests/crash", "--crash-states", "5"],
        [*PYTEST, *UNLIMITED, "-n", "2", "tests/crash", "--crash-states", "0"],
        6,
        240,
    ),
    Ring("examples", [], ["env", "HYPOTHESIS_PROFILE=random", *RANDOM], 0, 30),
    Ring("readers", ["env", "TIDELOG_STRESS_S=20", *STRESS], ["env", "TIDELOG_STRESS_S=600", *STRESS], 2, 12),
    Ring("fuzz", ["make", "fuzz", "FUZZ_SECONDS=50", "FUZZ_SEED=1"], ["make", "fuzz", "FUZZ_SECONDS=1800"], 10, 40),
    Ring("sanitizers", ["make", "sanitize-check"], ["make", "sanitize", "FUZZ_SECONDS=600"], 6, 30),
    Ring("prometheus", ["make", "prometheus"], ["make", "prometheus"], 4, 4),
    Ring("browser", ["make", "browser"], ["make", "browser"], 5, 5),
    Ring(
        "adversary",
        [*PYTEST, "-s", "--timeout", "400", "tests/adversary"],
        ["make", "adversary"],
        5,
        15,
    ),
    Ring("site", ["make", "site-check"], ["make", "site-check"], 3, 3),
    Ring("addresses", ADDRESSES, ADDRESSES, 3, 3),
    Ring("image", IMAGE, IMAGE, 8, 10),
]


def main(which: str) -> int:
    """Runs every ring; 0 when all passed within their limits."""
    results = []
    for ring in RINGS:
        command, limit = (ring.check, ring.check_minutes) if which == "check" else (ring.slow, ring.slow_minutes)
        if not command:
            continue
        print(f"=== {ring.name}: {' '.join(command)}", flush=True)
        start = time.monotonic()
        code = subprocess.run(command, check=False).returncode
        minutes = (time.monotonic() - start) / 60
        verdict = "ok" if code == 0 else f"FAILED ({code})"
        if minutes > limit:
            verdict += f", over its limit of {limit:g} minutes"
        results.append((ring.name, minutes, verdict))
    print("\nring            minutes  result")
    for name, minutes, verdict in results:
        print(f"{name:15} {minutes:7.1f}  {verdict}")
    return 0 if all(verdict == "ok" for _, _, verdict in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "check"))
