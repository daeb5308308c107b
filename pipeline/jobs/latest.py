"""`latest`: the newest row of each key as of one vector of offsets, as a table: Parquet, or Delta where its jar is there.

The table is replaced as a whole: a reader sees the old one or the new one. For Parquet that is a folder beside the others, named
by a link that is renamed into place; for Delta it is Delta's own commit.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from typing import Any

from .common import (
    JobError,
    Progress,
    Stopwatch,
    bounds_of,
    load,
    no_format,
    no_progress,
    offsets_json,
    only_topic,
    watched,
)

_KEPT = 2


def latest(
    spark: Any, source: Mapping[str, str], table: str, *, form: str = "parquet", progress: Progress = no_progress
) -> dict[str, Any]:
    """Writes the table; returns the report. `form`: parquet or delta. Driver. JobError, PipelineError."""
    if form not in ("parquet", "delta"):
        raise JobError(f"a table can be parquet or delta, not {form}")
    watch = Stopwatch()
    source = {"isolation": "read_committed", **source, "includeHeaders": "true"}
    bounds = bounds_of(source)
    topic = only_topic(bounds)
    ends = {where.partition: found.end for where, found in bounds.items()}
    total = sum(found.end - found.start for found in bounds.values())
    rows = load(spark, source, view="latest", endingOffsets=offsets_json(topic, ends))
    with watched(spark, total, progress):
        if form == "delta":
            with no_format(form):
                rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(table)
            count = spark.read.format("delta").load(table).count()
        else:
            data = f"{table.rstrip('/')}.{uuid.uuid4().hex[:12]}"
            rows.write.parquet(data)
            count = spark.read.parquet(data).count()
            replace(table.rstrip("/"), data)
    return {
        "job": "latest", "topic": topic, "table": table, "form": form, "keys": count, "offsets": total,
        "ends": {str(number): ends[number] for number in sorted(ends)}, "seconds": watch.seconds,
    }  # fmt: skip


def replace(table: str, data: str) -> None:
    """`table` is a link to `data` from now on; of older folders the last one stays, for those who are reading it. JobError."""
    if os.path.lexists(table) and not os.path.islink(table):
        raise JobError(f"{table} is there and is no table of this job; name another, or remove it")
    link = f"{data}.link"
    os.symlink(os.path.basename(data), link)
    os.replace(link, table)
    place, name = os.path.split(os.path.abspath(table))
    old = [
        os.path.join(place, entry)
        for entry in os.listdir(place)
        if entry.startswith(f"{name}.") and os.path.isdir(os.path.join(place, entry)) and not entry.endswith(".link")
    ]
    for folder in sorted(old, key=os.path.getmtime)[:-_KEPT]:
        shutil.rmtree(folder, ignore_errors=True)
