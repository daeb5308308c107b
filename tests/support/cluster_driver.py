"""A driver of a standalone cluster: what users do with topics, where executors have nothing but an archive.

    python cluster_driver.py JSON      {"master", "archive", "bootstrap", "home", "bucket", "store", "settings"}

Prints one JSON object.

Runs in a folder that has the archive unpacked as `environment`: Spark plans in a Python of the driver's machine, by the same
relative path as the executors'.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

RECORDS, KEYS, PARTITIONS = 240, 7, 4


def main() -> None:
    from tidelog.pipeline import session

    job = json.loads(sys.argv[1])
    spark = session(
        "cluster", master=job["master"], directory=job["home"],
        settings={
            "spark.archives": f"{job['archive']}#environment", "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "768m", "spark.executor.memory": "512m", "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2", **job["settings"],
        },
    )  # fmt: skip
    try:
        print(json.dumps({step.__name__: step(spark, job) for step in (where, everyday, killed, twice)}))
    finally:
        spark.stop()


def where(spark: Any, job: dict[str, Any]) -> list[str]:
    """Files of tidelog and pyarrow in tasks."""

    def look(_batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from tidelog import pipeline

        yield pa.record_batch({"file": [pipeline.__file__, pa.__file__]})

    found = spark.range(0, PARTITIONS, 1, PARTITIONS).mapInArrow(look, "file string").collect()
    return sorted({row.file for row in found})


def rows(spark: Any) -> Any:
    made = spark.range(0, RECORDS, 1, PARTITIONS)
    return made.selectExpr(f"cast(id % {KEYS} as string) key", "cast(id as string) value")


def everyday(spark: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Batch, stream, sink and jobs; what each of them saw."""
    from tidelog.backup.store import StoreOptions
    from tidelog.pipeline import latest
    from tidelog.pipeline.jobs.archive import archive, read_archive
    from tidelog.pipeline.jobs.profile import profile
    from tidelog.pipeline.jobs.replay import replay

    servers, home = {"kafka.bootstrap.servers": job["bootstrap"]}, Path(job["home"])
    rows(spark).write.format("tidelog").options(**servers, topic="orders", delivery="exactly-once").mode(
        "append"
    ).save()
    orders = {**servers, "subscribe": "orders", "isolation": "read_committed"}
    read = spark.read.format("tidelog").options(**orders).load()
    stream = spark.readStream.format("tidelog").options(**orders, startingOffsets="earliest").load()
    query = (
        stream.selectExpr("key", "value").writeStream.format("tidelog")
        .options(**servers, topic="copies", checkpointLocation=str(home / "copies"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    done = archive(spark, orders, str(home / "archive"))
    store = StoreOptions(**job["store"])
    stored = archive(spark, orders, job["bucket"], store=store)
    return {
        "read": sorted(int(row.value) for row in read.select("value").collect()),
        "latest": latest(spark, orders).count(),
        "archived": [done["rows"], read_archive(spark, str(home / "archive"), orders).count()],
        "stored": [stored["rows"], read_archive(spark, job["bucket"], orders, store=store).count()],
        "replayed": replay(spark, str(home / "archive"), {**servers, "topic": "again"})["rows"],
        "profiled": profile(spark, orders)["records"],
    }


def killed(spark: Any, job: dict[str, Any]) -> bool:
    """Kills the executor of task 0 with -9 while its transaction is open; whether it came to that."""
    stamp = str(Path(job["home"]) / "killed")
    _write(spark, job, "killed", "die", stamp)
    return os.path.exists(stamp)


def twice(spark: Any, job: dict[str, Any]) -> bool:
    """Lets task 0 hang with its transaction open, so that Spark runs it a second time beside; whether it came to that."""
    stamp = str(Path(job["home"]) / "twice")
    _write(spark, job, "twice", "hang", stamp)
    return os.path.exists(stamp)


def _write(spark: Any, job: dict[str, Any], topic: str, misfortune: str, stamp: str) -> None:
    from tidelog.pipeline.sink.options import parse_sink_options
    from tidelog.pipeline.sink.writers import BatchWriter, Message
    from tidelog.pipeline.source import TidelogDataSource

    def unlucky(batches: Iterator[Any]) -> Iterator[Any]:
        # Asked for its first batch only when the transaction is open.
        yield next(batches)
        if os.path.exists(stamp):
            yield from batches
            return
        with open(stamp, "x"):
            pass
        if misfortune == "die":
            os.kill(_executor(), signal.SIGKILL)
        while True:  # until Spark ends this attempt, or the executor's end does
            time.sleep(0.1)

    class UnluckyWriter(BatchWriter):
        def write(self, iterator: Iterator[Any]) -> Message:
            from pyspark.taskcontext import TaskContext

            task = TaskContext.get()
            assert task is not None
            return super().write(unlucky(iterator) if task.partitionId() == 0 else iterator)

    class UnluckySource(TidelogDataSource):
        @classmethod
        def name(cls) -> str:
            return f"unlucky_{misfortune}"

        def writer(self, schema: Any, overwrite: bool) -> BatchWriter:
            return UnluckyWriter(parse_sink_options(self._given, streaming=False), schema, overwrite)

    spark.dataSource.register(UnluckySource)
    options = {"kafka.bootstrap.servers": job["bootstrap"], "topic": topic, "delivery": "exactly-once"}
    rows(spark).write.format(UnluckySource.name()).options(**options).mode("append").save()


def _executor() -> int:
    """Process id of the executor that this Python worker is of: Java, two above it."""
    pid = os.getpid()
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


if __name__ == "__main__":
    main()
