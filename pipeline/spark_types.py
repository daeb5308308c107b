"""Spark's types for the shapes of decoded values."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ..clients.schemas.shape import Kind, Shape

_PLAIN = {
    Kind.BOOLEAN: BooleanType, Kind.INT: IntegerType, Kind.LONG: LongType, Kind.FLOAT: FloatType, Kind.DOUBLE: DoubleType,
    Kind.STRING: StringType, Kind.BINARY: BinaryType, Kind.DATE: DateType, Kind.TIMESTAMP: TimestampType,
    Kind.LOCAL_TIMESTAMP: TimestampNTZType,
}  # fmt: skip


def spark_type(shape: Shape) -> DataType:
    """All may be null. A shape's depth is bounded where it is made."""
    if shape.kind is Kind.DECIMAL:
        return DecimalType(shape.precision, shape.scale)
    if shape.kind is Kind.STRUCT:
        return StructType([StructField(name, spark_type(each)) for name, each in shape.fields])
    if shape.kind is Kind.ARRAY:
        assert shape.item is not None
        return ArrayType(spark_type(shape.item))
    if shape.kind is Kind.MAP:
        assert shape.key is not None
        assert shape.item is not None
        return MapType(spark_type(shape.key), spark_type(shape.item))
    return _PLAIN[shape.kind]()
