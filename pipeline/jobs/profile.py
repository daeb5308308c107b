"""`profile`: what is in a topic, and what compaction would save of it; with plots.

Sizes are those of keys and values, before compression. A key's records but the newest are what compaction takes, and the newest
too where it is a tombstone whose time is over; markers, headers and batches' own bytes are left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from .common import Progress, Stopwatch, bounds_of, load, no_progress, only_topic, watched

MOST_KEYS = 20
#: Bars of the plot of rates.
_BUCKETS = 120
_QUANTILES = (0.0, 0.5, 0.9, 0.99, 1.0)
_NAMES = ("min", "p50", "p90", "p99", "max")
_SECOND_US = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def profile(
    spark: Any, source: Mapping[str, str], *, plot: str | None = None, progress: Progress = no_progress
) -> dict[str, Any]:
    """Reads one topic, whole; returns the report. `plot`: a file to draw (png, svg or pdf). Driver. PipelineError."""
    from pyspark.sql import functions as f

    watch = Stopwatch()
    source = {"isolation": "read_committed", **source}
    bounds = bounds_of(source)
    topic = only_topic(bounds)
    total = sum(found.end - found.start for found in bounds.values())
    rows = load(spark, source).selectExpr(
        "partition", "offset", "timestamp", "key", "value is null as tombstone", "coalesce(length(key), 0) as key_bytes",
        "coalesce(length(value), 0) as value_bytes", "xxhash64(value) as content",
    )  # fmt: skip
    with watched(spark, total, progress):
        rows = rows.persist()
        try:
            whole = rows.agg(
                f.count("*").alias("records"),
                f.sum(f.expr("if(key is null, 1, 0)")).alias("without_key"),
                f.sum(f.expr("if(tombstone, 1, 0)")).alias("tombstones"),
                f.sum("key_bytes").alias("key_bytes"),
                f.sum("value_bytes").alias("value_bytes"),
                # Python has no date for what a producer that counts microseconds writes: numbers are counted with.
                f.expr("unix_micros(min(timestamp))").alias("first"),
                f.expr("unix_micros(max(timestamp))").alias("last"),
                f.expr(f"percentile_approx(value_bytes, array{_QUANTILES})").alias("value_sizes"),
                f.expr(f"percentile_approx(key_bytes, array{_QUANTILES})").alias("key_sizes"),
            ).first()
            keys = (
                rows.where("key is not null")
                .groupBy("partition", "key")
                .agg(
                    f.count("*").alias("records"),
                    f.sum(f.expr("key_bytes + value_bytes")).alias("bytes"),
                    f.max(f.expr("struct(offset, key_bytes + value_bytes as bytes, tombstone)")).alias("newest"),
                    f.count_distinct("content").alias("contents"),
                )
            )
            kept = keys.agg(
                f.count("*").alias("keys"),
                f.sum("records").alias("records"),
                f.sum("bytes").alias("bytes"),
                f.sum("newest.bytes").alias("kept_bytes"),
                f.sum(f.expr("if(newest.tombstone, 1, 0)")).alias("deleted_keys"),
                f.sum(f.expr("if(newest.tombstone, newest.bytes, 0)")).alias("deleted_bytes"),
                f.sum(f.expr("records - contents")).alias("repeated"),
            ).first()
            top = keys.orderBy(f.desc("records"), "key").limit(MOST_KEYS).collect()
            spread = keys.groupBy(f.expr("int(log2(records))").alias("power")).count().orderBy("power").collect()
            partitions = rows.groupBy("partition").agg(
                f.count("*").alias("records"), f.sum(f.expr("key_bytes + value_bytes")).alias("bytes")
            )
            parts = partitions.orderBy("partition").collect()
            rates = _rates(rows, whole["first"], whole["last"])
        finally:
            rows.unpersist()
    report = _report(topic, total, whole, kept, top, parts)
    report["keys_by_records"] = {str(1 << int(row["power"])): int(row["count"]) for row in spread}
    report["rates"] = rates
    if plot is not None:
        draw(report, plot)
        report["plot"] = os.path.abspath(plot)
    report["seconds"] = watch.seconds
    return report


def _report(topic: str, offsets: int, whole: Any, kept: Any, top: Any, parts: Any) -> dict[str, Any]:
    records, size = int(whole["records"]), int(whole["key_bytes"] or 0) + int(whole["value_bytes"] or 0)
    saved_records = int(kept["records"] or 0) - int(kept["keys"] or 0)
    saved_bytes = int(kept["bytes"] or 0) - int(kept["kept_bytes"] or 0)
    seconds = (whole["last"] - whole["first"]) / _SECOND_US if records else 0.0
    return {
        "job": "profile",
        "topic": topic,
        "offsets": offsets,
        "records": records,
        "bytes": size,
        "first": when(whole["first"]) if records else None,
        "last": when(whole["last"]) if records else None,
        "records_per_second": round(records / seconds, 3) if seconds else None,
        "without_key": int(whole["without_key"] or 0),
        "tombstones": int(whole["tombstones"] or 0),
        "keys": int(kept["keys"] or 0),
        "key_sizes": dict(zip(_NAMES, whole["key_sizes"] or [], strict=False)),
        "value_sizes": dict(zip(_NAMES, whole["value_sizes"] or [], strict=False)),
        "repeated_values": int(kept["repeated"] or 0),
        "compaction": {
            "records": saved_records,
            "bytes": saved_bytes,
            "share": round(saved_bytes / size, 4) if size else 0.0,
            "deleted_keys": int(kept["deleted_keys"] or 0),
            "bytes_of_tombstones": int(kept["deleted_bytes"] or 0),
        },
        "partitions": {str(row["partition"]): {"records": row["records"], "bytes": row["bytes"]} for row in parts},
        "top_keys": [
            {
                "key": bytes(row["key"]).decode("utf-8", "backslashreplace"),
                "records": row["records"],
                "bytes": row["bytes"],
            }
            for row in top
        ],
    }


def when(us: int) -> str:
    """A record's time, in microseconds since 1970: its date in UTC, or the number of milliseconds where there is none."""
    try:
        return (_EPOCH + timedelta(microseconds=us)).isoformat()
    except OverflowError:
        return f"{us // 1000} ms"


