"""Archives in file systems that Hadoop knows (hdfs, viewfs, abfs, …), through the classes of the session's JVM. See ADR 102.

Data is written and read by Spark itself. A manifest is written whole beside its place and renamed to it: HDFS renames at once,
and refuses where there is something. Driver.
"""

from __future__ import annotations

import re
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ...backup.store import AlreadyThere, Denied, NotThere, StoreError, Unavailable
from ...backup.store.interface import Stored
from ..exceptions import sentence_in
from . import folders
from .manifest import DATA, FOLDER, NEW, Archive, ArchiveError, ArchiveFile, left_folders, left_manifests

#: Whose rename is one step, for all who ask, by what their makers say; abfs: with a hierarchical namespace.
_AT_ONCE = ("hdfs", "webhdfs", "swebhdfs", "ofs", "o3fs", "abfs", "abfss")
_BOTH = "and of two runs both could think that they have won; archive into HDFS, a bucket or a folder"
_MOST_PROBLEM = 300
_CLASSES: dict[str, tuple[type[StoreError], str]] = {
    "AccessControlException": (Denied, "give this user the right to read and write there"),
    "AuthorizationException": (Denied, "give this user the right to read and write there"),
    "FileNotFoundException": (NotThere, ""),
    "ParentNotDirectoryException": (StoreError, ""),
    "UnsupportedFileSystemException": (
        StoreError,
        "this session has no class of Hadoop's for it: its jar comes by spark.jars or spark.jars.packages",
    ),
}


class HadoopFiles:
    """The calls of Hadoop's `FileSystem` that an archive needs, below one folder, which need not be there. Blocking; StoreError.

    Names are relative, and have no part that says "up". `Manifests`, see `manifest.py`.
    """

    def __init__(self, spark: Any, folder: str) -> None:
        session = getattr(spark, "_jsparkSession", None)  # none over Spark Connect
        if session is None:
            raise ArchiveError(
                f"{folder}: over Spark Connect there is no JVM here, and Hadoop's file systems are reached through it; take a "
                "bucket (s3://, gs://, az://), a folder, or a session of this process"
            )
        self.name = folder
        with self._told("open", ""):
            self._path = spark._jvm.org.apache.hadoop.fs.Path
            root = self._path(folder)
            self._files = root.getFileSystem(session.sessionState().newHadoopConf())
            self.name = str(self._files.makeQualified(root).toString())

    def create(self, key: str, data: bytes) -> None:
        """As `Manifests` promises, as far as the file system's rename does."""
        new = self.new_name(key)
        self.write(new, data)
        try:
            if not self.rename(new, key):
                if not self.exists(key):
                    raise StoreError("rename", self.name, new, "the file system says no, and no reason")
                raise AlreadyThere("create", self.name, key, "there is a file of this name")
        finally:
            with suppress(StoreError):
                self.remove(new)  # where it is not renamed

    @staticmethod
    def new_name(key: str) -> str:
        """A name of nobody's, beside `key`, which no listing of manifests shows."""
        place, _, name = key.rpartition("/")
        return f"{place}/{NEW}{name.partition('.')[0]}-{uuid.uuid4().hex}"

    def read(self, key: str) -> bytes:
        with self._told("read", key):
            stream = self._files.open(self._at(key))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def list(self, prefix: str) -> Iterator[Stored]:
        """Files of one folder, whose name ends with `/`."""
        for name in sorted(self.names(prefix.rstrip("/"))):
            yield Stored(f"{prefix}{name}", 0, 0)

    def names(self, folder: str) -> Sequence[str]:
        """What is in a folder; nothing, if there is none."""
        with self._told("list", folder):
            if not self._files.exists(self._at(folder)):
                return []
            return [str(status.getPath().getName()) for status in self._files.listStatus(self._at(folder))]

    def exists(self, key: str) -> bool:
        with self._told("look for", key):
            return bool(self._files.exists(self._at(key)))

    def scheme_of(self, key: str) -> str:
        """Of the file system that a file is in, which views (viewfs) hide."""
        with self._told("look for", key):
            return str(self._files.resolvePath(self._at(key)).toUri().getScheme())

    def write(self, key: str, data: bytes) -> None:
        """A new file, whole and on its disks on return, with the folders above it."""
        with self._told("write", key):
            stream = self._files.create(self._at(key), False)
            try:
                stream.write(data)
                if stream.hasCapability("hsync"):
                    stream.hsync()
            finally:
                stream.close()

    def rename(self, key: str, to: str) -> bool:
        """False: it refuses."""
        with self._told("rename", key):
            return bool(self._files.rename(self._at(key), self._at(to)))

    def remove(self, key: str) -> None:
        """A file, or a folder with all that is in it; nothing, if it is missing."""
        with self._told("delete", key):
            self._files.delete(self._at(key), True)

    def _at(self, key: str) -> Any:
        return self._path(f"{self.name}/{key}" if key else self.name)

    @contextmanager
    def _told(self, operation: str, key: str) -> Iterator[None]:
        """StoreErrors for what Java throws."""
        try:
            yield
        except Exception as error:
            thrown = getattr(error, "java_exception", None)
            if thrown is None:
                raise
            name = str(thrown.getClass().getSimpleName())
            kind, remedy = _CLASSES.get(name, (Unavailable, ""))
            raise kind(operation, self.name, key, problem(name, thrown.getMessage()), remedy) from error


