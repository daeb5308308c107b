"""A table that is replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tidelog.pipeline.jobs.common import JobError
from tidelog.pipeline.jobs.latest import replace


def make(folder: Path, name: str, age: int) -> str:
    data = folder / name
    data.mkdir()
    (data / "part").write_text(name)
    os.utime(data, (age, age))
    return str(data)


def test_the_table_is_the_newest_folder_and_the_one_before_stays(tmp_path: Path) -> None:
    table = tmp_path / "table"
    for number, name in enumerate(("table.a", "table.b", "table.c"), 1):
        replace(str(table), make(tmp_path, name, number))
        assert (table / "part").read_text() == name
    assert sorted(one.name for one in tmp_path.iterdir()) == ["table", "table.b", "table.c"]


def test_a_name_that_begins_alike_is_another_table(tmp_path: Path) -> None:
    make(tmp_path, "tablets.x", 1)
    replace(str(tmp_path / "table"), make(tmp_path, "table.a", 2))
    assert (tmp_path / "tablets.x").is_dir()


def test_what_is_no_table_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(JobError, match="is there and is no table of this job"):
        replace(str(tmp_path / "mine"), make(tmp_path, "mine.a", 1))
    assert (tmp_path / "mine").is_dir()
