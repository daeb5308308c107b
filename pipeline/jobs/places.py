"""Where an archive is, by what its address says: a folder, a bucket, or a file system that Hadoop knows.

    /archive, file:///archive           a folder (`folders.py`); so is any other name without a scheme that is known here
    s3://, s3a://, gs://, az://         a bucket (`buckets.py`)
    hdfs://, viewfs://, abfs://, …      through the session's own classes of Hadoop (`hadoop.py`)

The jobs know `Place` alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

from ...backup.store import StoreOptions
from .buckets import bucket_of, check_bucket
from .folders import Folder
from .hadoop import HadoopFiles, HadoopFolder
from .manifest import URI, Archive, ArchiveError, ArchiveFile, Manifests

#: The path behind an empty authority, this machine's, or none.
_LOCAL = re.compile(r"file:(?://(?:localhost)?(/.*)|(/(?!/).*))")
_WITHOUT_PATH = re.compile(r"(file|hdfs|viewfs|webhdfs|swebhdfs|abfss?|ofs|o3fs|s3a?|gs|az):(?!/)")


class Place(Protocol):
    """Where an archive is. Driver. Calls block; StoreError or ArchiveError."""

    @property
    def url(self) -> str:
        """The one name of this place, however it was written."""

    def open(self) -> Manifests | None:
        """The store of the manifests; None: a local folder."""

    def check(self, version: int, /) -> None:
        """Finds out, before the run that makes this version reads anything, whether of two runs one alone can win here."""

    def sweep(self, archive: Archive) -> None:
        """Removes what runs have left that died, or were overtaken."""

    def write(self, rows: Any, data: str) -> list[ArchiveFile]:
        """Rows with a column `date`, by which each partition is sorted, as files below `data`."""

    def read(self, spark: Any, files: Sequence[ArchiveFile], schema: str) -> Any:
        """The rows of these files."""


def check_address(folder: str) -> None:
    """ArchiveError for an address that names no place, whoever would be asked for it. Asks nobody."""
    check_bucket(folder)
    if (found := _WITHOUT_PATH.match(folder)) is not None:
        raise ArchiveError(
            f"{folder}: names no path from the root; say {found[1]}://…/PATH, or ./{folder} for a folder of this name"
        )
    if folder.startswith("file:") and _LOCAL.fullmatch(folder) is None:
        raise ArchiveError(
            f"{folder}: names another machine, whose files are not reached by file:; say file:///PATH, or the path alone, of a "
            "folder here or one that is mounted"
        )


def place_of(spark: Any, folder: str, options: StoreOptions | None = None) -> Place:
    """`options`: how a bucket is reached, else see `bucket_of`; others do without. StoreError, ArchiveError."""
    check_address(folder)
    bucket = bucket_of(folder, spark, options)
    if bucket is not None:
        return bucket
    local = _LOCAL.fullmatch(folder)
    if local is None and URI.match(folder):
        return HadoopFolder(HadoopFiles(spark, folder))
    return Folder((local[1] or local[2]) if local else folder)
