"""`format("tidelog-files")` over files that change, are damaged or not its own to read, and its streams over restarts."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support.segment_dirs import write_checkpoint, write_segment
from tidelog.pipeline.planning.places import TopicPartition
from tidelog.pipeline.planning.stream_plan import share
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.index.time_index import TimeIndex

START = 1_700_000_000_000
ENDS = "replication-offset-checkpoint"
NAMES = ["tidelog-files", "tidelog"]
#: PySpark 4.1 does not tell a source in Python where a batch begins of which it is to say the end.
HAS_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None


def segment(home: Path, partition: int, first: int, count: int, each: int = 10) -> Path:
    """A segment of topic t whose records have their offset as value, and as ms behind START. Its log file."""
    records = [Record(0, START + offset, b"k", b"%d" % offset, ()) for offset in range(first, first + count)]
    batches = [build_batch(records[at : at + each], base_offset=first + at) for at in range(0, count, each)]
    write_segment(home / f"t-{partition}", first, batches)
    return home / f"t-{partition}" / f"{first:020}.log"


def ends(home: Path, *offsets: int) -> None:
    """The high watermarks of t's partitions, replaced in one step as a daemon does."""
    write_checkpoint(home / "new", {("t", number): offset for number, offset in enumerate(offsets)})
    os.replace(home / "new", home / ENDS)


def load(spark: Any, home: Path | str, name: str = "tidelog-files", **options: str) -> Any:
    return spark.read.format(name).options(**{"path": str(home), "subscribe": "t", **options}).load()


def offsets(frame: Any) -> list[int]:
    return sorted(row[0] for row in frame.select("offset").collect())


def failure(frame: Any) -> str:
    with pytest.raises(Exception, match=r".") as raised:
        frame.collect()
    return str(raised.value)


# What lies in the files.


@pytest.mark.parametrize("name", NAMES)
def test_room_that_an_active_segment_has_reserved_is_neither_record_nor_damage(
    spark: Any, tmp_path: Path, name: str
) -> None:
    """Kafka's `preallocate` makes the file as long as a segment may get."""
    path = segment(tmp_path, 0, 0, 30)
    with path.open("ab") as file:
        file.write(bytes(100_000))
    for known in (False, True):
        if known:
            ends(tmp_path, 30)
        for isolation in ("read_uncommitted", "read_committed"):
            frame = load(spark, tmp_path, name, isolation=isolation)
            assert offsets(frame) == list(range(30))
            assert frame.where(f"timestamp >= timestamp_millis({START + 20})").count() == 10
    assert load(spark, tmp_path, name).where(f"timestamp >= timestamp_millis({START + 99})").count() == 0
    assert offsets(load(spark, tmp_path, name, startingTimestamp=str(START + 25))) == list(range(25, 30))
    with pytest.raises(Exception, match="has no record of"):
        load(spark, tmp_path, name, startingTimestamp=str(START + 99)).collect()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", ["header", "record"])
def test_a_filter_of_times_does_not_stop_at_damage_that_is_to_be_skipped(
    spark: Any, tmp_path: Path, name: str, where: str
) -> None:
    path = segment(tmp_path, 0, 0, 50)
    ends(tmp_path, 50)
    data = bytearray(path.read_bytes())
    batch = data.index(b"\x0420") - 80  # in the third batch's header or before it; found exactly below
    batch = data.index((20).to_bytes(8, "big"), max(0, batch))
    at = batch + 16 if where == "header" else data.index(b"\x0425") + 1
    data[at] ^= 0x40
    path.write_bytes(data)
    frame = load(spark, tmp_path, name, corruptBatches="skip").where(f"timestamp >= timestamp_millis({START + 5})")
    assert offsets(frame) == [*range(5, 20), *range(30, 50)]
    assert frame.count() == 35
    behind = f"timestamp >= timestamp_millis({START + 35})"
    assert offsets(frame.where(behind)) == list(range(35, 50))
    assert offsets(load(spark, tmp_path, name, corruptBatches="skip").where(behind)) == list(range(35, 50))
    careful = load(spark, tmp_path, name)
    if where == "record":  # which is not read, since the batches behind it have all that is asked for
        assert offsets(careful.where(behind)) == list(range(35, 50))
    told = failure(careful.where(behind if where == "header" else f"timestamp >= timestamp_millis({START + 5})"))
    assert "damaged at byte" in told
    assert "t-0/00000000000000000000.log" in told
    assert "corruptBatches" in told


