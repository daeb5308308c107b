"""Commits of the sink, as Spark runs them: a batch of many tasks, exactly once. By hand; see docs/benchmarks/README.md.

    make spark-connector && .venv/bin/python benchmarks/bench_commit.py --tasks 200 --runs 5

A commit's time here is what a user waits for behind the last task: from its end, as Spark's own scheduler has noted it, to where
`save()` returns. In it are Spark's start of a Python process for the commit, the token in the commit topic, the end of each
task's transaction, and the token's removal. Beside it stands the same for delivery=at-least-once, which has nothing to commit:
what the two differ by is the commit itself. The daemon and Spark share this machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench_pipeline import make_session
from brokers import Tidelog
from tidelog.pipeline.wire.client import KafkaClient
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

TOPIC = "committed"
PARTITIONS = 4
DELIVERIES = ("exactly-once", "at-least-once")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--records", type=int, default=200_000, help="of 100 bytes, over all tasks")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="bench-commit-"))
    broker = Tidelog(home / "tidelog")
    broker.start()
    try:
        spark = make_session(home)
        try:
            found = measure(spark, broker, given)
        finally:
            spark.stop()
    finally:
        broker.stop()
        shutil.rmtree(home, ignore_errors=True)
    for delivery in DELIVERIES:
        times = found[delivery]
        print(
            f"{given.tasks} tasks, {delivery}: {statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f}) from the "
            f"last task's end to the end of save(), {given.runs} runs"
        )
    print(f"load average of the last minute, this among it: {os.getloadavg()[0]:.1f}")
    return 0


def measure(spark: Any, broker: Tidelog, given: argparse.Namespace) -> dict[str, list[float]]:
    servers = f"127.0.0.1:{broker.port}"
    with KafkaClient(ClientSettings.parse(servers)) as client:
        wanted = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        client.request(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), CreateTopicsResponse, up_to=5)
    value = "cast(rpad(cast(id as string), 100, 'x') as binary) value"
    rows = spark.range(0, given.records, 1, given.tasks).selectExpr("cast(id as string) key", value)
    found: dict[str, list[float]] = {delivery: [] for delivery in DELIVERIES}
    for number in range(given.runs + 1):  # the first is to be warm
        for delivery in DELIVERIES if number % 2 == 0 else DELIVERIES[::-1]:
            options = {"bootstrap.servers": servers, "topic": TOPIC, "delivery": delivery}
            rows.write.format("tidelog").options(**options).mode("append").save()
            seconds = time.time() - last_job_end_s(spark)
            if number:
                found[delivery].append(seconds)
                print(f"{delivery}: {seconds:.2f} s", file=sys.stderr, flush=True)
    return found


def last_job_end_s(spark: Any) -> float:
    """When the newest job's last task ended, in seconds since 1970: by Spark's own notes, which follow its events in a moment."""
    store = spark.sparkContext._jsc.sc().statusStore()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    jobs = store.jobsList(None)
    return max(float(jobs.apply(number).completionTime().get().getTime()) for number in range(jobs.size())) / 1000


if __name__ == "__main__":
    sys.exit(main())
