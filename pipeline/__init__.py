"""Spark over tidelog's topics: read the log's own files, or over TCP.

    from tidelog.pipeline import register
    register(spark)
    spark.read.format("tidelog").option("path", "/var/lib/tidelog").option("subscribe", "orders").load()

Start reading at `source.py` (Spark's side), then `planning/batch_plan.py` and `stream_plan.py` (what is read) and `places.py`
(from where), `reading/segment_reader.py` (files) and `fetch_reader.py` (TCP), which decode with `batch_decoder.py`; `views.py`
reduces. Of those only `source.py` knows Spark; what plans and asks does without pyarrow, and nothing at all imports the
broker. `wire/` asks brokers, `sink/` writes, `progress/` tells how far streams are. `jvm/` reads files once more, in Java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..backup.store import StoreOptions
    from .options import View


def register(spark: Any) -> None:
    """Makes `format("tidelog")` known to a Spark session (4.1 or newer), whoever made it. Driver. SetupError: PySpark is
    missing or too old.

    Each session of an application is registered by itself, one of `newSession()` too. The session becomes the calling thread's
    active one: a thread other than the session's own says `register(spark)` before it writes (`session.make_active` has why).
    """
    from .session import check_spark, cores_of, hide_secrets, make_active, push_filters_down

    check_spark()
    from .source import sized_for

    hide_secrets(spark)
    push_filters_down(spark)
    make_active(spark)
    spark.dataSource.register(sized_for(cores_of(spark)))


def session(name: str = "tidelog", **options: Any) -> Any:
    """A Spark session with `format("tidelog")`, set up for this machine: see `session.py`. Driver."""
    from .session import session as make

    return make(name, **options)


#: Of a stream whose rows say what a table is to hold.
_FROM_THE_BEGINNING = {"startingOffsets": "earliest"}


def latest(
    spark: Any, options: Mapping[str, str], *, stream: bool = False, archive: str | None = None,
    store: StoreOptions | None = None,
) -> Any:  # fmt: skip
    """A DataFrame with the newest row of each topic's key, as of one moment; keys whose newest is a tombstone are not in it.

    `options` are the source's, as for `spark.read.format("tidelog")`. Without a shuffle, as `view=latest` there, unless they say
    keysStayInPartition=false: then each partition's rows are compared once more, and of a key that is in several the one with
    the greatest timestamp counts, with the greatest partition and offset where those are equal. Driver. OptionError.

    With `stream` a streaming DataFrame, from the topic's beginning unless `options` say where: with each trigger the newest
    row of each key that has changed, tombstones too, whose value is null. Whoever puts its batches into a table by key, in
    order, has the latest; a batch that comes again changes nothing. With keysStayInPartition=false it is in output mode
    update, and Spark's state has a row of every key.

    With `archive`, a folder or an URL as the job `archive` takes it with `store`: as of the archive's end, by its files and
    no broker. Then `options` say no more than columns, includeHeaders, keysStayInPartition and decode. ArchiveError.
    """
    from .options import KeysStay, View, parse_options

    if archive is not None:
        return _of_archive(spark, options, View.LATEST, stream, archive, store)
    given = {**(_FROM_THE_BEGINNING if stream else {}), **options, "view": View.LATEST.value}
    parsed = parse_options(given)
    reader = spark.readStream if stream else spark.read
    if parsed.keys_stay is not KeysStay.FALSE:
        return reader.format("tidelog").options(**given).load()
    # The comparison needs columns that are perhaps not asked for.
    all_columns = {name: text for name, text in given.items() if name.lower() not in ("columns", "includeheaders")}
    all_columns["includeHeaders"] = str(parsed.include_headers or "headers" in parsed.columns).lower()
    frame = reader.format("tidelog").options(**all_columns).load()
    from pyspark.sql import functions

    columns = frame.columns
    newest = functions.max_by(functions.struct(*columns), functions.struct("timestamp", "partition", "offset"))
    reduced = frame.groupBy("topic", "key").agg(newest.alias("newest"))
    rows = reduced.select("newest.*")
    return (rows if stream else rows.where("value is not null")).select(*(parsed.columns or columns))


def changes(
    spark: Any, options: Mapping[str, str], *, stream: bool = False, archive: str | None = None,
    store: StoreOptions | None = None,
) -> Any:  # fmt: skip
    """A DataFrame with every row, `_op` (insert, update, delete) and `_previous_offset`: `view=changelog`. Driver. OptionError,
    SetupError.

    With `stream` a streaming one, from the topic's beginning unless `options` say where, in output mode append: its rows are
    those of a batch over the same offsets, however these are divided over triggers. Spark's state has each key's last offset.
    `archive`, `store`: as in `latest`.
    """
    from .options import View, parse_options

    if archive is not None:
        return _of_archive(spark, options, View.CHANGELOG, stream, archive, store)
    if not stream:
        given = {**options, "view": View.CHANGELOG.value}
        return spark.read.format("tidelog").options(**given).load()
    from .reading.change_stream import change_stream
    from .session import check_state

    check_state()
    given = {**_FROM_THE_BEGINNING, **options}
    return change_stream(spark, given, parse_options({**given, "view": View.CHANGELOG.value}))


def _of_archive(
    spark: Any, options: Mapping[str, str], view: View, stream: bool, archive: str, store: StoreOptions | None
) -> Any:
    from .exceptions import OptionError
    from .jobs.archived_views import archived_view

    if stream:
        raise OptionError(f"the archive {archive} is read as a batch: leave stream out, or stream the topic")
    return archived_view(spark, archive, options, view, store).rows


def commit_progress(spark: Any, options: Mapping[str, str], group: str) -> Any:
    """Lets a consumer group follow the streaming queries of a session: commits where each goes on whenever a batch is done.

    `options`: where the brokers are and how one gets in, as for the source (`kafka.bootstrap.servers`, `kafka.…`). `group`: with
    `{query}` in it for several queries, which becomes each one's name. Returns the listener; `spark.streams.removeListener` and
    its `close()` end it. Driver. OptionError.
    """
    from .exceptions import OptionError
    from .progress.group_commits import GroupCommits
    from .progress.listener import ProgressListener
    from .progress.query_groups import QueryGroups
    from .wire.settings import ClientSettings

    given = {name.lower().removeprefix("kafka."): str(text).strip() for name, text in options.items()}
    servers = given.pop("bootstrap.servers", None)
    if not servers:
        raise OptionError("commit_progress needs kafka.bootstrap.servers: a group's offsets are kept by brokers")
    if not group.strip():
        raise OptionError("commit_progress needs the name of a consumer group")
    listener = ProgressListener(QueryGroups(GroupCommits(ClientSettings.parse(servers, given)), group.strip()))
    spark.streams.addListener(listener)
    return listener


__all__ = ["changes", "commit_progress", "latest", "register", "session"]
