"""The name under which a replay is written once."""

from __future__ import annotations

from tidelog.pipeline.jobs.replay import application


def test_a_replay_is_named_by_archive_topic_and_condition() -> None:
    names = {
        application("/a", "t", None), application("/a", "u", None), application("/b", "t", None), application("/a", "t", "x"),
    }  # fmt: skip
    assert len(names) == 4
    assert application("/a/", "t", None) == application("/a", "t", "") in names
