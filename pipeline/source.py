"""Spark's side of the source: `format("tidelog")`. Options are in `options.py`, columns in `arrow.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
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

from .arrow import record_batch, wish_for
from .batch_plan import plan_batch
from .exceptions import OptionError
from .options import Options, parse_options
from .segment_reader import read_split
from .splits import Split

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
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TidelogDataSource(DataSource):
    """Made by Spark in the driver, and again in planning processes."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._parsed = parse_options(dict(options))

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> StructType:
        return SCHEMA if self._parsed.include_headers else StructType(SCHEMA.fields[:-1])

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self._parsed, schema)


class SplitPartition(InputPartition):
    """One task's."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)
        self.split = split


class BatchReader(DataSourceReader):
    """Planned in the driver, read in the workers. `schema`: the columns to read, all or some of the source's."""

    def __init__(self, options: Options, schema: StructType) -> None:
        known = {field.name: field.dataType.simpleString() for field in SCHEMA.fields}
        for field in schema.fields:
            if known.get(field.name) != (kind := field.dataType.simpleString()):
                there = ", ".join(f"{name} {text}" for name, text in known.items())
                raise OptionError(f"the schema has {field.name} {kind}; the source has {there}")
        self._options = options
        self._names = schema.fieldNames()
        self._limits: dict[str, tuple[int | None, int | None]] = {}

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # pyspark's name
        """Takes comparisons of partition, offset and timestamp with a literal; gives all back: Spark checks them again,
        which makes what is left out a matter of speed alone.
        """
        for one in filters:
            if not isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
                continue
            name = ".".join(one.attribute)
            value = _whole(one.value)
            if name not in ("partition", "offset", "timestamp") or value is None:
                continue
            least, most = self._limits.get(name, (None, None))
            if isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual):
                least = value if least is None else max(least, value)
            if isinstance(one, EqualTo | LessThan | LessThanOrEqual):
                most = value if most is None else min(most, value)
            self._limits[name] = (least, most)
        return filters

    def partitions(self) -> Sequence[SplitPartition]:
        least, most = self._limits.get("offset", (None, None))
        low, high = self._limits.get("partition", (None, None))
        return [
            SplitPartition(split)
            for split in plan_batch(self._options)
            if (least is None or split.end_offset > least)
            and (most is None or split.first_offset <= most)
            and (low is None or split.partition >= low)
            and (high is None or split.partition <= high)
        ]

    def read(self, partition: SplitPartition) -> Iterator[Any]:
        options, split = self._options, partition.split
        least, most = self._limits.get("timestamp", (None, None))
        first = max(one for one in (options.starting_timestamp, least, -(1 << 63)) if one is not None)
        last = min(
            one for one in (options.ending_timestamp, None if most is None else most + 1, 1 << 63) if one is not None
        )
        wish = wish_for(self._names, first, last)
        for columns in read_split(
            split, wish, read_committed=options.read_committed, check_crc=options.check_crc,
            fail_on_data_loss=options.fail_on_data_loss, skip_corrupt=options.skip_corrupt,
        ):  # fmt: skip
            yield record_batch(columns, self._names, split.topic, split.partition)


def _whole(value: Any) -> int | None:
    """A literal as the source counts, timestamps in ms; None for one that cannot be told."""
    if isinstance(value, datetime):
        # Whole numbers throughout: a float's last digit would leave a row out.
        return None if value.tzinfo is None else (value - _EPOCH) // timedelta(milliseconds=1)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
