"""Archives in Hadoop's file systems without one: which place is which, what is refused, and what Java says in one line."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from tidelog.backup.store import Denied, StoreError
from tidelog.pipeline.jobs.folders import Folder
from tidelog.pipeline.jobs.hadoop import HadoopFiles, HadoopFolder, cause, problem
from tidelog.pipeline.jobs.manifest import Archive, ArchiveError, ArchiveFile
from tidelog.pipeline.jobs.places import place_of


class Files(HadoopFiles):
    """A file system in memory, whose rename refuses, raises or replaces."""

    def __init__(self, name: str, on_rename: str = "refuse") -> None:
        self.name = name
        self.kept: dict[str, bytes] = {}
        self._on_rename = on_rename

    def write(self, key: str, data: bytes) -> None:
        self.kept[key] = data

    def read(self, key: str) -> bytes:
        return self.kept[key]

    def scheme_of(self, key: str) -> str:
        assert key in self.kept
        return self.name.partition(":")[0]

    def exists(self, key: str) -> bool:
        return key in self.kept

    def names(self, folder: str) -> Sequence[str]:
        return sorted(
            {key.removeprefix(f"{folder}/").split("/")[0] for key in self.kept if key.startswith(f"{folder}/")}
        )

    def remove(self, key: str) -> None:
        self.kept = {name: data for name, data in self.kept.items() if name != key and not name.startswith(f"{key}/")}

    def rename(self, key: str, to: str) -> bool:
        if to in self.kept and self._on_rename == "refuse":
            return False
        if to in self.kept and self._on_rename == "raise":
            raise StoreError("rename", self.name, key, "FileAlreadyExistsException")
        self.kept[to] = self.kept.pop(key)
        return True


class Connected:
    """A session of Spark Connect, which has no JVM."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


@pytest.mark.parametrize("folder", ["/archive/t", "file:/archive/t", "file:///archive/t", "file://localhost/archive/t"])
def test_a_folder_is_one_place_however_it_is_written(folder: str) -> None:
    assert place_of(None, folder) == Folder("/archive/t")


def test_a_relative_folder_is_one_too() -> None:
    assert place_of(None, "archive/t") == Folder("archive/t")


@pytest.mark.parametrize("name", ["a:b", "2024-05-06T12:00", "archive/file:x", "./hdfs:archive", "c:archive"])
def test_a_folder_may_have_a_colon_in_its_name(name: str) -> None:
    assert place_of(None, name) == Folder(name)


@pytest.mark.parametrize("address", ["file://archive/orders", "file://host"])
def test_a_folder_of_another_machine_is_none_of_this_one(address: str) -> None:
    with pytest.raises(
        ArchiveError, match=f"^{address}: names another machine, .* say file:///PATH, or the path alone"
    ):
        place_of(None, address)


@pytest.mark.parametrize("address", ["file:archive", "hdfs:archive", "s3:lake/orders", "viewfs:", "abfss:a@b/c"])
def test_an_address_without_a_path_from_the_root_is_told(address: str) -> None:
    scheme = address.partition(":")[0]
    with pytest.raises(
        ArchiveError, match=f"^{address}: names no path from the root; say {scheme}://…/PATH, or ./{address} for"
    ):
        place_of(None, address)


@pytest.mark.parametrize("address", ["hdfs:///archive", "hdfs://name:8020/archive", "abfss://a@b/c", "viewfs:/archive"])
def test_over_spark_connect_there_is_one_sentence(address: str) -> None:
    with pytest.raises(
        ArchiveError, match=f"^{address}: over Spark Connect there is no JVM here, .* take a bucket"
    ) as told:
        place_of(Connected(), address)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("on_rename", ["refuse", "raise"])
def test_a_rename_that_refuses_is_enough_and_nothing_of_the_try_stays(on_rename: str) -> None:
    files = Files("hdfs://name/archive", on_rename)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HadoopFolder(files).check(1)
    assert files.kept == {}


