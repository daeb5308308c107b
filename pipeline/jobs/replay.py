"""`replay`: an archive back into a topic, with original timestamps, headers, partitions and order.

Each original partition is one task, sorted by offset, so that its records are in the new topic in the order they had. By default
a row goes to the partition of its original number.

The rows that an archive got in its run n (its version n) are one exactly-once write named by archive, topic (its name and its id)
and condition, with txnVersion n. These rows are the same whichever run writes them, however far the archive has grown since: all
offsets from the ends of version n - 1 to those of version n. So a replay that is repeated, or begun twice, writes each offset
once: it goes on behind the version that the sink's commit topic has of it, one version after the other. A topic that was deleted
and made anew has another id, and gets everything. See docs/adr/0053-replay-by-versions.md.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ...backup.store import StoreOptions
from ..planning.brokers import Brokers
from ..sink.options import SinkOptions, parse_sink_options
from ..sink.task import Versions, last_version
from ..wire.client import KafkaClient
from .archive import read_files
from .common import JobError, Progress, Stopwatch, no_progress, watched
from .manifest import URI, Manifest, read_manifests, told
from .places import place_of


def replay(
    spark: Any, folder: str, target: Mapping[str, str], *, keep_partitions: bool = True, where: str | None = None,
    once: bool = True, progress: Progress = no_progress, store: StoreOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Writes what `target`, options of the sink with its `topic`, has not got of the archive yet; returns the report. Driver.

    The report's `rows` are those that this replay wrote. `folder`, `store`: as in `archive`. `keep_partitions` False: rows go by
    their keys, to any number of partitions, and keep their order per original partition only within a new one. `where`: a
    condition in SQL over the source's columns. `once` False: write everything again, at least once. JobError, ArchiveError, and
    what the sink raises.
    """
    watch = Stopwatch()
    with told(folder):
        place = place_of(spark, folder, store)
        manifests = read_manifests(place.url, place.open())
    if not manifests:
        raise JobError(f"{folder}: there is no archive here")
    topic = target.get("topic")
    if not topic:
        raise JobError("say which topic to write to: the option topic")
    from ..session import make_active

    make_active(spark)  # calls from other threads find the sink too
    options = {**target, "topic": topic}
    to = parse_sink_options(options, streaming=False)
    target_id = id_of(to, topic)
    if once:
        name = application(place.url, topic, target_id, where)
        options |= {"delivery": "exactly-once", "txnAppId": name}
    columns = ["key", "value", "headers", "timestamp", *(["partition"] if keep_partitions else [])]

    def write(what: Sequence[Manifest], more: Mapping[str, str], observed: Any = None) -> None:
        rows = read_files(spark, [file for manifest in what for file in manifest.files], place)
        if where:
            rows = rows.where(where)
        # One task for each original partition: a task writes its rows in the order in which it gets them.
        rows = rows.repartition(max(1, len(what[-1].ends)), "partition").sortWithinPartitions("partition", "offset")
        if observed is not None:
            rows = rows.observe(observed, functions.count("*").alias("rows"))
        rows.select(*columns).write.format("tidelog").options(**{**options, **more}).mode("append").save()
        if id_of(to, topic) != target_id:
            raise JobError(
                f"{topic} was deleted and made anew while it was written, and may have some of the rows of {folder} by now: make "
                "it anew, and replay again"
            )

    from pyspark.sql import Observation, functions

    written = 0
    if not once:
        observed = Observation()
        with watched(spark, sum(each.rows for each in manifests), progress):
            write(manifests, {}, observed)
        written = int(observed.get["rows"])
    else:
        parsed = parse_sink_options(options, streaming=False)
        state = last_version(parsed)
        check(folder, len(manifests), state, topic)
        left = manifests[state.version :]
        with watched(spark, sum(each.rows for each in left), progress):
            for version, manifest in enumerate(left, state.version + 1):
                write([manifest], {"txnVersion": str(version)})
                written += last_version(parsed).rows
    return {
        "job": "replay", "archive": folder, "topic": topic, "version": len(manifests), "rows": written,
        "seconds": watch.seconds,
    }  # fmt: skip


def check(folder: str, newest: int, state: Versions, topic: str) -> None:
    """JobError when more of an archive at this path was replayed than there is. `newest`: its version."""
    if state.version > newest:
        raise JobError(
            f"{topic} has version {state.version} of an archive at {folder}, which is at version {newest}: it is another archive "
            "than the one that was replayed; write it into another topic, or all of it again (--again)"
        )


def id_of(target: SinkOptions, topic: str) -> str | None:
    """The topic's id; None without such a topic, or from brokers before Kafka 2.8. Blocks. Errors of the wire."""
    with KafkaClient(target.client) as client:
        return Brokers(client).topic_ids([topic]).get(topic)


def application(folder: str, topic: str, topic_id: str | None, where: str | None) -> str:
    """The name under which a replay is written once. `topic_id`: of the topic that is written to; None where it is not known."""
    place = folder if URI.match(folder) else os.path.abspath(folder)
    told = "\0".join((place, topic, where or "", *([topic_id] if topic_id else [])))
    return f"replay-{hashlib.sha256(told.encode()).hexdigest()[:16]}"
