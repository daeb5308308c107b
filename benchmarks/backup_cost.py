"""What a backup costs beside producers, and how long a restore takes.

    .venv/bin/python benchmarks/backup_cost.py --rounds 10 --seconds 5 --rate 1000 --restore-bytes 10000000000 --store DIR

backup-produce-p99    two daemons at one time, one with a backup to another directory; a producer each is paced at `--rate`
                      records of 1 KiB a second (acks=1, one record a batch), in turns of `--seconds`.
                      The goal is p99 <= max(1 ms, 1.2 x without), both of the same run.
restore               so many bytes are written to a daemon with a backup, the machine is lost (kill -9, directory wiped), and
                      `tidelog restore` and a start are timed: from the wiped machine to the ready line. 200 MB/s is asked for, or
                      half of what a plain copy of the store with fsync comes to, which is timed beside it.

Exits with 1 if a goal is missed. On a machine with other work the figures say nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from confluent_kafka import Producer

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.daemon import Daemon

VALUE = os.urandom(1024)
GOAL_MS, GOAL_SHARE = 1.0, 1.2
GOAL_BYTES_PER_S = 200e6
MIB = 1 << 20
QUIET = {"log_level": 0}


def covered(daemon: Daemon) -> None:
    """Return when all that was acknowledged before is in the backup."""
    before = time.time()
    while True:
        with urllib.request.urlopen(f"http://{daemon.http}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        lag = [float(line.split()[1]) for line in lines if line.startswith("tidelog_backup_lag_seconds ")]
        if lag and time.time() - lag[0] > before + 0.05:
            return
        time.sleep(0.1)


def paced(daemon: Daemon, rate: int, seconds: float) -> list[float]:
    """Milliseconds from the call of each record to its acknowledgement."""
    producer = Producer(
        {"bootstrap.servers": daemon.bootstrap, "linger.ms": 0, "acks": 1, "batch.num.messages": 1, **QUIET}
    )
    taken: list[float] = []
    producer.produce("paced", VALUE)
    producer.flush()
    begun = time.perf_counter()
    for number in range(int(rate * seconds)):
        while (left := begun + number / rate - time.perf_counter()) > 0:
            producer.poll(left)
        at = time.perf_counter()
        producer.produce(
            "paced", VALUE, on_delivery=lambda _error, _message, at=at: taken.append(1000 * (time.perf_counter() - at))
        )
        producer.poll(0)
    producer.flush()
    return taken


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def produce_p99(options: argparse.Namespace, directory: Path, store: Path) -> bool:
    """Print the row; True if the goal is met."""
    with Daemon(directory / "without") as without, Daemon(directory / "with", {"backup.url": store.as_uri()}) as backed:
        found: dict[str, list[float]] = {"without": [], "with": []}
        for _ in range(options.rounds):
            for name, daemon in (("without", without), ("with", backed)):
                found[name] += paced(daemon, options.rate, options.seconds)
        covered(backed)
    p99 = {name: percentile(values, 0.99) for name, values in found.items()}
    goal = max(GOAL_MS, GOAL_SHARE * p99["without"])
    for name, values in found.items():
        print(
            f"backup-produce-p99  {name:8} p50 {percentile(values, 0.5):.2f} ms  p99 {p99[name]:.2f} ms  of {len(values):,}"
        )
    print(f"backup-produce-p99  goal {goal:.2f} ms: {'met' if p99['with'] <= goal else 'MISSED'}")
    return p99["with"] <= goal


def restore(options: argparse.Namespace, directory: Path, store: Path) -> bool:
    """Print the row; True if the goal is met."""
    daemon = Daemon(directory / "data", {"backup.url": store.as_uri()})
    daemon.start()
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "linger.ms": 50, "batch.size": MIB, "acks": 1, **QUIET})
    for _ in range(options.restore_bytes // (64 << 10)):
        producer.produce("large", VALUE * 64)
        while len(producer) > 500:
            producer.poll(0.1)
    producer.flush()
    covered(daemon)
    del producer
    daemon.kill()
    size = sum(path.stat().st_size for path in daemon.directory.rglob("*.log"))
    shutil.rmtree(daemon.directory)
    began = time.perf_counter()
    command = [sys.executable, "-m", "tidelog.broker", "restore", "--from", store.as_uri(), str(daemon.directory)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    restored = time.perf_counter() - began
    daemon.start()
    serving = time.perf_counter() - began
    daemon.stop()
    copied = copy_time(store, directory / "copy")
    rate, plain = size / restored, size / copied
    print(f"restore  {size:,} bytes in {restored:.1f} s, {rate / 1e6:,.0f} MB/s; serving after {serving:.1f} s")
    print(f"restore  a plain copy with fsync: {copied:.1f} s, {plain / 1e6:,.0f} MB/s")
    is_met = rate >= min(GOAL_BYTES_PER_S, 0.5 * plain)
    print(f"restore  goal 200 MB/s, or half of what a copy comes to: {'met' if is_met else 'MISSED'}")
    return is_met


def copy_time(source: Path, target: Path) -> float:
    """Seconds that a copy takes until it is on the disk."""
    began = time.perf_counter()
    shutil.copytree(source, target)
    os.sync()
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=int, default=1000, help="records a second")
    parser.add_argument("--restore-bytes", type=int, default=10_000_000_000, help="0: no restore")
    parser.add_argument("--store", metavar="DIR", help="where the backups go (default: beside the data)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="backup-cost-") as made:
        directory = Path(made)
        stores = Path(options.store) if options.store else directory
        for name in ("store-p99", "store-restore"):
            (stores / name).mkdir(parents=True, exist_ok=True)
        is_met = produce_p99(options, directory, stores / "store-p99") if options.rounds else True
        if options.restore_bytes:
            is_met = restore(options, directory, stores / "store-restore") and is_met
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
