"""A table's columns as they grow with those of its rows: which are missing, and rows in the table's own types.

Types are as Spark's JSON has them (`DataType.jsonValue()`): "long", {"type": "struct", "fields": […]}. Columns and fields of
structs are added, none is ever taken away, and no type changes: what that would need differs from one table format to the next.
Knows nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .common import JobError

#: A type as Spark's JSON has it.
Type = str | dict[str, Any]
#: In SQL, `timestamp` alone is what a session's `spark.sql.timestampType` says; in JSON it is an instant.
_PLAIN = {
    "integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "timestamp": "timestamp_ltz",
}  # fmt: skip


class NewColumn(NamedTuple):
    """A column, or a field of a struct, that a table lacks; both in SQL's words."""

    path: str
    kind: str


def quoted(name: str) -> str:
    """A name as SQL takes any."""
    return "`" + name.replace("`", "``") + "`"


def ddl(kind: Type) -> str:
    """A type in SQL's words. JobError: it is none that a table has."""
    if isinstance(kind, str):
        return _PLAIN.get(kind, kind)
    name = kind.get("type")
    if name == "struct":
        return "struct<" + ", ".join(f"{quoted(field['name'])}: {ddl(field['type'])}" for field in kind["fields"]) + ">"
    if name == "array":
        return f"array<{ddl(kind['elementType'])}>"
    if name == "map":
        return f"map<{ddl(kind['keyType'])}, {ddl(kind['valueType'])}>"
    raise JobError(f"no table has a column of the type {name}")


def missing(table: Type, rows: Type, path: Sequence[str] = ()) -> list[NewColumn]:
    """Columns and fields that the rows have and the table has not, from the outermost on. Both are structs. JobError: one has
    another type.
    """
    assert isinstance(table, dict)
    assert isinstance(rows, dict)
    there = {field["name"].lower(): field["type"] for field in table["fields"]}
    found = []
    for field in rows["fields"]:
        name, kind = field["name"], field["type"]
        place = (*path, name)
        has = there.get(name.lower())
        if has is None:
            found.append(NewColumn(".".join(map(quoted, place)), ddl(kind)))
        elif _is_struct(has) and _is_struct(kind):
            found += missing(has, kind, place)
        elif ddl(has).lower() != ddl(kind).lower():
            raise JobError(
                f"column {'.'.join(place)} is {ddl(has)} in the table and {ddl(kind)} in the rows; change the table's type "
                "(ALTER TABLE … ALTER COLUMN), or take another table"
            )
    return found


def conformed(expression: str, rows: Type | None, table: Type) -> str:
    """SQL that makes a value of the rows' type one of the table's, which has all of its fields; `rows` None: there is none."""
    if rows is None:
        return f"cast(null as {ddl(table)})"
    if not (_is_struct(rows) and _is_struct(table)):
        return expression
    assert isinstance(rows, dict)
    assert isinstance(table, dict)
    has = {field["name"].lower(): (field["name"], field["type"]) for field in rows["fields"]}
    parts = []
    for field in table["fields"]:
        own, kind = has.get(field["name"].lower(), (field["name"], None))
        name = field["name"].replace("\\", "\\\\").replace("'", "\\'")
        parts.append(f"'{name}', {conformed(f'{expression}.{quoted(own)}', kind, field['type'])}")
    return f"if({expression} is null, null, named_struct({', '.join(parts)}))"


def _is_struct(kind: Type) -> bool:
    return isinstance(kind, dict) and kind.get("type") == "struct"
