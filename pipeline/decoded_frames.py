"""Decoded columns of rows that Spark has already: `decode` where no read of the source makes them."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import StringType, StructField, StructType

from ..clients.schemas.decoder import Pinned
from .decode_options import RECORD, RECORD_ERROR
from .reading.decoded import Decoding, with_records
from .spark_types import spark_type


def with_decoded(frame: Any, pinned: Pinned) -> Any:
    """The frame, which has `value`, with `record` and `recordError` behind its columns. Driver; tasks decode. OptionError."""
    more = [StructField(RECORD, spark_type(Decoding(pinned).shape)), StructField(RECORD_ERROR, StringType())]
    schema = StructType([*frame.schema.fields, *more])
    names = schema.fieldNames()
    return frame.mapInArrow(lambda batches: with_records(batches, names, pinned), schema)
