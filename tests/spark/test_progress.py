"""How far a stream is: the connector's metrics, a group that follows, and offsets that go to the connector and come back."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from tidelog.cli.main import main
from tidelog.pipeline import commit_progress
from tidelog.pipeline.exceptions import OptionError
from tidelog.pipeline.progress.lag import kafka_offsets, lag_of
from tidelog.testing import Broker

#: PySpark 4.1 does not ask a source how far to go: there a trigger takes all there is, and nothing is behind.
HAS_LATEST = find_spec("pyspark.sql.streaming.datasource") is not None
SOURCES = ("kafka", "tidelog")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as one:
        yield one


def produce(broker: Broker, topic: str, first: int, count: int) -> None:
    """Numbers, by turns into two partitions."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for number in range(first, first + count):
        producer.send(topic, b"%d" % number, partition=number % 2)
    producer.flush()
    producer.close()


def run(spark: Any, form: str, options: dict[str, str], home: Path, name: str | None = None) -> Any:
    """One `availableNow` run into files; the query."""
    stream = spark.readStream.format(form).options(**options, startingOffsets="earliest").load()
    writer = stream.selectExpr("cast(value as string) value").writeStream.format("parquet")
    if name is not None:
        writer = writer.queryName(name)
    query = (
        writer.option("checkpointLocation", str(home / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(home / "rows"))
    )
    query.awaitTermination(300)
    return query


def written(spark: Any, home: Path) -> list[int]:
    return sorted(int(row.value) for row in spark.read.parquet(str(home / "rows")).collect())


def test_the_lag_is_what_the_connector_reports(spark: Any, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("lag", 2)
    produce(broker, "lag", 0, 30)
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "lag"}
    limit = {"maxOffsetsPerTrigger": "10"} if HAS_LATEST else {}
    theirs = run(spark, "kafka", options | {"maxOffsetsPerTrigger": "10"}, tmp_path / "kafka").recentProgress
    assert len(theirs) >= 3
    for progress in theirs:
        said = dict(progress["sources"][0]["metrics"])
        lag = lag_of(progress)
        assert lag is not None
        assert {name: float(said[name]) for name in lag.metrics()} == {
            name: float(value) for name, value in lag.metrics().items()
        }
    ours = [lag_of(one) for one in run(spark, "tidelog", options | limit, tmp_path / "tidelog").recentProgress]
    if HAS_LATEST:
        assert [lag.total for lag in ours if lag is not None] == [lag_of(one).total for one in theirs]  # type: ignore[union-attr]
        assert ours[-1].metrics()["maxOffsetsBehindLatest"] == "0"  # type: ignore[union-attr]
    else:
        assert [lag.total for lag in ours if lag is not None] == [0]


def test_a_consumer_group_follows_a_query(
    spark: Any, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.create_topic("followed", 2)
    produce(broker, "followed", 0, 30)
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "followed"}
    listener = commit_progress(spark, {"kafka.bootstrap.servers": broker.bootstrap_servers}, "etl-{query}")
    try:
        run(spark, "tidelog", options, tmp_path, name="orders")
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60_000)
        assert listener.flush()
        produce(broker, "followed", 30, 3)
        assert main(["groups", "describe", "etl-orders", "--bootstrap-server", broker.bootstrap_servers]) == 0
    finally:
        spark.streams.removeListener(listener)
        assert listener.close()
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if " followed " in f" {line} "]
    assert [[word for word in line if word.isdecimal()] for line in lines] == [
        ["0", "15", "17", "2"],
        ["1", "15", "16", "1"],
    ]
    for wrong, message in (({}, r"needs kafka\.bootstrap\.servers"), (options, "unknown option kafka.subscribe")):
        with pytest.raises(OptionError, match=message):
            commit_progress(spark, wrong, "etl")


@pytest.mark.parametrize("first", SOURCES)
def test_offsets_go_to_the_other_source(spark: Any, broker: Broker, tmp_path: Path, first: str) -> None:
    """By `startingOffsets`, and from the connector's checkpoint by changing the format alone."""
    name = f"moved-from-{first}"
    broker.create_topic(name, 2)
    produce(broker, name, 0, 20)
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": name}
    end = run(spark, first, options, tmp_path).recentProgress[-1]["sources"][0]["endOffset"]
    produce(broker, name, 20, 7)
    for second in SOURCES:
        said = kafka_offsets(end) if second == "kafka" else end
        rest = spark.read.format(second).options(**options, startingOffsets=said).load()
        assert sorted(int(row.value) for row in rest.select("value").collect()) == list(range(20, 27))
    run(spark, "tidelog", options, tmp_path)
    assert written(spark, tmp_path) == list(range(27))
