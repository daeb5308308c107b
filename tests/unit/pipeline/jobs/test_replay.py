"""The name under which a replay is written once, and archives that are not the one it was of."""

from __future__ import annotations

import pytest
from tidelog.pipeline.jobs.common import JobError
from tidelog.pipeline.jobs.replay import application, check
from tidelog.pipeline.sink.task import Versions


def test_a_replay_is_named_by_archive_topic_and_condition() -> None:
    names = {
        application("/a", "t", None), application("/a", "u", None), application("/b", "t", None), application("/a", "t", "x"),
    }  # fmt: skip
    assert len(names) == 4
    assert application("/a/", "t", None) == application("/a", "t", "") in names


def test_an_archive_that_was_made_anew_at_its_path_is_told() -> None:
    check("/a", 3, Versions(3, 10), "t")
    with pytest.raises(
        JobError, match=r"t has version 4 of an archive at /a, which is at version 3: it is another archive"
    ):
        check("/a", 3, Versions(4, 10), "t")
