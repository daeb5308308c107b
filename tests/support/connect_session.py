"""What users do with topics, through a session of Spark Connect: a program of its own, since a process has one kind of session.

    python connect_session.py FOLDER      prints one JSON object: what each step gave

The session's server is a local one, which PySpark starts beside it and ends with it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from support.segment_dirs import write_checkpoint, write_log
from tidelog.pipeline import latest, register
from tidelog.pipeline.jobs.archive import archive, read_archive
from tidelog.pipeline.jobs.audit import audit
from tidelog.pipeline.jobs.latest import latest as write_latest
from tidelog.pipeline.jobs.profile import profile
from tidelog.pipeline.jobs.replay import replay
from tidelog.pipeline.session import jar
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.testing import Broker

RECORDS, KEYS = 60, 7


def main(folder: Path) -> dict[str, Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.jars": jar(),  # of the server, when it starts
    }
    builder = SparkSession.builder.remote("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        register(spark)
        with Broker() as broker:
            return {"session": type(spark).__module__, **steps(spark, broker, folder)}
    finally:
        spark.stop()


def steps(spark: Any, broker: Broker, folder: Path) -> dict[str, Any]:
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    for topic in ("orders", "copies", "again"):
        broker.create_topic(topic, 2)
    rows = spark.range(RECORDS).selectExpr(f"cast(id % {KEYS} as string) key", "cast(id as string) value")
    rows.write.format("tidelog").options(**servers, topic="orders", delivery="exactly-once").mode("append").save()
    orders = {**servers, "subscribe": "orders", "isolation": "read_committed"}
    everything = spark.read.format("tidelog").options(**orders).load()
    offsets = spark.read.format("tidelog").options(**orders, columns="offset").load()
    query = (
        spark.readStream.format("tidelog")
        .options(**orders, startingOffsets="earliest")
        .load()
        .selectExpr("key", "value")
        .writeStream.format("tidelog")
        .options(**servers, topic="copies", checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    copies = spark.read.format("tidelog").options(**{**orders, "subscribe": "copies"}).load()
    archived, table = str(folder / "archive"), str(folder / "latest")
    done = archive(spark, orders, archived)
    return {
        "read": sorted(int(row.value) for row in everything.select("value").collect()),
        "counted": offsets.count(),
        "filtered": everything.where("partition = 0").count() + everything.where("partition = 1").count(),
        "streamed": sorted(int(row.value) for row in copies.select("value").collect()),
        "latest": [latest(spark, orders).count(), latest(spark, {**orders, "keysStayInPartition": "false"}).count()],
        "archived": [done["rows"], read_archive(spark, archived, orders).count()],
        "replayed": replay(spark, archived, {**servers, "topic": "again"})["rows"],
        "profiled": profile(spark, orders)["records"],
        "written": write_latest(spark, orders, table)["keys"],
        "audited": audited(spark, folder),
        "files": files(spark, folder),
    }


def files(spark: Any, folder: Path) -> dict[str, Any]:
    """What the source in Java counts and reads, as a batch and as a stream."""
    home = folder / "files"
    records = [Record(0, 1_700_000_000_000, b"k", b"%d" % number) for number in range(9)]
    write_log(home / "t-0", [[build_batch(records, base_offset=0)]])
    write_checkpoint(home / "replication-offset-checkpoint", {("t", 0): len(records)})
    options = {"path": str(home), "subscribe": "t"}
    rows = spark.read.format("tidelog-files").options(**options).load()
    stream = spark.readStream.format("tidelog-files").options(**options, startingOffsets="earliest").load()
    query = (
        stream.selectExpr("cast(value as string) value").writeStream.format("parquet")
        .option("checkpointLocation", str(home / "checkpoint"))
        .trigger(availableNow=True).start(str(home / "rows"))
    )  # fmt: skip
    query.awaitTermination()
    return {
        "counted": rows.where("offset >= 3").count(),
        "read": [int(row.value) for row in rows.orderBy("offset").select("value").collect()],
        "streamed": spark.read.parquet(str(home / "rows")).count(),
    }


def audited(spark: Any, folder: Path) -> dict[str, Any]:
    """What an audit finds where compaction has taken the newest record of a key."""
    records = [Record(offset, 1_700_000_000_000, key, b"v") for offset, key in enumerate((b"a", b"b", b"a"))]
    for name, kept in (("before", records), ("after", [records[0], records[2]])):
        batches = [build_batch([one], base_offset=one.offset) for one in kept]
        write_log(folder / name / "t-0", [batches])
        write_checkpoint(folder / name / "replication-offset-checkpoint", {("t", 0): len(records)})
    report = audit(spark, str(folder / "before"), str(folder / "after"), "t")
    return {"lost": report["found"]["lost"], "examples": report["examples"], "before": report["records_before"]}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