def problem(name: str, message: str | None) -> str:
    """One line of what a class of exception says, which may be pages."""
    line = next((line.strip() for line in (message or "").splitlines() if line.strip()), "")
    return f"{name}: {line[:_MOST_PROBLEM]}" if line else name


class HadoopFolder:
    """A `Place`, see `places.py`. StoreError, ArchiveError."""

    def __init__(self, files: HadoopFiles) -> None:
        self._files = files
        self.url = files.name

    def open(self) -> HadoopFiles:
        return self._files

    def check(self, version: int) -> None:
        """One rename onto a file that is there: it must be refused. That it is one step for all cannot be tried out: Hadoop's own
        file system of a disk looks first, and is refused by its name; of others that are not known there is a warning.
        """
        mine, other = (self._files.new_name(f"{FOLDER}/{version:08}.json") for _ in range(2))
        try:
            self._files.write(mine, b"mine")
            self._files.write(other, b"other")
            with suppress(StoreError):
                self._files.rename(other, mine)
            if self._files.read(mine) != b"mine":
                raise ArchiveError(f"{self.url}: its rename replaces what is there, {_BOTH}")
            scheme = self._files.scheme_of(mine)
        finally:
            for name in (mine, other):
                with suppress(StoreError):
                    self._files.remove(name)
        if scheme == "file":
            raise ArchiveError(
                f"{self.url}: this is a disk, whose files Hadoop renames in two steps, {_BOTH}, by its path"
            )
        if scheme not in _AT_ONCE:
            warnings.warn(
                f"{self.url}: {scheme} is not known to rename in one step; never let two runs archive there at once",
                stacklevel=3,
            )

    def sweep(self, archive: Archive) -> None:
        for name in left_folders(self._files.names(DATA), archive):
            self._files.remove(f"{DATA}/{name}")
        for name in left_manifests(self._files.names(FOLDER), archive):
            self._files.remove(f"{FOLDER}/{name}")

    def write(self, rows: Any, data: str) -> list[ArchiveFile]:
        """ArchiveError when Spark could not; what it has left is removed, as far as that can be."""
        place = f"{self.url}/{data}"
        try:
            with self._told("nothing was added to it"):
                folders.write(rows, place)
                return self._listed(rows.sparkSession, data)
        except BaseException:
            with suppress(StoreError):
                self._files.remove(data)
            raise

    def read(self, spark: Any, files: Sequence[ArchiveFile], schema: str) -> Any:
        with self._told("all of its files are needed"):
            return folders.read(spark, [f"{self.url}/{archived.path}" for archived in files], schema)

    def _listed(self, spark: Any, data: str) -> list[ArchiveFile]:
        """Files that have rows, and how many: Spark's tasks look at their footers."""
        if not any(not name.startswith("_") for name in self._files.names(data)):
            return []
        rows = folders.read(spark, [f"{self.url}/{data}"], "_offset bigint").selectExpr(
            "_metadata.file_path as path", "_metadata.file_size as size"
        )
        found = rows.groupBy("path", "size").count().collect()
        # An URI, whose part from `data` on has nothing that would be escaped.
        listed = [ArchiveFile(re.sub(rf"^.*/(?={data}/)", "", row["path"]), row["count"], row["size"]) for row in found]
        return sorted(listed, key=lambda archived: archived.path)

    @contextmanager
    def _told(self, so: str) -> Iterator[None]:
        """ArchiveError for what Spark's own jobs say."""
        try:
            yield
        except Exception as error:  # of the JVM, or what PySpark makes of it: they share no class
            if type(error).__module__.split(".")[0] not in ("pyspark", "py4j"):
                raise
            raise ArchiveError(f"the archive {self.url}: {cause(str(error))}; {so}") from error


def cause(text: str) -> str:
    """Of an exception's text with its traces our own sentence, of a read that failed, or Java's innermost cause, in one line."""
    ours = sentence_in(text)
    if ours:
        return ours
    for begin in ("Caused by", ""):
        found = re.findall(rf"^\s*{begin}: (?:[\w.$]+\.)?(\w+(?:Exception|Error)): (.*)$", text, re.MULTILINE)
        if found:
            return problem(*found[-1])
    return problem("Spark", text)
