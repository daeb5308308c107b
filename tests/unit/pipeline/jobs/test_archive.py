"""What the next run of an archive reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tidelog.pipeline.jobs import archive as archiving
from tidelog.pipeline.jobs import upsert as upserting
from tidelog.pipeline.jobs.archive import SCHEMA, archive, plan
from tidelog.pipeline.jobs.common import JobError
from tidelog.pipeline.jobs.manifest import Archive, add_manifest
from tidelog.pipeline.jobs.upsert import upsert
from tidelog.pipeline.planning.places import Bounds, Look, TopicPartition


def test_the_first_run_reads_all_there_is() -> None:
    assert plan(None, {0: (5, 9), 1: (0, 0)}) == ({0: 5, 1: 0}, {0: 9, 1: 0})


def test_the_next_run_goes_on_where_the_last_ended_and_takes_new_partitions_from_their_start() -> None:
    before = Archive("/a", "t", None, 1, {0: 7}, ())
    assert plan(before, {0: (5, 9), 1: (2, 4)}) == ({0: 7, 1: 2}, {0: 9, 1: 4})


def test_what_retention_took_before_it_was_archived_is_asked_for_all_the_same() -> None:
    """The source says that it is gone; a run does not step over it in silence."""
    assert plan(Archive("/a", "t", None, 1, {0: 3}, ()), {0: (5, 9)})[0] == {0: 3}


def test_a_topic_that_ends_before_its_archive_is_another_one() -> None:
    with pytest.raises(JobError, match="partition 0 ends at 5, and the archive at 7: is it another topic of that name"):
        plan(Archive("/a", "t", None, 1, {0: 7}, ()), {0: (0, 5)})


@pytest.mark.parametrize("columns", [SCHEMA, upserting.COLUMNS])
def test_times_are_instants_whatever_a_session_makes_of_the_word_timestamp(columns: str) -> None:
    """Where `spark.sql.timestampType` is TIMESTAMP_NTZ, `timestamp` alone is a wall clock's, moved by the session's zone."""
    assert "timestamp timestamp_ltz," in columns


class Begun(Exception):
    """The topic would be read."""


@pytest.mark.parametrize("job", [archive, upsert])
def test_a_run_of_another_that_ends_between_two_looks_makes_no_other_topic_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: Any
) -> None:
    """As soon as the topic's end is looked at, five records more come and are archived by another run."""
    folder, end = str(tmp_path), 5
    add_manifest(folder, 1, "t", None, {0: end}, [])

    def look_at(_: object) -> Look:
        nonlocal end
        found = Look({TopicPartition("t", 0): Bounds(0, end)}, {})
        end += 5
        add_manifest(folder, end // 5, "t", None, {0: end}, [])
        return found

    def load(*_: object, **bounds: str) -> None:
        assert bounds == {"startingOffsets": '{"t": {"0": 5}}', "endingOffsets": '{"t": {"0": 5}}'}
        raise Begun

    for module in (archiving, upserting):
        monkeypatch.setattr(module, "look_at", look_at)
    monkeypatch.setattr(upserting, "make_table", lambda *_: None)
    monkeypatch.setattr(upserting, "_brought_to", lambda *_: None)
    monkeypatch.setattr(upserting, "load", load)
    given = {"path": "/nowhere", "subscribe": "t"}
    if job is archive:
        assert archive(None, given, folder)["offsets"] == 0
    else:
        with pytest.raises(Begun):
            upsert(None, given, "c.t", archive=folder)
