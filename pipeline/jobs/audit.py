"""`audit`: do two states of a log keep what compaction promises?

`before` is a copy of the log directories (`cp -a`, a snapshot of the file system), `after` the directories later on.

    lost        a key has a newest value, and nothing of it is left
    invented    a record that `before` does not have, at an offset that it had passed
    changed     a record has another key, value, timestamp or other headers than before
    wrong       a key's newest record is not the one that it should be: an older one is back, also behind a tombstone
    duplicate   two records at one offset
    order       a batch begins at or below the last offset of the one before it

Compaction may take every record that a newer one of its key supersedes, tombstones after their time, records without a key, and
what was aborted. Records that retention or DeleteRecords took (offsets below the log's start) are not counted as missing. Records
are compared by their hashes; Spark shuffles them by key, so that size is a matter of disk, not of memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from ...storage.io.filesystem import RealFileSystem
from ..exceptions import CorruptLogError
from ..planning.log_directory import LogDirectories
from ..planning.places import Bounds, TopicPartition
from ..planning.sparse_index import written_headers
from .common import JobError, Progress, Stopwatch, bounds_of, load, no_progress, watched

#: Places of each kind that the report names.
MOST_EXAMPLES = 20
KINDS = ("lost", "invented", "changed", "wrong", "duplicate", "order")
_CONTENT = "xxhash64(key, value, timestamp, timestampType, cast(headers as string))"


def audit(spark: Any, before: str, after: str, topics: str, *, progress: Progress = no_progress) -> dict[str, Any]:
    """Compares topics (comma-separated) of two log directories; returns the report, with `passed`. Driver. PipelineError."""
    watch = Stopwatch()
    source = {"subscribe": topics, "includeHeaders": "true", "isolation": "read_committed", "failOnDataLoss": "false"}
    old, new = ({**source, "path": path} for path in (before, after))
    was, now = bounds_of(old), bounds_of(new)
    check_bounds(was, now)
    offences = out_of_order(after, sorted(now))
    rows = _rows(load(spark, old), 0).unionByName(_rows(load(spark, new), 1))
    limits = spark.createDataFrame(
        [(where.topic, where.partition, was[where].end, now[where].start) for where in was],
        "topic string, partition int, old_end bigint, new_start bigint",
    )
    rows = rows.join(limits.hint("broadcast"), ["topic", "partition"])
    total = sum(found.end - found.start for found in (*was.values(), *now.values()))
    with watched(spark, total, progress):
        rows = rows.persist()
        try:
            for place in (_by_offset(rows), _by_key(rows)):
                offences += [tuple(row) for row in place.collect()]
            counts = {int(row["side"]): int(row["count"]) for row in rows.groupBy("side").count().collect()}
        finally:
            rows.unpersist()
    found: dict[str, int] = dict.fromkeys(KINDS, 0)
    by_topic: dict[str, dict[str, int]] = {}
    examples: dict[str, list[str]] = {}
    for kind, count, topic, partition, offset in offences:
        found[kind] += count
        mine = by_topic.setdefault(topic, {})
        mine[kind] = mine.get(kind, 0) + count
        shown = examples.setdefault(kind, [])
        if len(shown) < MOST_EXAMPLES:
            shown.append(f"{topic}-{partition} at {offset}")
    return {
        "job": "audit", "before": before, "after": after, "topics": topics, "passed": not any(found.values()),
        "found": found,
        "by_topic": by_topic, "examples": examples, "records_before": counts.get(0, 0), "records_after": counts.get(1, 0),
        "seconds": watch.seconds,
    }  # fmt: skip


def check_bounds(was: Mapping[TopicPartition, Bounds], now: Mapping[TopicPartition, Bounds]) -> None:
    """JobError: the two are not states of the same logs."""
    for where, found in was.items():
        if where not in now:
            raise JobError(f"{where} is not there any more")
        if now[where].end < found.end:
            raise JobError(
                f"{where} ended at {found.end} before and ends at {now[where].end} now: `before` is the later one, or the "
                "log was truncated, which no audit of compaction can judge"
            )


def out_of_order(path: str, partitions: list[TopicPartition]) -> list[tuple[str, int, str, int, int]]:
    """Batches whose offsets do not rise, and records in those that repeat earlier ones, from headers alone, as
    (kind, count, topic, partition, offset). A reader would see such records once: it goes by offsets. Blocks. JobError.
    """
    directories = LogDirectories([path])
    files = RealFileSystem()
    found = []
    for topic, partition in partitions:
        firsts: list[int] = []
        lasts: list[int] = []
        for segment in directories.segments(topic, partition):
            file = files.open(segment.path, writable=False)
            try:
                for header in written_headers(file, 0):
                    if not lasts or header.base_offset > lasts[-1]:
                        firsts.append(header.base_offset)
                        lasts.append(header.last_offset)
                        continue
                    found.append(("order", 1, topic, partition, int(header.base_offset)))
                    at = bisect_left(lasts, header.base_offset)
                    if firsts[at] <= header.last_offset:
                        found.append(("duplicate", int(header.record_count), topic, partition, int(header.base_offset)))
            except CorruptLogError as error:
                raise JobError(str(error)) from None
            finally:
                file.close()
    return found


def _rows(rows: Any, side: int) -> Any:
    return rows.selectExpr(
        f"{side} as side", "topic", "partition", "offset", "key is not null as keyed",
        # Two hashes of a key make a chance meeting a matter of 2⁻¹²⁸.
        "xxhash64(key) as key_a", "xxhash64(1, key) as key_b", "value is null as tombstone", f"{_CONTENT} as content",
    )  # fmt: skip


def _offences(spark_rows: Any, kind: str, condition: str) -> Any:
    from pyspark.sql import functions as f

    wrong = spark_rows.where(condition)
    per_place = wrong.groupBy("topic", "partition").agg(
        f.count("*").alias("count"), f.slice(f.sort_array(f.collect_set("offset")), 1, 1)[0].alias("offset")
    )
    return per_place.selectExpr(f"'{kind}' as kind", "count", "topic", "partition", "offset")


def _by_offset(rows: Any) -> Any:
    """Records at one offset, of both sides: duplicate, changed, invented."""
    from pyspark.sql import functions as f

    both = rows.groupBy("topic", "partition", "offset").agg(
        f.sum(f.expr("if(side = 1, 1, 0)")).alias("there"),
        f.sum(f.expr("if(side = 0, 1, 0)")).alias("was"),
        f.count_distinct("content").alias("contents"),
        f.max("old_end").alias("old_end"),
    )
    return (
        _offences(both, "duplicate", "there > 1")
        .unionByName(_offences(both, "changed", "there > 0 and was > 0 and contents > 1"))
        .unionByName(_offences(both, "invented", "there > 0 and was = 0 and offset < old_end"))
    )


def _by_key(rows: Any) -> Any:
    """The newest record of each key, as it must be and as it is: lost, wrong."""
    from pyspark.sql import functions as f

    keyed = rows.where("keyed and offset >= new_start").selectExpr("*", "struct(offset, tombstone) as record")
    newest = keyed.groupBy("topic", "partition", "key_a", "key_b").agg(
        # Records that were there, and those that have come since; records below the old end that were not there are invented.
        f.max(f.expr("if(side = 0 or offset >= old_end, record, null)")).alias("must"),
        f.max(f.expr("if(side = 1, record, null)")).alias("has"),
    )
    newest = newest.where("must is not null").selectExpr("topic", "partition", "must.offset as offset", "must", "has")
    return _offences(newest, "lost", "not must.tombstone and has is null").unionByName(
        _offences(newest, "wrong", "has.offset < must.offset")
    )
