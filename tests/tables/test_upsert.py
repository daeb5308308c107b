"""`upsert` and `latest` into real tables of Delta and Iceberg: whatever is repeated, the table is the topic's newest rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from support.hdfs import Hdfs
from tidelog.pipeline.jobs.archive import archive
from tidelog.pipeline.jobs.common import JobError, bounds_of, load
from tidelog.pipeline.jobs.latest import latest
from tidelog.pipeline.jobs.manifest import ArchiveError
from tidelog.pipeline.jobs.upsert import make_table, merge, upsert
from tidelog.pipeline.sink.options import parse_sink_options
from tidelog.pipeline.sink.task import write_rows
from tidelog.testing import Broker

FORMS = ("delta", "iceberg")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as one:
        yield one


class Topic:
    """What was written to it, and what a table of it must hold."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.name = name
        self.options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": name}
        self._target = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": name}
        self._newest: dict[bytes, bytes | None] = {}
        broker.create_topic(name, 2)

    def write(self, *rows: tuple[bytes | None, bytes | None]) -> None:
        """In order, in one batch for each partition."""
        keys, values = zip(*rows, strict=True)
        batch = pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
        write_rows(parse_sink_options(self._target, streaming=False), [batch], None)
        self._newest |= {key: value for key, value in rows if key is not None}

    def rows(self) -> dict[bytes, bytes]:
        return {key: value for key, value in self._newest.items() if value is not None}


def lose(broker: Broker, topic: str) -> None:
    """All that it has, as by retention."""
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(topic, number): -1 for number in range(2)})


def found(spark: Any, table: str) -> dict[bytes, bytes]:
    rows = spark.table(table).select("key", "value").collect()
    assert len({bytes(row.key) for row in rows}) == len(rows), "a key has two rows"
    return {bytes(row.key): bytes(row.value) for row in rows}


def table_of(form: str, folder: Path, name: str) -> str:
    return f"delta.`{folder}/{name}`" if form == "delta" else f"ice.db.{name}"


#: Several changes of a key in one batch, tombstones at its beginning, middle and end, for keys that are there and that are not.
BATCHES: list[list[tuple[bytes | None, bytes | None]]] = [
    [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"gone", None), (b"c", b"1"), (b"c", None), (None, b"of no row")],
    [(b"a", None), (b"a", b"3"), (b"b", b"2"), (b"b", None), (b"d", b"1"), (b"c", b"2")],
    [(b"d", b""), (b"a", b"4"), (b"a", b"5"), (b"b", b"3")],
]


@pytest.mark.parametrize("form", FORMS)
def test_a_run_that_comes_again_changes_nothing(spark: Any, broker: Broker, tmp_path: Path, form: str) -> None:
    topic, table = Topic(broker, f"upserted-{form}"), table_of(form, tmp_path, "upserted")
    for batch in BATCHES[:2]:
        topic.write(*batch)
        assert upsert(spark, topic.options, table, form=form)["offsets"] == len(batch)
        assert found(spark, table) == topic.rows()
    assert upsert(spark, topic.options, table, form=form)["offsets"] == 0
    # One that died behind its MERGE, before it wrote down how far it had come: the next has its batch and more.
    spark.sql(f"alter table {table} unset tblproperties ('tidelog.ends')")
    topic.write(*BATCHES[2])
    assert upsert(spark, topic.options, table, form=form)["offsets"] == sum(map(len, BATCHES))
    assert found(spark, table) == topic.rows()
    other = Topic(broker, f"other-{form}")
    with pytest.raises(JobError, match=f"is of the topic {topic.name}, not of {other.name}"):
        upsert(spark, other.options, table, form=form)


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with Hdfs(tmp_path_factory.mktemp("hdfs") / "cluster") as cluster:
        yield cluster


@pytest.mark.parametrize(("form", "place"), [("delta", "folder"), ("iceberg", "hdfs"), ("delta", "hdfs")])
def test_an_archive_gives_what_the_topic_has_lost(
    spark: Any, broker: Broker, tmp_path: Path, request: pytest.FixtureRequest, form: str, place: str
) -> None:
    root = tmp_path if place == "folder" else f"{request.getfixturevalue('hdfs').url}/lake/{form}"
    topic, table, kept = Topic(broker, f"lost-{form}-{place}"), table_of(form, tmp_path, "lost"), f"{root}/archive"
    with pytest.raises(ArchiveError, match="there is no archive here"):
        upsert(spark, topic.options, table, form=form, archive=kept)

    # The first rows are gone from the topic before the table is made.
    topic.write(*BATCHES[0])
    archive(spark, topic.options, kept)
    lose(broker, topic.name)
    topic.write((b"e", b"1"))
    assert upsert(spark, topic.options, table, form=form, archive=kept)["offsets"] == len(BATCHES[0]) + 1
    assert found(spark, table) == topic.rows()

    # And tombstones and more behind what the table has, in two runs of the archive, one of which the table has in part.
    topic.write(*BATCHES[1])
    archive(spark, topic.options, kept)
    topic.write((b"f", b"1"))
    archive(spark, topic.options, kept)
    lose(broker, topic.name)
    topic.write(*BATCHES[2])
    for offsets in (len(BATCHES[1]) + 1 + len(BATCHES[2]), 0):
        assert upsert(spark, topic.options, table, form=form, archive=kept)["offsets"] == offsets
        assert found(spark, table) == topic.rows()

    decoding = {**topic.options, "decode": "json", "decodeSchema": '{"type": "object"}'}
    with pytest.raises(JobError, match="what an archive has is not decoded"):
        upsert(spark, decoding, table, form=form, archive=kept)
    other = Topic(broker, f"lost-other-{form}-{place}")
    with pytest.raises(ArchiveError, match=f"is the archive of {topic.name}, not of {other.name}"):
        upsert(spark, other.options, table, form=form, archive=kept)


