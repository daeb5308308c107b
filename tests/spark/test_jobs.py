"""The jobs, in a session: archive and topic as one, replay in order, audits that fail when they must, a profile that adds up."""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka.admin import KafkaAdminClient
from support.committed import committed
from support.segment_dirs import write_checkpoint, write_log
from tidelog.pipeline.jobs import archive as archiving
from tidelog.pipeline.jobs import replay as replaying
from tidelog.pipeline.jobs.archive import UTC_DATE, archive, read_archive
from tidelog.pipeline.jobs.audit import KINDS, audit
from tidelog.pipeline.jobs.common import JobError
from tidelog.pipeline.jobs.latest import latest
from tidelog.pipeline.jobs.manifest import ArchiveError, read_archive_log
from tidelog.pipeline.jobs.profile import profile
from tidelog.pipeline.jobs.replay import replay
from tidelog.pipeline.jobs.upsert import upsert
from tidelog.pipeline.sink.options import parse_sink_options
from tidelog.pipeline.sink.task import write_rows
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.testing import Broker

START_US = 1_700_000_000_000_000
DAY_US = 86_400_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"log.retention.ms": "-1", "log.message.timestamp.before.max.ms": str(1 << 62)}) as one:
        yield one


def produce(broker: Broker, topic: str, first: int, count: int, *, keys: int = 17) -> None:
    """Every 11th a tombstone; the timestamps over three days."""
    numbers = range(first, first + count)
    batch = pa.record_batch(
        {
            "key": pa.array([b"key %d" % (n % keys) for n in numbers]),
            "value": pa.array([None if n % 11 == 0 else b"value %d" % n for n in numbers]),
            "timestamp": pa.array([START_US + n * 400_000_000 for n in numbers], pa.timestamp("us", tz="UTC")),
        }
    )
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic}
    write_rows(parse_sink_options(given, streaming=False), [batch], None)


