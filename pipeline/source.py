"""Spark's side of the source: `format("tidelog")`, read as a table or as a stream. Options are in `options.py`, columns in
`arrow.py`, a stream's offsets in `stream_plan.py`.

Spark 4.2 asks how far a trigger may go and knows `availableNow`; 4.1 takes what there is, by the same method without
arguments. So there are two readers of streams, and which one there is follows from what can be imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..clients.schemas.decoder import Pinned
from .decode_options import RECORD, RECORD_ERROR
from .exceptions import OptionError
from .options import Options, View, check_batch, check_stream, parse_options
from .planning.batch_plan import Narrowed, plan_view
from .planning.splits import AnySplit
from .planning.stream_plan import StreamOffset, StreamPlan, from_json, to_json
from .reading.arrow import record_batch, wish_for
from .reading.columns import Keeping
from .reading.decoded import Decoding, pinned_schema, with_records
from .reading.split_reader import read
from .shipped import Shipped
from .spark_types import spark_type

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
#: That of Spark's Kafka source; with `includeHeaders` the last field too.
SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", ArrayType(_HEADER)),
    ]
)
_CHANGES = [StructField("_op", StringType()), StructField("_previous_offset", LongType())]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TidelogDataSource(Shipped, DataSource):
    """Made by Spark in the driver, and again in planning processes.

    Attributes:
        cores: of the cluster that the source was registered for; 0 if unknown (`sized_for`).
    """

    cores = 0

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options)
        self._pinned: Pinned | None = None  # Spark hands the source on with it: driver and tasks agree

    def _options(self) -> Options:
        """Options with the schema that values are decoded by, which is looked up once. May ask a registry: blocks."""
        if "provider" in self._given:  # what Spark adds for a table of its catalog
            raise OptionError(
                "tidelog can't be a table of Spark's catalog: Spark hands a source in Python none of a table's options when it "
                "is read; CREATE TEMPORARY VIEW … USING tidelog OPTIONS (…) works"
            )
        options = parse_options(self._given, self.cores)
        if options.decode is not None:
            self._pinned = self._pinned or pinned_schema(options.decode)
        return replace(options, pinned=self._pinned)

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> StructType:
        options = self._options()
        if options.columns:
            return chosen_columns(options)
        fields = SCHEMA.fields if options.include_headers else SCHEMA.fields[:-1]
        return StructType([*fields, *_more_columns(options)])

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._options()
        check_batch(options)
        return BatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # pyspark's name
        options = self._options()
        check_stream(options)
        return stream_reader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from .sink.options import parse_sink_options
        from .sink.writers import BatchWriter

        return BatchWriter(parse_sink_options(self._given, streaming=False), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from .sink.options import parse_sink_options
        from .sink.writers import StreamWriter

        # `overwrite` is output mode complete, whose every batch is appended, as Spark's Kafka sink does.
        return StreamWriter(parse_sink_options(self._given, streaming=True), schema)


def sized_for(cores: int) -> type[TidelogDataSource]:
    """The source for a cluster of so many cores. Planning processes get the class itself, by value: they know no session."""
    return type("SizedTidelogDataSource", (TidelogDataSource,), {"cores": cores, "__doc__": TidelogDataSource.__doc__})


class SplitPartition(InputPartition):
    """Partition of one task. `keeping`: settings of `view=latest`, if that is read."""

    def __init__(self, split: AnySplit, keeping: Keeping | None = None) -> None:
        super().__init__(split)
        self.split = split
        self.keeping = keeping


class PushFilters:
    """`BatchReader.pushFilters`, called where push-down is on, and no override of Spark's where it is off.

    Spark refuses to plan a reader whose class overrides `pushFilters` while spark.sql.python.filterPushdown.enabled is false
    (DATA_SOURCE_PUSHDOWN_DISABLED), although it calls the method only where that is true. It tells an override by the function
    behind the bound method, `__func__`, which is Spark's own here. So a session reads whatever its setting is.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, push: Callable[[list[Filter]], Iterable[Filter]]) -> None:
        self._push = push

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._push(filters)