@pytest.mark.parametrize("form", FORMS)
def test_a_stream_goes_on_behind_a_batch_that_was_merged_and_not_noted(
    spark: Any, broker: Broker, tmp_path: Path, form: str
) -> None:
    topic, table = Topic(broker, f"streamed-{form}"), table_of(form, tmp_path, "streamed")
    make_table(spark, table, form)
    merged: list[int] = []

    def run(times: int = 1) -> None:
        def work(rows: Any, number: int) -> None:
            for _ in range(times):
                merge(rows, table)
            merged.append(number)

        stream = spark.readStream.format("tidelog").options(**topic.options, startingOffsets="earliest").load()
        query = stream.writeStream.foreachBatch(work).option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert query.trigger(availableNow=True).start().awaitTermination(300)
        assert found(spark, table) == topic.rows()

    topic.write(*BATCHES[0])
    run(times=2)
    # As after a death between MERGE and checkpoint: Spark sends the batch again, as it was.
    (note,) = (tmp_path / "checkpoint" / "commits").glob("[0-9]*")
    note.unlink()
    (note.parent / f".{note.name}.crc").unlink(missing_ok=True)
    run()
    topic.write(*BATCHES[1], *BATCHES[2])
    run()
    assert merged == [0, 0, 1]


@pytest.mark.parametrize("form", FORMS)
def test_an_older_batch_takes_no_newer_row_away(spark: Any, broker: Broker, tmp_path: Path, form: str) -> None:
    """As of a stream whose checkpoint is lost, and that begins anew: batches that were merged come again, the oldest first.

    A table has no row of a tombstone, so that a key that an older batch has comes back, until the tombstone comes again.
    """
    topic, table = Topic(broker, f"older-{form}"), table_of(form, tmp_path, "older")
    make_table(spark, table, form)
    ends: list[dict[str, int]] = [{"0": 0, "1": 0}]
    wanted: list[dict[bytes, bytes]] = []
    for batch in (*BATCHES, [(b"b", None), (b"e", b"1")]):
        topic.write(*batch)
        ends.append({str(one.partition): bound.end for one, bound in bounds_of(topic.options).items()})
        wanted.append(topic.rows())
    batches = [
        load(
            spark, topic.options,
            startingOffsets=json.dumps({topic.name: begin}), endingOffsets=json.dumps({topic.name: end}),
        )
        for begin, end in pairwise(ends)
    ]  # fmt: skip
    for rows, then in zip(batches, wanted, strict=True):
        merge(rows, table)
        assert found(spark, table) == then
    now = wanted[-1]
    merge(batches[-1], table)
    assert found(spark, table) == now, "the last batch, with its tombstone, came again"
    for number, rows in enumerate(batches[:-1]):
        merge(rows, table)
        there = found(spark, table)
        assert now.items() <= there.items(), f"batch {number} has taken newer rows away"
        assert there.keys() - now.keys() <= {b"b"}
    merge(batches[-1], table)
    assert found(spark, table) == now
    # The job goes by offsets that the table knows, and reads nothing that is older.
    upsert(spark, topic.options, table, form=form)
    assert upsert(spark, {**topic.options, "startingOffsets": "earliest"}, table, form=form)["offsets"] == 0
    assert found(spark, table) == now


