"""Spark's side of the sink: the writers of `df.write` and `df.writeStream`.

Spark makes a writer in a planning process and sends it to tasks; what the driver does with their messages runs in processes
of its own. Nothing is kept in a writer but what it was made with.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from pyspark.taskcontext import TaskContext

from ..exceptions import OptionError
from ..shipped import Shipped
from .arrow_rows import check_columns
from .options import SinkOptions
from .task import Place, Written, abort_batch, commit_batch, write_rows

#: Where a task learns of its query: local properties that Spark's micro-batches set.
_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"
#: A stream's run is its tasks' job group.
_RUN = "spark.jobGroup.id"


@dataclass
class Message(WriterCommitMessage):
    """A task's word to the driver."""

    written: Written


class BatchWriter(Shipped, DataSourceArrowWriter):
    """`df.write`. Without delivery=exactly-once, `commit` has nothing left to do."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("a topic can't be overwritten: use mode append")
        check_columns({field.name: field.dataType.simpleString() for field in schema.fields}, options.topic)
        self._options = options
        self._job = uuid.uuid4().hex[:16]

    def write(self, iterator: Iterator[Any]) -> Message:
        place = None
        if self._options.exactly_once:
            task = _task()
            place = self._place(task.partitionId(), task.attemptNumber())
        return Message(write_rows(self._options, iterator, place))

    def commit(self, messages: list[Any]) -> None:
        commit_batch(self._options, _written(messages), forget=self._options.application is None)

    def abort(self, messages: list[Any]) -> None:
        place = self._place(0, 0) if self._options.exactly_once else None
        abort_batch(self._options, _written(messages), place, is_over=self._options.application is None)

    def _place(self, task: int, attempt: int) -> Place:
        query = self._options.application or f"job-{self._job}"
        return Place(query, self._job[:8], self._options.version, task, attempt)


class StreamWriter(Shipped, DataSourceStreamArrowWriter):
    """`df.writeStream`: each micro-batch is in its topics once, as readers of committed data see them."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns({field.name: field.dataType.simpleString() for field in schema.fields}, options.topic)
        self._options = options

    def write(self, iterator: Iterator[Any]) -> Message:
        place = None
        if self._options.exactly_once:
            task = _task()
            query, batch, run = (task.getLocalProperty(name) for name in (_QUERY, _BATCH, _RUN))
            if not query or not batch:
                raise OptionError(
                    "Spark does not say which batch of which query this is; set delivery to at-least-once"
                )
            name = (run or query).replace("-", "")[:8]
            place = Place(query, name, int(batch), task.partitionId(), task.attemptNumber(), is_run_known=bool(run))
        return Message(write_rows(self._options, iterator, place))

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803  # pyspark's name
        commit_batch(self._options, _written(messages))

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        abort_batch(self._options, _written(messages))


def _task() -> Any:
    task = TaskContext.get()
    assert task is not None, "runs in a task"
    return task


def _written(messages: list[Any]) -> list[Written]:
    return [message.written for message in messages if message is not None]
