"""`df.write.format("tidelog")` and `writeStream`: what they take, where rows go, and what readers of committed data see."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.committed import committed
from tidelog.pipeline.exceptions import OptionError, PipelineError
from tidelog.pipeline.sink.arrow_rows import RowError, check_columns
from tidelog.pipeline.sink.commit_protocol import Token
from tidelog.pipeline.sink.committer import KafkaCluster
from tidelog.pipeline.sink.options import SinkOptions, parse_sink_options
from tidelog.pipeline.sink.task import (
    ClosedBatchError,
    Place,
    TransactionTimeError,
    abort_batch,
    commit_batch,
    now_ms,
    write_rows,
)
from tidelog.pipeline.wire.client import KafkaClient
from tidelog.testing import Broker

WHEN = datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=UTC)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as one:
        yield one


def options(broker: Broker, topic: str | None, *, streaming: bool = True, **more: str) -> SinkOptions:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, **more}
    return parse_sink_options({**given, "topic": topic} if topic else given, streaming=streaming)


def seen(broker: Broker, topic: str) -> list[Any]:
    found = committed(broker.bootstrap_servers, topic)
    return [(one.key, one.value, one.timestamp, tuple(one.headers)) for one in found]


# --- tasks and driver, without Spark ---


def rows(*values: str | None) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, pa.string())})


def write(
    one: SinkOptions, run: str, batch: int, *tasks: pa.RecordBatch, attempt: int = 0, query: str = "q"
) -> list[Any]:
    return [write_rows(one, [data], Place(query, run, batch, task, attempt)) for task, data in enumerate(tasks)]


def test_columns_of_every_kind(broker: Broker) -> None:
    broker.create_topic("kinds", 2)
    headers = pa.array(
        [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None, []],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    batch = pa.record_batch(
        {
            "offset": pa.array([1, 2, 3]),  # of another topic: left alone
            "key": pa.array(["k", None, ""], pa.large_string()),
            "value": pa.array([b"v", None, b""]),
            "headers": headers,
            "partition": pa.array([1, None, 0], pa.int32()),
            "timestamp": pa.array([WHEN, WHEN, WHEN], pa.timestamp("ns", tz="Europe/Berlin")),
        }
    )
    write_rows(options(broker, "kinds"), [batch.slice(1), batch.slice(0, 1), batch.slice(0, 0)], None)
    ms = int(WHEN.timestamp() * 1000)
    assert sorted(seen(broker, "kinds"), key=str) == sorted(
        [(b"k", b"v", ms, (("a", b"1"), ("a", None))), (None, None, ms, ()), (b"", b"", ms, ())], key=str
    )


def test_each_row_can_name_its_topic(broker: Broker) -> None:
    broker.create_topic("left", 1)
    broker.create_topic("right", 1)
    batch = pa.record_batch({"topic": ["left", "right", "left"], "value": ["1", "2", "3"]})
    one = options(broker, None)
    commit_batch(one, [write_rows(one, [batch], Place("topics", "r", 0, 0, 0))])
    assert [record.value for record in committed(broker.bootstrap_servers, "left")] == [b"1", b"3"]
    assert [record.value for record in committed(broker.bootstrap_servers, "right")] == [b"2"]
    with pytest.raises(RowError, match="a row has no topic"):
        write_rows(one, [pa.record_batch({"topic": pa.array([None], pa.string()), "value": ["1"]})], None)


def test_attempts_that_do_not_count_leave_nothing(broker: Broker) -> None:
    broker.create_topic("attempts", 1)
    one = options(broker, "attempts")
    for batch in range(2):
        write(one, "r", batch, rows("lost"), attempt=0)
        commit_batch(one, write(one, "r", batch, rows(f"{batch}"), attempt=1))
    failed = write(one, "r", 2, rows("failed"))
    abort_batch(one, [*failed, None])
    assert not [
        record for record in committed(broker.bootstrap_servers, "attempts") if record.value not in (b"0", b"1")
    ]


def test_an_attempt_that_is_still_going_when_its_batch_is_committed_writes_nothing_more(broker: Broker) -> None:
    """Its transaction is open before it has a row, so that the commit finds and fences it."""
    broker.create_topic("going", 1)
    one = options(broker, "going")
    commit_batch(one, write(one, "r", 0, rows("0"), query="going"))

    def slow() -> Iterator[pa.RecordBatch]:
        assert commit_batch(one, write(one, "r", 1, rows("1"), query="going"))
        yield rows("1")

    with pytest.raises(PipelineError):
        write_rows(one, slow(), Place("going", "r", 1, 0, 1))
    assert [record.value for record in committed(broker.bootstrap_servers, "going")] == [b"0", b"1"]


@pytest.mark.parametrize("way", ["committed", "committed and forgotten", "aborted", "aborted for good"])
def test_an_attempt_that_begins_when_its_batch_is_over_leaves_nothing_open(broker: Broker, way: str) -> None:
    """Readers would wait for it until its transaction's time is over: 15 minutes."""
    name = way.replace(" ", "-")
    broker.create_topic(name, 1)
    one = options(broker, name)
    written = write(one, "r", 3, rows("3"), query=name)
    if way.startswith("committed"):
        commit_batch(one, written, forget=way.endswith("forgotten"))
    else:
        abort_batch(one, written, is_over=way.endswith("good"))
    for batch in (3, 2):  # also of a batch before it
        with pytest.raises(
            ClosedBatchError, match=rf"batch {batch} of {name} was committed or given up before attempt 1"
        ):
            write(one, "r", batch, rows("late"), query=name, attempt=1)
    assert [record.value for record in committed(broker.bootstrap_servers, name)] == [b"3"] * way.startswith(
        "committed"
    )
    if way in ("committed", "aborted"):  # the query's next run is another one, and its batches count
        assert commit_batch(one, write(one, "s", 4, rows("4"), query=name))
        assert committed(broker.bootstrap_servers, name)[-1].value == b"4"


