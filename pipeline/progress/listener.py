"""Spark's listener that lets a consumer group follow a query: `tidelog.pipeline.commit_progress`."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from .query_groups import QueryGroups


class ProgressListener(StreamingQueryListener):
    """Hands on what Spark tells of queries, in a thread of Spark's that does not wait for brokers here."""

    def __init__(self, groups: QueryGroups) -> None:
        super().__init__()
        self._groups = groups

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # pyspark's names, here and below
        """Nothing: a query has a place when its first batch is done."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = event.progress
        self._groups.progressed(str(progress.id), progress.name, progress.batchId, progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing: an idle query stands where it stood."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self._groups.terminated(str(event.id))

    def flush(self, timeout_s: float = 60.0) -> bool:
        """True once what Spark has told so far is committed, or given up with a warning; False when it takes longer."""
        return self._groups.commits.flush(timeout_s)

    def close(self, timeout_s: float = 60.0) -> bool:
        """As `flush`, and ends the thread. Remove it from Spark first: `spark.streams.removeListener`."""
        return self._groups.commits.close(timeout_s)