def _rates(rows: Any, first: int | None, last: int | None) -> dict[str, Any]:
    """Records and bytes in time, in so many steps as a plot shows. `first`, `last`: in microseconds since 1970."""
    from pyspark.sql import functions as f

    if first is None or last is None:
        return {"step_seconds": 0, "steps": []}
    step = (last - first) // _SECOND_US // _BUCKETS + 1
    start = first // _SECOND_US
    found = (
        rows.groupBy(f.expr(f"int((unix_timestamp(timestamp) - {start}) div {step})").alias("step"))
        .agg(f.count("*").alias("records"), f.sum(f.expr("key_bytes + value_bytes")).alias("bytes"))
        .orderBy("step")
        .collect()
    )
    return {
        "step_seconds": step,
        "steps": [[start + int(row["step"]) * step, int(row["records"]), int(row["bytes"])] for row in found],
    }


def date_of(second: int) -> datetime | None:
    """For a plot, which has the years of Python's dates; None: none of them."""
    try:
        return _EPOCH + timedelta(seconds=second)
    except OverflowError:
        return None


def draw(report: Mapping[str, Any], path: str) -> None:
    """Four pictures in one file: rate, sizes of partitions, records per key, what compaction saves. Needs matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(
        f"{report['topic']}: {report['records']:,} records, {report['keys']:,} keys, {report['bytes'] / 1e6:,.1f} MB"
    )
    (rate, parts), (keys, saved) = figure.subplots(2, 2)
    width = report["rates"]["step_seconds"]
    dated = [(at, count) for at, count in ((date_of(at), count) for at, count, _ in report["rates"]["steps"]) if at]
    rate.step([at for at, _ in dated], [count / max(width, 1) for _, count in dated], where="post")
    rate.set_title("records a second")
    rate.tick_params(axis="x", rotation=30)
    numbers = report["partitions"]
    parts.bar(list(numbers), [number["bytes"] / 1e6 for number in numbers.values()])
    parts.set_title("MB in each partition")
    powers = report["keys_by_records"]
    keys.bar([f"{power}+" for power in powers], list(powers.values()))
    keys.set_yscale("log")
    keys.set_title("keys with so many records")
    gone = report["compaction"]["bytes"]
    saved.barh(["superseded", "left"], [gone / 1e6, (report["bytes"] - gone) / 1e6], color=["tab:red", "tab:green"])
    saved.set_title(f"compaction would take {report['compaction']['share']:.0%} of the bytes (MB)")
    figure.savefig(path)
