"""`spark.readStream.format("tidelog")` over files and over TCP: every record once, over limits and restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewPartitions, NewTopic
from support.daemon import Daemon
from support.patience import PATIENCE_S

pytestmark = pytest.mark.timeout(1800)
#: PySpark 4.1 does not ask a source how far to go.
HAS_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("daemon") / "data", {"log.segment.bytes": 100_000}) as one:
        yield one


class Topic:
    """Where records are produced; `sent` has (partition, offset, value) of each."""

    def __init__(self, daemon: Daemon, name: str) -> None:
        self.daemon, self.name = daemon, name
        self.sent: list[tuple[int, int, bytes]] = []
        with KafkaAdminClient(bootstrap_servers=daemon.bootstrap) as admin:
            admin.create_topics([NewTopic(name, 2, 1)])

    def produce(self, count: int, partitions: int = 2) -> None:
        producer = KafkaProducer(bootstrap_servers=self.daemon.bootstrap)
        values = [b"%d" % (len(self.sent) + number) for number in range(count)]
        futures = [(v, producer.send(self.name, v, partition=i % partitions)) for i, v in enumerate(values)]
        producer.flush()
        self.sent += [
            (future.get(PATIENCE_S).partition, future.get(PATIENCE_S).offset, value) for value, future in futures
        ]
        producer.close()

    def run(self, spark: Any, home: Path, **options: str) -> list[int]:
        """One `availableNow` run, to parquet; the number of rows of each of its batches, without empty ones."""
        stream = spark.readStream.format("tidelog").option("subscribe", self.name)
        for name, value in options.items():
            stream = stream.option(name.replace("_", "."), value)
        writer = stream.load().select("partition", "offset", "value").writeStream.format("parquet")
        query = (
            writer.option("checkpointLocation", str(home / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(home / "rows"))
        )
        query.awaitTermination(300)
        return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]

    def rows(self, spark: Any, home: Path) -> list[tuple[int, int, bytes]]:
        return sorted((row[0], row[1], bytes(row[2])) for row in spark.read.parquet(str(home / "rows")).collect())


@pytest.mark.parametrize("by", ["tcp", "files"])
def test_every_record_comes_once_over_limits_restarts_and_new_partitions(
    spark: Any, daemon: Daemon, tmp_path: Path, by: str
) -> None:
    topic = Topic(daemon, f"by-{by}")
    topic.produce(100)
    way = {"bootstrap_servers": daemon.bootstrap, "startingOffsets": "earliest"}
    if by == "files":
        way["path"] = str(daemon.directory)
    if HAS_LIMITS:
        assert topic.run(spark, tmp_path, **way, maxOffsetsPerTrigger="60") == [60, 40]
    else:
        assert topic.run(spark, tmp_path, **way) == [100]
    topic.produce(30)
    with KafkaAdminClient(bootstrap_servers=daemon.bootstrap) as admin:
        admin.create_partitions({topic.name: NewPartitions(3)})
    topic.produce(30, partitions=3)
    assert sum(topic.run(spark, tmp_path, **way)) == 60
    assert topic.rows(spark, tmp_path) == sorted(topic.sent)
    (last,) = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))[-1:]
    offset = json.loads(last.read_text().splitlines()[-1])
    ends: dict[str, int] = {}
    for partition, number, _ in topic.sent:
        ends[str(partition)] = max(ends.get(str(partition), 0), number + 1)
    assert offset.pop("topic ids").keys() == {topic.name}
    assert offset == {topic.name: ends}
    assert topic.run(spark, tmp_path, **way) == []


def test_records_that_are_gone_stop_the_query_with_the_cause(spark: Any, daemon: Daemon, tmp_path: Path) -> None:
    from kafka import TopicPartition

    topic = Topic(daemon, "taken")
    topic.produce(40)
    way = {"kafka_bootstrap_servers": daemon.bootstrap, "startingOffsets": "earliest"}
    assert topic.run(spark, tmp_path, **way) == [40]
    topic.produce(40)
    with KafkaAdminClient(bootstrap_servers=daemon.bootstrap) as admin:
        admin.delete_records({TopicPartition("taken", 0): 33})
    with pytest.raises(
        Exception, match="taken-0: offset 20 was asked for, and the log starts at 33: DeleteRecords has taken"
    ):
        topic.run(spark, tmp_path, **way, path=str(daemon.directory))
    assert topic.run(spark, tmp_path, **way, failOnDataLoss="false") == [27]


@pytest.mark.parametrize("by", ["tcp", "files"])
def test_a_topic_that_was_made_anew_stops_the_query(spark: Any, daemon: Daemon, tmp_path: Path, by: str) -> None:
    """With more records than the old one, so that every offset is there."""
    topic = Topic(daemon, f"anew-{by}")
    topic.produce(20)
    way = {"bootstrap_servers": daemon.bootstrap, "startingOffsets": "earliest"}
    if by == "files":
        way["path"] = str(daemon.directory)
    assert sum(topic.run(spark, tmp_path, **way)) == 20
    with KafkaAdminClient(bootstrap_servers=daemon.bootstrap) as admin:
        admin.delete_topics([topic.name])
    topic = Topic(daemon, topic.name)
    topic.produce(50)
    with pytest.raises(Exception, match=f"{topic.name}: deleted and made anew"):
        topic.run(spark, tmp_path, **way)
    assert sum(topic.run(spark, tmp_path, **way, failOnDataLoss="false")) == 50
    assert sum(topic.run(spark, tmp_path, **way)) == 0


def test_before_spark_4_2_a_trigger_takes_what_there_is(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the module of limits is missing, and a reader's method has no arguments."""
    import importlib
    import inspect
    import sys

    from tidelog.pipeline import source
    from tidelog.pipeline.exceptions import OptionError
    from tidelog.pipeline.options import parse_options
    from tidelog.pipeline.source import SCHEMA

    schema = type(SCHEMA)(SCHEMA.fields[:-1])
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    try:
        old = importlib.reload(source)
        topic = Topic(daemon, "old")
        topic.produce(10)
        given = {"bootstrap.servers": daemon.bootstrap, "subscribe": "old", "startingOffsets": "earliest"}
        reader = old.stream_reader(parse_options(given), schema)
        assert not inspect.signature(reader.latestOffset).parameters
        start, end = reader.initialOffset(), reader.latestOffset()
        assert (start["old"], end["old"]) == ({"0": 0, "1": 0}, {"0": 5, "1": 5})
        found = [batch for split in reader.partitions(start, end) for batch in reader.read(split)]
        assert sum(batch.num_rows for batch in found) == 10
        reader.stop()
        with pytest.raises(OptionError, match=r"maxOffsetsPerTrigger needs PySpark 4\.2"):
            old.stream_reader(parse_options({**given, "maxOffsetsPerTrigger": "5"}), schema)
    finally:
        monkeypatch.undo()
        importlib.reload(source)
