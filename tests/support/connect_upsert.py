"""`upsert` through a session of Spark Connect, into Iceberg: a program of its own, since a process has one kind of session.

python connect_upsert.py FOLDER JARS      prints one JSON object: the table after each step
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tidelog.pipeline import register
from tidelog.pipeline.jobs.upsert import upsert
from tidelog.testing import Broker

TABLE = "ice.db.orders"
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}


def main(folder: Path, jars: str) -> dict[str, Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.jars": jars,
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.cache-enabled": "false",
        "spark.sql.catalog.ice.warehouse": str(folder / "ice"),
    }
    builder = SparkSession.builder.remote("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        register(spark)
        spark.sql("create namespace if not exists ice.db")
        with Broker() as broker:
            return {"session": type(spark).__module__, **steps(spark, broker)}
    finally:
        spark.stop()


def steps(spark: Any, broker: Broker) -> dict[str, Any]:
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    broker.create_topic("orders", 2)

    def write(values: str) -> None:
        rows = spark.sql(
            f"select cast(key as string) key, cast(value as string) value from values {values} as t(key, value)"
        )
        rows.coalesce(1).write.format("tidelog").options(**servers, topic="orders").mode("append").save()

    def table() -> list[Any]:
        rows = spark.table(TABLE).selectExpr("cast(key as string) key", "cast(value as string) value").collect()
        return sorted([row.key, row.value] for row in rows)

    orders = {**servers, "subscribe": "orders"}
    write("""('a', '{"id": 1}'), ('b', '{"id": 2}')""")
    upsert(spark, orders, TABLE, form="iceberg")
    first = table()
    write("""('a', '{"id": 3}'), ('b', null)""")
    decoding = {"decode": "json", "decodeSchema": json.dumps(SCHEMA)}
    told = upsert(spark, {**orders, **decoding}, TABLE, form="iceberg")
    again = upsert(spark, {**orders, **decoding}, TABLE, form="iceberg")
    (row,) = spark.table(TABLE).select("record.id").collect()
    return {"first": first, "second": table(), "offsets": [told["offsets"], again["offsets"]], "id": row.id}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2])))
