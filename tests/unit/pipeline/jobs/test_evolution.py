"""Which columns a table lacks, and rows in its types."""

from __future__ import annotations

from typing import Any

import pytest
from tidelog.pipeline.jobs.common import JobError
from tidelog.pipeline.jobs.evolution import NewColumn, conformed, ddl, missing


def struct(**fields: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def test_types_are_sqls() -> None:
    kind = struct(a="long", b={"type": "array", "elementType": "integer"})
    assert ddl(kind) == "struct<`a`: bigint, `b`: array<int>>"
    assert ddl({"type": "map", "keyType": "string", "valueType": "decimal(9,2)"}) == "map<string, decimal(9,2)>"
    odd = {"type": "struct", "fields": [{"name": "a`, b", "type": "string"}]}
    assert ddl(odd) == "struct<`a``, b`: string>", "a name of a schema is no SQL"
    assert (ddl("timestamp"), ddl("timestamp_ntz")) == ("timestamp_ltz", "timestamp_ntz"), (
        "whatever a session means by the word"
    )
    with pytest.raises(JobError, match="no table has a column of the type udt"):
        ddl({"type": "udt"})


def test_what_is_missing_is_found_at_each_depth_and_nothing_is_taken_away() -> None:
    table = struct(key="binary", record=struct(id="long", home=struct(city="string"), old="string"))
    rows = struct(
        record=struct(ID="long", home=struct(city="string", zip="string"), note="string"), recordError="string"
    )
    assert missing(table, rows) == [
        NewColumn("`record`.`home`.`zip`", "string"),
        NewColumn("`record`.`note`", "string"),
        NewColumn("`recordError`", "string"),
    ]
    assert missing(rows, rows) == []


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("long", "string"),
        ("integer", "long"),
        (struct(a="string"), "string"),
        (
            {"type": "array", "elementType": struct(a="string")},
            {"type": "array", "elementType": struct(a="string", b="string")},
        ),
    ],
)
def test_another_type_is_told_with_its_place(table: Any, rows: Any) -> None:
    with pytest.raises(JobError, match=r"column record\.x is .* in the table and .* in the rows"):
        missing(struct(record=struct(x=table)), struct(record=struct(x=rows)))


def test_rows_come_in_the_tables_fields() -> None:
    assert conformed("row.record", None, struct(a="long")) == "cast(null as struct<`a`: bigint>)"
    assert conformed("row.e", "string", "string") == "row.e"
    odd = {"type": "struct", "fields": [{"name": "it's \\", "type": "long"}]}
    assert conformed("r", odd, odd) == "if(r is null, null, named_struct('it\\'s \\\\', r.`it's \\`))"
    table, rows = struct(a="long", b=struct(c="string", d="string")), struct(b=struct(D="string"))
    assert conformed("r", rows, table) == (
        "if(r is null, null, named_struct('a', cast(null as bigint), 'b', if(r.`b` is null, null, named_struct("
        "'c', cast(null as string), 'd', r.`b`.`D`))))"
    )
