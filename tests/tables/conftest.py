"""A session with Delta and Iceberg, under the PySpark that both are made for: `make spark-tables` puts it on PYTHONPATH."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / ".cache" / "spark" / "tables"


def pytest_configure(config: pytest.Config) -> None:
    # PySpark 4.1 leaves it to the garbage collector to close the sockets that rows come by.
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import pyspark
    from tidelog.pipeline import session

    jars = sorted(JARS.glob("*.jar"))
    assert len(jars) == 3, f"{JARS}: run `make spark-tables`"
    assert pyspark.__version__.startswith("4.1."), (
        "Delta and Iceberg have no jars for a newer one: run `make spark-tables`"
    )
    home = tmp_path_factory.mktemp("tables")
    made = session(
        "tables", master="local[2]", directory=str(home),
        settings={
            "spark.jars": ",".join(map(str, jars)),
            "spark.sql.shuffle.partitions": "1",
            # What runs for seconds is not worth the second compiler's work.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.cache-enabled": "false",  # a stream's batches have a session of their own
            "spark.sql.catalog.ice.warehouse": str(home / "ice"),
        },
    )  # fmt: skip
    made.sql("create namespace if not exists ice.db")
    yield made
    made.stop()
