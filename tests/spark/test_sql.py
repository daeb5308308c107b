"""Topics in SQL: as views, and files as tables. A table of the Python source would lose its options in Spark: it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.segment_dirs import write_checkpoint, write_log
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record


def test_a_view_of_sql_is_the_topic_and_a_table_is_refused(spark: Any, tmp_path: Path) -> None:
    for partition in range(2):
        records = [Record(offset, 1_700_000_000_000, b"k", b"v%d" % offset) for offset in range(10)]
        write_log(tmp_path / f"orders-{partition}", [[build_batch(records)]])
    write_checkpoint(tmp_path / "replication-offset-checkpoint", {("orders", 0): 10, ("orders", 1): 10})
    options = f"using tidelog options (path '{tmp_path}', subscribe 'orders', columns 'partition,offset,value')"
    with pytest.raises(Exception, match=r"tidelog can't be a table of Spark's catalog: .* CREATE TEMPORARY VIEW"):
        spark.sql(f"create table sql_orders {options}")
    assert not spark.catalog.tableExists("sql_orders")
    spark.sql(f"create temporary view sql_orders {options}")
    try:
        assert spark.table("sql_orders").columns == ["partition", "offset", "value"]
        assert spark.sql("select count(*) from sql_orders where partition = 0").first()[0] == 10
        found = spark.sql("select cast(value as string) from sql_orders where partition = 1 and offset >= 8 order by 1")
        assert [row[0] for row in found.collect()] == ["v8", "v9"]
    finally:
        spark.catalog.dropTempView("sql_orders")
    with pytest.raises(Exception, match="unknown option subscrib; did you mean subscribe"):
        spark.sql(f"create temporary view wrong using tidelog options (path '{tmp_path}', subscrib 'orders')")


@pytest.mark.parametrize("said", ["path", "paths"])
def test_a_table_of_the_catalog_reads_files_and_to_drop_it_deletes_nothing(
    spark: Any, tmp_path: Path, said: str
) -> None:
    write_log(
        tmp_path / "orders-0", [[build_batch([Record(n, 1_700_000_000_000, b"k", b"v%d" % n) for n in range(10)])]]
    )
    write_checkpoint(tmp_path / "replication-offset-checkpoint", {("orders", 0): 10})
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    where = f"path '{tmp_path}'" if said == "path" else f"paths '[\"{tmp_path}\"]'"
    options = f"using `tidelog-files` options ({where}, subscribe 'orders', columns 'offset,value')"
    spark.sql(f"create table catalog_orders {options}")
    try:
        assert spark.table("catalog_orders").columns == ["offset", "value"]
        found = spark.sql("select cast(value as string) from catalog_orders where offset >= 8 order by 1")
        assert [row[0] for row in found.collect()] == ["v8", "v9"]
        with pytest.raises(Exception, match="does not support"):
            spark.sql("insert into catalog_orders values (1, cast('x' as binary))")
    finally:
        spark.sql("drop table catalog_orders")
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before
    with pytest.raises(Exception, match="unknown option subscrib; did you mean subscribe"):
        spark.sql(f"create table wrong using `tidelog-files` options (path '{tmp_path}', subscrib 'orders')")
