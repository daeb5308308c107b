"""Archives in HDFS, as Hadoop's own mini cluster serves one: exactly once, and told in a sentence where it refuses."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.archived import DAY_US, SETTINGS, produce, rows_of, source
from support.committed import committed
from support.hdfs import Hdfs
from tidelog.backup.store import AlreadyThere, StoreError
from tidelog.pipeline.jobs import archive as archiving
from tidelog.pipeline.jobs import folders
from tidelog.pipeline.jobs.archive import archive, read_archive
from tidelog.pipeline.jobs.common import JobError
from tidelog.pipeline.jobs.hadoop import HadoopFiles
from tidelog.pipeline.jobs.latest import latest
from tidelog.pipeline.jobs.manifest import Archive, ArchiveError, read_archive_log
from tidelog.pipeline.jobs.replay import replay
from tidelog.testing import Broker

WRITERS = 8


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as started:
        yield started


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Iterator[Hdfs]:
    with Hdfs(tmp_path_factory.mktemp("hdfs") / "cluster") as cluster:
        spark.conf.set("ipc.client.connect.max.retries", "1")  # of Hadoop, which tries for ten seconds else
        yield cluster
        spark.conf.unset("ipc.client.connect.max.retries")


class Killed(BaseException):
    """Nothing of the process goes on, nor cleans up."""


class Mortal:
    """Each step by which a driver changes the file system, and its death before or behind one of them."""

    STEPS = ("write", "rename", "remove")

    def __init__(self, patch: pytest.MonkeyPatch, dies_at: int) -> None:
        self._moments, self._dies_at = 0, dies_at
        for name in self.STEPS:
            patch.setattr(HadoopFiles, name, self._step(getattr(HadoopFiles, name)))
        patch.setattr(folders, "write", self._step(folders.write))

    def _step(self, done: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            self._moment()
            found = done(*arguments)
            self._moment()
            return found

        return step

    def _moment(self) -> None:
        self._moments += 1
        if self._moments >= self._dies_at:
            raise Killed


def as_produced(spark: Any, options: Mapping[str, str]) -> Any:
    """What `produce` has put into the one partition of `orders`, made by Spark itself: a run costs no process of Python."""
    (begin,), (end,) = (json.loads(options[name])["orders"].values() for name in ("startingOffsets", "endingOffsets"))
    return spark.range(begin, end).selectExpr(
        "cast(concat('key ', id % 17) as binary) as key",
        "if(id % 7 = 0, null, cast(concat('value ', id) as binary)) as value",
        "'orders' as topic",
        "0 as partition",
        "id as offset",
        f"timestamp_micros({20_000 * DAY_US} + id % 3 * {DAY_US}) as timestamp",
        "0 as timestampType",
        "cast(null as array<struct<key: string, value: binary>>) as headers",
    )


def archived(spark: Any, folder: str) -> Archive | None:
    return read_archive_log(folder, HadoopFiles(spark, folder))


def files_below(spark: Any, folder: str) -> set[str]:
    """Every file of an archive, by Hadoop's own listing."""
    files = spark._jvm.org.apache.hadoop.fs.Path(folder)
    system = files.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    listing, found = system.listFiles(files, True), set()
    while listing.hasNext():
        found.add(listing.next().getPath().toUri().getPath().partition("/lake/")[2])
    return {name.partition("/")[2] for name in found}


def test_an_archive_in_hdfs_has_each_offset_once_wherever_its_driver_dies(
    spark: Any, broker: Broker, hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("orders", 1)
    folder, live = f"{hdfs.url}/lake/orders", source(broker, "orders")
    produced = moment = 0
    while True:
        moment += 1
        produce(broker, "orders", produced, 10)
        produced += 10
        with monkeypatch.context() as dying:
            dying.setattr(archiving, "load", as_produced)
            Mortal(dying, moment)
            try:
                report = archive(spark, live, folder)
            except Killed:
                report = None
        found = archived(spark, folder)
        if found is not None:
            assert found.rows == sum(found.ends.values()), "rows without their offsets, or twice"
        if report is not None:
            break
    # Two files that try the rename, the data, and the manifest: each written, renamed or removed, a moment before and one behind.
    assert moment > 16
    assert archive(spark, live, folder)["rows"] == 0  # which sweeps what they have left
    found = archived(spark, folder)
    assert found is not None
    assert found.rows == produced
    expected = {f"_manifest/{version:08}.json" for version in range(1, found.version + 1)}
    expected |= {one.path for one in found.files}
    assert {name for name in files_below(spark, folder) if not name.endswith("/_SUCCESS")} == expected
    everything = rows_of(spark.read.format("tidelog").options(**live, includeHeaders="true").load())
    assert len(everything) == produced
    assert rows_of(read_archive(spark, folder)) == everything
    produce(broker, "orders", produced, 10)
    assert read_archive(spark, folder, live).count() == produced + 10

    # By its other names it is the same place, and what was replayed is known.
    broker.create_topic("again", 1)
    target = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "again"}
    assert replay(spark, folder, target)["rows"] == produced
    assert replay(spark, f"{folder}/", target)["rows"] == 0
    assert len(list(committed(broker.bootstrap_servers, "again"))) == produced


def test_by_a_view_of_file_systems_it_is_the_same_archive(spark: Any, broker: Broker, hdfs: Hdfs) -> None:
    broker.create_topic("viewed", 1)
    produce(broker, "viewed", 0, 20)
    spark.conf.set("fs.viewfs.mounttable.all.link./archives", f"{hdfs.url}/lake")
    live, viewed = source(broker, "viewed"), "viewfs://all/archives/viewed"
    assert archive(spark, live, viewed)["rows"] == 20
    assert archive(spark, live, f"{hdfs.url}/lake/viewed")["rows"] == 0
    assert rows_of(read_archive(spark, viewed)) == rows_of(read_archive(spark, f"{hdfs.url}/lake/viewed", live))


