"""What the next run of an archive reads."""

from __future__ import annotations

import pytest
from tidelog.pipeline.jobs.archive import plan
from tidelog.pipeline.jobs.common import JobError
from tidelog.pipeline.jobs.manifest import Archive


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
