"""`register` on sessions that are not ours: plain ones, several of one application, with push-down off, in other threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.committed import committed
from support.segment_dirs import write_checkpoint, write_log
from tidelog.pipeline import register
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.testing import Broker

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
EACH = 20


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A topic of two partitions, 20 records each."""
    place = tmp_path_factory.mktemp("log")
    for partition in range(2):
        records = [Record(offset, 1_700_000_000_000, b"k", b"v") for offset in range(EACH)]
        write_log(place / f"orders-{partition}", [[build_batch(records)]])
    write_checkpoint(place / "replication-offset-checkpoint", {("orders", 0): EACH, ("orders", 1): EACH})
    return place


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as one:
        yield one


def load(spark: Any, home: Path) -> Any:
    return spark.read.format("tidelog").option("path", str(home)).option("subscribe", "orders").load()


def check_reading(spark: Any, home: Path, *, pushed: bool) -> None:
    """Rows are right with and without a filter; and the filter leaves tasks out where it is pushed down."""
    assert load(spark, home).count() == 2 * EACH
    some = load(spark, home).where("partition = 1 and offset >= 5")
    assert sorted((row.partition, row.offset) for row in some.collect()) == [(1, number) for number in range(5, EACH)]
    assert some.rdd.getNumPartitions() == (1 if pushed else 2)


def in_a_thread(work: Callable[[], None]) -> None:
    """Runs it in a thread that the JVM has not seen, and raises what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # told to the test below
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def test_a_session_that_was_only_registered_reads_and_pushes_filters_down(spark: Any, home: Path) -> None:
    assert PUSH_DOWN not in dict(spark.sparkContext.getConf().getAll()), "the ring's session must be a plain one"
    check_reading(spark, home, pushed=True)


def test_each_session_of_an_application_reads_once_it_is_registered(spark: Any, home: Path) -> None:
    other = spark.newSession()
    register(other)
    try:
        check_reading(other, home, pushed=True)
        check_reading(spark, home, pushed=True)
    finally:
        register(spark)  # the thread's own again


def test_a_session_whose_push_down_is_off_reads_without_it(spark: Any, home: Path) -> None:
    spark.conf.set(PUSH_DOWN, "false")
    try:
        check_reading(spark, home, pushed=False)
    finally:
        spark.conf.set(PUSH_DOWN, "true")
    check_reading(spark, home, pushed=True)


def test_register_leaves_push_down_off_where_somebody_turned_it_off(spark: Any, home: Path) -> None:
    other = spark.newSession()
    other.conf.set(PUSH_DOWN, "false")
    register(other)
    try:
        assert other.conf.get(PUSH_DOWN) == "false"
        check_reading(other, home, pushed=False)
    finally:
        register(spark)


def test_a_thread_that_registers_its_session_writes_and_streams(
    spark: Any, home: Path, broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic("threads", 1)
    target = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "threads"}

    def work() -> None:
        register(spark)
        load(spark, home).selectExpr("value").write.format("tidelog").options(**target).mode("append").save()
        lines = spark.readStream.format("tidelog").option("path", str(home)).option("subscribe", "orders")
        query = (
            lines.option("startingOffsets", "earliest").load().selectExpr("value").writeStream.format("tidelog")
            .options(**target).option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start()
        )  # fmt: skip
        assert query.awaitTermination(60)

    in_a_thread(work)
    assert len(committed(broker.bootstrap_servers, "threads")) == 4 * EACH
