"""How far a stream is behind, with the names and the meaning of the metrics of Spark's Kafka source. Knows nothing of Spark.

    lag = lag_of(query.lastProgress)
    lag.metrics()   {"minOffsetsBehindLatest": "0", "maxOffsetsBehindLatest": "17", "avgOffsetsBehindLatest": "8.5"}

A source in Python cannot report metrics: what stands between it and Spark (PythonMicroBatchStream, up to 4.2) has no
ReportsSourceMetrics. But a source's progress says where its batch ended and how far the log went (before 4.2 that is the same: a
trigger takes all there is), and more the connector does not use either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..exceptions import OptionError
from ..options import read_json
from ..planning.places import TopicPartition
from ..planning.stream_plan import Position, from_json, to_json


class Lag(NamedTuple):
    """Offsets between the end of a batch and the end of the log then, of each partition; 0 where all was read."""

    behind: Mapping[TopicPartition, int]

    @property
    def least(self) -> int:
        return min(self.behind.values(), default=0)

    @property
    def most(self) -> int:
        return max(self.behind.values(), default=0)

    @property
    def mean(self) -> float:
        return self.total / len(self.behind) if self.behind else 0.0

    @property
    def total(self) -> int:
        return sum(self.behind.values())

    def metrics(self) -> dict[str, str]:
        """As the connector's source has them in `progress.sources[…].metrics`: texts."""
        return {
            "minOffsetsBehindLatest": str(self.least),
            "maxOffsetsBehindLatest": str(self.most),
            "avgOffsetsBehindLatest": str(self.mean),
        }


def lag_of(progress: Mapping[str, Any] | None) -> Lag | None:
    """Lag of a query by one progress (`query.lastProgress`, `event.progress`, or what their JSON says).

    None: there is no progress yet, no source of it is a log, or it does not tell how far the log went. Of several
    sources that read a partition the slowest counts.
    """
    found: dict[TopicPartition, int] = {}
    is_known = False
    for source in (progress or {}).get("sources") or ():
        end, latest = position_of(source.get("endOffset")), position_of(source.get("latestOffset"))
        if end is None or latest is None:
            continue
        is_known = True
        for where, behind in behind_of(end, latest).items():
            found[where] = max(behind, found.get(where, 0))
    return Lag(found) if is_known else None


def behind_of(end: Position, latest: Position) -> dict[TopicPartition, int]:
    """Offsets from `end` to `latest` of each partition of the latter. One that `end` does not know yet begins at 0."""
    return {where: max(0, offset - end.offsets.get(where, 0)) for where, offset in latest.offsets.items()}


def read_position(progress: Mapping[str, Any]) -> Position | None:
    """Where a query goes on by one progress; None if none of its sources is a log. The slowest of several sources counts."""
    offsets: dict[TopicPartition, int] = {}
    topic_ids: dict[str, str] = {}
    is_known = False
    for source in progress.get("sources") or ():
        end = position_of(source.get("endOffset"))
        if end is None:
            continue
        is_known = True
        topic_ids |= end.topic_ids
        for where, offset in end.offsets.items():
            offsets[where] = min(offset, offsets.get(where, offset))
    return Position(offsets, topic_ids) if is_known else None


def position_of(offset: object) -> Position | None:
    """A source's offset, as JSON or read already: this source's, or the connector's. None for what is none of either."""
    try:
        found = read_json(offset) if isinstance(offset, str) else offset
        return None if found is None else from_json(found)
    except (OptionError, RecursionError, ValueError):
        return None


def kafka_offsets(offset: object) -> str:
    """A stream's offset (`endOffset` of a progress, a line of a checkpoint) as `startingOffsets` of `format("kafka")`.

    The other way needs nothing: this source takes the connector's offsets as they are. OptionError: it is no such offset.
    """
    position = position_of(offset)
    if position is None:
        raise OptionError(f"{offset!r} is no offset of a topic's stream; endOffset of a progress is one")
    return json.dumps(to_json(Position(position.offsets, {})))