def test_a_task_that_could_not_tell_leaves_no_transaction_behind(broker: Broker) -> None:
    """Spark kills the other tasks of a stage that has failed: what they have open holds readers back until it runs out."""
    broker.create_topic("killed", 1)
    one = options(broker, "killed")
    commit_batch(one, write(one, "r", 0, rows("0"), rows("0"), query="killed"))
    told, _killed = write(one, "r", 1, rows("told"), rows("killed"), query="killed")
    abort_batch(one, [told, None])
    assert [record.value for record in committed(broker.bootstrap_servers, "killed")] == [b"0", b"0"]
    place = write(one, "r", 2, rows("none of them told"), query="killed")[0].place
    abort_batch(one, [None], place)
    assert [record.value for record in committed(broker.bootstrap_servers, "killed")] == [b"0", b"0"]


def test_another_run_of_the_query_is_left_alone_by_an_abort(broker: Broker) -> None:
    broker.create_topic("runs", 1)
    one = options(broker, "runs")
    newer = write(one, "newer", 1, rows("newer"), query="runs")
    abort_batch(one, write(one, "older", 1, rows("older"), query="runs"))
    assert commit_batch(one, newer)
    assert [record.value for record in committed(broker.bootstrap_servers, "runs")] == [b"newer"]


def test_a_batch_that_is_decided_is_not_aborted(broker: Broker) -> None:
    """Spark aborts what could not be committed; once the token is written, the parts that are open belong to it."""
    broker.create_topic("decided", 1)
    one = options(broker, "decided")
    written = write(one, "r", 0, rows("a"), rows("b"), query="decided")
    parts = tuple(task.part for task in written)
    with KafkaClient(one.client) as client:
        cluster = KafkaCluster(client, one.commit_topic, one.prefix, "decided", "r")
        cluster.fence()
        cluster.write(Token(0, "r", parts))
        cluster.end(parts[0], commit=True)
    abort_batch(one, written)
    assert sorted(record.value for record in committed(broker.bootstrap_servers, "decided")) == [b"a", b"b"]


def test_a_batch_that_took_too_long_is_not_begun_to_be_committed(broker: Broker) -> None:
    broker.create_topic("late", 1)
    one = options(broker, "late", **{"kafka.transaction.timeout.ms": "60000"})
    written = write(one, "r", 0, rows("a"), query="late")
    with pytest.raises(TransactionTimeError, match=r"the batch took 46 s, and its transactions live for 60 s"):
        commit_batch(one, written, clock_ms=lambda: now_ms() + 46_000)
    assert committed(broker.bootstrap_servers, "late") == []


@pytest.mark.parametrize(
    ("columns", "topic", "message"),
    [
        ({"key": "string"}, "t", "there is no column value; the columns are key"),
        ({"value": "string"}, None, "set the option topic, or give a column topic"),
        ({"value": "int"}, "t", "the column value is int; it can be binary or string"),
        ({"value": "string", "partition": "bigint"}, "t", "the column partition is bigint; it can be int"),
    ],
)
def test_columns_that_make_no_records_are_told(columns: dict[str, str], topic: str | None, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        check_columns(columns, topic)


# --- in a session ---


def test_a_batch_write_is_whole_or_not_there(spark: Any, broker: Broker) -> None:
    broker.create_topic("batch", 3)
    frame = spark.range(0, 1000, numPartitions=4).selectExpr(
        "cast(id as string) key", "cast(cast(id as string) as binary) value"
    )
    to = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "batch"}
    frame.write.format("tidelog").options(**to, **{"kafka.compression.type": "lz4"}).mode("append").save()
    once = {**to, "delivery": "exactly-once", "txnAppId": "nightly", "txnVersion": "1"}
    for _ in range(2):
        frame.write.format("tidelog").options(**once).mode("append").save()
    assert len(committed(broker.bootstrap_servers, "batch")) == 2000
    broken = frame.selectExpr("key", "value", "if(key = '999', 17, null) partition")
    with pytest.raises(Exception, match="names partition 17; the topic has 0 to 2"):
        broken.write.format("tidelog").options(**to, delivery="exactly-once").mode("append").save()
    assert len(committed(broker.bootstrap_servers, "batch")) == 2000
    with pytest.raises(Exception, match="a topic can't be overwritten"):
        frame.write.format("tidelog").options(**to).mode("overwrite").save()


def test_a_stream_goes_on_where_it_was(spark: Any, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("stream", 2)
    (tmp_path / "in").mkdir()
    expected: set[bytes] = set()
    for turn in range(2):
        lines = [f"{turn}-{i}" for i in range(100)]
        (tmp_path / "in" / f"{turn}.txt").write_text("\n".join(lines))
        expected |= {line.encode() for line in lines}
        query = (
            spark.readStream.text(str(tmp_path / "in"))
            .writeStream.format("tidelog")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("topic", "stream")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    values = [record.value for record in committed(broker.bootstrap_servers, "stream")]
    assert sorted(values) == sorted(expected)
