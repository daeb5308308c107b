"""Spark's own Kafka connector against the daemon: batch and stream, to and fro; and our source gives the rows that it gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient, NewTopic
from support.daemon import Daemon

pytestmark = pytest.mark.timeout(1800)
COUNT = 500


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("daemon") / "data", {"log.segment.bytes": 20_000}) as one:
        with KafkaAdminClient(bootstrap_servers=one.bootstrap) as admin:
            admin.create_topics([NewTopic(name, 3, 1) for name in ("batch", "stream")])
        yield one


def rows(frame: Any) -> list[Any]:
    return sorted(frame.collect(), key=lambda row: (row.partition, row.offset))


def test_what_the_connector_writes_both_read_alike(spark: Any, daemon: Daemon) -> None:
    to = {"kafka.bootstrap.servers": daemon.bootstrap, "topic": "batch"}
    spark.range(COUNT).selectExpr(
        "cast(id as string) key", "cast(repeat(cast(id as string), 5) as binary) value",
        "case when id % 3 = 0 then array(named_struct('key', 'h', 'value', cast('x' as binary))) end headers",
    ).write.format("kafka").options(**to, includeHeaders="true").save()  # fmt: skip
    options = {"kafka.bootstrap.servers": daemon.bootstrap, "subscribe": "batch", "includeHeaders": "true"}
    theirs = rows(spark.read.format("kafka").options(**options).load())
    assert len(theirs) == COUNT
    assert rows(spark.read.format("tidelog").options(**options).load()) == theirs
    assert rows(spark.read.format("tidelog").options(**options, path=str(daemon.directory)).load()) == theirs
    # The same options mean the same offsets.
    # At or before the 21st record of every partition: theirs refuses a start behind its end.
    middle = min(int(row.timestamp.timestamp() * 1000) for row in theirs if row.offset == 20)
    some = {**options, "startingTimestamp": str(middle), "endingOffsets": '{"batch":{"0":100,"1":-1,"2":120}}'}
    assert rows(spark.read.format("tidelog").options(**some).load()) == rows(
        spark.read.format("kafka").options(**some).load()
    )


def test_a_stream_of_the_connector_to_and_fro(spark: Any, daemon: Daemon, tmp_path: Path) -> None:
    servers = {"kafka.bootstrap.servers": daemon.bootstrap}
    spark.range(COUNT).selectExpr("cast(id as string) value").write.format("tidelog").options(
        **servers, topic="batch"
    ).mode("append").save()
    source = spark.readStream.format("kafka").options(**servers, subscribe="batch", startingOffsets="earliest").load()
    writer = source.select("key", "value").writeStream.format("kafka").options(**servers, topic="stream")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination(300)
    assert query.exception() is None
    read = spark.read.format("tidelog").options(**servers)
    everything = read.option("subscribe", "batch").load().select("value")
    copied = read.option("subscribe", "stream").load().select("value")
    assert copied.count() == everything.count() >= COUNT
    assert copied.exceptAll(everything).isEmpty()
