"""An archive's own log: which files belong to it, and up to which offset it goes. Nothing but its manifests says so.

    ARCHIVE/_manifest/00000003.json     {"version": 3, "topic": t, "topic_id": …, "ends": {"0": 812}, "files": [{"path": …}]}
    ARCHIVE/data/00000003-5f2c…/date=2024-05-06/….parquet

A run writes its files, and then its manifest: by a link, which fails where there is one of that number. So a run that dies has
added nothing, and of two runs at once one wins. Local and mounted file systems; blocking.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ..exceptions import PipelineError

_FOLDER, _DATA = "_manifest", "data"


class ArchiveError(PipelineError):
    """An archive is not there, is another topic's, is damaged, or another run has gone ahead."""


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A Parquet file; `path` from the archive's folder on."""

    path: str
    rows: int
    bytes: int


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
        return [os.path.join(self.folder, one.path) for one in self.files]

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.files)

    def check_topic(self, topic: str, topic_id: str | None) -> None:
        """ArchiveError when this is the archive of another topic, or of another one of that name."""
        if topic != self.topic:
            raise ArchiveError(f"{self.folder} is the archive of {self.topic}, not of {topic}")
        if self.topic_id is not None and topic_id is not None and topic_id != self.topic_id:
            raise ArchiveError(
                f"{self.folder} is the archive of a topic {topic} that was deleted (it had the id {self.topic_id}); the one of "
                f"that name now has {topic_id}: archive it into another folder"
            )


def read_archive_log(folder: str) -> Archive | None:
    """None: there is no archive yet. ArchiveError: a manifest is missing or damaged."""
    place = os.path.join(folder, _FOLDER)
    try:
        names = sorted(name for name in os.listdir(place) if name.endswith(".json") and not name.startswith("."))
    except FileNotFoundError:
        return None
    topic, ends, files = "", {}, []
    topic_id: str | None = None
    for number, name in enumerate(names, 1):
        path = os.path.join(place, name)
        if name != f"{number:08}.json":
            raise ArchiveError(f"{place}: {number:08}.json is missing; an archive needs all of its manifests")
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            topic = str(found["topic"])
            topic_id = str(found["topic_id"]) if found.get("topic_id") else topic_id
            ends = {int(partition): int(offset) for partition, offset in found["ends"].items()}
            files += [ArchiveFile(str(one["path"]), int(one["rows"]), int(one["bytes"])) for one in found["files"]]
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ArchiveError(f"{path}: is no manifest ({error!r})") from None
    return Archive(folder, topic, topic_id, len(names), ends, tuple(files)) if names else None


def new_data_folder(folder: str, version: int) -> str:
    """A name, from the archive's folder on, for the files that manifest `version` will have; nothing is made."""
    return f"{_DATA}/{version:08}-{uuid.uuid4().hex[:12]}"


def add_manifest(
    folder: str, version: int, topic: str, topic_id: str | None, ends: Mapping[int, int], files: Sequence[ArchiveFile]
) -> None:
    """From now on those files belong to the archive. ArchiveError: another run has written this version."""
    place = os.path.join(folder, _FOLDER)
    os.makedirs(place, exist_ok=True)
    content = {
        "version": version, "topic": topic, "topic_id": topic_id,
        "ends": {str(key): value for key, value in sorted(ends.items())}, "files": [asdict(one) for one in files],
    }  # fmt: skip
    with tempfile.NamedTemporaryFile("w", dir=place, prefix=".new-", delete=False, encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(file.name, os.path.join(place, f"{version:08}.json"))
    except FileExistsError:
        raise ArchiveError(f"{folder}: another run has archived meanwhile; this one has added nothing") from None
    finally:
        os.unlink(file.name)
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: str, archive: Archive) -> int:
    """Files of runs that died before their manifest; how many folders went. A run of the next version may be going on."""
    known = {"/".join(one.path.split("/")[:2]) for one in archive.files}
    place = os.path.join(folder, _DATA)
    removed = 0
    for name in os.listdir(place) if os.path.isdir(place) else ():
        version = name.split("-")[0]
        if version.isdecimal() and int(version) <= archive.version and f"{_DATA}/{name}" not in known:
            shutil.rmtree(os.path.join(place, name), ignore_errors=True)
            removed += 1
    return removed
