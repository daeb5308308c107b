"""A topic whose rows are archived, and what tests compare of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from tidelog.pipeline.sink.options import parse_sink_options
from tidelog.pipeline.sink.task import write_rows
from tidelog.testing import Broker

DAY_US = 86_400_000_000
#: Settings of a broker that takes the times of `produce` and keeps them.
SETTINGS = {"log.retention.ms": "-1", "log.message.timestamp.before.max.ms": str(1 << 62)}


def produce(broker: Broker, topic: str, first: int, count: int) -> None:
    """Every seventh a tombstone, over three days."""
    numbers = range(first, first + count)
    rows = {
        "key": pa.array([b"key %d" % (number % 17) for number in numbers]),
        "value": pa.array([None if number % 7 == 0 else b"value %d" % number for number in numbers]),
        "timestamp": pa.array(
            [20_000 * DAY_US + number % 3 * DAY_US for number in numbers], pa.timestamp("us", tz="UTC")
        ),
    }
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic}
    write_rows(parse_sink_options(given, streaming=False), [pa.record_batch(rows)], None)


def source(broker: Broker, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(
        tuple(row) for row in frame.select("partition", "offset", "key", "value", "timestamp", "headers").collect()
    )
