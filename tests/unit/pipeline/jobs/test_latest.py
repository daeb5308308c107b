"""A table that is replaced as a whole."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from support.segment_dirs import write_checkpoint, write_log
from tidelog.pipeline.exceptions import OptionError
from tidelog.pipeline.jobs.common import JobError
from tidelog.pipeline.jobs.latest import latest, replace
from tidelog.pipeline.options import parse_options
from tidelog.pipeline.planning.batch_plan import plan_batch
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record


class Spark:
    """In place of a session: what was asked of its reader, and, by its plan, what would be read; a count is of one row."""

    def __init__(self) -> None:
        self.asked: dict[str, str] = {}
        self.paths: list[str] = []
        self.failure: Exception | None = None

    read = write = property(lambda self: self)

    def format(self, _name: str) -> Spark:
        return self

    def options(self, **given: str) -> Spark:
        self.asked = given
        return self

    def load(self) -> Spark:
        return self

    def parquet(self, path: str) -> Spark:
        self.paths.append(path)
        place = Path(path.removeprefix("file://"))
        if not place.exists():  # written
            place.mkdir(parents=True)
            (place / "_SUCCESS").touch()
            if self.failure is not None:
                raise self.failure
        return self

    def count(self) -> int:
        return 1

    @property
    def offsets(self) -> list[int]:
        return [
            n for split in plan_batch(parse_options(self.asked)) for n in range(split.first_offset, split.end_offset)
        ]


@pytest.fixture
def source(tmp_path: Path) -> dict[str, str]:
    """Ten records of a topic t, a millisecond apart from 1000 on."""
    batches = [build_batch([Record(0, 1000 + n, b"k", b"v")], base_offset=n) for n in range(10)]
    write_log(tmp_path / "logs/t-0", [batches])
    write_checkpoint(tmp_path / "logs/replication-offset-checkpoint", {("t", 0): 10})
    return {"path": str(tmp_path / "logs"), "subscribe": "t"}


def make(folder: Path, name: str, age: int) -> str:
    data = folder / name
    data.mkdir()
    (data / "part").write_text(name)
    os.utime(data, (age, age))
    return str(data)


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


A, B, C, D = (f"table.{digit * 12}" for digit in "abcd")


def test_the_table_is_the_newest_folder_and_the_one_before_stays(tmp_path: Path) -> None:
    table = tmp_path / "table"
    for number, name in enumerate((A, B, C), 1):
        replace(str(table), make(tmp_path, name, number))
        assert (table / "part").read_text() == name
    assert names(tmp_path) == ["table", B, C]


@pytest.mark.parametrize(
    "name", ["tablets.x", "table.eu", "table.backup", f"table.eu.{'0' * 12}", f"{A}0", "table.0123456789AB", f"{D}.old"]
)
def test_folders_of_others_are_left_alone_whatever_their_names_begin_with(tmp_path: Path, name: str) -> None:
    """Such as the table `table.eu` and its data, or a user's own copy."""
    make(tmp_path, name, 0)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / f"table.{'9' * 12}"
    link.symlink_to("elsewhere")
    for number, mine in enumerate((A, B, C), 1):
        replace(str(tmp_path / "table"), make(tmp_path, mine, number))
    assert names(tmp_path) == sorted(["table", B, C, name, link.name, "elsewhere"])
    assert (tmp_path / name / "part").exists()


def test_what_runs_have_left_takes_nothing_from_the_reader_and_goes_in_its_time(tmp_path: Path) -> None:
    table, now = str(tmp_path / "table"), int(time.time())
    replace(table, make(tmp_path, A, now - 90))
    make(tmp_path, B, now - 80)  # its run died behind its files, or is about to make them the table
    for number, age in (("0", now), ("1", now - 48 * 3600)):  # one goes on, the other was killed two days ago
        (tmp_path / f"table.{number * 12}/_temporary").mkdir(parents=True)
        for folder in (tmp_path / f"table.{number * 12}/_temporary", tmp_path / f"table.{number * 12}"):
            os.utime(folder, (age, age))
    replace(table, make(tmp_path, C, now - 70))
    assert names(tmp_path) == ["table", f"table.{'0' * 12}", A, B, C], "A is what readers of before have open"
    replace(table, make(tmp_path, D, now - 60))
    assert names(tmp_path) == ["table", f"table.{'0' * 12}", C, D]


def test_what_is_no_table_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(JobError, match="is there and is no table of this job"):
        replace(str(tmp_path / "mine"), make(tmp_path, f"mine.{'a' * 12}", 1))
    assert (tmp_path / "mine").is_dir()


@pytest.mark.parametrize(
    ("bounds", "read"),
    [
        ({}, range(10)),
        ({"endingTimestamp": "1004"}, range(4)),
        ({"EndingOffsets": '{"t":{"0":6}}'}, range(6)),
        ({"endingOffsetsByTimestamp": '{"t":{"0":1007}}', "startingTimestamp": "1002"}, range(2, 7)),
    ],
)
def test_a_report_tells_of_the_offsets_that_were_read(
    source: dict[str, str], tmp_path: Path, bounds: dict[str, str], read: range
) -> None:
    spark = Spark()
    report = latest(spark, {**source, **bounds}, str(tmp_path / "table"))
    assert spark.offsets == list(read)
    assert (report["ends"], report["offsets"]) == ({"0": read.stop}, len(read))
    with pytest.raises(OptionError, match="endingOffsets can't be earliest: nothing would be read"):
        latest(spark, {**source, "endingOffsets": "earliest"}, str(tmp_path / "table"))


def test_a_table_is_written_where_its_link_is_whatever_file_system_the_session_has(
    source: dict[str, str], tmp_path: Path
) -> None:
    spark, table = Spark(), tmp_path / "table"
    latest(spark, source, f"{table}/")
    data = table.resolve()
    assert data.parent == tmp_path
    assert spark.paths == [f"file://{data}"] * 2


def test_a_place_that_is_taken_is_told_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(JobError, match="mine is there and is no table of this job"):
        latest(None, {"path": "/nowhere", "subscribe": "t"}, str(tmp_path / "mine"))
    assert names(tmp_path) == ["mine"]


def test_what_fails_leaves_the_table_as_it_was_and_nothing_beside_it(
    source: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, spark = tmp_path / "tables", Spark()
    tables.mkdir()
    latest(spark, source, str(tables / "table"))
    before = names(tables)
    spark.failure = OSError("the disk is full")
    with pytest.raises(OSError, match="the disk is full"):
        latest(spark, source, str(tables / "table"))
    spark.failure = None
    with monkeypatch.context() as dying:  # behind the rows, before the link
        dying.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            latest(spark, source, str(tables / "table"))
    assert names(tables) == before
    assert (tables / "table" / "_SUCCESS").exists()
    with monkeypatch.context() as dying:  # behind the link
        dying.setattr("os.listdir", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            latest(spark, source, str(tables / "table"))
    assert (tables / "table" / "_SUCCESS").exists()