def test_a_rename_that_replaces_is_refused() -> None:
    files = Files("hdfs://name/archive", "replace")
    with pytest.raises(ArchiveError, match="its rename replaces what is there"):
        HadoopFolder(files).check(1)
    assert files.kept == {}


def test_a_disk_behind_hadoops_classes_is_refused() -> None:
    files = Files("file:///archive")
    with pytest.raises(ArchiveError, match=r"this is a disk, whose files Hadoop renames in two steps, .* by its path"):
        HadoopFolder(files).check(1)
    assert files.kept == {}


def test_a_file_system_that_is_not_known_is_warned_of() -> None:
    with pytest.warns(
        UserWarning, match="cosn://b/archive: cosn is not known to rename in one step; never let two runs"
    ):
        HadoopFolder(Files("cosn://b/archive")).check(1)


def test_what_runs_have_left_is_swept_and_nothing_of_the_next_run() -> None:
    files = Files("hdfs://name/archive")
    known = ArchiveFile("data/00000001-a/date=2024-01-01/x.parquet", 5, 100)
    stays = {known.path, "data/00000002-now/x", "data/notes/x", "_manifest/00000001.json", "_manifest/.new-00000002-b"}
    for key in (*stays, "data/00000001-dead/date=2024-01-01/x", "_manifest/.new-00000001-c"):
        files.write(key, b"")
    HadoopFolder(files).sweep(Archive(files.name, "t", None, 1, {0: 5}, (known,)))
    assert set(files.kept) == stays


def test_what_java_says_is_one_line() -> None:
    assert problem("SafeModeException", "Cannot create /x.\nThe reported blocks …\n\tat Foo.java:1") == (
        "SafeModeException: Cannot create /x."
    )
    assert problem("ConnectException", None) == "ConnectException"
    assert len(problem("X", "y" * 5000)) < 400
    traced = (
        "An error occurred while calling o1.parquet.\n: org.apache.spark.SparkException: Job aborted\n\tat Foo.java:1\n"
        "Caused by: java.io.IOException: wrapped\n\tat Foo.java:2\n"
        "Caused by: org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: The quota of /x is exceeded\n\t... 1 more\n"
    )
    assert cause(traced) == "DSQuotaExceededException: The quota of /x is exceeded"
    assert (
        cause("[PATH_NOT_FOUND] Path does not exist: hdfs://x")
        == "Spark: [PATH_NOT_FOUND] Path does not exist: hdfs://x"
    )


def test_a_read_that_fails_while_it_is_archived_is_told_by_its_own_sentence() -> None:
    gone = "t-0: offsets 0 to 9 are gone: retention or DeleteRecords has taken them"
    traced = (
        "An error occurred while calling o61.parquet.\n: org.apache.spark.SparkException: Job aborted.\n\tat Foo.java:1\n"
        "Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        f'  File "worker.py", line 1, in main\ntidelog.pipeline.exceptions.DataLossError: {gone}\n\n\tat Foo.java:2\n'
    )
    assert cause(traced) == gone


class Thrown(Exception):
    """As Py4J passes one on."""

    def __init__(self, name: str, message: str) -> None:
        self.java_exception = self
        self._name, self._message = name, message

    def getClass(self) -> Thrown:  # Java's names
        return self

    def getSimpleName(self) -> str:
        return self._name

    def getMessage(self) -> str:
        return self._message


class Jvm:
    """A JVM whose every call throws."""

    def __getattr__(self, name: str) -> Any:
        raise Thrown("AccessControlException", "Permission denied: user=etl")


class Session:
    """A classic session."""

    _jsparkSession = object()  # noqa: N815
    _jvm = Jvm()


def test_an_exception_of_java_is_one_of_the_stores_with_what_to_do() -> None:
    with pytest.raises(Denied) as told:
        HadoopFiles(Session(), "hdfs://name/archive")
    assert str(told.value) == (
        "open hdfs://name/archive: AccessControlException: Permission denied: user=etl; give this user the right to read and "
        "write there"
    )
