"""The archive's own log: only what a manifest names belongs to it, and one of two runs wins."""

from __future__ import annotations

import errno
import json
import os
from functools import partial
from pathlib import Path

import pytest
from tidelog.pipeline.jobs import manifest
from tidelog.pipeline.jobs.manifest import (
    ArchiveError,
    ArchiveFile,
    Manifest,
    add_manifest,
    check_folder,
    files_beyond,
    new_data_folder,
    read_archive_log,
    read_manifests,
    remove_leftovers,
)

FILES = [ArchiveFile("data/00000001-a/date=2024-01-01/x.parquet", 5, 100)]


def test_there_is_no_archive_before_the_first_manifest(tmp_path: Path) -> None:
    assert read_archive_log(str(tmp_path)) is None
    assert read_archive_log(str(tmp_path / "nowhere")) is None


def test_manifests_add_up(tmp_path: Path) -> None:
    add_manifest(str(tmp_path), 1, "t", None, {0: 5, 11: 7}, FILES)
    more = ArchiveFile("data/00000002-b/date=2024-01-02/y.parquet", 3, 50)
    add_manifest(str(tmp_path), 2, "t", None, {0: 8, 11: 7}, [more])
    found = read_archive_log(str(tmp_path))
    assert found is not None
    assert (found.topic, found.version, found.ends, found.rows) == ("t", 2, {0: 8, 11: 7}, 8)
    assert found.files == (*FILES, more)
    assert found.paths == [str(tmp_path / one.path) for one in found.files]
    assert [(one.rows, one.ends) for one in read_manifests(str(tmp_path))] == [(5, {0: 5, 11: 7}), (3, {0: 8, 11: 7})]


def test_a_topic_of_the_same_name_is_another_one_by_its_id(tmp_path: Path) -> None:
    add_manifest(str(tmp_path), 1, "t", None, {0: 5}, FILES)
    unknown = read_archive_log(str(tmp_path))
    assert unknown is not None
    unknown.check_topic("t", "some-id")
    add_manifest(str(tmp_path), 2, "t", "one-id", {0: 6}, [])
    add_manifest(str(tmp_path), 3, "t", None, {0: 7}, [])
    known = read_archive_log(str(tmp_path))
    assert known is not None
    known.check_topic("t", "one-id")
    known.check_topic("t", None)
    with pytest.raises(
        ArchiveError, match=r"a topic t that was deleted .it had the id one-id.; the one of that name now has two"
    ):
        known.check_topic("t", "two")
    with pytest.raises(ArchiveError, match="is the archive of t, not of u"):
        known.check_topic("u", None)


def test_of_two_runs_one_wins(tmp_path: Path) -> None:
    add_manifest(str(tmp_path), 1, "t", None, {0: 5}, FILES)
    with pytest.raises(ArchiveError, match="another run has archived meanwhile; this one has added nothing"):
        add_manifest(str(tmp_path), 1, "t", None, {0: 6}, [])
    found = read_archive_log(str(tmp_path))
    assert found is not None
    assert found.ends == {0: 5}
    assert len(list((tmp_path / "_manifest").iterdir())) == 1  # no temporary file stays


@pytest.mark.parametrize("others", [False, True])
def test_a_link_that_was_made_though_its_answer_was_lost_is_this_runs_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: bool
) -> None:
    """NFS asks again, and is told that there is one: see link(2)."""
    link = os.link

    def answered_late(made: str, name: str) -> None:
        if others:
            Path(name).write_text("another run's")
        else:
            link(made, name)
        link(made, name)

    monkeypatch.setattr(os, "link", answered_late)
    if others:
        with pytest.raises(ArchiveError, match="another run has archived meanwhile"):
            add_manifest(str(tmp_path), 1, "t", None, {0: 5}, FILES)
    else:
        add_manifest(str(tmp_path), 1, "t", None, {0: 5}, FILES)
        assert [one.files for one in read_manifests(str(tmp_path))] == [tuple(FILES)]
    assert [one.name for one in (tmp_path / "_manifest").iterdir()] == ["00000001.json"]


def test_a_manifest_that_is_missing_or_damaged_is_told(tmp_path: Path) -> None:
    for version in (1, 2, 3):
        add_manifest(str(tmp_path), version, "t", None, {0: version}, [])
    second = tmp_path / "_manifest/00000002.json"
    for text in (
        "{", "[]", json.dumps({"topic": "t", "ends": {"x": 1}, "files": []}), json.dumps({"topic": "t"}), "[" * 100_000,
        '{"topic": "t", "ends": {"0": 1e999}, "files": []}',
    ):  # fmt: skip
        second.write_text(text)
        with pytest.raises(ArchiveError, match=r"00000002\.json: is no manifest"):
            read_archive_log(str(tmp_path))
    second.unlink()
    with pytest.raises(ArchiveError, match=r"00000002\.json is missing"):
        read_archive_log(str(tmp_path))


