"""Promise: a restore that can't be says why in one sentence, with exit code 1, and has begun nothing, or says how to go on."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from support.backups import BackedUpWorld
from support.cleaning import put
from tidelog.backup.formats.keys import CUTS, PACKS, cut_key
from tidelog.backup.formats.sealed import seal
from tidelog.backup.restore.catalog import Catalog
from tidelog.backup.restore.marker import refuse_unfinished
from tidelog.backup.store.files import FileStore
from tidelog.backup.upkeep.drill import newest_drill, recorded
from tidelog.backup.upkeep.retention import Keep
from tidelog.backup.upkeep.sweep import sweep
from tidelog.cli.main import main
from tidelog.storage.clock import SystemTime
from tidelog.storage.exceptions import DataDirectoryError
from tidelog.storage.io.filesystem import RealFile, RealFileSystem


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    """Of two cuts."""
    (tmp_path / "store").mkdir()
    made = FileStore(str(tmp_path / "store"))
    world = BackedUpWorld(made, 1)
    for _ in range(2):
        for topic in ("plain", "kept", "busy"):
            put(world.log(topic), "k", "v" * 50, timestamp=world.time.milliseconds())
        world.cut()
    world.stop()
    return made


def replace(store: FileStore, key: str, data: bytes) -> None:
    store.delete([key])
    store.create(key, data)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The sentence of a restore that fails."""
    capsys.readouterr()
    assert main(["restore", *map(str, arguments)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    sentence, *pointers = told.err.splitlines()
    assert sentence.startswith("tidelog: ")
    assert len(pointers) <= 1
    assert all(pointer.startswith("tidelog: see docs/SETTINGS.md#") for pointer in pointers)
    return sentence


def test_what_is_damaged_is_named_and_another_cut_restores(
    store: FileStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack = max(store.list(PACKS), key=lambda stored: stored.key).key
    data = bytearray(store.read(pack))
    data[len(data) // 2] ^= 4
    replace(store, pack, bytes(data))
    new = tmp_path / "new"
    sentence = refused(capsys, "--from", store.name, new)
    assert sentence == f"tidelog: {pack} is damaged: its bytes do not fit the sum in the manifest"
    assert main(["restore", "--from", store.name, "--cut", "1", str(tmp_path / "other")]) == 0
    assert "restored cut 1" in capsys.readouterr().out


def test_a_damaged_manifest_is_named_and_passed_over_by_who_wants_the_newest(
    store: FileStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(store, cut_key(2), store.read(cut_key(2))[:-1])
    sentence = refused(capsys, "--from", store.name, "--cut", "2", tmp_path / "new")
    assert sentence == f"tidelog: {cut_key(2)} is damaged: its checksum does not fit"
    assert not (tmp_path / "new").exists()
    assert main(["restore", "--from", store.name, str(tmp_path / "new")]) == 1
    told = capsys.readouterr().out
    assert "restored cut 1" in told
    assert f"passed over a newer cut: {cut_key(2)} is damaged: its checksum does not fit" in told


def test_a_damaged_manifest_is_no_good_drill_and_no_good_state(
    store: FileStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup", "verify", "--from", store.name]) == 0
    assert main(["backup", "status", "--from", store.name]) == 0
    replace(store, cut_key(2), store.read(cut_key(2))[:-1])
    capsys.readouterr()
    assert main(["backup", "status", "--from", store.name]) == 1
    assert f"damaged: {cut_key(2)} is damaged" in capsys.readouterr().out
    assert main(["backup", "verify", "--from", store.name, "--record"]) == 1
    assert capsys.readouterr().err == f"tidelog: {cut_key(2)} is damaged: its checksum does not fit\n"
    assert recorded(store).good is None
    assert newest_drill(store, SystemTime()).fault == f"{cut_key(2)} is damaged: its checksum does not fit"
    assert main(["backup", "verify", "--from", store.name, "--cut", "1"]) == 0
    assert main(["backup", "list", "--from", store.name]) == 1
    assert f"cut 2 can't be restored: {cut_key(2)} is damaged" in capsys.readouterr().out


def test_a_newer_format_is_told_and_older_cuts_restore(
    store: FileStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(store, cut_key(2), seal("cut", b"{}", version=2))
    sentence = refused(capsys, "--from", store.name, tmp_path / "new")
    assert sentence == (
        f"tidelog: {cut_key(2)} was written by a newer tidelog (backup format 2, this one knows 1): restore with that version"
    )
    assert not (tmp_path / "new").exists()
    assert main(["restore", "--from", store.name, "--cut", "1", str(tmp_path / "new")]) == 0
    assert "restored cut 1" in capsys.readouterr().out
    assert main(["backup", "list", "--from", store.name]) == 1
    assert "cut 2 can't be restored: " in capsys.readouterr().out


def test_a_directory_that_is_not_empty(store: FileStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = tmp_path / "new"
    new.mkdir()
    (new / "of-somebody").write_text("precious")
    assert refused(capsys, "--from", store.name, new) == f"tidelog: {new} is not empty: restore into a new directory"
    assert os.listdir(new) == ["of-somebody"]


def test_a_file_in_the_place_of_the_directory(
    store: FileStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "new").write_text("precious")
    sentence = refused(capsys, "--from", store.name, tmp_path / "new")
    assert sentence == f"tidelog: {tmp_path}/new is no directory: restore into a new one"
    assert (tmp_path / "new").read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--cut", "7"], "has no cut 7: it has 2 from 1 to 2"),
        (["--cut", "-1"], "has no cut -1: it has 2 from 1 to 2"),
        (["--to", "2001-01-01T00:00:00Z"], "has no cut as old as that: it has 2 from 1 to 2"),
    ],
)
def test_a_cut_that_is_not_there(
    store: FileStore, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert refused(capsys, "--from", store.name, *arguments, tmp_path / "new") == f"tidelog: {store.name} {sentence}"
    assert not (tmp_path / "new").exists()


def test_a_place_without_a_backup_and_no_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    url = (tmp_path / "empty").as_uri()
    assert refused(capsys, "--from", url, tmp_path / "new") == f"tidelog: {url} has no backup: there is no cut in it"
    missing = (tmp_path / "missing").as_uri()
    assert refused(capsys, "--from", missing, tmp_path / "new") == (
        f"tidelog: open {missing}: there is no such directory; make it, or mount what it is on"
    )
    assert refused(capsys, tmp_path / "new").startswith("tidelog: no store: give --from URL")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("time", ["yesterday", "2026-13-01", ""])
def test_a_time_that_is_none(time: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["restore", "--from", tmp_path.as_uri(), "--to", time, str(tmp_path / "new")])
    assert ended.value.code == 2
    assert f"argument --to: {time!r} is no time; write it like 2026-11-22T13:00:00Z" in capsys.readouterr().err


def test_a_password_in_the_url_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for scheme in ("s3", "gs", "https", "file"):
        sentence = refused(capsys, "--from", f"{scheme}://AKID:s3cret@bucket/x", tmp_path / "new")
        assert f"{scheme}://…@bucket/x" in sentence
        assert "s3cret" not in sentence
        assert "AKID" not in sentence


def test_a_disk_without_room_is_told_before_anything_is_written(
    store: FileStore, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RealFileSystem, "free_bytes", lambda _self, _path: 10)
    sentence = refused(capsys, "--from", store.name, tmp_path / "new")
    assert sentence.endswith("bytes are to be written, and its disk has 10 free")
    assert not (tmp_path / "new").exists()


def test_directories_on_one_disk_need_room_for_all_of_them(
    store: FileStore, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = Catalog(store).newest().size
    largest = max(entry.size for entry in Catalog(store).newest().partitions.values())
    assert 1.2 * largest < size, "each directory alone has room"
    one, other = tmp_path / "one", tmp_path / "other"
    monkeypatch.setattr(RealFileSystem, "free_bytes", lambda _self, _path: size)
    sentence = refused(capsys, "--from", store.name, one, other)
    assert sentence.startswith(f"tidelog: {one}, {other}: ")
    assert sentence.endswith(f"bytes are to be written, and their disk has {size} free")
    stat = RealFileSystem.stat
    monkeypatch.setattr(  # as where each is a disk of its own
        RealFileSystem, "stat", lambda self, path: stat(self, path)._replace(device=hash(os.fspath(path)))
    )
    for directory in (one, other):
        directory.mkdir()
    assert main(["restore", "--from", store.name, str(one), str(other)]) == 0


def test_a_prune_names_a_damaged_cut_and_what_to_do(store: FileStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backup", "prune", "--from", store.name, "--dry-run"]) == 0
    replace(store, cut_key(1), store.read(cut_key(1))[:-1])
    capsys.readouterr()
    assert main(["backup", "prune", "--from", store.name, "--dry-run"]) == 1
    told = capsys.readouterr().out
    assert f"damaged: {cut_key(1)} is damaged: its checksum does not fit; objects of before it are kept" in told


def test_a_disk_that_gets_full_is_told_and_the_same_command_goes_on(
    store: FileStore, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    new = tmp_path / "new"

    append = RealFile.append

    def full(file: RealFile, data: bytes) -> None:
        if file.path.endswith(".log.restoring"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.path)
        append(file, data)

    with monkeypatch.context() as patch:
        patch.setattr(RealFile, "append", full)
        sentence = refused(capsys, "--from", store.name, new)
    assert "the disk is full; make room and give the same command again, which goes on where it was" in sentence
    assert json.loads((new / "tidelog-restore").read_text())["cut"] == 2
    with pytest.raises(DataDirectoryError, match="a restore into it has not come to its end"):  # a daemon asks this
        refuse_unfinished(RealFileSystem(), [str(new)])
    # Hours later, when retention would have taken it.
    store.create(cut_key(3), store.read(cut_key(2)))
    for number in (1, 2):
        os.utime(tmp_path / "store" / cut_key(number), (0, 0))
    assert sweep(store, Keep()).deleted_cuts == 1
    assert main(["restore", "--from", store.name, str(new)]) == 0
    assert not (new / "tidelog-restore").exists()
    assert main(["log", "verify", "--quiet", str(new)]) == 0
    assert [stored.key for stored in store.list(CUTS)] == [cut_key(2), cut_key(3)]
