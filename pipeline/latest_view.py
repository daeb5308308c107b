"""`latest`: the table that a topic is, with or without a shuffle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .options import KeysStay, View, parse_options

if TYPE_CHECKING:
    from collections.abc import Mapping


def latest(spark: Any, options: Mapping[str, str]) -> Any:
    """A DataFrame with the newest row of each topic's key, as of one moment; keys whose newest is a tombstone are not in it.

    `options` are the source's, as for `spark.read.format("tidelog")`. Without a shuffle, as `view=latest` there, unless they say
    keysStayInPartition=false: then each partition's rows are compared once more, and of a key that is in several the one with
    the greatest timestamp counts, with the greatest partition and offset where those are equal. Driver. OptionError.
    """
    given = {**options, "view": View.LATEST.value}
    parsed = parse_options(given)
    frame = spark.read.format("tidelog").options(**given).load()
    if parsed.keys_stay is not KeysStay.FALSE:
        return frame
    from pyspark.sql import functions

    columns = frame.columns
    newest = functions.max_by(functions.struct(*columns), functions.struct("timestamp", "partition", "offset"))
    reduced = frame.groupBy("topic", "key").agg(newest.alias("newest"))
    return reduced.select("newest.*").where("value is not null").select(*columns)
