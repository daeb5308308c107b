"""Spark over tidelog's topics: read the log's own files, or over TCP.

    from tidelog.pipeline import register
    register(spark)
    spark.read.format("tidelog").option("path", "/var/lib/tidelog").option("subscribe", "orders").load()

Start reading at `source.py` (Spark's side), then `segment_reader.py` (the files). Nothing here but `arrow.py` and
`source.py` imports pyarrow or pyspark, and nothing at all imports the broker.
"""

from __future__ import annotations

from typing import Any


def register(spark: Any) -> None:
    """Makes `format("tidelog")` known to a Spark session (4.1 or newer). Driver."""
    from .source import TidelogDataSource

    spark.dataSource.register(TidelogDataSource)


def session(name: str = "tidelog", **options: Any) -> Any:
    """A Spark session with `format("tidelog")`, set up for this machine: see `session.py`. Driver."""
    from .session import session as make

    return make(name, **options)


__all__ = ["register", "session"]