def test_what_a_run_that_died_has_left_is_swept_and_no_other(tmp_path: Path) -> None:
    add_manifest(str(tmp_path), 1, "t", None, {0: 5}, FILES)
    found = read_archive_log(str(tmp_path))
    assert found is not None
    for name in ("00000001-a", "00000001-dead", "00000002-now", "notes"):
        (tmp_path / "data" / name).mkdir(parents=True)
    assert remove_leftovers(str(tmp_path), found) == 1
    assert sorted(one.name for one in (tmp_path / "data").iterdir()) == ["00000001-a", "00000002-now", "notes"]
    assert new_data_folder(2) != new_data_folder(2)


@pytest.mark.parametrize("dies_at", ["sync", "link", "links are tried"])
def test_a_manifest_that_a_killed_run_has_left_is_nothing_and_swept_when_it_can_become_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: str
) -> None:
    """Not before: a run that goes on may be about to link its own."""

    link = os.link

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    def linked(*names: str) -> None:
        link(*names)
        raise KeyboardInterrupt

    def names() -> list[str]:
        return sorted(one.name for one in (tmp_path / "_manifest").iterdir())

    folder = str(tmp_path)
    add_manifest(folder, 1, "t", None, {0: 5}, FILES)
    with monkeypatch.context() as dying:
        dying.setattr(manifest, "sync_all", killed if dies_at == "sync" else lambda _: None)
        dying.setattr(os, "link", linked if dies_at == "links are tried" else killed)
        dying.setattr(os, "unlink", killed)
        runs = (
            check_folder
            if dies_at == "links are tried"
            else partial(add_manifest, topic="t", topic_id=None, ends={0: 6}, files=[])
        )
        with pytest.raises(KeyboardInterrupt):
            runs(folder, version=2)
    left = [name for name in names() if name != "00000001.json"]
    assert left
    found = read_archive_log(folder)
    assert found is not None
    assert found.ends == {0: 5}
    remove_leftovers(folder, found)
    assert [name for name in names() if name != "00000001.json"] == left
    add_manifest(folder, 2, "t", None, {0: 7}, [])
    found = read_archive_log(folder)
    assert found is not None
    assert found.ends == {0: 7}
    remove_leftovers(folder, found)
    assert names() == ["00000001.json", "00000002.json"]


def test_a_run_that_is_swept_before_its_link_has_been_overtaken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, link = str(tmp_path), os.link
    (tmp_path / "_manifest").mkdir()

    def late(*names: str) -> None:
        monkeypatch.setattr(os, "link", link)
        add_manifest(folder, 1, "t", None, {0: 5}, [])
        found = read_archive_log(folder)
        assert found is not None
        remove_leftovers(folder, found)
        link(*names)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(ArchiveError, match="another run has archived meanwhile; this one has added nothing"):
        add_manifest(folder, 1, "t", None, {0: 6}, [])
    found = read_archive_log(folder)
    assert found is not None
    assert found.ends == {0: 5}


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_hard_links_is_refused_in_one_sentence_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def link(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    check_folder(str(tmp_path), 1)
    with monkeypatch.context() as fat:
        fat.setattr(os, "link", link)
        with pytest.raises(
            ArchiveError, match=r"this file system makes no hard links .*; archive into a folder on one"
        ) as told:
            check_folder(str(tmp_path), 1)
    assert "\n" not in str(told.value)
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == []


def test_of_an_archive_only_the_runs_behind_some_offsets_are_read() -> None:
    runs = [
        Manifest("t", None, ends, (ArchiveFile(name, 1, 1),))
        for name, ends in (("a", {0: 5}), ("b", {0: 5, 1: 3}), ("c", {0: 9, 1: 3}))
    ]
    for offsets, names in (({}, "abc"), ({0: 5}, "bc"), ({0: 5, 1: 3}, "c"), ({0: 8, 1: 3}, "c"), ({0: 9, 1: 3}, "")):
        assert [file.path for file in files_beyond(runs, offsets)] == list(names)


@pytest.mark.parametrize("address", ["hdfs:///archive", "file:///archive", "abfss://a@b/c"])
def test_an_address_is_no_folder(address: str) -> None:
    """Spark would write there, and the manifests would lie in a local folder of that name."""
    for refuses in (partial(check_folder, version=1), read_archive_log, read_manifests):
        with pytest.raises(ArchiveError, match="a folder of a local or mounted file system is given as its path"):
            refuses(address)
    assert not Path(address).exists()
