"""`archive`: a topic into Parquet, a run at a time, each offset once; and the archive and the topic as one table.

The files are partitioned by date (UTC, of the record's timestamp), hold the source's columns with partition and offset as
`_partition` and `_offset`, and are sorted by them. The archive's files and its end are in its manifests, see
`manifest.py`: a run reads from there to the topic's end at its start, of committed data unless `isolation` says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...backup.store import StoreOptions
from ..options import parse_options
from ..planning.batch_plan import plan_batch
from .common import (
    JobError,
    Progress,
    Stopwatch,
    check_whole,
    load,
    look_at,
    no_progress,
    offsets_json,
    only_topic,
    watched,
)
from .manifest import (
    Archive,
    ArchiveError,
    ArchiveFile,
    add_manifest,
    new_data_folder,
    read_archive_log,
    told,
)
from .places import Place, place_of

DEFAULT_FILE_BYTES = 128 << 20
#: As they are in the files; `date` is the folder's name.
COLUMNS = ("key", "value", "topic", "_partition", "_offset", "timestamp", "timestampType", "headers")
#: `timestamp` alone would be one without a zone in a session whose `spark.sql.timestampType` is TIMESTAMP_NTZ.
SCHEMA = (
    "key binary, value binary, topic string, _partition int, _offset bigint, timestamp timestamp_ltz, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
#: The day of a row, whatever zone the session has: rounded down, before 1970 too, where `div` rounds towards it.
_DAY_US = 86_400_000_000
UTC_DATE = (
    f"date_from_unix_date(cast(unix_micros(timestamp) div {_DAY_US} - "
    f"if(unix_micros(timestamp) % {_DAY_US} < 0, 1, 0) as int))"
)


def archive(
    spark: Any, source: Mapping[str, str], folder: str, *, file_bytes: int = DEFAULT_FILE_BYTES,
    progress: Progress = no_progress, store: StoreOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Appends what is new of one topic; returns the report. Driver.

    `folder`: a path, or the URL of a place in a bucket (s3, s3a, gs, az) or in a file system that Hadoop knows (hdfs, …); `store`
    says how a bucket is reached, else see `bucket_of`.
    `source`: options of the source that name the topic and where it is. `file_bytes`: about how much of the log one file
    holds (Parquet is smaller). ArchiveError, JobError; OptionError for bounds of your own; DataLossError when the topic lost what
    was not archived yet.
    """
    watch = Stopwatch()
    check_whole("archive", source)
    source = {"isolation": "read_committed", **source, "includeHeaders": "true"}
    with told(folder):
        place = place_of(spark, folder, store)
        manifests = place.open()
        before = read_archive_log(place.url, manifests)
    # Behind the manifests: what another run had archived by then is in the topic.
    bounds, topic_ids = look_at(source)
    topic = only_topic(bounds)
    if before is not None:
        before.check_topic(topic, topic_ids.get(topic))
        with told(folder):
            place.sweep(before)
    starts, ends = plan(before, {where.partition: (found.start, found.end) for where, found in bounds.items()})
    total = sum(ends[number] - starts[number] for number in ends)
    report: dict[str, Any] = {"job": "archive", "topic": topic, "archive": folder, "offsets": total}
    version = 1 if before is None else before.version + 1
    files: list[ArchiveFile] = []
    if total:
        with told(folder):
            place.check(version)
        data = new_data_folder(version)
        reading = {
            **source,
            "startingOffsets": offsets_json(topic, starts),
            "endingOffsets": offsets_json(topic, ends),
            "splitBytes": str(file_bytes),
        }
        writers = len(plan_batch(parse_options(reading)))
        with watched(spark, total, progress):
            files = place.write(arranged(load(spark, reading), total, writers), data)
        if look_at(source).topic_ids != topic_ids:
            raise ArchiveError(f"{topic} was deleted and made anew while it was read; nothing was added to {folder}")
        ends_in_all = {**(before.ends if before else {}), **ends}
        with told(folder):
            add_manifest(place.url, version, topic, topic_ids.get(topic), ends_in_all, files, manifests)
    report |= {
        "version": version if total else version - 1,
        "rows": sum(file.rows for file in files),
        "files": len(files),
        "bytes": sum(file.bytes for file in files),
        "ends": {str(number): ends[number] for number in sorted(ends)},
        "seconds": watch.seconds,
    }
    return report


def plan(before: Archive | None, bounds: Mapping[int, tuple[int, int]]) -> tuple[dict[int, int], dict[int, int]]:
    """(starts, ends) of the next run by partition. JobError when the topic ends before the archive does."""
    starts, ends = {}, {}
    for number, (first, end) in bounds.items():
        starts[number] = before.ends.get(number, first) if before is not None else first
        ends[number] = end
        if starts[number] > end:
            raise JobError(
                f"partition {number} ends at {end}, and the archive at {starts[number]}: is it another topic of that name? "
                "Archive it into another folder"
            )
    return starts, ends


def arranged(rows: Any, offsets: int, splits: int) -> Any:
    """The source's rows, of so many offsets and splits, with an archive's columns and their date, in the order of its files.

    A split of the source is as much as a file shall hold, and there are as many writers as splits. Rows that are close together
    in time and offsets go to one writer: else each writer would write a file for each day that its split touches.
    """
    from pyspark.sql import functions as f

    writers = max(1, splits)
    together = max(1, -(-offsets // writers))
    return (
        rows.withColumnRenamed("partition", "_partition")
        .withColumnRenamed("offset", "_offset")
        .select(*COLUMNS)
        .selectExpr("*", f"cast({UTC_DATE} as string) as date")
        .repartition(writers, f.col("date"), f.expr(f"_offset div {together}"))
        .sortWithinPartitions("date", "_partition", "_offset")
    )


def open_archive(spark: Any, folder: str, store: StoreOptions | None = None) -> tuple[Archive, Any]:
    """An archive, and its rows in the source's columns. `folder`, `store`: as in `archive`. Driver. ArchiveError."""
    with told(folder):
        place = place_of(spark, folder, store)
        found = read_archive_log(place.url, place.open())
    if found is None:
        raise ArchiveError(f"{folder}: there is no archive here")
    return found, read_files(spark, found.files, place)


def read_archive(
    spark: Any, folder: str, live: Mapping[str, str] | None = None, *, store: StoreOptions | None = None
) -> Any:
    """The archive's rows in the source's columns; with `live`, options of the source, all that the topic has beyond it too:
    each offset once, whatever the topic has lost since. `folder`, `store`: as in `archive`. Driver. ArchiveError; OptionError for
    bounds of your own.
    """
    if live is not None:
        check_whole("read_archive", live)
    found, rows = open_archive(spark, folder, store)
    if live is None:
        return rows
    options = {"isolation": "read_committed", **live, "includeHeaders": "true"}
    bounds, topic_ids = look_at(options)
    topic = only_topic(bounds)
    found.check_topic(topic, topic_ids.get(topic))
    starts, ends = plan(found, {where.partition: (there.start, there.end) for where, there in bounds.items()})
    newer = load(spark, options, startingOffsets=offsets_json(topic, starts), endingOffsets=offsets_json(topic, ends))
    return rows.unionByName(newer)


def read_files(spark: Any, files: Sequence[ArchiveFile], place: Place) -> Any:
    """The rows of some of an archive's files in the source's columns. Driver."""
    renamed = [
        {"_partition": "_partition as partition", "_offset": "_offset as offset"}.get(name, name) for name in COLUMNS
    ]
    return place.read(spark, files, SCHEMA).selectExpr(*renamed)
