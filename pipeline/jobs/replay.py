"""`replay`: an archive back into a topic, with original timestamps, headers, partitions and order.

Each original partition is one task, sorted by offset, so that its records are in the new topic in the order they had. By default
a row goes to the partition of its original number, and the whole replay is one exactly-once write named by the archive and its
version: a replay that is repeated writes nothing twice.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

from .archive import read_archive
from .common import JobError, Progress, Stopwatch, no_progress, watched
from .manifest import read_archive_log


def replay(
    spark: Any, folder: str, target: Mapping[str, str], *, keep_partitions: bool = True, where: str | None = None,
    once: bool = True, progress: Progress = no_progress,
) -> dict[str, Any]:  # fmt: skip
    """Writes the archive's rows to `target`, options of the sink with its `topic`; returns the report. Driver.

    `keep_partitions` False: rows go by their keys, to any number of partitions, and keep their order per original partition
    only within a new one. `where`: a condition in SQL over the source's columns. `once` False: write again what was written.
    """
    watch = Stopwatch()
    found = read_archive_log(folder)
    if found is None:
        raise JobError(f"{folder}: there is no archive here")
    topic = target.get("topic")
    if not topic:
        raise JobError("say which topic to write to: the option topic")
    rows = read_archive(spark, folder)
    if where:
        rows = rows.where(where)
    columns = ["key", "value", "headers", "timestamp", *(["partition"] if keep_partitions else [])]
    # One task for each original partition: a task writes its rows in the order in which it gets them.
    ordered = rows.repartition(max(1, len(found.ends)), "partition").sortWithinPartitions("partition", "offset")
    options = {**target, "topic": topic}
    if once:
        options |= {
            "delivery": "exactly-once",
            "txnAppId": application(folder, topic, where),
            "txnVersion": str(found.version),
        }
    with watched(spark, found.rows, progress):
        ordered.select(*columns).write.format("tidelog").options(**options).mode("append").save()
    return {
        "job": "replay", "archive": folder, "topic": topic, "version": found.version, "rows": found.rows,
        "seconds": watch.seconds,
    }  # fmt: skip


def application(folder: str, topic: str, where: str | None) -> str:
    """The name under which a replay is written once."""
    told = "\0".join((os.path.abspath(folder), topic, where or ""))
    return f"replay-{hashlib.sha256(told.encode()).hexdigest()[:16]}"
