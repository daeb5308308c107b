"""The name under which a replay is written once, and archives that are not the one it was of."""

from __future__ import annotations

from pathlib import Path

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


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/archives/orders", "replay-2ce344712f29332d"),
        ("s3://lake/orders", "replay-1c9bc4bb1600af92"),
        ("hdfs://name:8020/lake/orders", "replay-d5879708bdfb4819"),
        ("viewfs:/lake/orders", "replay-6af40056518f7ab4"),
    ],
)
def test_the_name_of_a_replay_stays_whatever_folder_it_is_run_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, name: str
) -> None:
    """Another name would write all rows once more. Hadoop leaves `//` out where there is no authority."""
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        assert application(folder, "t", "an id", None) == name


def test_a_topic_of_the_same_name_with_another_id_is_another_replay() -> None:
    assert len({application("/a", "t", topic_id, None) for topic_id in (None, "one-id", "two-id")}) == 3


def test_an_archive_that_was_made_anew_at_its_path_is_told() -> None:
    check("/a", 3, Versions(3, 10), "t")
    with pytest.raises(
        JobError, match=r"t has version 4 of an archive at /a, which is at version 3: it is another archive"
    ):
        check("/a", 3, Versions(4, 10), "t")
