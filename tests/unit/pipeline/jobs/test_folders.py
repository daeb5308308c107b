"""Which files of a run's folder belong to an archive."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tidelog.pipeline.jobs import folders
from tidelog.pipeline.jobs.folders import Folder, list_files, read
from tidelog.pipeline.jobs.manifest import ArchiveFile

DATA = "data/00000001-a"


@pytest.fixture(autouse=True)
def footers(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of pyarrow's: each file says of itself how many rows it has."""
    parquet = SimpleNamespace(read_metadata=lambda path: SimpleNamespace(num_rows=int(Path(path).read_text())))
    monkeypatch.setitem(sys.modules, "pyarrow", SimpleNamespace(parquet=parquet))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", parquet)


def put(folder: Path, name: str, text: str) -> None:
    path = folder / DATA / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_files_of_attempts_that_lost_are_not_listed(tmp_path: Path) -> None:
    """Spark removes `_temporary` when its job is done; an attempt that goes on makes it anew for its next file."""
    put(tmp_path, "date=2024-05-06/part-0.parquet", "12")
    put(tmp_path, "date=__HIVE_DEFAULT_PARTITION__/part-1.parquet", "3")
    put(tmp_path, "_temporary/0/_temporary/attempt_1_m_000000_1/date=2024-05-06/part-0.parquet", "half a footer")
    for name in (".spark-staging-1/date=2024-05-06/part-0.parquet", "date=2024-05-06/.part-0.parquet", "_SUCCESS"):
        put(tmp_path, name, "no footer")
    assert list_files(str(tmp_path), DATA) == [
        ArchiveFile(f"{DATA}/date=2024-05-06/part-0.parquet", 12, 2),
        ArchiveFile(f"{DATA}/date=__HIVE_DEFAULT_PARTITION__/part-1.parquet", 3, 1),
    ]


def test_files_and_their_folders_are_on_disk_before_a_manifest_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Spark has written is in memory until then: a machine that loses its power would keep the manifest alone."""
    there = tmp_path / DATA / "date=2024-05-06"
    part, synced = f"{DATA}/date=2024-05-06/part-0.parquet", list[int]()

    def wrote(_: object, uri: str) -> None:
        assert uri == f"file://{tmp_path / DATA}"
        put(tmp_path, "date=2024-05-06/part-0.parquet", "12")

    monkeypatch.setattr(folders, "write", wrote)
    monkeypatch.setattr(folders, "sync_all", lambda fd: synced.append(os.fstat(fd).st_ino))
    assert Folder(f"{tmp_path}/").write(None, DATA) == [ArchiveFile(part, 12, 2)]
    inside_out = [tmp_path / part, there, tmp_path / DATA, tmp_path / "data", tmp_path]
    assert synced == [place.stat().st_ino for place in inside_out]


class Reader:
    """Spark's, which tells what it was asked for."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {}
        self.read = self

    def schema(self, text: str) -> Reader:
        self.said["schema"] = text
        return self

    def options(self, **given: str) -> Reader:
        self.said |= given
        return self

    def parquet(self, *uris: str) -> list[str]:
        return [*uris]


def test_a_file_that_is_damaged_or_gone_is_none_to_leave_out_whatever_the_session_says() -> None:
    reader = Reader()
    read(reader, ["file:///archive/a.parquet"], "_offset bigint")
    assert reader.said == {"schema": "_offset bigint", "ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}


def test_a_folder_whose_name_is_a_pattern_for_sparks_readers_is_read_by_its_name() -> None:
    assert read(Reader(), ["file:///orders[eu] {a,b}*?\\/a b.parquet", "file:///plain"], "_offset bigint") == [
        "file:///orders\\[eu\\] \\{a,b\\}\\*\\?\\\\/a b.parquet",
        "file:///plain",
    ]
