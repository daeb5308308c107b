"""Spark over tidelog: its official Kafka connector, our sources over files, in Python and in the JVM, and over TCP. Writes
docs/benchmarks/pipeline.md.

    make bench-pipeline                          # 10 M records of 100 bytes and 1.4 M of 1 KB; 5 GB of disk
    make bench-pipeline BENCH=--quick            # a tenth of that, and the page is left as it is
    .venv/bin/python benchmarks/bench_pipeline.py --small 2000000 --large 0 --runs 3 --only read

One daemon, one Spark session of two threads, all of it on this machine and in the page cache. Each side reads everything
once to be warm; then rounds, whose order of sides turns round each time. A read takes all columns of all records to Spark's
`noop` sink; checksums are checked on every side. CPU is that of this process and all below it: Spark's (driver, JVM,
Python workers) and the daemon's, which the connector and TCP need and files do not, and which stands beside it once more.
"JVM files" is `format("tidelog-files")`, whose rows Spark reads in its own processes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from brokers import Tidelog
from process_tree import cpu_seconds
from report import machine
from tidelog.pipeline.wire.client import KafkaClient
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks" / "pipeline.md"
CONNECTOR = HERE.parent / ".cache" / "spark" / "connector"
PARTITIONS = 4
KEYS = 1_000_003
SIDES = ("connector", "files", "TCP", "JVM files")


class Sample(NamedTuple):
    """One query's."""

    seconds: float
    cpu_s: float
    broker_cpu_s: float


class Case(NamedTuple):
    """What is measured: the same question to each side."""

    name: str
    records: int
    questions: dict[str, Callable[[], None]]


class Goal(NamedTuple):
    """At least so many times better than the connector."""

    side: str
    what: str
    must: float
    aim: float


GOALS = {
    "read, 100 bytes": [
        Goal("files", "records/s", 2.5, 3.0), Goal("files", "CPU", 2.2, 2.5), Goal("TCP", "records/s", 1.9, 1.9),
        Goal("JVM files", "records/s", 4.0, 4.0), Goal("JVM files", "CPU", 3.0, 3.0),
    ],
    "read, 1 KB": [
        Goal("files", "records/s", 1.3, 1.5), Goal("JVM files", "records/s", 2.5, 2.5), Goal("JVM files", "CPU", 1.5, 1.5),
    ],
    "latest per key": [Goal("files", "records/s", 5.0, 5.0)],
    "count": [Goal("files", "records/s", 6.0, 6.0), Goal("JVM files", "records/s", 10.0, 10.0)],
    "the newest 1 %": [Goal("files", "records/s", 20.0, 20.0), Goal("JVM files", "records/s", 20.0, 20.0)],
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records; writes nothing")
    parser.add_argument("--small", type=int, help="records of 100 bytes (10 million)")
    parser.add_argument("--large", type=int, help="records of 1 KB (1.4 million)")
    parser.add_argument("--runs", type=int, default=3, help="rounds; 3 is the least that says something")
    parser.add_argument("--only", choices=["read", "latest", "narrow", "stream"], help="leave out the other questions")
    parser.add_argument("--write", action="store_true", help="write the page though sizes are not the full ones")
    parser.add_argument("--directory", type=Path, help="where the daemon's data and Spark's files go")
    given = parser.parse_args()
    scale = 10 if given.quick else 1
    small = 10_000_000 // scale if given.small is None else given.small
    large = 1_400_000 // scale if given.large is None else given.large
    home = Path(tempfile.mkdtemp(prefix="bench-pipeline-", dir=given.directory))
    try:
        with_broker(home, small, large, given)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return 0


def with_broker(home: Path, small: int, large: int, given: argparse.Namespace) -> None:
    broker = Tidelog(home / "tidelog", {"log.segment.bytes": 256 << 20})
    broker.start()
    try:
        spark = make_session(home)
        try:
            samples = measure(spark, broker, small, large, given)
        finally:
            spark.stop()
    finally:
        broker.stop()
    page = render(samples, f"{machine(home)}. {others()}", small, large, given.runs)
    print(page)
    if given.write or (not given.quick and given.small is None and given.large is None):
        PAGE.write_text(page)
        print(f"written: {PAGE}", file=sys.stderr)


def make_session(home: Path) -> Any:
    from tidelog.pipeline import session
    from tidelog.pipeline.session import jar

    jars = sorted(CONNECTOR.glob("*.jar"))
    if len(jars) != 4:
        raise SystemExit(f"{CONNECTOR} has no connector: run `make spark-connector`")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    jar()  # a sentence if there is none: session() has it
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": "4",
    }
    return session("bench-pipeline", master="local[2]", directory=str(home / "spark"), settings=settings)