def test_of_two_runs_into_one_archive_one_wins(
    spark: Any, broker: Broker, hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("raced", 1)
    produce(broker, "raced", 0, 20)
    folder, live = f"{hdfs.url}/lake/raced", source(broker, "raced")
    adds = archiving.add_manifest

    def overtaken(*arguments: Any) -> None:
        monkeypatch.setattr(archiving, "add_manifest", adds)
        assert archive(spark, live, folder)["rows"] == 20
        adds(*arguments)

    monkeypatch.setattr(archiving, "add_manifest", overtaken)
    with pytest.raises(ArchiveError, match="another run has archived meanwhile; this one has added nothing"):
        archive(spark, live, folder)
    assert read_archive(spark, folder).count() == 20
    assert not [name for name in files_below(spark, folder) if "/.new-" in name]

    files = HadoopFiles(spark, f"{hdfs.url}/lake/claims")

    def claim(writer: int) -> bool:
        try:
            files.create("_manifest/00000001.json", b"%d" % writer)
        except AlreadyThere:
            return False
        return True

    for _ in range(5):
        with ThreadPoolExecutor(WRITERS) as pool:
            won = list(pool.map(claim, range(WRITERS)))
        assert won.count(True) == 1
        assert files.read("_manifest/00000001.json") == b"%d" % won.index(True)
        assert files.names("_manifest") == ["00000001.json"]
        files.remove("_manifest/00000001.json")


def test_hdfs_that_refuses_is_told_in_one_sentence_and_has_nothing_of_the_run(
    spark: Any, broker: Broker, hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("refused", 1)
    produce(broker, "refused", 0, 20)
    live, folder = source(broker, "refused"), f"{hdfs.url}/lake/refused"

    def fails(place: str, said: str) -> None:
        with pytest.raises(ArchiveError, match=said) as caught:
            archive(spark, live, place)
        assert str(caught.value).startswith((f"the archive {place}: ", f"{place}: "))
        assert "\n" not in str(caught.value)

    fails(f"{hdfs.url}/mine", "AccessControlException: Permission denied.*give this user the right to read and write")
    fails("nfs3://lake/refused", "UnsupportedFileSystemException: .*its jar comes by spark.jars")
    fails("hdfs://localhost:1/lake", "ConnectException")
    hdfs.say("safemode ENTER")
    fails(folder, "SafeModeException")
    hdfs.say("safemode LEAVE")

    # Full while the executors write, and gone while they do.
    arranged = archiving.arranged

    def meanwhile(does: Callable[[], None]) -> None:
        def patched(*arguments: Any) -> Any:
            does()
            return arranged(*arguments)

        monkeypatch.setattr(archiving, "arranged", patched)

    meanwhile(lambda: hdfs.say("quota /lake 1"))
    fails(folder, r"DSQuotaExceededException: .*; nothing was added to it")
    hdfs.say("quota /lake 9000000000")
    assert files_below(spark, folder) == set()
    meanwhile(hdfs.kill)
    try:
        fails(folder, r"(Connect|EOF)Exception: .*; nothing was added to it")
        fails(folder, "ConnectException")
    finally:
        monkeypatch.undo()
        hdfs.start()
    assert archive(spark, live, folder)["rows"] == 20

    found = archived(spark, folder)
    assert found is not None
    HadoopFiles(spark, folder).remove(found.files[0].path)
    with pytest.raises(ArchiveError, match=r"Path does not exist: .*; all of its files are needed"):
        read_archive(spark, folder)
    HadoopFiles(spark, folder).remove("_manifest/00000001.json")
    with pytest.raises(ArchiveError, match="there is no archive here"):
        read_archive(spark, folder)


def test_a_disk_is_a_folder_by_its_path_and_refused_by_way_of_hadoop(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    """A mount of viewfs may hide one, whose rename looks first, and then replaces."""
    broker.create_topic("local", 1)
    produce(broker, "local", 0, 20)
    live = source(broker, "local")
    spark.conf.set("fs.viewfs.mounttable.disk.link./here", f"file://{tmp_path}")
    with pytest.raises(
        ArchiveError, match="this is a disk, whose files Hadoop renames in two steps, and of two runs both"
    ):
        archive(spark, live, "viewfs://disk/here/orders")
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == []

    # By its own name a disk is a folder, with links.
    assert archive(spark, live, f"file://{tmp_path}/orders")["rows"] == 20
    assert archive(spark, live, f"{tmp_path}/orders")["rows"] == 0
    assert rows_of(read_archive(spark, f"file:{tmp_path}/orders")) == rows_of(
        read_archive(spark, f"{tmp_path}/orders", live)
    )


def test_a_table_of_the_latest_is_refused_where_there_are_no_links(spark: Any, broker: Broker, hdfs: Hdfs) -> None:
    broker.create_topic("tables", 1)
    produce(broker, "tables", 0, 20)
    with pytest.raises(JobError, match=r"lake/table: a table in Parquet is a folder of a local or mounted file system"):
        latest(spark, source(broker, "tables"), f"{hdfs.url}/lake/table")
    assert not HadoopFiles(spark, hdfs.url).exists("lake/table")


def test_no_step_of_a_run_is_left_out_of_those_that_are_died_at() -> None:
    """What changes the file system goes through the three that `Mortal` knows."""
    changing = {"create", "rename", "delete", "mkdirs", "setPermission", "truncate", "append"}
    for name, method in inspect.getmembers(HadoopFiles, inspect.isfunction):
        if name not in Mortal.STEPS:
            assert not any(f"_files.{call}(" in inspect.getsource(method) for call in changing), name
    assert issubclass(AlreadyThere, StoreError)
