"""`latest`: the newest row of each key as of one vector of offsets, as a table: Parquet, or Delta where its jar is there.

The table is replaced as a whole: a reader sees the old one or the new one. For Parquet that is a folder beside the others, named
by a link that is renamed into place; for Delta it is Delta's own commit.
"""

from __future__ import annotations

import os
import re
import shutil
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ...backup.store import StoreOptions
from .. import latest as newest_rows
from ..options import View, check_batch, parse_options
from ..planning.batch_plan import batch_ranges
from ..planning.places import open_place
from .archived_views import archived_view
from .common import (
    JobError,
    Progress,
    Stopwatch,
    no_format,
    no_progress,
    offsets_json,
    only_topic,
    watched,
)
from .manifest import URI, glob_of, local_uri

#: Of a folder's name behind the table's.
_DIGITS = 12
#: A run whose files have not changed for so long does not go on.
_DEAD_S = 24 * 3600


def latest(
    spark: Any, source: Mapping[str, str], table: str, *, form: str = "parquet", progress: Progress = no_progress,
    archive: str | None = None, store: StoreOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Writes the table; returns the report. `form`: parquet or delta. Driver. JobError, PipelineError.

    `source`: of the topic; with bounds of your own the table is as of these, and the report's `ends` are too.

    `archive`, `store`: as in the job `archive`; then the table is as of the archive's end, and of `source` there are only the
    options that `tidelog.pipeline.latest` takes with an archive.
    """
    check_table(table, form)
    watch = Stopwatch()
    rows, topic, ends, total = (
        _of_topic(spark, source) if archive is None else _of_archive(spark, source, archive, store)
    )
    with watched(spark, total, progress):
        if form == "delta":
            with no_format(form):
                rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(table)
            count = spark.read.format("delta").load(table).count()
        else:
            count = _write_parquet(spark, rows, table.rstrip("/"))
    return {
        "job": "latest", "topic": topic, "table": table, "form": form, "keys": count, "offsets": total,
        "ends": {str(number): ends[number] for number in sorted(ends)}, "seconds": watch.seconds,
    }  # fmt: skip


def check_table(table: str, form: str) -> None:
    """JobError where a table of this form could not get its place, before anything is read for it."""
    if form not in ("parquet", "delta"):
        raise JobError(f"a table can be parquet or delta, not {form}")
    if form == "delta":
        return
    if URI.match(table):
        raise JobError(
            f"{table}: a table in Parquet is a folder of a local or mounted file system, given as its path, put there by "
            "a link; elsewhere take delta"
        )
    _check_free(table.rstrip("/") or "/")


class _Taken(NamedTuple):
    """What a table is made of. `offsets`: how many are read."""

    rows: Any
    topic: str
    ends: Mapping[int, int]
    offsets: int


def _of_topic(spark: Any, source: Mapping[str, str]) -> _Taken:
    source = {"isolation": "read_committed", **source, "includeHeaders": "true"}
    options = parse_options(source)
    check_batch(options)
    with open_place(options) as place:
        ranges = batch_ranges(options, place)
    topic = only_topic(span.where for span in ranges)
    ends = {span.where.partition: span.end for span in ranges}
    # A time is looked up once: what is read and what is told of it are of one vector of offsets.
    without_end = {name: text for name, text in source.items() if not name.lower().startswith("ending")}
    rows = newest_rows(spark, {**without_end, "endingOffsets": offsets_json(topic, ends)})
    return _Taken(rows, topic, ends, sum(max(0, span.end - span.first) for span in ranges))


def _of_archive(spark: Any, source: Mapping[str, str], folder: str, store: StoreOptions | None) -> _Taken:
    found, rows = archived_view(spark, folder, {**source, "includeHeaders": "true"}, View.LATEST, store)
    return _Taken(rows, found.topic, found.ends, found.rows)


def _write_parquet(spark: Any, rows: Any, table: str) -> int:
    """How many rows the table has. Nothing of them stays where it can't be made."""
    data = f"{table}.{uuid.uuid4().hex[:_DIGITS]}"
    try:
        rows.write.parquet(local_uri(data))  # where the link will be, whatever the session's file system is
        count = int(spark.read.parquet(glob_of(local_uri(data))).count())
        replace(table, data)
    except BaseException:
        with suppress(OSError):
            os.unlink(_link(data))
        if os.path.realpath(table) != os.path.realpath(data):
            shutil.rmtree(data, ignore_errors=True)
        raise
    return count


def _check_free(table: str) -> None:
    if os.path.lexists(table) and not os.path.islink(table):
        raise JobError(f"{table} is there and is no table of this job; name another, or remove it")


def replace(table: str, data: str) -> None:
    """`table` is a link to `data` from now on; the folder that it was a link to stays for those who read it, and older ones
    of this table go. JobError.
    """
    _check_free(table)
    before = os.path.realpath(table) if os.path.islink(table) else None
    os.symlink(os.path.basename(data), _link(data))
    os.replace(_link(data), table)
    place, name = os.path.split(os.path.abspath(table))
    kept = {os.path.realpath(data), before}
    for entry in os.listdir(place):
        folder = os.path.join(place, entry)
        ours = re.fullmatch(rf"{re.escape(name)}\.[0-9a-f]{{{_DIGITS}}}", entry)
        if ours and os.path.realpath(folder) not in kept and _is_over(folder, before):
            shutil.rmtree(folder, ignore_errors=True)  # which takes no link


def _link(data: str) -> str:
    """What becomes the table."""
    return f"{data}.link"


def _is_over(folder: str, before: str | None) -> bool:
    """Whether nobody will make a table of it any more: it was done before the folder `before`, which is one; or its run has died.
    A run that goes on may be another's, and Spark says of what is lost to it nothing at all.
    """
    try:
        if os.path.isdir(os.path.join(folder, "_temporary")):  # which Spark removes at the end
            return max(os.path.getmtime(each) for each, _, _ in os.walk(folder)) < time.time() - _DEAD_S
        return before is not None and os.path.getmtime(folder) < os.path.getmtime(before)
    except OSError:  # somebody has removed it
        return False