def measure(spark: Any, broker: Tidelog, small: int, large: int, given: argparse.Namespace) -> dict[str, Any]:
    cases = []
    for name, topic, count, size in (("100 bytes", "small", small, 100), ("1 KB", "large", large, 1024)):
        if count:
            produce(spark, broker, topic, count, size)
            if given.only in (None, "read"):
                cases.append(Case(f"read, {name}", count, reads(spark, broker, topic)))
    if small and given.only in (None, "latest"):
        cases.append(Case("latest per key", small, latest(spark, broker, "small")))
    time.sleep(6)  # the checkpoint, which bounds what files alone are read for
    if small and given.only in (None, "narrow"):
        cases.append(Case("count", small, counts(spark, broker, "small", small)))
        cases.append(Case("key and offset", small, keys_and_offsets(spark, broker, "small")))
        cases.append(Case("the newest 1 %", small, newest(spark, broker, "small")))
    if small and given.only in (None, "stream"):
        cases.append(Case("stream, availableNow", small, streams(spark, broker, "small")))
    return {case.name: (case, rounds(case, broker, given.runs)) for case in cases}


def produce(spark: Any, broker: Tidelog, topic: str, count: int, size: int) -> None:
    """Values of `size` bytes; keys in random order, each about `count` ÷ KEYS times."""
    value = f"cast(rpad(concat(cast(id as string), '-', cast(xxhash64(id) as string)), {size}, 'x') as binary)"
    keys = min(KEYS, max(1, count // 10))
    rows = spark.range(0, count, 1, 2).selectExpr(f"cast(pmod(xxhash64(id), {keys}) as string) key", f"{value} value")
    say(f"{count:,} records of {size} bytes to {topic} ...")
    servers = f"127.0.0.1:{broker.port}"
    with KafkaClient(ClientSettings.parse(servers)) as client:
        wanted = CreatableTopic(name=topic, num_partitions=PARTITIONS, replication_factor=1)
        client.request(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), CreateTopicsResponse, up_to=5)
    options = {"bootstrap.servers": servers, "topic": topic}
    rows.write.format("tidelog").options(**options).mode("append").save()


def source(reader: Any, broker: Tidelog, topic: str, side: str, schema: str = "", **more: str) -> Any:
    """`reader`: `spark.read` or `spark.readStream`. `schema`: columns for our source in Python, which Spark does not tell."""
    servers = f"127.0.0.1:{broker.port}"
    if side == "connector":
        reader = reader.format("kafka").option("kafka.bootstrap.servers", servers)
    elif side == "JVM files":
        reader = reader.format("tidelog-files").option("path", str(broker.data))
    else:
        reader = reader.format("tidelog").option("bootstrap.servers", servers)
        if side == "files":
            reader = reader.option("path", str(broker.data))
        if schema:
            reader = reader.schema(schema)
    return reader.options(subscribe=topic, **more).load()


def to_nowhere(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def reads(spark: Any, broker: Tidelog, topic: str) -> dict[str, Callable[[], None]]:
    return {side: lambda side=side: to_nowhere(source(spark.read, broker, topic, side)) for side in SIDES}  # type: ignore[misc]


def keys_and_offsets(spark: Any, broker: Tidelog, topic: str) -> dict[str, Callable[[], None]]:
    def narrow(side: str) -> None:
        to_nowhere(source(spark.read, broker, topic, side, "key binary, offset long").select("key", "offset"))

    return {side: lambda side=side: narrow(side) for side in SIDES}  # type: ignore[misc]


def streams(spark: Any, broker: Tidelog, topic: str) -> dict[str, Callable[[], None]]:
    """All columns of all records, in one batch of a stream that ends."""

    def stream(side: str) -> None:
        with tempfile.TemporaryDirectory() as checkpoint:
            frame = source(spark.readStream, broker, topic, side, startingOffsets="earliest")
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()

    return {side: lambda side=side: stream(side) for side in SIDES}  # type: ignore[misc]


def counts(spark: Any, broker: Tidelog, topic: str, records: int) -> dict[str, Callable[[], None]]:
    def count(side: str) -> None:
        found = source(spark.read, broker, topic, side, "offset long").count()
        if found != records:
            raise SystemExit(f"{side} counted {found}, and not {records}")

    return {side: lambda side=side: count(side) for side in SIDES}  # type: ignore[misc]


def newest(spark: Any, broker: Tidelog, topic: str) -> dict[str, Callable[[], None]]:
    """All columns of the records of the last hundredth of the time in which they were produced."""
    times = source(spark.read, broker, topic, "files", "timestamp timestamp").selectExpr(
        "unix_millis(min(timestamp)) as low", "unix_millis(max(timestamp)) as high"
    )
    low, high = times.collect()[0]
    where = f"timestamp >= timestamp_millis({high - (high - low) // 100})"
    return {side: lambda side=side: to_nowhere(source(spark.read, broker, topic, side).where(where)) for side in SIDES}  # type: ignore[misc]


def latest(spark: Any, broker: Tidelog, topic: str) -> dict[str, Callable[[], None]]:
    def window() -> None:
        source(spark.read, broker, topic, "connector").createOrReplaceTempView("records")
        to_nowhere(
            spark.sql(
                "select key, value, topic, partition, offset, timestamp, timestampType from (select *, row_number() over "
                "(partition by key order by offset desc) as newest from records) where newest = 1 and value is not null"
            )
        )

    def view(side: str) -> None:
        to_nowhere(source(spark.read, broker, topic, side, view="latest"))

    return {"connector": window, "files": lambda: view("files"), "TCP": lambda: view("TCP")}


def rounds(case: Case, broker: Tidelog, runs: int) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {side: [] for side in case.questions}
    for question in case.questions.values():
        question()
    order = list(case.questions)
    for number in range(runs):
        for side in order if number % 2 == 0 else order[::-1]:
            before, broker_before, began = cpu_seconds(os.getpid()), broker.cpu_seconds(), time.monotonic()
            case.questions[side]()
            seconds = time.monotonic() - began
            sample = Sample(seconds, cpu_seconds(os.getpid()) - before, broker.cpu_seconds() - broker_before)
            found[side].append(sample)
            say(f"{case.name}, {side}: {sample.seconds:.1f} s, {sample.cpu_s:.1f} CPU-s")
    return found


def others() -> str:
    """How busy the machine was beside: processes that wanted to run in the last 15 minutes, ours among them."""
    return f"Load average of the last 15 minutes, this among it: {os.getloadavg()[2]:.1f}; above 4, others disturbed."


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def render(samples: dict[str, Any], where: str, small: int, large: int, runs: int) -> str:
    lines = [
        "# Spark over tidelog", "",
        "<!-- Written by `make bench-pipeline`. Don't edit. -->", "",
        f"{small:,} records of 100 bytes and {large:,} of 1 KB in {PARTITIONS} partitions, Spark `local[2]`, {runs} rounds in "
        "turned order, all sides warm; medians, with the extremes. How: `benchmarks/bench_pipeline.py`.", "", where, "",
        "| what | side | seconds | records/s | CPU-s of both | the daemon's | records/s ÷ connector | CPU, connector ÷ |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    verdicts = []
    for name, (case, taken) in samples.items():
        medians = {
            side: Sample(*(statistics.median(column) for column in zip(*rows, strict=True)))
            for side, rows in taken.items()
        }
        base = medians["connector"]
        for side, one in medians.items():
            times = [row.seconds for row in taken[side]]
            lines.append(
                f"| {name} | {side} | {one.seconds:.1f} ({min(times):.1f}–{max(times):.1f}) | "
                f"{case.records / one.seconds / 1e6:.2f} M | {one.cpu_s:.1f} | {one.broker_cpu_s:.1f} | "
                f"{base.seconds / one.seconds:.2f} | {base.cpu_s / max(one.cpu_s, 0.01):.2f} |"
            )
        for goal in GOALS.get(name, []):
            one = medians[goal.side]
            ratio = base.seconds / one.seconds if goal.what == "records/s" else base.cpu_s / max(one.cpu_s, 0.01)
            word = "aim met" if ratio >= goal.aim else "holds" if ratio >= goal.must else "**falls short**"
            verdicts.append(
                f"- {name}, {goal.side}, {goal.what}: {ratio:.2f} × (must {goal.must}, aim {goal.aim}): {word}"
            )
    return "\n".join([*lines, "", "Against the goals:", "", *verdicts]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
