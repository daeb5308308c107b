"""An archive's own log: which files belong to it, and up to which offset it goes. Nothing but its manifests says so.

    ARCHIVE/_manifest/00000003.json     {"version": 3, "topic": t, "topic_id": …, "ends": {"0": 812}, "files": [{"path": …}]}
    ARCHIVE/data/00000003-5f2c…/date=2024-05-06/….parquet

A run writes its files, and then its manifest: by a link, which fails where there is one of that number. So a run that dies has
added nothing, and of two runs at once one wins. Local and mounted file systems that make hard links; others are refused before
anything is written. Elsewhere (`store` is given; see `places.py`) the objects have these names, and a manifest is created where
there is none. Blocking; StoreError of a store.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from ...backup.store import AlreadyThere, ObjectStore, StoreError
from ...backup.store.interface import Stored
from ...storage.io.platform import sync_all
from ..exceptions import PipelineError

FOLDER, DATA = "_manifest", "data"
#: Beside manifests, what is about to become one: VERSION-… behind it.
NEW = ".new-"
_OVERTAKEN = "{}: another run has archived meanwhile; this one has added nothing"
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


class ArchiveError(PipelineError):
    """An archive is not there, is another topic's, is damaged, or another run has gone ahead."""


class Manifests(Protocol):
    """Where manifests are, if not in a local folder: what an `ObjectStore` promises of these three."""

    def create(self, key: str, data: bytes) -> None:
        """AlreadyThere, and nothing changed, where there is one: of two callers one alone succeeds."""

    def read(self, key: str) -> bytes:
        """All of it."""

    def list(self, prefix: str) -> Iterable[Stored]:
        """In order of their keys."""


