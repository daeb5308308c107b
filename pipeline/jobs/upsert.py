"""`upsert`: a topic's newest rows into a Delta or Iceberg table by MERGE, a run at a time.

A run that comes again changes nothing. The table has the columns key, value, timestamp, partition, offset; with `decode` also
record and recordError, which grow with the schema (`evolution.py`). A row of the topic replaces the table's row of its key when
its offset is higher, or its partition another one; a tombstone deletes it. The offsets that the table was brought to are a
property of it, written after the MERGE: a run that died in between is repeated, with what came since, and leaves the same table.
With them is the topic's id: offsets of a topic that was deleted say nothing of the one that has its name now.
With an archive of the topic, rows up to the archive's end come from there, since it has what compaction and retention took: a
tombstone that is gone from the topic deletes its row all the same.
One run at a time; keys stay in their partition. The jars and catalogs are the session's: see docs/PIPELINE.md.

`merge` is one batch of it, for a stream's `foreachBatch`: there the checkpoint has the offsets, and a batch that Spark sends
again changes nothing.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...backup.store import StoreOptions
from ..options import parse_options
from .archive import plan, read_files
from .common import (
    JobError,
    Progress,
    Stopwatch,
    check_whole,
    load,
    look_at,
    no_format,
    no_progress,
    offsets_json,
    only_topic,
    watched,
)
from .evolution import conformed, missing
from .manifest import ArchiveError, archive_of, files_beyond, read_manifests, told
from .places import place_of

_ENDS = "tidelog.ends"
#: Columns of the source with `decode`.
DECODED = ("record", "recordError")
_SOURCE = ("key", "value", "timestamp", "partition", "offset")
#: An instant, as the source has it, whatever `spark.sql.timestampType` makes of `timestamp` alone.
COLUMNS = "key binary, value binary, timestamp timestamp_ltz, `partition` int, `offset` bigint"


def upsert(
    spark: Any, source: Mapping[str, str], table: str, *, form: str = "delta", archive: str | None = None,
    progress: Progress = no_progress, store: StoreOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Brings the table (`catalog.schema.name`, or delta.`/path`) to the topic's end; makes it if it is missing. Driver.

    `archive`: where rows up to its end are taken from, a folder or a URL; `store`: as in the job `archive`. JobError: no
    such form, or the table is of another topic, of one that was deleted, or has gone beyond the topic. ArchiveError;
    OptionError for bounds of your own.
    """
    watch = Stopwatch()
    check_whole("upsert", source)
    source = {"isolation": "read_committed", **source}
    archived = None if archive is None else _Archived(spark, source, archive, store)
    bounds, topic_ids = look_at(source)  # behind the archive, which may go on
    topic = only_topic(bounds)
    topic_id = topic_ids.get(topic)
    if archived is not None:
        archived.found.check_topic(topic, topic_id)
    make_table(spark, table, form)
    before = _brought_to(spark, table)
    if before is not None:
        _check_topic(table, before, topic, topic_id)
    done = {} if before is None else before.ends
    limits = {where.partition: (found.start, found.end) for where, found in bounds.items()}
    ends = {number: end for number, (_, end) in limits.items()}
    starts = {number: done.get(number, start) for number, (start, _) in limits.items()}
    if archived is not None:
        starts |= {number: done.get(number, 0) for number in archived.ends if number in starts}
    for number, start in starts.items():
        if start > ends[number]:
            raise JobError(
                f"{table} was brought to offset {start} of partition {number}, and {topic} ends at {ends[number]}"
            )
    total = sum(ends[number] - starts[number] for number in ends)
    if total:
        live = starts if archived is None else archived.behind(starts, limits)
        rows = load(spark, source, startingOffsets=offsets_json(topic, live), endingOffsets=offsets_json(topic, ends))
        if archived is not None:
            rows = archived.rows(starts).unionByName(rows.select(*_SOURCE))
        with watched(spark, total, progress):
            merge(rows, table)
            if look_at(source).topic_ids.get(topic) != topic_id:
                raise JobError(
                    f"{topic} was deleted and made anew while it was merged into {table}, which may have rows of both by now: "
                    "make the table anew"
                )
            told = json.dumps(
                {"topic": topic, "topic_id": topic_id, "ends": {str(number): end for number, end in ends.items()}}
            )
            spark.sql(f"alter table {table} set tblproperties ('{_ENDS}' = '{told}')")
    return {
        "job": "upsert", "topic": topic, "table": table, "form": form, "offsets": total,
        "ends": {str(number): ends[number] for number in sorted(ends)}, "seconds": watch.seconds,
    }  # fmt: skip


def check_archived(source: Mapping[str, str], folder: str) -> None:
    """JobError: such rows of the topic do not go together with those of an archive."""
    if parse_options(source).decode is not None:
        raise JobError(f"{folder}: what an archive has is not decoded; upsert without decode, or without the archive")