def schema_of(**properties: Any) -> str:
    return json.dumps({"type": "object", "properties": properties})


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize("form", FORMS)
def test_a_tables_columns_grow_with_the_schema(spark: Any, broker: Broker, tmp_path: Path, form: str) -> None:
    topic, table = Topic(broker, f"decoded-{form}"), table_of(form, tmp_path, "decoded")
    inner = {"type": "object", "properties": {"city": TEXT}}

    def run(schema: str | None) -> dict[bytes, Any]:
        decoding = {} if schema is None else {"decode": "json", "decodeSchema": schema}
        upsert(spark, {**topic.options, **decoding}, table, form=form)
        rows = spark.table(table).select("key", "record", "recordError").collect() if schema is not None else []
        return {
            bytes(row.key): (row.record.asDict(recursive=True) if row.record else None, row.recordError) for row in rows
        }

    topic.write((b"plain", b"1"))
    run(None)  # a table from before there was `decode`
    topic.write((b"a", b'{"id": 1, "home": {"city": "x"}}'), (b"b", b"{"), (b"gone", b"{}"), (b"gone", None))
    found = run(schema_of(id=WHOLE, home=inner))
    assert found[b"a"] == ({"id": 1, "home": {"city": "x"}}, None)
    assert found[b"b"][0] is None
    assert found[b"b"][1].startswith("no JSON")
    assert found[b"plain"] == (None, None), "what was written before is left as it is"
    assert set(found) == {b"a", b"b", b"plain"}
    topic.write((b"c", b'{"id": 2, "home": {"city": "y", "zip": "7"}, "note": "n"}'))
    more = {**inner, "properties": {**inner["properties"], "zip": TEXT}}
    found = run(schema_of(id=WHOLE, home=more, note=TEXT))
    assert found[b"a"] == ({"id": 1, "home": {"city": "x", "zip": None}, "note": None}, None)
    assert found[b"c"] == ({"id": 2, "home": {"city": "y", "zip": "7"}, "note": "n"}, None)
    topic.write((b"d", b'{"note": "of fewer columns"}'))
    assert run(schema_of(note=TEXT))[b"d"] == ({"id": None, "home": None, "note": "of fewer columns"}, None)
    topic.write((b"e", b'{"id": "x"}'))
    with pytest.raises(JobError, match=r"column record\.id is bigint in the table and string in the rows"):
        run(schema_of(id=TEXT, fresh=TEXT))
    assert b"e" not in {bytes(row.key) for row in spark.table(table).collect()}
    assert "fresh" not in str(spark.table(table).schema), "nothing half"


def test_a_topic_that_was_made_anew_is_another_one(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """With as many records as the old one, so that every offset is there: its first ones were passed over in silence."""
    topic, table = Topic(broker, "anew"), table_of("delta", tmp_path, "anew")
    topic.write(*BATCHES[0])
    upsert(spark, topic.options, table)
    was = found(spark, table)
    broker.delete_topic(topic.name)
    again = Topic(broker, topic.name)
    again.write(*BATCHES[1], *BATCHES[0])
    with pytest.raises(JobError, match=r"is of a topic anew that was deleted \(it had the id .*name another table"):
        upsert(spark, again.options, table)
    assert found(spark, table) == was, "nothing half"
    # One that an older tidelog has brought up knows no id: it is taken for this topic's, and has its id from now on.
    told = json.dumps({"topic": topic.name, "ends": {"0": 0, "1": 0}})
    spark.sql(f"alter table {table} set tblproperties ('tidelog.ends' = '{told}')")
    upsert(spark, again.options, table)
    assert again.rows().items() <= found(spark, table).items()
    broker.delete_topic(topic.name)
    anew = Topic(broker, topic.name)
    with pytest.raises(JobError, match="is of a topic anew that was deleted"):
        upsert(spark, anew.options, table)


def test_a_topic_that_is_made_anew_while_it_is_merged_is_told(
    spark: Any, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, table = Topic(broker, "swapped"), table_of("delta", tmp_path, "swapped")
    keyed = [(key, value) for key, value in BATCHES[0] if key is not None]  # others may go to either partition
    topic.write(*keyed)

    def swap(rows: Any, name: str) -> None:
        broker.delete_topic(topic.name)
        Topic(broker, topic.name).write(*keyed)
        merge(rows, name)

    with monkeypatch.context() as patched:
        patched.setattr("tidelog.pipeline.jobs.upsert.merge", swap)
        with pytest.raises(JobError, match="swapped was deleted and made anew while it was merged into"):
            upsert(spark, topic.options, table)
    assert "tidelog.ends" not in {row["key"] for row in spark.sql(f"show tblproperties {table}").collect()}


def test_no_other_form_is_taken(spark: Any, broker: Broker) -> None:
    with pytest.raises(JobError, match="can be delta or iceberg, not hudi"):
        upsert(spark, Topic(broker, "formless").options, "t", form="hudi")


def test_the_latest_table_can_be_deltas(spark: Any, broker: Broker, tmp_path: Path) -> None:
    topic, table = Topic(broker, "latest"), str(tmp_path / "latest")
    for batch in BATCHES[:2]:
        topic.write(*batch)
        assert latest(spark, topic.options, table, form="delta")["keys"] == len(topic.rows())
        assert found(spark, f"delta.`{table}`") == topic.rows()