@pytest.mark.parametrize("name", NAMES)
def test_a_time_index_of_another_file_hides_nothing(spark: Any, tmp_path: Path, name: str) -> None:
    """It says that nothing up to offset 29 is later than START + 5 ms."""
    path = segment(tmp_path, 0, 0, 50)
    ends(tmp_path, 50)
    path.with_suffix(".timeindex").write_bytes(TimeIndex.ENTRY.pack(START + 5, 29) + bytes(24))
    frame = load(spark, tmp_path, name).where(f"timestamp >= timestamp_millis({START + 10})")
    assert offsets(frame) == list(range(10, 50))
    assert offsets(load(spark, tmp_path, name, startingTimestamp=str(START + 10))) == list(range(10, 50))


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("name", NAMES)
def test_a_topic_that_is_deleted_between_plan_and_read_is_loss(
    spark: Any, tmp_path: Path, isolation: str, name: str
) -> None:
    segment(tmp_path, 0, 0, 30)
    ends(tmp_path, 30)
    frames = [
        load(spark, tmp_path, name, isolation=isolation, failOnDataLoss=careful).select("offset").rdd
        for careful in ("true", "false")
    ]
    assert [frame.getNumPartitions() for frame in frames] == [1, 1]
    shutil.rmtree(tmp_path / "t-0")
    with pytest.raises(Exception, match="t-0: the topic was deleted before offsets 0 to 29 were read"):
        frames[0].collect()
    assert frames[1].collect() == []


@pytest.mark.parametrize("name", NAMES)
def test_starting_offsets_with_the_id_of_a_topic_that_was_made_anew_are_not_its_own(
    spark: Any, tmp_path: Path, name: str
) -> None:
    segment(tmp_path, 0, 0, 30)
    ends(tmp_path, 30)
    for letter, first in (("B", 20), ("C", 0)):
        (tmp_path / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {letter * 21}A")
        start = json.dumps({"t": {"0": 20}, "topic ids": {"t": "B" * 21 + "A"}})
        frame = load(spark, tmp_path, name, startingOffsets=start, failOnDataLoss="false")
        assert offsets(frame) == list(range(first, 30))
    assert "t: deleted and made anew" in failure(load(spark, tmp_path, name, startingOffsets=start))


def test_cleaning_between_plan_and_read_leaves_what_it_left(spark: Any, tmp_path: Path) -> None:
    segment(tmp_path, 0, 0, 30)
    segment(tmp_path, 0, 30, 30)
    ends(tmp_path, 60)
    planned = load(spark, tmp_path, splitBytes="300").select("offset").rdd
    assert planned.getNumPartitions() == 3
    kept = [0, 11, 12, 29, 47, 59]
    batches = [build_batch([Record(0, START, b"k", b"v", ())], base_offset=offset) for offset in kept]
    write_segment(tmp_path / "t-0", 0, batches)
    (tmp_path / "t-0" / f"{30:020}.log").unlink()
    assert sorted(row[0] for row in planned.collect()) == kept


def test_directories_are_found_by_links_and_several_are_one_log(spark: Any, tmp_path: Path) -> None:
    segment(tmp_path / "a", 0, 0, 10)
    ends(tmp_path / "a", 10)
    segment(tmp_path / "elsewhere", 1, 0, 20)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "t-1").symlink_to(tmp_path / "elsewhere" / "t-1")
    write_checkpoint(tmp_path / "b" / ENDS, {("t", 1): 15})
    (tmp_path / "link").symlink_to(tmp_path / "a")
    frame = load(spark, f"{tmp_path / 'link'}, {tmp_path / 'b'}")
    assert {(row[0], row[1]) for row in frame.groupBy("partition").count().collect()} == {(0, 10), (1, 15)}
    assert frame.select("value").rdd.count() == 25


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_read_is_named(spark: Any, tmp_path: Path) -> None:
    segment(tmp_path, 0, 0, 10)
    (tmp_path / "t-0").chmod(0)
    try:
        assert f"{tmp_path / 't-0'}: this process may not read it" in failure(load(spark, tmp_path))
    finally:
        (tmp_path / "t-0").chmod(0o700)