class _Archived:
    """The archive of the topic that a table is made of. ArchiveError: there is none; JobError."""

    def __init__(self, spark: Any, source: Mapping[str, str], folder: str, store: StoreOptions | None) -> None:
        check_archived(source, folder)
        self._spark = spark
        with told(folder):
            self._place = place_of(spark, folder, store)
            self._manifests = read_manifests(self._place.url, self._place.open())
        found = archive_of(folder, self._manifests)
        if found is None:
            raise ArchiveError(f"{folder}: there is no archive here")
        self.found = found
        self.ends = found.ends

    def behind(self, starts: Mapping[int, int], limits: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """Where the topic is read from. JobError when it ends before the archive does."""
        begins, _ = plan(self.found, limits)
        return {number: max(begin, starts[number]) for number, begin in begins.items()}

    def rows(self, starts: Mapping[int, int]) -> Any:
        """What the archive has from these offsets on."""
        rows = read_files(self._spark, files_beyond(self._manifests, starts), self._place)
        wanted = [f"partition = {number} and offset >= {start}" for number, start in sorted(starts.items())]
        return rows.where(" or ".join(wanted) or "false").select(*_SOURCE)


def make_table(spark: Any, table: str, form: str = "delta") -> None:
    """Makes the table that `merge` fills, if it is missing. JobError: no such form, or none in this session."""
    if form not in ("delta", "iceberg"):
        raise JobError(f"a table can be delta or iceberg, not {form}")
    with no_format(form):
        spark.sql(f"create table if not exists {table} ({COLUMNS}) using {form}")


def merge(rows: Any, table: str) -> None:
    """The newest row of each key among the source's `rows` into the table. Driver, or a stream's `foreachBatch`.

    Rows that are older than the table's take nothing away; of a key that a tombstone took the table knows nothing any more.
    Decoded columns that the table lacks are added to it, before any row is written; a field that the rows have no more is null in
    theirs. JobError: a column of the table has another type.
    """
    from pyspark.sql import functions as f

    spark = rows.sparkSession
    decoded = rows.select([name for name in DECODED if name in rows.columns]).schema.jsonValue()
    for column in missing(spark.table(table).schema.jsonValue(), decoded):
        spark.sql(f"alter table {table} add columns ({column.path} {column.kind})")
    own = {field["name"]: field["type"] for field in decoded["fields"]}
    kept = [
        (one["name"], one["type"]) for one in spark.table(table).schema.jsonValue()["fields"] if one["name"] in DECODED
    ]
    changes = (
        rows.where("key is not null")
        .groupBy("key")
        .agg(f.expr(f"max_by(struct({', '.join(['value', 'timestamp', 'partition', 'offset', *own])}), offset)").alias("row"))
        .selectExpr(
            "key", "row.value", "row.timestamp", "row.partition as `partition`", "row.offset as `offset`",
            *(f"{conformed('row.' + name, own.get(name), kind)} as {name}" for name, kind in kept),
        )
    )  # fmt: skip
    # A stream's batches have a session of their own, and two tables may be merged into at once.
    view = f"tidelog_changes_{uuid.uuid4().hex}"
    changes.createOrReplaceTempView(view)
    updates = ", ".join(f"t.`{name}` = s.`{name}`" for name in changes.columns)
    names, values = (", ".join(f"{side}`{name}`" for name in changes.columns) for side in ("", "s."))
    newer = "(s.`partition` <> t.`partition` or s.`offset` > t.`offset`)"
    try:
        spark.sql(
            f"merge into {table} t using {view} s on t.key = s.key "  # noqa: S608  # names that the caller and we chose
            f"when matched and s.value is null and {newer} then delete "
            f"when matched and {newer} then update set {updates} "
            f"when not matched and s.value is not null then insert ({names}) values ({values})"
        )
    finally:
        spark.catalog.dropTempView(view)


class _BroughtTo(NamedTuple):
    """How far a table is. `topic_id`: None where no run could tell it. `ends`: partition → the offset behind what is merged."""

    topic: str
    topic_id: str | None
    ends: dict[int, int]


def _brought_to(spark: Any, table: str) -> _BroughtTo | None:
    for row in spark.sql(f"show tblproperties {table}").collect():
        if row["key"] == _ENDS:
            found = json.loads(row["value"])
            ends = {int(number): int(end) for number, end in found["ends"].items()}
            return _BroughtTo(found["topic"], found.get("topic_id"), ends)
    return None


def _check_topic(table: str, before: _BroughtTo, topic: str, topic_id: str | None) -> None:
    """JobError when the table is of another topic, or of one that had this name."""
    if before.topic != topic:
        raise JobError(f"{table} is of the topic {before.topic}, not of {topic}")
    if before.topic_id is not None and topic_id is not None and before.topic_id != topic_id:
        raise JobError(
            f"{table} is of a topic {topic} that was deleted (it had the id {before.topic_id}); the one of that name now has "
            f"{topic_id}: name another table, or drop this one"
        )
