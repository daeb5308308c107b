"""The name under which a replay is written once, and archives that are not the one it was of."""

from __future__ import annotations

import pytest
from tidelog.pipeline.jobs.common import JobError
from tidelog.pipeline.jobs.replay import application, check
from tidelog.pipeline.sink.task import Versions


def test_a_replay_is_named_by_archive_topic_and_condition() -> None:
    names = {
        application("/a", "t", None, None), application("/a", "u", None, None), application("/b", "t", None, None),
        application("/a", "t", None, "x"),
    }  # fmt: skip
    assert len(names) == 4
    assert application("/a/", "t", None, None) == application("/a", "t", None, "") in names


def test_a_topic_of_the_same_name_with_another_id_is_another_replay() -> None:
    assert len({application("/a", "t", topic_id, None) for topic_id in (None, "one-id", "two-id")}) == 3


def test_an_archive_that_was_made_anew_at_its_path_is_told() -> None:
    check("/a", 3, Versions(3, 10), "t")
    with pytest.raises(
        JobError, match=r"t has version 4 of an archive at /a, which is at version 3: it is another archive"
    ):
        check("/a", 3, Versions(4, 10), "t")