def test_headers_of_any_bytes_are_those_of_the_source_in_python(spark: Any, tmp_path: Path) -> None:
    given: list[tuple[tuple[bytes, bytes | None], ...]] = [
        (), ((b"", None),), ((b"a", b""), (b"a", b"x" * 300)), ((b"\xff\xfe", b"\x00"),), (("ü€".encode(), b"1"),) * 9,
    ]  # fmt: skip
    records = [Record(0, START, b"k", b"v", headers) for headers in given] * 50
    write_segment(tmp_path / "t-0", 0, [build_batch(records, base_offset=0)])
    ends(tmp_path, len(records))
    ours, python = (
        load(spark, tmp_path, name, includeHeaders="true").select("offset", "headers").orderBy("offset").collect()
        for name in NAMES
    )
    assert ours == python
    assert [row[1] is None for row in ours[:5]] == [True, False, False, False, False]
    chosen = load(spark, tmp_path, includeHeaders="true").where("headers is not null")
    for part in ("headers.key", "headers.value", "headers[0].value", "size(headers)"):
        both = [
            load(spark, tmp_path, name, includeHeaders="true").selectExpr("offset", part).where("offset < 6")
            for name in NAMES
        ]
        assert sorted(both[0].collect()) == sorted(both[1].collect()), part
    assert chosen.where("not is_valid_utf8(headers[0].key)").count() == 0
    newest = chosen.groupBy("partition").agg({"headers": "first", "offset": "count"}).collect()[0]
    assert newest["count(offset)"] == 200


# Streams.


def run(
    spark: Any, home: Path, work: Path | str, each: Any = None, name: str = "tidelog-files", **options: str
) -> list[list[tuple[int, int]]]:
    """Records of each batch of one availableNow run. `each`: called with a batch's number before it is read."""
    given = {"path": str(home), "subscribe": "t", "startingOffsets": "earliest", **options}
    found: list[list[tuple[int, int]]] = []

    def take(frame: Any, number: int) -> None:
        if each is not None:
            each(number)
        found.append(sorted((row[0], row[1]) for row in frame.select("partition", "offset").collect()))

    stream = spark.readStream.format(name).options(**given).load()
    query = (
        stream.writeStream.foreachBatch(take).option("checkpointLocation", str(work)).trigger(availableNow=True).start()
    )
    try:
        query.awaitTermination(300)
    finally:
        query.stop()
    return found


def numbers(partition: int, until: int, first: int = 0) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(first, until)]


def test_a_limited_batch_is_shared_as_by_the_source_in_python(spark: Any, tmp_path: Path) -> None:
    chance, most = random.Random(3), 50
    sizes = [chance.randrange(1, 90) for _ in range(5)]
    for partition, size in enumerate(sizes):
        segment(tmp_path, partition, 0, size)
    ends(tmp_path, *sizes)
    found = run(spark, tmp_path, tmp_path / "work", maxOffsetsPerTrigger=str(most))
    at = [0] * 5
    for batch in found:
        left = {TopicPartition("t", number): size - at[number] for number, size in enumerate(sizes)}
        wanted = share(left, most) if sum(left.values()) > most else left
        assert batch == sorted(
            row for (_, number), size in wanted.items() for row in numbers(number, at[number] + size, at[number])
        )
        assert len(batch) == min(most, sum(left.values()))
        at = [before + wanted[TopicPartition("t", number)] for number, before in enumerate(at)]
    assert at == sizes


