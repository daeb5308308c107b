"""What jobs begin with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.segment_dirs import write_log
from tidelog.pipeline.jobs.common import JobError, bounds_of, offsets_json, only_topic
from tidelog.pipeline.planning.places import Bounds, TopicPartition
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record


def test_bounds_are_those_of_the_sources_place(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [[build_batch([Record(0, 1, b"k", b"v")] * 3)]])
    assert bounds_of({"path": str(tmp_path), "subscribe": "t"}) == {TopicPartition("t", 0): Bounds(0, 3)}


def test_jobs_take_one_topic() -> None:
    one, other = TopicPartition("t", 0), TopicPartition("u", 0)
    assert only_topic({one: Bounds(0, 1), TopicPartition("t", 1): Bounds(0, 1)}) == "t"
    with pytest.raises(JobError, match="one topic at a time, not t, u"):
        only_topic({one: Bounds(0, 1), other: Bounds(0, 1)})
    with pytest.raises(JobError, match="not none"):
        only_topic({})


def test_offsets_are_as_the_source_takes_them() -> None:
    assert json.loads(offsets_json("t", {10: 5, 2: 0})) == {"t": {"2": 0, "10": 5}}
