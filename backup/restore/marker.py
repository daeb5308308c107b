"""`tidelog-restore`: there while a restore into a data directory is not complete.

    {"version":1,"store":"s3://bucket/prefix","cut":42,"session":"5f0c…","directories":["/data/a","/data/b"]}

A daemon refuses such a directory; the same restore goes on in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from ...storage.exceptions import DataDirectoryError
from ...storage.io.filesystem import FileSystem
from ...storage.manager.data_directory import RESTORE_FILE

_VERSION = 1


class Marker(NamedTuple):
    """What is being restored."""

    store: str
    cut: int
    session: str
    directories: tuple[str, ...]


def read_marker(file_system: FileSystem, directory: str) -> Marker | None:
    """The directory's marker; None without one. One that is not understood is of a restore of nothing that is known."""
    try:
        data = file_system.read_bytes(f"{directory}/{RESTORE_FILE}", limit=1 << 16)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        content = json.loads(data)
        return Marker(
            str(content["store"]), int(content["cut"]), str(content["session"]), tuple(map(str, content["directories"]))
        )
    except (ValueError, KeyError, TypeError):
        return Marker("", -1, "", ())


def write_marker(file_system: FileSystem, directory: str, marker: Marker) -> None:
    """Write it, durably."""
    content = json.dumps({"version": _VERSION, **marker._asdict()}, separators=(",", ":"))
    file_system.write_atomically(f"{directory}/{RESTORE_FILE}", content.encode())


def refuse_unfinished(file_system: FileSystem, directories: Iterable[str]) -> None:
    """DataDirectoryError where a restore has not come to its end. Blocks."""
    for directory in directories:
        marker = read_marker(file_system, directory)
        if marker is not None:
            raise DataDirectoryError(
                directory,
                f"a restore into it has not come to its end (cut {marker.cut} of {marker.store or 'an unknown store'})",
                "give the same `tidelog restore` again, which goes on where it was, or empty the directory",
            )
