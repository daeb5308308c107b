"""One Spark session for the whole ring, as anybody makes one: a JVM takes seconds to start."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # PySpark 4.1, with which this ring passes too, leaves it to the garbage collector to close the sockets that rows come by.
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


#: Of one long test each: they begin, so that no process has them for itself in the end.
LONG = ("test_sink_kills.py", "test_connect.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONG)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sink-kills", type=int, default=5, help="kills of a writing query in test_sink_kills.py")
    parser.addoption("--sink-seed", default="1", metavar="N|random", help="seed of the moments of those kills")


#: Where `make spark` and `make spark-older` put Spark's official Kafka connector.
FETCHED = Path(__file__).resolve().parents[2] / ".cache" / "spark"


@pytest.fixture(scope="session")
def connector() -> str:
    """Jars for `spark.jars`, of the PySpark that is imported: another version's need not go with it."""
    import pyspark

    is_older = pyspark.__version__.startswith("4.1.")
    folder, target = ("connector-4.1", "spark-connector-older") if is_older else ("connector", "spark-connector")
    jars = sorted((FETCHED / folder).glob("*.jar"))
    assert len(jars) == 4, f"{FETCHED / folder}: run `make {target}`"
    return ",".join(map(str, jars))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, connector: str) -> Iterator[Any]:
    from pyspark.sql import SparkSession
    from tidelog.pipeline import register
    from tidelog.pipeline.session import jar

    tests = str(Path(__file__).resolve().parents[1])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", f"{connector},{jar()}")
        .config("spark.ui.enabled", "false")
        # Queries over few rows: the second compiler would take longer than it saves.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(tmp_path_factory.mktemp("spark")))
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    yield session
    session.stop()
