"""`latest` and `changes` of what an archive has: as of its end, with no broker and no log. See ADR 103.

Rows of an archive are all at hand, so that a key in two partitions is seen to be there, not guessed from a partitioner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...backup.store import StoreOptions
from ..decode_options import DECODE_NAMES, RECORD, RECORD_ERROR
from ..exceptions import OptionError
from ..options import KeysStay, Options, View, parse_options
from .archive import open_archive
from .manifest import Archive

_PLAIN = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
_CHANGES = ("_op", "_previous_offset")
_TAKEN = ("subscribe", "columns", "includeHeaders", "keysStayInPartition", *DECODE_NAMES)


class ArchivedView(NamedTuple):
    """Rows, and the archive that they are of."""

    archive: Archive
    rows: Any


def archived_view(
    spark: Any, folder: str, given: Mapping[str, str], view: View, store: StoreOptions | None = None
) -> ArchivedView:
    """View of all that the archive has. `given`: of the source's options those that say nothing of where, from when or how rows
    are read. Driver. ArchiveError, OptionError.
    """
    check_asked(given)
    found, rows = open_archive(spark, folder, store)
    options = parse_options({"subscribe": found.topic, **given, "path": found.folder, "view": view.value})
    for topic in options.topics:
        found.check_topic(topic, None)
    return ArchivedView(found, _shown(rows, options))


def check_asked(given: Mapping[str, str]) -> None:
    """OptionError: an option of reading from a topic, or one that makes no sense."""
    taken = {name.lower() for name in _TAKEN}
    parse_options(
        {"path": "/", "subscribe": "t", **{name: text for name, text in given.items() if name.lower() not in taken}}
    )
    for name in given:
        if name.lower() not in taken:
            raise OptionError(f"{name} is for reading a topic; of an archive there are {', '.join(_TAKEN)}")
    parse_options({"subscribe": "t", **given, "path": "/"})


def _shown(rows: Any, options: Options) -> Any:
    """The columns that are asked for, of the view."""
    there = [*_PLAIN, *(["headers"] if options.include_headers or "headers" in options.columns else [])]
    if options.view is View.CHANGELOG:
        there += _CHANGES
    if options.decode is not None:
        there += [RECORD, RECORD_ERROR]
    for name in options.columns:
        if name not in there:
            raise OptionError(f"columns names {name}; this view of an archive has {', '.join(there)}")
    made = _changes(rows) if options.view is View.CHANGELOG else _latest(rows, options.keys_stay)
    wanted = list(options.columns or there)
    if options.decode is not None and {RECORD, RECORD_ERROR} & set(wanted):
        from ..decoded_frames import with_decoded
        from ..reading.decoded import pinned_schema

        made = with_decoded(made, pinned_schema(options.decode))
    return made.select(*wanted)


def _latest(rows: Any, keys_stay: KeysStay) -> Any:
    """The newest row of each key, but for those whose newest is a tombstone."""
    from pyspark.sql import functions as f

    moves = keys_stay is KeysStay.FALSE
    order = f.struct("timestamp", "partition", "offset") if moves else f.col("offset")
    newest = rows.where("key is not null").groupBy("key").agg(
        f.max_by(f.struct(*rows.columns), order).alias("row"),
        f.min("partition").alias("least"), f.max("partition").alias("most"), f.min("topic").alias("topic"),
    )  # fmt: skip
    if keys_stay is KeysStay.CHECK:
        said = f.expr(  # decode() fails at bytes that are no text
            "concat(topic, ': the key ', left(make_valid_utf8(cast(key as string)), 40), ' is in the partitions ', least, "
            "' and ', most, '; say keysStayInPartition=false, which compares them by their timestamps')"
        )
        newest = newest.withColumn("row", f.when(f.expr("least <> most"), f.raise_error(said)).otherwise(f.col("row")))
    return newest.select("row.*").where("value is not null")


def _changes(rows: Any) -> Any:
    """Every row with what it changes. Rows without a key are each alone: one window of them all would be one task's."""
    window = "over (partition by partition, key, if(key is null, offset, -1L) order by offset)"
    return rows.selectExpr(
        "*", f"lag(offset) {window} as _previous_offset", f"lag(value is not null) {window} as _was_there"
    ).selectExpr(
        *rows.columns,
        "case when key is null then 'insert' when value is null then 'delete' when _was_there then 'update' else 'insert' end "
        "as _op",
        "_previous_offset",
    )