def test_available_now_ends_where_the_log_ended_when_it_began_and_waits_for_nothing(spark: Any, tmp_path: Path) -> None:
    segment(tmp_path, 0, 0, 40)
    ends(tmp_path, 40)

    def grow(number: int) -> None:
        assert number < 9, "it does not end"
        segment(tmp_path, 0, 40 + 10 * number, 10)
        segment(tmp_path, 1, 0, 10)
        ends(tmp_path, 50 + 10 * number, 10)

    found = run(spark, tmp_path, tmp_path / "work", grow, maxOffsetsPerTrigger="30")
    assert found == [numbers(0, 30), numbers(0, 40, 30)]
    delay = {"minOffsetsPerTrigger": "1000", "maxTriggerDelay": "999999999h"}
    assert run(spark, tmp_path, tmp_path / "work", **delay) == [[*numbers(0, 60, 40), *numbers(1, 10)]]


def uncommit(work: Path, batch: int, offset: dict[str, Any] | None = None) -> None:
    """As after a driver that died in the batch; with another text of its end."""
    for folder in ("commits", "offsets") if offset else ("commits",):
        (work / folder / f".{batch}.crc").unlink(missing_ok=True)
    (work / "commits" / str(batch)).unlink(missing_ok=True)
    if offset is not None:
        source = work / "offsets" / str(batch if (work / "offsets" / str(batch)).exists() else batch - 1)
        lines = source.read_text().splitlines()
        (work / "offsets" / str(batch)).write_text("\n".join([*lines[:-1], json.dumps(offset)]))


