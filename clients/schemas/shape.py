"""What values of a schema look like in Python, whatever form they came in: what columns are made of.

    BOOLEAN bool    INT, LONG int    FLOAT, DOUBLE float    STRING str    BINARY bytes    DECIMAL decimal.Decimal
    DATE int, days since 1970    TIMESTAMP, LOCAL_TIMESTAMP int, µs since 1970 (UTC; or of no zone)
    ARRAY list    MAP list of (str or other key, value)    STRUCT dict with every field

and None for whatever is not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .exceptions import BadRecordError, SchemaError

#: Fields of all depths together. Types that are named many times would else be any number of columns.
MOST_FIELDS = 10_000
#: Types within one another. Reading recurses, on a stack of which others have used a part.
MOST_DEPTH = 50
#: Fields and elements of one value, besides as many as it has bytes: two bytes can be an element of thousands of fields.
MOST_VALUES = 1_000_000


class Kind(Enum):
    """Kinds of values."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"
    LOCAL_TIMESTAMP = "local timestamp"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class Shape:
    """Shape of a value.

    Attributes:
        fields: of a STRUCT, by name, in order.
        item: of an ARRAY its elements', of a MAP its values'.
        key: of a MAP.
        precision, scale: of a DECIMAL, in digits.
    """

    kind: Kind
    fields: tuple[tuple[str, Shape], ...] = ()
    item: Shape | None = None
    key: Shape | None = None
    precision: int = 0
    scale: int = 0


def width(shape: Shape) -> int:
    """Fields that a value of the shape has at most, itself and those of structs within it; arrays and maps count as one."""
    return 1 + sum(width(each) for _, each in shape.fields)


class ValueCount:
    """Counts what one value becomes, before it is made. One thread."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def begin(self, size: int) -> None:
        """A value of `size` bytes is next."""
        self._left = MOST_VALUES + size

    def more(self, count: int) -> None:
        """BadRecordError: there are too many."""
        self._left -= count
        if self._left < 0:
            raise BadRecordError(
                f"it has more than {MOST_VALUES} fields and elements, those that are missing counted too"
            )


class FieldCount:
    """Counts the fields of one shape while it is made."""

    def __init__(self) -> None:
        self._left = MOST_FIELDS

    def one(self) -> None:
        """SchemaError: there are too many."""
        self._left -= 1
        if self._left < 0:
            raise SchemaError(f"this schema has more than {MOST_FIELDS} fields, those of inner types counted each time")
