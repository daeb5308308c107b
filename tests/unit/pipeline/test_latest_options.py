"""What `latest` asks the source for where it compares partitions itself."""

from __future__ import annotations

import sys
from unittest.mock import MagicMock

import pytest
from tidelog.pipeline import latest


@pytest.mark.parametrize(
    ("given", "headers"),
    [
        ({}, "false"),
        ({"includeheaders": "TRUE"}, "true"),
        ({"COLUMNS": "key,headers"}, "true"),
        ({"columns": "key"}, "false"),
    ],
)
def test_a_column_that_is_asked_for_is_among_those_that_are_compared(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], headers: str
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", MagicMock())
    monkeypatch.setitem(sys.modules, "pyspark.sql", MagicMock())
    spark = MagicMock()
    latest(spark, {"path": "/a", "subscribe": "t", "keysStayInPartition": "false", **given})
    asked = spark.read.format.return_value.options.call_args.kwargs
    assert asked == {
        "path": "/a", "subscribe": "t", "keysStayInPartition": "false", "view": "latest", "includeHeaders": headers,
    }  # fmt: skip
