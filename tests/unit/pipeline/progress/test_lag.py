"""A stream's lag by what Spark's progress says, and offsets from the Kafka connector and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.pipeline.exceptions import OptionError
from tidelog.pipeline.options import parse_options
from tidelog.pipeline.planning.places import TopicPartition
from tidelog.pipeline.planning.stream_plan import Position, to_json
from tidelog.pipeline.progress.lag import Lag, kafka_offsets, lag_of, position_of, read_position

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
NAMES = st.sampled_from(["t", "orders", "a.b-c_d"])
OFFSETS = st.dictionaries(
    st.builds(TopicPartition, NAMES, st.integers(0, 99)), st.integers(0, (1 << 63) - 1), min_size=1
)


def source(end: Any, latest: Any = None) -> dict[str, Any]:
    return {"endOffset": end, "latestOffset": latest}


def test_the_metrics_are_those_of_the_connector() -> None:
    end = '{"t": {"0": 5, "1": 7}, "topic ids": {"t": "x"}, "first offsets": {"t": {"0": 1}}}'
    latest = '{"t": {"0": 5, "1": 10, "2": 4}}'
    lag = lag_of({"sources": [source(end, latest)]})
    assert lag == Lag({T0: 0, T1: 3, T2: 4})
    assert lag.metrics() == {
        "minOffsetsBehindLatest": "0", "maxOffsetsBehindLatest": "4", "avgOffsetsBehindLatest": str(7 / 3),
    }  # fmt: skip
    assert (lag.least, lag.most, lag.total) == (0, 4, 7)


def test_of_several_sources_the_slowest_counts() -> None:
    fast, slow = source({"t": {"0": 9}}, {"t": {"0": 10}}), source({"t": {"0": 2}}, {"t": {"0": 10}})
    for sources in ([fast, slow], [slow, fast]):
        assert lag_of({"sources": sources}) == Lag({T0: 8})
        assert read_position({"sources": sources}) == Position({T0: 2}, {})


def test_a_log_that_became_shorter_is_not_behind() -> None:
    assert lag_of({"sources": [source({"t": {"0": 9, "1": 4}}, {"t": {"0": 3}})]}) == Lag({T0: 0})


@pytest.mark.parametrize(
    "progress",
    [
        None,
        {},
        {"sources": []},
        {"sources": [source(17, 18), source('{"logOffset": 4}', "{"), source(None, None), source("[" * 100_000, "{}")]},
        {"sources": [source({"t": {"0": 1}}, None)]},  # it does not say how far the log goes
    ],
)
def test_what_says_nothing_of_a_log_has_no_lag(progress: Any) -> None:
    assert lag_of(progress) is None


def test_nothing_read_is_nothing_behind() -> None:
    empty = Lag({})
    assert (empty.least, empty.most, empty.mean) == (0, 0, 0.0)


@given(OFFSETS, st.sampled_from([dict, json.dumps, str]))  # str: as PySpark 4.1 has them in a progress
def test_offsets_go_to_the_connector_and_come_back(
    offsets: dict[TopicPartition, int], written: Callable[[Any], Any]
) -> None:
    ids = {where.topic: f"id of {where.topic}" for where in offsets}
    said: Any = to_json(Position(offsets, ids))
    text = kafka_offsets(written(said))
    assert {topic: {int(n) for n in parts} for topic, parts in json.loads(text).items()} == {
        topic: {where.partition for where in offsets if where.topic == topic} for topic in ids
    }
    assert position_of(text) == Position(offsets, {})
    for given_text, given_ids in ((text, {}), (json.dumps(said), ids), (str(said), ids)):
        options = parse_options({"path": "/x", "subscribePattern": ".*", "startingOffsets": given_text})
        assert isinstance(options.starting, dict)
        assert {TopicPartition(t, n): o for t, parts in options.starting.items() for n, o in parts.items()} == offsets
        assert options.starting_ids == given_ids


@pytest.mark.parametrize("wrong", ["7", "{", None, '{"t": 5}', '{"t": {"x": 1}}'])
def test_what_is_no_offset_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="is no offset of a topic's stream"):
        kafka_offsets(wrong)


def test_ids_that_are_none_are_refused() -> None:
    with pytest.raises(OptionError, match="'topic ids' has no id for each topic"):
        parse_options({"path": "/x", "subscribe": "t", "startingOffsets": '{"t": {"0": 1}, "topic ids": {"t": 5}}'})
    with pytest.raises(OptionError, match="endingOffsets: topic ids has"):
        parse_options({"path": "/x", "subscribe": "t", "endingOffsets": '{"t": {"0": 1}, "topic ids": {"t": "5"}}'})