@contextmanager
def told(folder: str) -> Iterator[None]:
    """ArchiveError, which names the archive, for what its store says."""
    try:
        yield
    except StoreError as error:
        raise ArchiveError(f"the archive {folder}: {error}") from error


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A Parquet file; `path` from the archive's folder on."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """Files added by one run, as a version of the archive. `ends` are the end offsets of all partitions after it."""

    topic: str
    topic_id: str | None
    ends: Mapping[int, int]
    files: tuple[ArchiveFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class Archive:
    """All manifests of an archive together.

    `topic_id` is None where no run could tell it. `ends`: partition → the offset behind what is archived.
    """

    folder: str
    topic: str
    topic_id: str | None
    version: int
    ends: Mapping[int, int]
    files: tuple[ArchiveFile, ...]

    @property
    def paths(self) -> list[str]:
        return [os.path.join(self.folder, file.path) for file in self.files]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def check_topic(self, topic: str, topic_id: str | None) -> None:
        """ArchiveError when this is the archive of another topic, or of another one of that name."""
        if topic != self.topic:
            raise ArchiveError(f"{self.folder} is the archive of {self.topic}, not of {topic}")
        if self.topic_id is not None and topic_id is not None and topic_id != self.topic_id:
            raise ArchiveError(
                f"{self.folder} is the archive of a topic {topic} that was deleted (it had the id {self.topic_id}); the one of "
                f"that name now has {topic_id}: archive it into another folder"
            )


def check_folder(folder: str, version: int) -> None:
    """ArchiveError when the run that makes this version can have no archive there: an address instead of a folder, or a file
    system without hard links.
    """
    check_path(folder)
    place = os.path.join(folder, FOLDER)
    os.makedirs(place, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=place, prefix=f"{NEW}{version:08}-") as file:
        try:
            os.link(file.name, f"{file.name}.link")
        except OSError as error:
            raise ArchiveError(
                f"{folder}: this file system makes no hard links ({error.strerror}), by which a run's manifest gets its place; "
                "archive into a folder on one that does (a local disk, NFS)"
            ) from None
        os.unlink(f"{file.name}.link")


def check_path(folder: str) -> None:
    """Raise ArchiveError for a URI."""
    if URI.match(folder):
        raise ArchiveError(f"{folder}: a folder of a local or mounted file system is given as its path")


def local_uri(path: str) -> str:
    """The path as Spark takes it for this file system, whatever its default one is. Not escaped: Hadoop's paths are not."""
    return f"file://{os.path.abspath(path)}"


def glob_of(uri: str) -> str:
    """The URI as Spark's readers take it, for which some characters stand for others; its writers take all as they are."""
    return re.sub(r"[][{}*?\\]", r"\\\g<0>", uri)


def read_manifests(folder: str, store: Manifests | None = None) -> list[Manifest]:
    """Manifests from version 1 on; empty without an archive. ArchiveError: one is missing or damaged."""
    manifests = []
    for number, (path, read) in enumerate(_stored_manifests(folder) if store is None else _objects(folder, store), 1):
        place, _, name = path.rpartition("/")
        if name != f"{number:08}.json":
            raise ArchiveError(f"{place}: {number:08}.json is missing; an archive needs all of its manifests")
        try:
            found = json.loads(read())
            topic_id = str(found["topic_id"]) if found.get("topic_id") else None
            ends = {int(partition): int(offset) for partition, offset in found["ends"].items()}
            files = [
                ArchiveFile(str(archived["path"]), int(archived["rows"]), int(archived["bytes"]))
                for archived in found["files"]
            ]
            manifests.append(Manifest(str(found["topic"]), topic_id, ends, tuple(files)))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ArchiveError(f"{path}: is no manifest ({error!r})") from None
    return manifests


def _stored_manifests(folder: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """(path, its content) of each manifest of a folder, in order."""
    check_path(folder)
    place = os.path.join(folder, FOLDER)
    try:
        names = sorted(name for name in os.listdir(place) if name.endswith(".json") and not name.startswith("."))
    except FileNotFoundError:
        return
    for name in names:
        path = os.path.join(place, name)
        yield path, Path(path).read_bytes


def _objects(folder: str, store: Manifests) -> Iterator[tuple[str, Callable[[], bytes]]]:
    for stored in store.list(f"{FOLDER}/"):
        if stored.key.endswith(".json"):
            yield f"{folder}/{stored.key}", partial(store.read, stored.key)


def read_archive_log(folder: str, store: Manifests | None = None) -> Archive | None:
    """None: there is no archive yet. ArchiveError: a manifest is missing or damaged."""
    return archive_of(folder, read_manifests(folder, store))


def archive_of(folder: str, manifests: Sequence[Manifest]) -> Archive | None:
    """All of these together; None: there are none."""
    if not manifests:
        return None
    last = manifests[-1]
    topic_id = next((manifest.topic_id for manifest in reversed(manifests) if manifest.topic_id), None)
    files = tuple(file for manifest in manifests for file in manifest.files)
    return Archive(folder, last.topic, topic_id, len(manifests), last.ends, files)


def files_beyond(manifests: Sequence[Manifest], offsets: Mapping[int, int]) -> list[ArchiveFile]:
    """Files of those runs that got anything at or behind these offsets (partition → offset; 0 where there is none)."""
    return [
        file
        for manifest in manifests
        if any(end > offsets.get(partition, 0) for partition, end in manifest.ends.items())
        for file in manifest.files
    ]


def new_data_folder(version: int) -> str:
    """A new name, relative to the archive's folder, for the files that manifest `version` will have; nothing is made."""
    return f"{DATA}/{version:08}-{uuid.uuid4().hex[:12]}"


def add_manifest(
    folder: str, version: int, topic: str, topic_id: str | None, ends: Mapping[int, int], files: Sequence[ArchiveFile],
    store: Manifests | None = None,
) -> None:  # fmt: skip
    """Write the manifest that adds the files to the archive. ArchiveError: another run has written this version."""
    content = {
        "version": version, "topic": topic, "topic_id": topic_id,
        "ends": {str(key): value for key, value in sorted(ends.items())}, "files": [asdict(archived) for archived in files],
    }  # fmt: skip
    text = json.dumps(content, indent=1)
    if store is not None:
        _create(folder, store, f"{FOLDER}/{version:08}.json", text.encode())
        return
    place = os.path.join(folder, FOLDER)
    os.makedirs(place, exist_ok=True)
    prefix = f"{NEW}{version:08}-"
    with tempfile.NamedTemporaryFile("w", dir=place, prefix=prefix, delete=False, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        sync_all(file.fileno())
    name = os.path.join(place, f"{version:08}.json")
    try:
        os.link(file.name, name)
    except (FileExistsError, FileNotFoundError):  # a run that came behind the winner has swept it
        # This run's own, if the answer of a server of NFS was lost, which is asked again then: see link(2).
        if not os.path.exists(name) or Path(name).read_text(encoding="utf-8") != text:
            raise ArchiveError(_OVERTAKEN.format(folder)) from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(file.name)
    descriptor = os.open(place, os.O_RDONLY)
    try:
        sync_all(descriptor)
    finally:
        os.close(descriptor)


def _create(folder: str, store: Manifests, key: str, content: bytes) -> None:
    try:
        store.create(key, content)
    except AlreadyThere:
        # This run's own, if an answer was lost: the names of its files are nobody else's.
        if store.read(key) != content:
            raise ArchiveError(_OVERTAKEN.format(folder)) from None


def remove_left_objects(store: ObjectStore, archive: Archive) -> int:
    """Objects of runs that died before their manifest, and of attempts that lost; how many went. As `remove_leftovers`."""
    known = {file.path for file in archive.files}
    old = [
        stored.key
        for stored in store.list(f"{DATA}/")
        if is_past(stored.key.split("/")[1], archive) and stored.key not in known
    ]
    store.delete(old)
    return len(old)


def remove_leftovers(folder: str, archive: Archive) -> int:
    """Files of runs that died before their manifest, or with it; how many folders went. A run of the next version may be going
    on.
    """
    place = os.path.join(folder, DATA)
    left = left_folders(os.listdir(place) if os.path.isdir(place) else (), archive)
    for name in left:
        shutil.rmtree(os.path.join(place, name), ignore_errors=True)
    manifests = os.path.join(folder, FOLDER)
    for name in left_manifests(os.listdir(manifests), archive):
        with suppress(OSError):  # swept by another run, or another user's
            os.unlink(os.path.join(manifests, name))
    return len(left)


def left_folders(names: Iterable[str], archive: Archive) -> list[str]:
    """Of the folders below `data` those of runs that died before their manifest, or were overtaken."""
    known = {file.path.split("/")[1] for file in archive.files}
    return [name for name in names if is_past(name, archive) and name not in known]


def left_manifests(names: Iterable[str], archive: Archive) -> list[str]:
    """Of the names beside manifests those of what can become none any more. A run that goes on may be about to make its own."""
    return [name for name in names if name.startswith(NEW) and is_past(name.removeprefix(NEW), archive)]


def is_past(name: str, archive: Archive) -> bool:
    """Whether a name (VERSION-…) is of a run whose manifest can't come any more."""
    version = name.split("-")[0]
    return version.isdecimal() and int(version) <= archive.version