def test_a_batch_that_was_not_committed_is_read_again_as_it_was(spark: Any, tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    segment(home, 0, 0, 40)
    ends(home, 40)
    assert run(spark, home, work, maxOffsetsPerTrigger="25") == [numbers(0, 25), numbers(0, 40, 25)]
    uncommit(work, 1)
    segment(home, 0, 40, 20)
    segment(home, 1, 0, 5)
    ends(home, 60, 5)
    assert run(spark, home, work) == [numbers(0, 40, 25), [*numbers(0, 60, 40), *numbers(1, 5)]]
    # What the checkpoint says is there, and the log no longer has.
    uncommit(work, 3, {"t": {"0": 90, "1": 5}})
    with pytest.raises(Exception, match="t-0: offset 90 was asked for, and the log ends at 60"):
        run(spark, home, work)
    assert not (work / "commits" / "3").exists()
    uncommit(work, 3, {"t": {"0": 60, "1": 5, "2": 9}})
    with pytest.raises(Exception, match="t-2: gone; the topic was deleted"):
        run(spark, home, work)
    assert not (work / "commits" / "3").exists()
    assert not any(run(spark, home, work, failOnDataLoss="false"))


@pytest.mark.parametrize(
    ("name", "again"), [("tidelog-files", "tidelog-files"), ("tidelog", "tidelog"), ("tidelog", "tidelog-files")]
)
def test_a_first_batch_that_failed_is_read_again_from_where_it_began(
    spark: Any, tmp_path: Path, name: str, again: str
) -> None:
    """Not from where the query would begin now, which would pass over in silence what retention has taken since."""
    if name == "tidelog" and not HAS_LIMITS:
        pytest.skip("needs PySpark 4.2")
    home, work = tmp_path / "home", tmp_path / "work"
    taken = segment(home, 0, 0, 20)
    segment(home, 0, 20, 20)
    ends(home, 40)

    def fail(number: int) -> None:
        raise RuntimeError("the sink is full")

    with pytest.raises(Exception, match="the sink is full"):
        run(spark, home, work, fail, name)
    assert not any(run(spark, home, work / "other", startingOffsets="latest"))
    taken.unlink()
    with pytest.raises(Exception, match="t-0: offset 0 was asked for, and the log starts at 20"):
        run(spark, home, work, name=again)
    assert run(spark, home, work, name=again, startingOffsets="latest", failOnDataLoss="false") == [numbers(0, 40, 20)]


def test_where_a_query_began_is_kept_by_the_file_systems_of_the_session(spark: Any, tmp_path: Path) -> None:
    """Spark's own checkpoint follows what spark.conf.set says of them."""
    segment(tmp_path, 0, 0, 10)
    ends(tmp_path, 10)
    (tmp_path / "work").mkdir()
    settings = {
        "fs.viewfs.mounttable.probe.link./work": (tmp_path / "work").as_uri(),
        "fs.viewfs.impl.disable.cache": "true",
    }
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        assert run(spark, tmp_path, "viewfs://probe/work/checkpoint") == [numbers(0, 10)]
    finally:
        for name in settings:
            spark.conf.unset(name)
    assert (tmp_path / "work/checkpoint/sources/0/0").read_text() == '\0v1\n{"t":{"0":0}}'


def test_an_option_that_is_none_is_not_set(spark: Any, tmp_path: Path) -> None:
    """A source in Python is not asked: Spark fails when it is to hand it one."""
    segment(tmp_path, 0, 0, 10)
    ends(tmp_path, 10)
    reader = spark.read.format("tidelog-files").options(path=str(tmp_path), subscribe="t")
    assert offsets(reader.option("columns", None).load()) == list(range(10))


def test_a_partition_that_is_gone_stops_a_stream(spark: Any, tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    for partition in (0, 1):
        segment(home, partition, 0, 10)
    ends(home, 10, 10)
    assert run(spark, home, work) == [[*numbers(0, 10), *numbers(1, 10)]]
    shutil.rmtree(home / "t-1")
    segment(home, 0, 10, 10)
    ends(home, 20)
    with pytest.raises(Exception, match="t-1: gone; the topic was deleted"):
        run(spark, home, work)
    assert run(spark, home, work, failOnDataLoss="false") == [numbers(0, 20, 10)]


def test_a_checkpoint_of_the_connector_is_read_on(spark: Any, tmp_path: Path) -> None:
    """It has the offsets alone, in an order of its own, and spaces where it likes."""
    home, work = tmp_path / "home", tmp_path / "work"
    for partition in (0, 1):
        segment(home, partition, 0, 30)
        (home / f"t-{partition}" / "partition.metadata").write_text(f"version: 0\ntopic_id: {'B' * 21}A")
    ends(home, 30, 30)
    assert run(spark, home, work) == [[*numbers(0, 30), *numbers(1, 30)]]
    uncommit(work, 0, {"t": {"1": 12, "0": 30}})
    assert run(spark, home, work) == [[*numbers(0, 30), *numbers(1, 12)], numbers(1, 30, 12)]
    assert json.loads((work / "offsets" / "1").read_text().splitlines()[-1]) == {
        "t": {"0": 30, "1": 30},
        "topic ids": {"t": "B" * 21 + "A"},
    }


def test_a_stream_counts_what_it_reads_and_leaves_out(spark: Any, tmp_path: Path) -> None:
    """Aborted and damaged records are offsets too, and behind the end of committed data is nothing to read."""
    home, work = tmp_path / "home", tmp_path / "work"
    path = segment(home, 0, 0, 40)
    data = bytearray(path.read_bytes())
    data[data.index(b"\x0415") + 1] ^= 1
    path.write_bytes(data)
    open_transaction: Sequence[bytes] = [
        build_batch(
            [Record(0, START, b"k", b"open", ())] * 5, base_offset=40, producer_id=7, producer_epoch=0, base_sequence=0,
            is_transactional=True,
        )
    ]  # fmt: skip
    write_segment(home / "t-0", 40, open_transaction)
    ends(home, 45)
    given = {"isolation": "read_committed", "corruptBatches": "skip"}
    assert run(spark, home, work, **given) == [[*numbers(0, 10), *numbers(0, 40, 20)]]
    assert json.loads((work / "offsets" / "0").read_text().splitlines()[-1]) == {"t": {"0": 40}}
    assert run(spark, home, work, **given) == []
    assert run(spark, home, work) == [numbers(0, 45, 40)]
