"""Spark's side of streams: `readStream.format("tidelog")`. Offsets are `stream_plan.py`'s.

Spark 4.2 asks how far a trigger may go and knows `availableNow`; 4.1 takes what there is, by the same method without
arguments. So there are two readers, and which one there is follows from what can be imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from .exceptions import OptionError
from .options import Options
from .planning.stream_plan import StreamOffset, StreamPlan, from_json, to_json
from .source import SplitPartition, batches, checked_names

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class _StreamReader(DataSourceStreamReader):
    """Base of both stream readers. Lives in the driver's planning process; `read` runs in tasks, with a copy."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._names = checked_names(schema, options)
        self._made: StreamPlan | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}  # connections stay here

    @property
    def _plan(self) -> StreamPlan:
        if self._made is None:
            self._made = StreamPlan(self._options)
        return self._made

    def initialOffset(self) -> StreamOffset:  # noqa: N802  # pyspark's names, here and below
        return to_json(self._plan.initial())

    def partitions(self, start: StreamOffset, end: StreamOffset) -> Sequence[SplitPartition]:
        return [SplitPartition(split) for split in self._plan.splits(from_json(start), from_json(end))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return batches(partition, self._options, self._names)

    def stop(self) -> None:
        if self._made is not None:
            self._made.close()
            self._made = None


class WholeStreamReader(_StreamReader):
    """Stream reader for Spark 4.1."""

    def latestOffset(self) -> StreamOffset:  # noqa: N802
        return to_json(self._plan.available())


try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before 4.2

    def stream_reader(options: Options, schema: StructType) -> DataSourceStreamReader:
        """OptionError: an option needs Spark 4.2."""
        for name, value in (
            ("maxOffsetsPerTrigger", options.max_offsets_per_trigger),
            ("minOffsetsPerTrigger", options.min_offsets_per_trigger),
        ):
            if value is not None:
                raise OptionError(f"{name} needs PySpark 4.2, which is the first that asks a source how far to go")
        return WholeStreamReader(options, schema)

else:

    class LimitedStreamReader(_StreamReader, SupportsTriggerAvailableNow):
        """Stream reader that limits its batches: Spark 4.2 and later."""

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            if self._options.max_offsets_per_trigger is not None:
                return ReadMaxRows(self._options.max_offsets_per_trigger)
            if self._options.min_offsets_per_trigger is not None:
                return ReadMinRows(self._options.min_offsets_per_trigger)
            return ReadAllAvailable()

        def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:  # noqa: N802
            """`start` comes back when there is nothing to read. Both limits are the options', whichever Spark names."""
            return to_json(self._plan.next(from_json(start), is_limited=not isinstance(limit, ReadAllAvailable)))

        def reportLatestOffset(self) -> StreamOffset:  # noqa: N802
            return to_json(self._plan.available())

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            self._plan.stop_at_present()

    def stream_reader(options: Options, schema: StructType) -> DataSourceStreamReader:
        """Choose the stream reader that suits this Spark best."""
        return LimitedStreamReader(options, schema)
