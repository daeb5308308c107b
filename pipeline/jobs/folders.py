"""Archives in folders of a local or mounted file system: Parquet by Spark itself, manifests that get their places by links."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...storage.io.platform import sync_all
from .manifest import Archive, ArchiveFile, check_folder, glob_of, local_uri, remove_leftovers

#: An archive's files are needed, each of them, whatever a session says of those that are damaged or gone
#: (spark.sql.files.ignoreCorruptFiles, ignoreMissingFiles).
_ALL = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}


@dataclass(frozen=True, slots=True)
class Folder:
    """A `Place`, see `places.py`."""

    url: str

    def open(self) -> None:
        """Manifests are files here."""

    def check(self, version: int) -> None:
        """ArchiveError when no manifest could get its place here."""
        check_folder(self.url, version)

    def sweep(self, archive: Archive) -> None:
        remove_leftovers(self.url, archive)

    def write(self, rows: Any, data: str) -> list[ArchiveFile]:
        write(rows, local_uri(os.path.join(self.url, data)))
        files = list_files(self.url, data)
        sync(self.url, files)
        return files

    def read(self, spark: Any, files: Sequence[ArchiveFile], schema: str) -> Any:
        return read(spark, [local_uri(os.path.join(self.url, archived.path)) for archived in files], schema)


def write(rows: Any, uri: str) -> None:
    """Rows that have a column `date`, by which each partition is sorted, as Spark's own writer makes files of them."""
    spark = rows.sparkSession
    name = "spark.sql.parquet.outputTimestampType"
    kept = spark.conf.get(name, None)
    spark.conf.set(name, "TIMESTAMP_MICROS")  # not the INT96 of old, which other readers do without
    try:
        rows.write.partitionBy("date").option("compression", "zstd").parquet(uri)
    finally:
        if kept is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, kept)


def read(spark: Any, uris: Sequence[str], schema: str) -> Any:
    """Rows of such files, by Spark's own reader."""
    if not uris:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).options(**_ALL).parquet(*map(glob_of, uris))


def sync(folder: str, files: Sequence[ArchiveFile]) -> None:
    """Has the files and the folders that they are in on their disk before a manifest names them, which is synced itself: the next
    run goes on behind them. Spark syncs nothing. OSError.
    """
    places = {""}
    for file in files:
        path = file.path
        while path:
            places.add(path)
            path = os.path.dirname(path)
    for place in sorted(places, reverse=True):  # what is in a folder before it
        descriptor = os.open(os.path.join(folder, place), os.O_RDONLY)
        try:
            sync_all(descriptor)
        finally:
            os.close(descriptor)


def list_files(folder: str, data: str) -> list[ArchiveFile]:
    """The Parquet files below `data`, with what their footers say. Names that begin with `_` or `.` are Spark's own, as it says:
    an attempt that lost may go on when its job is done, and write below `_temporary` once more.
    """
    import pyarrow.parquet as pq

    found = []
    for place, inner, names in os.walk(os.path.join(folder, data)):
        inner[:] = [name for name in inner if not name.startswith(("_", "."))]
        for name in sorted(names):
            if name.endswith(".parquet") and not name.startswith(("_", ".")):
                path = os.path.join(place, name)
                rows = pq.read_metadata(path).num_rows
                found.append(ArchiveFile(os.path.relpath(path, folder), rows, os.path.getsize(path)))
    return sorted(found, key=lambda file: file.path)