class BatchReader(Shipped, DataSourceReader):
    """Planned in the driver, read in the workers. `schema`: the columns to read, all or some of the source's."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._names = checked_names(schema, options)
        self._limits: dict[str, tuple[int | None, int | None]] = {}

    @property
    def pushFilters(self) -> PushFilters:  # noqa: N802  # pyspark's name
        """Called as a method is: `_narrow`."""
        return PushFilters(self._narrow)

    def _narrow(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes comparisons of partition, offset and timestamp with a literal; gives all back: Spark checks them again,
        which makes what is left out a matter of speed alone.
        """
        for pushed in filters:
            if not isinstance(pushed, EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual | In):
                continue
            name = ".".join(pushed.attribute)
            values = [_whole(value) for value in (pushed.value if isinstance(pushed, In) else (pushed.value,))]
            known = [value for value in values if value is not None]
            if name not in ("partition", "offset", "timestamp") or not known or len(known) < len(values):
                continue
            least, most = self._limits.get(name, (None, None))
            if isinstance(pushed, EqualTo | GreaterThan | GreaterThanOrEqual | In):
                least = min(known) if least is None else max(least, min(known))
            if isinstance(pushed, EqualTo | LessThan | LessThanOrEqual | In):
                most = max(known) if most is None else min(most, max(known))
            self._limits[name] = (least, most)
        return filters

    def partitions(self) -> Sequence[SplitPartition]:
        options, offsets = self._options, self._limits.get("offset", (None, None))
        if options.view is not View.RECORDS:
            offsets = (None, None)  # which row is a key's latest, or was its previous, does not depend on what is shown
        narrowed = Narrowed(
            *self._limits.get("partition", (None, None)), *offsets, self._limits.get("timestamp", (None, None))[0]
        )
        return [SplitPartition(split, keeping) for split, keeping in plan_view(options, narrowed)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        least, most = self._limits.get("timestamp", (None, None))
        return batches(partition, self._options, self._names, least, None if most is None else most + 1)


def _columns_of(options: Options) -> list[StructField]:
    """All columns that the source has for these options."""
    return [*SCHEMA.fields, *_more_columns(options)]


def _more_columns(options: Options) -> list[StructField]:
    """Columns that are there when they are asked for."""
    found = list(_CHANGES) if options.view is View.CHANGELOG else []
    if options.pinned is not None:
        found.append(StructField(RECORD, spark_type(Decoding(options.pinned).shape)))
        found.append(StructField(RECORD_ERROR, StringType()))
    return found


def chosen_columns(options: Options) -> StructType:
    """The schema that the option `columns` names. OptionError: the source has no such column."""
    known = {field.name: field for field in _columns_of(options)}
    for name in options.columns:
        if name not in known:
            near = get_close_matches(name, known, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise OptionError(f"columns names {name}, which is no column of the source; {hint}")
    return StructType([known[name] for name in options.columns])


def checked_names(schema: StructType, options: Options) -> list[str]:
    """The columns that are wanted. OptionError: the source has no such."""
    known = {field.name: field.dataType.simpleString() for field in _columns_of(options)}
    if options.columns and (said := tuple(schema.fieldNames())) != options.columns:
        raise OptionError(
            f"columns says {', '.join(options.columns)} and the schema {', '.join(said)}: leave one of them out"
        )
    for field in schema.fields:
        if known.get(field.name) != (kind := field.dataType.simpleString()):
            there = ", ".join(f"{name} {text}" for name, text in known.items())
            raise OptionError(f"the schema has {field.name} {kind}; the source has {there}")
    names: list[str] = schema.fieldNames()
    return names


def batches(
    partition: InputPartition, options: Options, names: Sequence[str], least: int | None = None, end: int | None = None
) -> Iterator[Any]:
    """A task's `pyarrow.RecordBatch`es; timestamps in ms, `end` left out. PipelineError."""
    if not isinstance(partition, SplitPartition):
        return  # Spark's way to say that there is nothing to read
    if options.pinned is None or not {RECORD, RECORD_ERROR} & set(names):
        yield from _batches(partition, options, names, least, end)
        return
    plain = [name for name in names if name not in (RECORD, RECORD_ERROR)]
    reading = plain if "value" in plain else [*plain, "value"]
    yield from with_records(_batches(partition, options, reading, least, end), names, options.pinned)


def _batches(
    partition: SplitPartition, options: Options, names: Sequence[str], least: int | None, end: int | None
) -> Iterator[Any]:
    """Without decoded columns."""
    split = partition.split
    if options.view is View.RECORDS:
        for columns in read(split, options, wish_for(names, least, end)):
            yield record_batch(columns, names, split.topic, split.partition)
        return
    from .reading.views import changelog, latest

    parts = read(split, options, wish_for([*names, "key", "value"]))
    if options.view is View.LATEST:
        yield from latest(
            parts, names, split.topic, split.partition, partition.keeping or Keeping(), options.latest_memory
        )
    else:
        yield from changelog(parts, names, split.topic, split.partition)


def _whole(value: Any) -> int | None:
    """A literal as the source counts, timestamps in ms; None for one that cannot be told."""
    if isinstance(value, datetime):
        # Whole numbers throughout: a float's last digit would leave a row out.
        return None if value.tzinfo is None else (value - _EPOCH) // timedelta(milliseconds=1)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class _StreamReader(Shipped, DataSourceStreamReader):
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
        splits = self._plan.splits(from_json(start), from_json(end))
        return [
            SplitPartition(split, keeping) for split, keeping in zip(splits, self._plan.keepings(splits), strict=True)
        ]

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
