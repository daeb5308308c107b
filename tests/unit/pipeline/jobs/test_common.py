"""What jobs begin with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.segment_dirs import write_log
from tidelog.pipeline.exceptions import OptionError
from tidelog.pipeline.jobs.archive import archive, read_archive
from tidelog.pipeline.jobs.common import JobError, bounds_of, check_whole, offsets_json, only_topic
from tidelog.pipeline.jobs.upsert import upsert
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


BOUNDS = {
    "startingOffsets": '{"t":{"0":3}}', "endingOffsets": '{"t":{"0":5}}', "startingTimestamp": "1004",
    "endingTimestamp": "1004", "startingOffsetsByTimestamp": '{"t":{"0":1004}}', "endingOffsetsByTimestamp": '{"t":{"0":1004}}',
    "columns": "key", "view": "latest", "ENDINGTIMESTAMP": "0",
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize(
    ("job", "run"),
    [
        ("archive", lambda given: archive(None, given, "/nowhere")),
        ("read_archive", lambda given: read_archive(None, "/nowhere", given)),
        ("upsert", lambda given: upsert(None, given, "c.t")),
    ],
    ids=["archive", "read_archive", "upsert"],
)
def test_a_job_that_keeps_account_of_what_it_read_takes_no_bounds(job: str, run: Any, name: str) -> None:
    """A time beats the job's own offsets: it would say of rows that it never read that it has them."""
    with pytest.raises(OptionError, match=f"^{name} is '.*: {job} goes on where its last run ended"):
        run({"path": "/nowhere", "subscribe": "t", name: BOUNDS[name]})


def test_what_a_job_does_anyway_may_be_said() -> None:
    said = {"startingOffsets": "Earliest", "endingOffsets": "latest", "view": "records", "failOnDataLoss": "false"}
    check_whole("archive", {"path": "/nowhere", "subscribe": "t", **said})
    with pytest.raises(OptionError, match="maxOffsetsPerTrigger is for streams"):
        check_whole("archive", {"path": "/nowhere", "subscribe": "t", "maxOffsetsPerTrigger": "5"})