def source(broker: Broker, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    found = frame.select("partition", "offset", "key", "value", "timestamp").collect()
    return sorted(tuple(row) for row in found)


def test_archive_and_topic_are_one_table(
    spark: Any, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("orders", 2)
    produce(broker, "orders", 0, 300)
    folder, live = str(tmp_path / "archive"), source(broker, "orders")
    first = archive(spark, live, folder)
    assert (first["rows"], first["version"]) == (300, 1)
    assert archive(spark, live, folder)["rows"] == 0
    archived = read_archive_log(folder)
    assert archived is not None
    days = {Path(path).parent.name for path in archived.paths}
    assert days == {"date=2023-11-14", "date=2023-11-15", "date=2023-11-16"}
    produce(broker, "orders", 300, 200)
    with monkeypatch.context() as dying:  # behind its files, before its manifest
        dying.setattr(archiving, "add_manifest", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            archive(spark, live, folder)
    assert read_archive(spark, folder).count() == 300
    together = read_archive(spark, folder, live)
    everything = rows_of(spark.read.format("tidelog").options(**live).load())
    assert rows_of(together) == everything
    assert len(everything) == 500
    assert archive(spark, live, folder)["rows"] == 200
    produce(broker, "orders", 500, 50)
    broker.clean("orders")
    assert len(rows_of(read_archive(spark, folder, live))) == 550
    folders = {path.split("/data/")[1].split("/")[0] for path in read_archive_log(folder).paths}  # type: ignore[union-attr]
    archive(spark, live, folder)  # which sweeps what the run that died has left
    assert {one.name for one in (tmp_path / "archive/data").iterdir()} >= folders
    broker.create_topic("others", 1)
    with pytest.raises(ArchiveError, match="is the archive of orders, not of others"):
        archive(spark, source(broker, "others"), folder)
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_topics(["orders"])
    broker.create_topic("orders", 2)
    produce(broker, "orders", 0, 1000)
    for look in (lambda: archive(spark, live, folder), lambda: read_archive(spark, folder, live)):
        with pytest.raises(ArchiveError, match="the archive of a topic orders that was deleted"):
            look()

    # And back into a topic: once, in order.
    broker.create_topic("again", 2)
    target = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "again"}
    assert [replay(spark, folder, target)["rows"] for _ in range(2)] == [550, 0]
    found: dict[int, list[Any]] = {}
    for record in committed(broker.bootstrap_servers, "again"):
        found.setdefault(record.partition, []).append((record.key, record.value, record.timestamp))
    wanted: dict[int, list[Any]] = {}
    for partition, _, key, value, when in rows_of(read_archive(spark, folder)):
        wanted.setdefault(partition, []).append(
            (bytes(key), None if value is None else bytes(value), round(when.timestamp() * 1000))
        )
    assert found == wanted
    with pytest.raises(JobError, match="there is no archive here"):
        replay(spark, str(tmp_path), target)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_an_archives_days_are_those_of_utc_whatever_zone_the_session_has(
    spark: Any, broker: Broker, tmp_path: Path, zone: str
) -> None:
    topic = f"days-{zone.partition('/')[0]}"
    broker.create_topic(topic, 1)
    produce(broker, topic, 0, 300)
    moments = [0, 1, -1, DAY_US, DAY_US - 1, -DAY_US, -DAY_US - 1, 1_700_000_000_000_000, -5_000_000_000_000_000]
    days = [
        (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)).date().isoformat() for moment in moments
    ]
    folder, live = str(tmp_path / "archive"), source(broker, topic)
    try:
        spark.conf.set("spark.sql.session.timeZone", zone)
        archive(spark, live, folder)
        made = spark.createDataFrame([(moment,) for moment in moments], "moment bigint")
        dated = made.selectExpr("timestamp_micros(moment) as timestamp").selectExpr(
            f"cast({UTC_DATE} as string) as date"
        )
        assert [row.date for row in dated.collect()] == days
        assert rows_of(read_archive(spark, folder)) == rows_of(spark.read.format("tidelog").options(**live).load())
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    archived = read_archive_log(folder)
    assert archived is not None
    assert {Path(path).parent.name for path in archived.paths} == {
        "date=2023-11-14",
        "date=2023-11-15",
        "date=2023-11-16",
    }


def test_an_archives_times_are_instants_where_the_session_takes_timestamps_for_a_wall_clocks(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic("instants", 1)
    produce(broker, "instants", 0, 20)
    folder, live = str(tmp_path / "archive"), source(broker, "instants")
    archive(spark, live, folder)
    produce(broker, "instants", 20, 20)
    wanted = rows_of(spark.read.format("tidelog").options(**live).load())
    settings = {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.session.timeZone": "America/New_York"}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        assert rows_of(read_archive(spark, folder)) == wanted[:20]
        assert rows_of(read_archive(spark, folder, live)) == wanted
        archive(spark, live, folder)
        assert rows_of(read_archive(spark, folder)) == wanted
    finally:
        spark.conf.unset("spark.sql.timestampType")
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_damaged_file_of_an_archive_stops_a_session_that_passes_over_damaged_ones(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic("torn", 1)
    produce(broker, "torn", 0, 300)
    folder = str(tmp_path / "archive")
    archive(spark, source(broker, "torn"), folder)
    archived = read_archive_log(folder)
    assert archived is not None
    torn = Path(archived.paths[0])
    torn.write_bytes(torn.read_bytes()[:100])
    torn.with_name(f".{torn.name}.crc").unlink()
    try:
        spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
        with pytest.raises(Exception, match="FAILED_READ_FILE"):
            read_archive(spark, folder).collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


def test_an_archive_and_a_table_are_where_a_name_is_a_pattern_for_spark(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic("patterns", 1)
    produce(broker, "patterns", 0, 20)
    live, place = source(broker, "patterns"), tmp_path / "orders [eu] {a,b}*?"
    place.mkdir()
    assert archive(spark, live, str(place / "archive"))["rows"] == 20
    assert len(rows_of(read_archive(spark, str(place / "archive"), live))) == 20
    assert latest(spark, live, str(place / "table"))["keys"] > 0


def test_a_replay_of_an_archive_that_has_grown_writes_what_is_new_and_says_how_much(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic("growing", 2)
    folder, live = str(tmp_path / "archive"), source(broker, "growing")
    targets = {}
    for name in ("whole", "some", "twice"):
        broker.create_topic(f"grown-{name}", 2)
        targets[name] = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": f"grown-{name}"}
    where = "cast(key as string) = 'key 3'"

    def values(name: str) -> list[bytes]:
        return [record.value for record in committed(broker.bootstrap_servers, f"grown-{name}") if record.value]

    produce(broker, "growing", 0, 1000, keys=10)
    archive(spark, live, folder)
    assert replay(spark, folder, targets["whole"])["rows"] == 1000
    assert replay(spark, folder, targets["some"], where=where)["rows"] == 100
    produce(broker, "growing", 1000, 100, keys=10)
    archive(spark, live, folder)
    produce(broker, "growing", 1100, 20, keys=10)
    archive(spark, live, folder)
    in_a_thread: list[int] = []
    thread = threading.Thread(target=lambda: in_a_thread.append(replay(spark, folder, targets["whole"])["rows"]))
    thread.start()
    thread.join()
    assert in_a_thread == [120]
    assert replay(spark, folder, targets["some"], where=where)["rows"] == 12
    assert (
        replay(spark, folder, targets["whole"])["rows"]
        == replay(spark, folder, targets["some"], where=where)["rows"]
        == 0
    )
    assert len(values("whole")) == len(set(values("whole"))) == 1120 - len(range(0, 1120, 11))
    wanted = {b"value %d" % number for number in range(3, 1120, 10) if number % 11}
    assert len(values("some")) == len(wanted)
    assert set(values("some")) == wanted
    assert replay(spark, folder, targets["twice"], once=False, where=where)["rows"] == 112
    assert len(values("twice")) == len(wanted)


def test_a_topic_that_was_made_anew_gets_all_of_a_replay(
    spark: Any, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("original", 2)
    folder, target = (
        str(tmp_path / "archive"),
        {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "remade"},
    )
    produce(broker, "original", 0, 60)
    archive(spark, source(broker, "original"), folder)

    def values() -> list[bytes | None]:
        return sorted(
            (record.value for record in committed(broker.bootstrap_servers, "remade")), key=lambda value: value or b""
        )

    broker.create_topic("remade", 2)
    assert [replay(spark, folder, target)["rows"] for _ in range(2)] == [60, 0]
    wanted = values()
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_topics(["remade"])
    broker.create_topic("remade", 2)
    assert [replay(spark, folder, target)["rows"] for _ in range(2)] == [60, 0]
    assert values() == wanted
    assert len(wanted) == 60

    # In the midst of a run: it says so, and does not go on with what the new topic lacks the beginning of.
    for count in (60, 61):
        produce(broker, "original", count, 1)
        archive(spark, source(broker, "original"), folder)
    found = iter([replaying.id_of(parse_sink_options(target, streaming=False), "remade"), "another id"])
    monkeypatch.setattr(replaying, "id_of", lambda *_: next(found))
    with pytest.raises(JobError, match="remade was deleted and made anew while it was written"):
        replay(spark, folder, target)
    assert len(values()) == 61


def test_one_archive_takes_one_topic(spark: Any, broker: Broker, tmp_path: Path) -> None:
    for name in ("one", "other"):
        broker.create_topic(name, 1)
        produce(broker, name, 0, 5)
    with pytest.raises(JobError, match="one topic at a time, not one, other"):
        archive(spark, source(broker, "one,other"), str(tmp_path / "both"))
    assert not (tmp_path / "both").exists()


def test_a_profile_adds_up(spark: Any, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("profiled", 2)
    produce(broker, "profiled", 0, 400)
    report = profile(spark, source(broker, "profiled"), plot=str(tmp_path / "plot.png"))
    values = {n: None if n % 11 == 0 else b"value %d" % n for n in range(400)}
    keys = Counter(b"key %d" % (n % 17) for n in range(400))
    size = sum(len(b"key %d" % (n % 17)) + len(value or b"") for n, value in values.items())
    left = sum(len(b"key %d" % (n % 17)) + len(values[n] or b"") for n in range(400 - 17, 400))
    assert (report["records"], report["bytes"], report["keys"]) == (400, size, 17)
    assert report["tombstones"] == sum(value is None for value in values.values())
    assert report["compaction"]["records"] == 400 - 17
    assert report["compaction"]["bytes"] == size - left
    assert {one["key"]: one["records"] for one in report["top_keys"]} == {key.decode(): n for key, n in keys.items()}
    assert sum(count for _, count, _ in report["rates"]["steps"]) == 400
    assert sum(one["records"] for one in report["partitions"].values()) == 400
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    json.dumps(report)


def test_a_profile_counts_times_that_python_has_no_date_for(spark: Any, tmp_path: Path) -> None:
    """Of a producer that counts microseconds, and of one whose clock is not set."""
    times = [-1000, 0, START_US // 1000, START_US, 1 << 62]
    records = [Record(offset, time, b"k", b"v", ()) for offset, time in enumerate(times)]
    write_log(tmp_path / "far-0", [[build_batch(records)]])
    write_checkpoint(tmp_path / "replication-offset-checkpoint", {("far", 0): len(times)})
    report = profile(spark, {"path": str(tmp_path), "subscribe": "far"}, plot=str(tmp_path / "plot.png"))
    assert (report["records"], report["first"]) == (len(times), "1969-12-31T23:59:59+00:00")
    assert report["last"] == "9223372036854775 ms"
    assert sum(count for _, count, _ in report["rates"]["steps"]) == len(times)


def test_the_latest_table_is_replaced_as_a_whole(spark: Any, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("newest", 2)
    table = str(tmp_path / "table")
    for turn in range(3):
        produce(broker, "newest", 100 * turn, 100)
        report = latest(spark, source(broker, "newest"), table)
        newest = {b"key %d" % (n % 17): n for n in range(100 * (turn + 1))}
        wanted = {key: b"value %d" % n for key, n in newest.items() if n % 11}
        assert {bytes(row.key): bytes(row.value) for row in spark.read.parquet(table).collect()} == wanted
        assert report["keys"] == len(wanted)
    assert len(list(tmp_path.iterdir())) == 3  # the link, the table, and the one before it
    (tmp_path / "other").mkdir()
    with pytest.raises(JobError, match="is no table of this job"):
        latest(spark, source(broker, "newest"), str(tmp_path / "other"))


def test_a_table_of_the_latest_is_as_of_the_end_and_by_the_comparison_that_was_asked_for(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    """The key a has moved from partition 1 to 0; b's newest is a tombstone; c comes at last."""
    broker.create_topic("moved", 2)
    rows = [(b"a", b"1", 1), (b"b", b"2", 0), (b"a", b"3", 0), (b"b", None, 0), (b"c", b"5", 1)]
    batch = pa.record_batch(
        {
            "key": pa.array([key for key, _, _ in rows]),
            "value": pa.array([value for _, value, _ in rows], pa.binary()),
            "partition": pa.array([number for _, _, number in rows], pa.int32()),
            "timestamp": pa.array([START_US + n * 1000 for n in range(len(rows))], pa.timestamp("us", tz="UTC")),
        }
    )
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "moved"}
    write_rows(parse_sink_options(given, streaming=False), [batch], None)
    compared = {**source(broker, "moved"), "keysStayInPartition": "false"}
    for number, (bounds, ends, wanted) in enumerate(
        (
            ({}, {"0": 3, "1": 2}, {b"a": b"3", b"c": b"5"}),
            ({"endingTimestamp": str(START_US // 1000 + 2)}, {"0": 1, "1": 1}, {b"a": b"1", b"b": b"2"}),
        )
    ):
        table = str(tmp_path / f"table{number}")
        report = latest(spark, {**compared, **bounds}, table)
        assert {bytes(row.key): bytes(row.value) for row in spark.read.parquet(table).collect()} == wanted
        assert (report["keys"], report["ends"]) == (2, ends)


@pytest.mark.parametrize("job", [upsert, latest])
def test_a_session_without_delta_is_told_what_to_add(spark: Any, broker: Broker, tmp_path: Path, job: Any) -> None:
    broker.create_topic(name := f"tableless-{job.__name__}", 1)
    with pytest.raises(
        JobError, match=r"knows no delta tables: their jars .*PySpark 4\.1 \(pip install 'tidelog\[tables\]'"
    ):
        job(spark, source(broker, name), str(tmp_path / "t") if job is latest else "t", form="delta")
    assert not list(tmp_path.iterdir()), "nothing half"


BEFORE = [
    Record(n, 1000 + n, b"k%d" % (n % 5), None if n in (13, 21, 26) else b"v%d" % n) for n in range(30) if n != 22
]
# The newest of each key are 25 to 29, of k1 a tombstone.
NEWEST = BEFORE[24:]
assert [record.offset for record in NEWEST] == [25, 26, 27, 28, 29]
PLANTED: dict[str, tuple[list[list[Record]], dict[str, int]]] = {
    "nothing": ([BEFORE[20:24], NEWEST], {}),
    "tombstone-gone": ([[NEWEST[0], *NEWEST[2:]]], {}),
    "new-records": ([NEWEST, [Record(30, 1, b"k9", b"x"), Record(31, 1, b"k0", None)]], {}),
    "older-one-back": ([[BEFORE[20], NEWEST[1], *NEWEST[2:]]], {"wrong": 1}),
    "deleted-key-back": ([[BEFORE[16], NEWEST[0], *NEWEST[2:]]], {"wrong": 1}),
    "key-gone": ([[NEWEST[0], *NEWEST[3:]]], {"lost": 1}),
    "invented": ([[Record(22, 5, b"k2", b"?")], NEWEST], {"invented": 1}),
    "another-value": ([[NEWEST[0]._replace(value=b"!"), *NEWEST[1:]]], {"changed": 1}),
    "another-time": ([[NEWEST[0]._replace(timestamp=1), *NEWEST[1:]]], {"changed": 1}),
    "another-header": ([[NEWEST[0]._replace(headers=((b"h", b"x"),)), *NEWEST[1:]]], {"changed": 1}),
    "places-changed": ([NEWEST, BEFORE[20:22]], {"order": 1}),
    "batch-twice": ([BEFORE[20:22], NEWEST, NEWEST], {"order": 1, "duplicate": 5}),
}


def write_logs(home: Path, logs: dict[str, Sequence[Sequence[Record]]]) -> str:
    """Batches of records with offsets of their own, in one segment of each topic's partition 0."""
    for topic, batches in logs.items():
        built = [
            build_batch(list(records), base_offset=records[0].offset, offsets=[one.offset for one in records])
            for records in batches
        ]
        write_log(home / f"{topic}-0", [built])
    ends = {(topic, 0): 1 + max(one.offset for batch in batches for one in batch) for topic, batches in logs.items()}
    write_checkpoint(home / "replication-offset-checkpoint", ends)
    return str(home)


def test_audits_find_what_was_planted(spark: Any, tmp_path: Path) -> None:
    before = write_logs(tmp_path / "before", {topic: [BEFORE[:10], BEFORE[10:]] for topic in PLANTED})
    after = write_logs(tmp_path / "after", {topic: batches for topic, (batches, _) in PLANTED.items()})
    report = audit(spark, before, after, ",".join(PLANTED))
    assert report["by_topic"] == {topic: wanted for topic, (_, wanted) in PLANTED.items() if wanted}
    assert not report["passed"]
    assert report["examples"]["lost"] == ["key-gone-0 at 27"]
    assert set(report["found"]) == set(KINDS)
    with pytest.raises(JobError, match="`before` is the later one"):
        audit(spark, after, before, "new-records")


def test_cleaning_passes_its_audit(spark: Any, tmp_path: Path) -> None:
    """A real log before and after the real cleaner."""
    settings = {"log.retention.ms": "-1"}
    with Broker(settings, directory=tmp_path / "data") as one:
        one.create_topic("cleaned", 2, {"cleanup.policy": "compact", "segment.bytes": "4096"})
        produce(one, "cleaned", 0, 500)
        produce(one, "cleaned", 500, 500)
    shutil.copytree(tmp_path / "data", tmp_path / "before")
    with Broker(settings, directory=tmp_path / "data") as one:
        one.clean("cleaned")
        produce(one, "cleaned", 1000, 30)
    report = audit(spark, str(tmp_path / "before"), str(tmp_path / "data"), "cleaned")
    assert report["passed"], report
    assert report["records_before"] == 1000
    assert 0 < report["records_after"] < 200
