"""`format("tidelog-files")`, the source in Java: held to what the records say, and to `format("tidelog")` over the same files."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from py4j.protocol import Py4JJavaError
from support.columns import Row
from support.pipeline_logs import RandomLog
from support.segment_dirs import write_checkpoint, write_segment
from tidelog.pipeline.session import JAR
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record

START = 1_700_000_000_000
ENDS, STARTS = "replication-offset-checkpoint", "log-start-offset-checkpoint"
MOST_US = 2**63 - 1


class Found(NamedTuple):
    """A row of the source."""

    topic: str
    partition: int
    row: Row


def random_log(chance: random.Random, batches: int = 50) -> RandomLog:
    """All codecs, gaps of compaction, empty batches, aborted and open transactions, times in no order."""
    log = RandomLog()
    log.first = log.start = end = chance.randrange(50)
    open_since: dict[int, tuple[int, list[int]]] = {}
    for _ in range(batches):
        producer = chance.choice([7, 8, -1, -1])
        own: dict[str, Any] = {
            "producer_id": producer,
            "producer_epoch": 0,
            "base_sequence": 0,
            "is_transactional": True,
        }
        if producer in open_since and chance.random() < 0.5:
            first, members = open_since.pop(producer)
            commit = chance.random() < 0.5
            marker = Record(0, 1, struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0))
            log.segments[-1].append(build_batch([marker], base_offset=end, is_control=True, **own))
            for index in members:
                log.rows[index] = (log.rows[index][0], not commit)
            if not commit:
                log.aborted.append((producer, first, end))
            last = end
        else:
            kind = chance.choice(list(TimestampType))
            append_time = START + chance.randrange(100_000) if kind is TimestampType.LOG_APPEND_TIME else -1
            deltas = [delta for delta in range(chance.randrange(1, 30)) if chance.random() < chance.choice([0.6, 1])]
            records = [
                Record(
                    0,
                    chance.choice([START + chance.randrange(100_000)] * 30 + [-1, 0, 2**62]),
                    chance.choice([None, b"", f"key {chance.randrange(20)}".encode()]),
                    chance.choice([None, b"", chance.randbytes(chance.randrange(300))]),
                    tuple(
                        (f"h{i}".encode(), chance.choice([None, b"", b"x"])) for i in range(chance.choice([0, 0, 3]))
                    ),
                )
                for _ in deltas
            ]
            last = end + max(deltas, default=0) + chance.choice([0, 0, 2])
            if producer >= 0:
                open_since.setdefault(producer, (end, []))
            data = build_batch(
                records, base_offset=end, offsets=[end + delta for delta in deltas], last_offset=last, timestamp_type=kind,
                append_time=append_time, compression=chance.choice(list(Compression)), **(own if producer >= 0 else {}),
            )  # fmt: skip
            log.segments[-1].append(data)
            for record, delta in zip(records, deltas, strict=True):
                if producer >= 0:
                    open_since[producer][1].append(len(log.rows))
                us = min((append_time if append_time >= 0 else record.timestamp) * 1000, MOST_US)
                row = Row(end + delta, us, int(kind), record.key, record.value, record.headers)
                log.rows.append((row, False))
        end = last + 1 + chance.choice([0, 0, 0, 7])
        if chance.random() < 0.15:
            log.segments.append([])
    log.segments = [segment for segment in log.segments if segment]
    log.end = end = last + 1  # without a segment behind it a log ends with its last batch
    log.stable = min((first for first, _ in open_since.values()), default=end)
    return log


class Logs(NamedTuple):
    """A directory with topics a (partitions 0 to 2) and b (0)."""

    home: Path
    logs: dict[tuple[str, int], RandomLog]

    def rows(self, *, committed: bool = False, topics: str = "ab") -> list[Found]:
        return sorted(
            Found(topic, partition, row)
            for (topic, partition), log in self.logs.items()
            if topic in topics
            for row in log.expected(log.start, log.stable if committed else log.end, read_committed=committed)
        )


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    chance, home = random.Random(1), tmp_path_factory.mktemp("logs")
    made = Logs(
        home, {(topic, partition): random_log(chance) for topic, partition in (("a", 0), ("a", 1), ("a", 2), ("b", 0))}
    )
    for (topic, partition), log in made.logs.items():
        log.write(home / f"{topic}-{partition}", 1000)
    taken = made.logs["a", 1]
    taken.start = (taken.first + taken.end) // 2  # as DeleteRecords leaves it
    write_checkpoint(home / ENDS, {where: log.end for where, log in made.logs.items()})
    write_checkpoint(home / STARTS, {("a", 1): taken.start})
    return made


def load(spark: Any, home: Path, name: str = "tidelog-files", **options: str) -> Any:
    given = {"path": str(home), **{key.replace("_", "."): text for key, text in options.items()}}
    return spark.read.format(name).options(**given).load()


COLUMNS = ("topic", "partition", "offset", "unix_micros(timestamp)", "timestampType", "key", "value", "headers")


def rows_of(frame: Any) -> list[Found]:
    """Rows of a frame with all columns; times as numbers, since Python has no year 292278."""
    found = []
    for topic, partition, offset, us, kind, key, value, headers in frame.selectExpr(*COLUMNS).collect():
        pairs = tuple((pair.key.encode(), _bytes(pair.value)) for pair in headers or ())
        assert headers is None or pairs
        found.append(Found(topic, partition, Row(offset, us, kind, _bytes(key), _bytes(value), pairs)))
    return sorted(found)


def _bytes(content: Any) -> bytes | None:
    return None if content is None else bytes(content)


@pytest.mark.parametrize(
    "more", [{}, {"splitBytes": "3000"}, {"maxRecordsPerPartition": "100"}, {"minPartitions": "9"}]
)
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_every_record_is_a_row(spark: Any, logs: Logs, isolation: str, more: dict[str, str]) -> None:
    frame = load(spark, logs.home, subscribePattern="[ab]", includeHeaders="true", isolation=isolation, **more)
    assert rows_of(frame) == logs.rows(committed=isolation == "read_committed")
    assert (frame.rdd.getNumPartitions() > 4) == bool(more)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_rows_are_those_of_the_source_in_python(spark: Any, logs: Logs, isolation: str) -> None:
    options = {"subscribe": "a,b", "includeHeaders": "true", "isolation": isolation}
    ours, python = (load(spark, logs.home, name, **options) for name in ("tidelog-files", "tidelog"))
    assert ours.schema == python.schema
    assert rows_of(ours) == rows_of(python)


# Filters: each as SQL, and by its definition.

Test = Callable[[Found], bool]


def comparison(chance: random.Random, rows: list[Found]) -> tuple[str, Test]:
    """A random comparison of one column with what a row has, or what lies near it."""
    row = chance.choice(rows)
    near = chance.choice([0, 0, 1, -1, 20])
    kind = chance.choice(["partition", "offset", "offset", "time", "time", "in", "key", "type", "not null", "topic"])
    sign, holds = chance.choice(
        [
            ("<", int.__lt__),
            ("<=", int.__le__),
            (">", int.__gt__),
            (">=", int.__ge__),
            ("=", int.__eq__),
            ("<=>", int.__eq__),
        ]
    )
    if kind == "partition":
        number = row.partition + near % 2
        return f"partition {sign} {number}", lambda found: holds(found.partition, number)
    if kind == "offset":
        offset = row.row.offset + near
        text = f"offset {sign} {offset}" if chance.random() < 0.7 else f"{offset}L {sign} offset"
        return text, lambda found: holds(
            *((found.row.offset, offset) if text.startswith("o") else (offset, found.row.offset))
        )
    if kind == "time":
        us = (START + chance.randrange(100_000)) * 1000 + chance.choice([0, 0, 1, 999])
        if chance.random() < 0.3 and row.row.timestamp < 2**53:
            us = row.row.timestamp
        return f"timestamp {sign} timestamp_micros({us})", lambda found: holds(found.row.timestamp, us)
    if kind == "in":
        offsets = [row.row.offset, row.row.offset + 3, 10**12][: chance.randrange(1, 4)]
        return f"offset in ({', '.join(map(str, offsets))})", lambda found: found.row.offset in offsets
    if kind == "key":
        return "key = cast('key 3' as binary)", lambda found: found.row.key == b"key 3"
    if kind == "type":
        return "timestampType = 1", lambda found: found.row.timestamp_type == 1
    if kind == "topic":
        return "topic = 'a'", lambda found: found.topic == "a"
    return "offset is not null and timestamp is not null", lambda _: True


def predicate(chance: random.Random, rows: list[Found], depth: int = 2) -> tuple[str, Test]:
    if depth == 0 or chance.random() < 0.3:
        return comparison(chance, rows)
    (one, is_one), (other, is_other) = (predicate(chance, rows, depth - 1) for _ in range(2))
    form = chance.choice(["and", "and", "and", "or", "not"])
    if form == "and":
        return f"({one}) and ({other})", lambda found: is_one(found) and is_other(found)
    if form == "or":
        return f"({one}) or ({other})", lambda found: is_one(found) or is_other(found)
    return f"not ({one})", lambda found: not is_one(found)


@pytest.mark.parametrize("seed", range(10))
def test_filters_leave_what_they_say_and_counts_count_it(spark: Any, logs: Logs, seed: int) -> None:
    """`key` is null in some rows: what is not true of them is null, and no row."""
    chance = random.Random(seed)
    committed = seed % 2 == 1
    rows = logs.rows(committed=committed)
    where, holds = predicate(chance, rows)
    while "not" in where and "key" in where:
        where, holds = predicate(chance, rows)
    split = {"splitBytes": "3000"} if chance.random() < 0.5 else {}
    frame = load(
        spark, logs.home, subscribe="a,b", isolation="read_committed" if committed else "read_uncommitted", **split
    )
    wanted = sorted((found.topic, found.partition, found.row.offset) for found in rows if holds(found))
    kept = frame.where(where)
    assert sorted(map(tuple, kept.select("topic", "partition", "offset").collect())) == wanted, where
    assert kept.count() == len(wanted), where
    by: dict[tuple[str, int], int] = {}
    for topic, partition, _ in wanted:
        by[topic, partition] = by.get((topic, partition), 0) + 1
    assert {(row[0], row[1]): row[2] for row in kept.groupBy("topic", "partition").count().collect()} == by, where


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.mark.parametrize(
    ("where", "is_pushed"),
    [
        ("true", True),
        ("offset >= 30 and offset < 200", True),
        ("timestamp >= timestamp_millis(1700000050000) and timestamp < timestamp_micros(1700000060000001)", True),
        ("partition = 1 and offset <> 3", False),
        ("partition = 1", True),
        ("offset in (3, 4)", False),
        ("offset in (30)", True),
        ("key is not null", False),
        ("timestampType = 0", False),
        ("offset > 10 or partition = 0", False),
        ("timestamp > timestamp_micros(9000000000000000000)", False),
        ("offset % 2 = 0", False),
    ],
)
def test_a_count_is_pushed_down_when_no_filter_is_left(spark: Any, logs: Logs, where: str, is_pushed: bool) -> None:
    frame = load(spark, logs.home, subscribe="a").where(where)
    counted = frame.groupBy().count()
    assert ("counted" in plan_of(counted)) == is_pushed
    unpushed = frame.select("offset").rdd.count()
    assert counted.collect()[0][0] == unpushed


@pytest.mark.parametrize(
    ("what", "is_pushed"),
    [
        ("count(1)", True), ("count(*)", True), ("count(offset)", True), ("count(timestamp), count(*)", True),
        ("count(key)", False), ("count(distinct offset)", False), ("count(distinct partition)", False),
        ("sum(offset)", False),
        ("count(*), max(offset)", False), ("count(value), count(*)", False),
        ("count(*) filter (where offset > 100)", None), ("count(offset + 1)", None),
    ],
)  # fmt: skip
def test_counts_of_every_form_are_those_of_the_source_in_python(
    spark: Any, logs: Logs, what: str, is_pushed: bool | None
) -> None:
    def asked(name: str) -> Any:
        return load(spark, logs.home, name, subscribe="a").where("offset > 20").selectExpr(*what.split(", "))

    assert asked("tidelog-files").collect() == asked("tidelog").collect()
    if is_pushed is not None:
        assert ("counted" in plan_of(asked("tidelog-files"))) == is_pushed


def test_a_count_of_nothing_is_zero(spark: Any, logs: Logs) -> None:
    frame = load(spark, logs.home, subscribe="a")
    for nothing in ("offset > 1000000", "offset < 10 and offset > 20"):
        counted = frame.where(nothing).selectExpr("count(*)", "count(offset)")
        assert "counted" in plan_of(counted)
        assert counted.collect() == [(0, 0)]  # DataFrame.count() makes 0 of null
    assert frame.where("offset > 1000000").groupBy("partition").count().collect() == []


def test_columns_are_pruned(spark: Any, logs: Logs) -> None:
    wanted = sorted((found.row.offset, found.partition) for found in logs.rows(topics="a"))
    frame = load(spark, logs.home, subscribe="a", columns="offset, partition")
    assert frame.columns == ["offset", "partition"]
    assert sorted(map(tuple, frame.collect())) == wanted
    own = spark.read.format("tidelog-files").schema("offset long, partition int")
    assert sorted(map(tuple, own.options(path=str(logs.home), subscribe="a").load().collect())) == wanted
    everything = load(spark, logs.home, subscribe="a", includeHeaders="true")
    values = sorted(found.row.value or b"" for found in logs.rows(topics="a") if found.row.value is not None)
    assert sorted(bytes(row[0]) for row in everything.select("value").where("value is not null").collect()) == values
    assert re.search(r"tidelog-files a\[value#\d+\]", plan_of(everything.select("value")))


def test_an_executor_with_a_jar_of_another_version_says_so(spark: Any, logs: Logs) -> None:
    """Else options that one of them does not know would be left out in silence."""
    plan = load(spark, logs.home, subscribe="a").select("offset")._jdf.queryExecution().sparkPlan()
    while plan.getClass().getSimpleName() != "BatchScanExec":
        plan = plan.children().head()
    utils = spark._jvm.org.apache.spark.util.Utils
    shipped = bytes(utils.serialize(plan.readerFactory()))
    loader = plan.readerFactory().getClass().getClassLoader()
    assert utils.deserialize(shipped, loader).equals(plan.readerFactory())
    with zipfile.ZipFile(JAR) as archive:
        version = archive.read("tidelog/spark/version")
    assert shipped.count(version) == 1
    other = version.replace(b"0.", b"9.", 1)
    with pytest.raises(Py4JJavaError) as failed:
        utils.deserialize(shipped.replace(version, other), loader)
    assert failed.value.java_exception.getMessage().startswith(
        f"tidelog-spark.jar is of another version on this executor ({version.decode()}) than at the driver ({other.decode()}): "
        "give both the same, by spark.jars"
    )


def test_it_is_a_view_in_sql(spark: Any, logs: Logs) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW records USING `tidelog-files` OPTIONS (path '{logs.home}', subscribe 'a')"
    )
    assert spark.sql("SELECT count(*) FROM records WHERE partition = 0").collect()[0][0] == len(
        [found for found in logs.rows(topics="a") if found.partition == 0]
    )


# Where a read begins and ends.


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": '{"a":{"0":-2,"1":-2,"2":60}}', "endingOffsets": '{"a":{"0":-1,"1":-1,"2":200}}'},
        {"startingOffsets": str({"a": {"0": -2, "1": -2, "2": 60}})},  # as PySpark 4.1 has them in a progress
        {"startingTimestamp": str(START + 30_000)},
        {"startingTimestamp": str(START + 20_000), "endingTimestamp": str(START + 99_990)},
        {
            "startingOffsetsByTimestamp": json.dumps(
                {"a": {str(number): START + 10_000 * number for number in range(3)}}
            )
        },
        {"startingTimestamp": str(2**62 + 1), "startingOffsetsByTimestampStrategy": "latest"},
        {"endingOffsetsByTimestamp": json.dumps({"a": {str(number): START + 50_000 for number in range(3)}})},
    ],
)
def test_it_begins_and_ends_where_the_source_in_python_does(spark: Any, logs: Logs, options: dict[str, str]) -> None:
    ours, python = (
        sorted(
            map(tuple, load(spark, logs.home, name, subscribe="a", **options).select("partition", "offset").collect())
        )
        for name in ("tidelog-files", "tidelog")
    )
    assert ours == python
    assigned = load(spark, logs.home, assign='{"a":[0,2]}').select("partition").distinct().collect()
    assert sorted(row[0] for row in assigned) == [0, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "a", "startingOfsets": "latest"}, "unknown option startingOfsets; did you mean startingOffsets?"),
        ({"subscribe": "a", "quux": "1"}, "unknown option quux; there are path, "),
        ({"subscribe": "a", "kafka.x": "1"}, 'kafka.x is not for format("tidelog-files") … format("tidelog") has it'),
        ({"subscribe": "a", "bootstrap.servers": "h:1"}, "bootstrap.servers is not for"),
        ({"subscribe": "a", "view": "latest"}, 'view=latest is not for format("tidelog-files") … format("tidelog") has it'),
        ({"subscribe": "a", "decode": "json"}, 'decode is not for format("tidelog-files") … format("tidelog") has it'),
        ({"subscribe": "a", "schema.registry.url": "x"}, "schema.registry.url is not for"),
        ({}, "set one of subscribe, subscribePattern and assign, not none"),
        ({"subscribe": "a", "assign": "{}"}, "not subscribe and assign"),
        ({"subscribe": "a", "columns": "ofset"}, "columns names ofset, which is no column of the source; did you mean offset?"),
        ({"subscribe": "a", "columns": "key,key"}, "columns names key more than once"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "startingOffsets can't be latest: nothing would be read"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":-1,"1":1,"2":1}}'}, "-1 for a-0 makes no sense"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":70}}'}, "startingOffsets says nothing of a-1"),
        ({"subscribe": "a", "startingOffsets": '{"c":{"0":70}}'}, "names c-0, which is not among what is read"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger is for streams"),
        ({"subscribe": "a", "minPartitions": "many"}, "minPartitions is 'many', which is no number"),
        ({"subscribe": "a", "checkCrcs": "maybe"}, "checkCrcs is 'maybe'; it can be true or false"),
        ({"subscribe": "a", "isolation": "x"}, "isolation is 'x'; it can be read_uncommitted or read_committed"),
        ({"subscribe": "nothing"}, "no topic nothing here; there are"),
        ({"assign": '{"a":[7]}'}, "assign: there is no a-7; a has 0, 1, 2"),
        ({"subscribe": "a", "startingTimestamp": str(2**62 + 1)}, "has no record of … or later"),
        ({"subscribe": "a", "endingOffsets": '{"a":{"0":9999,"1":-1,"2":-1}}'}, "offset 9999 was asked for, and the log ends at"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":-2,"1":0,"2":-2}}'}, "a-1: offset 0 was asked for, and the log starts"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_a_sentence(
    spark: Any, logs: Logs, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=r".") as refused:
        load(spark, logs.home, **options).collect()
    for part in message.split(" … "):
        assert part in str(refused.value)


def test_paths_that_are_wrong_are_told(spark: Any, logs: Logs, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"there is no such directory; path is a daemon's log\.dirs"):
        load(spark, tmp_path / "nowhere", subscribe="a").collect()
    with pytest.raises(Exception, match=r'set path to a daemon\'s log\.dirs; brokers are read by format\("tidelog"\)'):
        spark.read.format("tidelog-files").option("subscribe", "a").load()
    several = spark.read.format("tidelog-files").option("subscribe", "a").load([str(logs.home), str(tmp_path)])
    assert several.count() == len(logs.rows(topics="a"))


def test_older_formats_are_refused_with_a_sentence(spark: Any, tmp_path: Path) -> None:
    old = build_legacy_set([Record(0, START, b"k", b"v", ())], magic=1, base_offset=0, offsets=[0])
    write_segment(tmp_path / "old-0", 0, [old])
    write_checkpoint(tmp_path / ENDS, {("old", 0): 1})
    for asked in (lambda frame: frame.collect(), lambda frame: frame.count()):
        with pytest.raises(Exception, match=r'format\("tidelog"\)'):
            asked(load(spark, tmp_path, subscribe="old"))
    assert load(spark, tmp_path, "tidelog", subscribe="old").count() == 1


# Files that change.


def grow(home: Path, topic: str, partition: int, first: int, count: int, *, segment: bool = True) -> None:
    """A segment more, of records whose values are their offsets; the checkpoint says so."""
    records = [Record(0, START + offset, b"k", b"%d" % offset, ()) for offset in range(first, first + count)]
    batches = [
        build_batch(records[at : at + 10], base_offset=first + at, offsets=None) for at in range(0, len(records), 10)
    ]
    write_segment(home / f"{topic}-{partition}", first, batches)
    ends = {}
    if (home / ENDS).exists():
        for line in (home / ENDS).read_text().splitlines()[2:]:
            name, number, offset = line.rsplit(" ", 2)
            ends[name, int(number)] = int(offset)
    # In one step, as a daemon does: a stream may look meanwhile.
    write_checkpoint(home / f"{ENDS}.tmp", {**ends, (topic, partition): first + count})
    os.replace(home / f"{ENDS}.tmp", home / ENDS)


def name_topic(home: Path, topic: str, partition: int, letter: str) -> None:
    """A topic id, as partition.metadata has it."""
    (home / f"{topic}-{partition}" / "partition.metadata").write_text(f"version: 0\ntopic_id: {letter * 21}A")


def test_retention_that_takes_a_planned_split_is_loss(spark: Any, tmp_path: Path) -> None:
    for first in (0, 100, 200):
        grow(tmp_path, "t", 0, first, 100)
    planned, lenient = (
        load(spark, tmp_path, subscribe="t", failOnDataLoss=careful).select("offset").rdd
        for careful in ("true", "false")
    )
    assert planned.getNumPartitions() == lenient.getNumPartitions() == 1
    os.unlink(tmp_path / "t-0" / f"{0:020}.log")
    with pytest.raises(Exception, match="t-0: offsets 0 to 99 are gone: retention or DeleteRecords has taken them"):
        planned.collect()
    assert sorted(row[0] for row in lenient.collect()) == list(range(100, 300))


def test_a_topic_made_anew_between_plan_and_read_is_loss(spark: Any, tmp_path: Path) -> None:
    grow(tmp_path, "t", 0, 0, 100)
    name_topic(tmp_path, "t", 0, "B")
    planned, lenient = (
        load(spark, tmp_path, subscribe="t", failOnDataLoss=careful).select("offset").rdd
        for careful in ("true", "false")
    )
    assert planned.getNumPartitions() == lenient.getNumPartitions() == 1
    shutil.rmtree(tmp_path / "t-0")
    grow(tmp_path, "t", 0, 0, 150)
    name_topic(tmp_path, "t", 0, "C")
    with pytest.raises(Exception, match="t-0: the topic was deleted and made anew"):
        planned.collect()
    assert lenient.collect() == []


def test_damage_stops_a_read_or_is_left_out_and_counted(spark: Any, tmp_path: Path) -> None:
    grow(tmp_path, "t", 0, 0, 100)
    path = tmp_path / "t-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[data.index(b"\x0455") + 1] ^= 1  # a value's first digit
    path.write_bytes(data)
    with pytest.raises(Exception, match=r"damaged at byte .* set corruptBatches to skip"):
        load(spark, tmp_path, subscribe="t").collect()
    lenient = load(spark, tmp_path, subscribe="t", corruptBatches="skip").select("value")
    assert len(lenient.collect()) == 90
    assert metrics_of(lenient)["damagedBatches"] == 1
    assert load(spark, tmp_path, subscribe="t", checkCrcs="false").select("offset").rdd.count() == 100


def metrics_of(frame: Any) -> dict[str, int]:
    """Of the scan of a frame that has been collected."""
    plan = frame._jdf.queryExecution().executedPlan()
    while plan.children().size():
        plan = plan.children().head()
    found = plan.metrics().iterator()
    told = {}
    while found.hasNext():
        each = found.next()
        told[each._1()] = each._2().value()
    return told


def test_metrics_tell_records_and_bytes(spark: Any, tmp_path: Path) -> None:
    grow(tmp_path, "t", 0, 0, 100)
    frame = load(spark, tmp_path, subscribe="t").where("offset >= 50")
    assert len(frame.collect()) == 50
    told = metrics_of(frame)
    assert told["records"] == 50
    assert 0 < told["bytesRead"] <= (tmp_path / "t-0" / f"{0:020}.log").stat().st_size
    assert told["damagedBatches"] == 0


# Streams.


def run(spark: Any, home: Path, work: Path, name: str = "tidelog-files", **options: str) -> list[Any]:
    """One availableNow run into Parquet; the progress of its batches that had rows."""
    given = {"path": str(home), "subscribe": "t", "startingOffsets": "earliest", **options}
    stream = spark.readStream.format(name).options(**given).load()
    writer = stream.select("partition", "offset", "value").writeStream.format("parquet")
    query = (
        writer.option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(work / "rows"))
    )
    query.awaitTermination(300)
    return [one for one in query.recentProgress if one["numInputRows"]]


def written(spark: Any, work: Path) -> list[tuple[int, int]]:
    rows = spark.read.parquet(str(work / "rows")).collect()
    assert all(bytes(row[2]) == b"%d" % row[1] for row in rows)
    return sorted((row[0], row[1]) for row in rows)


def counts(progress: list[Any]) -> list[int]:
    return [one["numInputRows"] for one in progress]


def test_a_stream_reads_every_record_once_over_limits_restarts_and_new_partitions(spark: Any, tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    grow(home, "t", 0, 0, 60)
    grow(home, "t", 1, 0, 40)
    progress = run(spark, home, work, maxOffsetsPerTrigger="60")
    assert counts(progress) == [60, 40]
    behind = progress[0]["sources"][0]["metrics"]
    assert (behind["minOffsetsBehindLatest"], behind["maxOffsetsBehindLatest"], behind["avgOffsetsBehindLatest"]) == (
        "16",
        "24",
        "20.0",
    )
    assert run(spark, home, work) == []
    grow(home, "t", 0, 60, 10)
    grow(home, "t", 2, 0, 30)
    assert counts(run(spark, home, work)) == [40]
    assert written(spark, work) == [(0, o) for o in range(70)] + [(1, o) for o in range(40)] + [
        (2, o) for o in range(30)
    ]


@pytest.mark.parametrize(("first", "then"), [("tidelog", "tidelog-files"), ("tidelog-files", "tidelog")])
def test_a_checkpoint_of_the_other_source_is_read_on(spark: Any, tmp_path: Path, first: str, then: str) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    grow(home, "t", 0, 0, 50)
    grow(home, "t", 1, 0, 10)
    name_topic(home, "t", 0, "B")
    name_topic(home, "t", 1, "B")
    assert counts(run(spark, home, work, first)) == [60]
    said = [json.loads((work / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1])]
    # Of the source in Python from PySpark 4.2 on, which has no file of its own in a checkpoint.
    assert said[0].pop("first offsets", None) in (None, {"t": {"0": 0, "1": 0}})
    if then == "tidelog-files":
        assert run(spark, home, work, then) == []
        assert not (work / "checkpoint" / "offsets" / "1").exists()  # nothing new: the other's text counts as it is
    grow(home, "t", 0, 50, 25)
    assert counts(run(spark, home, work, then)) == [25]
    said.append(json.loads((work / "checkpoint" / "offsets" / "1").read_text().splitlines()[-1]))
    ids = {"topic ids": {"t": "B" * 21 + "A"}}
    assert said == [{"t": {"0": 50, "1": 10}, **ids}, {"t": {"0": 75, "1": 10}, **ids}]
    assert written(spark, work) == [(0, o) for o in range(75)] + [(1, o) for o in range(10)]


def test_a_stream_stops_where_records_are_gone(spark: Any, tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    grow(home, "t", 0, 0, 50)
    assert counts(run(spark, home, work)) == [50]
    grow(home, "t", 0, 50, 50)
    grow(home, "t", 0, 100, 20)
    for first in (0, 50):
        os.unlink(home / "t-0" / f"{first:020}.log")
    with pytest.raises(Exception, match="t-0: offset 50 was asked for, and the log starts at 100"):
        run(spark, home, work)
    assert counts(run(spark, home, work, failOnDataLoss="false")) == [20]


def test_a_topic_that_was_made_anew_stops_a_stream(spark: Any, tmp_path: Path) -> None:
    """With more records than the old one, so that every offset is there."""
    home, work = tmp_path / "home", tmp_path / "work"
    grow(home, "t", 0, 0, 20)
    name_topic(home, "t", 0, "B")
    assert counts(run(spark, home, work)) == [20]
    shutil.rmtree(home / "t-0")
    grow(home, "t", 0, 0, 50)
    name_topic(home, "t", 0, "C")
    with pytest.raises(Exception, match="t: deleted and made anew"):
        run(spark, home, work)
    assert counts(run(spark, home, work, failOnDataLoss="false")) == [50]
    assert run(spark, home, work) == []


def test_a_stream_begins_with_the_latest_and_waits_for_enough(spark: Any, tmp_path: Path) -> None:
    home = tmp_path / "home"
    grow(home, "t", 0, 0, 20)
    given = {"path": str(home), "subscribe": "t", "minOffsetsPerTrigger": "30", "maxTriggerDelay": "125000d"}
    stream = spark.readStream.format("tidelog-files").options(**given).load()
    query = stream.writeStream.format("memory").queryName("waits").start()
    try:
        query.processAllAvailable()
        grow(home, "t", 0, 20, 20)
        query.processAllAvailable()
        assert spark.table("waits").count() == 0
        grow(home, "t", 0, 40, 20)
        query.processAllAvailable()
        assert sorted(row[0] for row in spark.table("waits").select("offset").collect()) == list(range(20, 60))
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": "latest"}, "a stream has no endingOffsets"),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "9"}, "minOffsetsPerTrigger is 9, which is more than"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is 'soon'; it can be 15m, 90s or 500ms"),
    ],
)
def test_what_is_no_stream_is_refused(spark: Any, tmp_path: Path, options: dict[str, str], message: str) -> None:
    grow(tmp_path, "t", 0, 0, 20)
    with pytest.raises(Exception, match=message):
        run(spark, tmp_path, tmp_path / "work", **options)


def test_a_strange_checkpoint_is_told(spark: Any, tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    grow(home, "t", 0, 0, 20)
    run(spark, home, work)
    offsets = work / "checkpoint" / "offsets" / "0"
    lines = offsets.read_text().splitlines()
    offsets.write_text("\n".join([*lines[:-1], '{"t":7}']))
    (work / "checkpoint" / "offsets" / ".0.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match="which is none of this source: a query keeps its source"):
        run(spark, home, work)
