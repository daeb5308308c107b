"""What a stop leaves behind when the start did not come to its end; by whom logs are loaded."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.fake_filesystem import Operation
from support.logs import ROOT, World, append, batch, read_records, values_of
from support.mock_time import MockScheduler, MockTime
from tidelog.config.loader import load_config
from tidelog.config.log_config import LogConfig, log_config
from tidelog.storage.exceptions import DataDirectoryError, KafkaStorageError
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.manager.log_manager import LogManager

CLEAN_MARK = f"{ROOT}/.kafka_cleanshutdown"


def crashed() -> tuple[World, dict[str, bytes]]:
    """A world after `kill -9`, and its checkpoints."""
    world = World()
    world.start()
    append(world.log(), "a", "b")
    world.log().flush()
    append(world.log(), "c")
    world.manager.checkpoint_recovery_points()
    world.kill()
    return world, checkpoints(world)


def checkpoints(world: World) -> dict[str, bytes]:
    names = [name for name in world.file_system.list_directory(ROOT) if name.endswith("-checkpoint")]
    return {name: world.file_system.read_bytes(f"{ROOT}/{name}") for name in names}


def recovered(world: World) -> int:
    """Segments that the next start recovers."""
    return world.start().recovery_stats.segments_recovered


def test_a_stop_before_the_load_leaves_the_crash_to_the_next_start() -> None:
    """A damaged metadata.db ends a start between the two, say."""
    world, before = crashed()
    manager: LogManager = world.make_manager()
    manager.open()
    manager.shutdown()
    assert checkpoints(world) == before
    assert not world.file_system.exists(CLEAN_MARK)
    assert recovered(world) == 1
    world.stop()


def test_a_stop_after_a_load_that_failed_does_too() -> None:
    world, before = crashed()
    manager: LogManager = world.make_manager()

    def config_of(topic: str) -> LogConfig:
        raise DataDirectoryError(topic, "has no settings", "give it some")

    with pytest.raises(DataDirectoryError, match="has no settings"):
        manager.load(config_of)
    manager.shutdown()
    assert checkpoints(world) == before
    assert not world.file_system.exists(CLEAN_MARK)
    assert recovered(world) == 1
    world.stop()
    assert world.file_system.exists(CLEAN_MARK)


class _ColdFileSystem(RealFileSystem):
    """Says that so many blocks came from the disk at each look."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._read = 0

    def blocks_read(self) -> int:
        self._read += self._blocks
        return self._read


@pytest.mark.parametrize(
    ("threads", "blocks", "clean", "helped"),
    [(2, 0, True, False), (2, 8, True, False), (2, 9, True, True), (1, 9, True, False), (2, 0, False, True)],
)
def test_other_threads_load_too_where_there_is_a_disk_to_wait_for(
    tmp_path: Path, threads: int, blocks: int, clean: bool, helped: bool
) -> None:
    config = load_config(assignments=[f"log.dirs={tmp_path}", f"num.recovery.threads.per.data.dir={threads}"])
    time = MockTime()
    before = LogManager(config, RealFileSystem(), time, MockScheduler(time))
    before.load()
    for partition in range(4):
        before.get_or_create("t", partition, UUID(int=1))
    before.shutdown()
    if not clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    loaders: list[threading.Thread] = []

    def config_of(topic: str) -> LogConfig:
        loaders.append(threading.current_thread())
        return log_config(config, {})

    manager = LogManager(config, _ColdFileSystem(blocks), time, MockScheduler(time))
    manager.load(config_of)
    own = loaders.count(threading.current_thread())
    assert len(loaders) == 4
    assert own == (4 if not helped else int(clean))
    assert len(manager.logs()) == 4
    manager.shutdown()


def test_stops_and_starts_import_no_package_for_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    """`crc32c` brings importlib.metadata and email: 40 ms of CPU. The compiled kernel has the checksum."""
    world = World()
    world.start()
    append(world.log(), "a", producer_id=1, producer_epoch=0, base_sequence=0)
    monkeypatch.setitem(sys.modules, "crc32c", None)
    world.stop()
    world.start()
    world.kill()
    assert world.start().get("t", 0) is not None


def disk_error(kind: str, name: str) -> Callable[[Operation], OSError | None]:
    """Of all such calls on what is called so."""
    return lambda operation: (
        OSError(5, "input/output error") if operation.kind == kind and operation.path.endswith(name) else None
    )


@pytest.mark.parametrize(("kind", "name"), [("sync", ".log"), ("sync_directory", "a-0"), ("", "")])
def test_a_log_that_has_failed_leaves_its_directory_without_the_mark_of_a_clean_stop(kind: str, name: str) -> None:
    """Also where the disk is sound by then, and all calls of the stop succeed."""
    world = World(directories=("/one", "/two"))
    world.start(cleanup_policy=frozenset({"compact"}))
    log, other = world.log("a"), world.log("b")
    for sound in (log, other):
        append(sound, "first")
        sound.flush()
        append(sound, "second")
    log.roll()
    world.fake.fail_when(disk_error(kind, name))
    if not kind:
        log.flush()
        log.local.failure = KafkaStorageError("cleaned segments are in place by half")
    else:
        with pytest.raises(KafkaStorageError):
            log.flush()
    world.fake.heal()
    failed, sound = (one.directory.rpartition("/")[0] for one in (log, other))
    world.stop()
    assert not world.fake.exists(f"{failed}/.kafka_cleanshutdown")
    assert world.fake.exists(f"{sound}/.kafka_cleanshutdown")


@pytest.mark.damaged("a checkpoint stays what it was before the stop")
@pytest.mark.parametrize("name", ["recovery-point", "log-start", "replication"])
def test_a_stop_whose_checkpoints_cannot_be_written_is_not_marked_as_clean(name: str) -> None:
    """A start after a clean stop believes them."""
    world = World()
    world.start()
    log = world.log()
    append(log, "a", "b", "c")
    log.increment_log_start_offset(2)
    world.fake.fail_when(disk_error("rename", f"{ROOT}/{name}-offset-checkpoint.tmp"))
    world.stop()
    assert not world.fake.exists(CLEAN_MARK)


def test_a_deleted_log_is_freed_without_the_cycle_collector() -> None:
    """A daemon with many logs has them frozen (`gc.freeze`): the collector would never find one that was deleted."""
    world = World()
    world.start()
    append(world.log(), "a")
    world.log().flush()
    producers = weakref.ref(world.log().producers)
    gc.disable()
    try:
        world.manager.delete("t", 0)
        assert producers() is None
    finally:
        gc.enable()
    world.stop()


def test_a_deleted_directory_that_cannot_be_removed_keeps_no_other(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.start()
    for topic in "abc":
        append(world.log(topic), "v")
        world.manager.delete(topic, 0)
    world.stop()

    def left() -> set[str]:
        return {path.split("/")[2] for path in world.fake.paths() if "-delete" in path}

    first, *_ = sorted(left())
    assert len(left()) == 3
    world.start()
    world.fake.fail_when(
        lambda operation: (
            OSError(5, "Input/output error") if operation.kind == "unlink" and f"/{first}/" in operation.path else None
        )
    )
    world.manager.start()
    world.time.advance(1)
    assert left() == {first}
    assert f"{first} could not be removed: [Errno 5]" in caplog.text
    world.fake.heal()
    world.stop()
    world.start()
    world.manager.start()
    world.time.advance(1)
    assert left() == set()
    world.stop()


def test_the_flush_of_a_roll_whose_log_was_deleted_before_it_came_is_no_error() -> None:
    """The scheduler would log one with each topic that is deleted right after a roll."""
    world = World()
    world.start()
    log = world.log()
    append(log, "a")
    log.roll()
    world.manager.delete("t", 0)
    world.fake.trace.clear()
    world.time.advance(0)  # what the task raises comes from here
    assert log.flush() == 1
    assert world.fake.trace == []
    world.stop()


def test_retention_that_comes_into_a_clean_stop_takes_nothing_from_the_closed_log() -> None:
    """The stop has told which files there are: what went after that would be a hole for the next start."""
    world = World()
    world.start(segment_bytes=100, retention_ms=0)
    for value in "abc":
        append(world.log(), value * 60)
    world.time.advance(60_000)
    deleted: list[int] = []

    def late(operation: Operation) -> None:
        if operation.path.startswith(CLEAN_MARK) and not deleted:
            deleted.append(world.manager.delete_old_segments())

    world.fake.fail_when(late)
    world.stop()
    world.fake.heal()
    assert deleted == [0]
    world.start()
    assert (world.log().holes, world.log().log_start_offset, world.log().segment_count) == ((), 0, 3)
    world.stop()


def test_a_checkpoint_that_comes_after_a_stop_is_not_written() -> None:
    """The directory may be another process's by then."""
    world = World()
    world.start()
    append(world.log(), "a", "b")
    world.log().increment_log_start_offset(1)
    world.stop()
    before = checkpoints(world)
    assert not world.manager.checkpoint_recovery_points()
    assert not world.manager.checkpoint_log_start_offsets()
    assert not world.manager.checkpoint_high_watermarks()
    assert checkpoints(world) == before


def test_a_checkpoint_under_way_while_a_topic_is_made_anew_does_not_name_the_deleted_one() -> None:
    """Its start would be the new topic's after a crash: all that was written to it would be gone."""
    world = World()
    world.start()
    append(world.log(), *"abcdef")
    world.log().increment_log_start_offset(5)
    world.log("u")

    def make_anew() -> None:
        world.manager.delete("t", 0)
        append(world.log(), "new")

    threads: list[threading.Thread] = []

    class Slow(dict[Any, Any]):
        """The logs of the directory; another thread works once the first of them was looked at."""

        def items(self) -> Any:
            for key, log in list(super().items()):
                yield key, log
                if not threads:
                    threads.append(threading.Thread(target=make_anew, daemon=True))
                    threads[0].start()
                    threads[0].join(0.2)  # until it is done, or waits for this checkpoint

    upkeep = world.manager._homes["t", 0]
    upkeep.logs = Slow(upkeep.logs)
    world.manager.checkpoint_log_start_offsets()
    threads[0].join()
    world.kill()
    world.start()
    assert (world.log().log_start_offset, values_of(read_records(world.log(), 0))) == (0, [b"new"])
    world.stop()


def test_a_log_that_cannot_be_made_leaves_no_directory_that_a_start_would_take_for_one() -> None:
    """Nobody was told of its topic: a start finds it without a row, and makes a topic of it."""
    steps = 0
    while True:
        steps += 1
        world = World()
        world.start()
        world.fake.fail_at(steps, OSError(28, "No space left on device"))
        try:
            world.log()
        except KafkaStorageError:
            world.fake.heal()
            world.stop()
            world.start()
            assert world.manager.logs() == [], world.fake.trace
            append(world.log(), "a")
            world.stop()
        else:
            break
    world.stop()
    assert steps > 5


@pytest.mark.damaged("a segment without indexes")
def test_a_directory_that_was_there_before_stays_where_its_log_cannot_be_opened() -> None:
    """Whoever has put it there may want its records back."""
    world = World()
    world.start()
    world.fake.put(f"{ROOT}/t-0/{0:020d}.log", bytes(batch("a")))
    world.fake.fail_when(disk_error("append", "partition.metadata.tmp"))
    with pytest.raises(KafkaStorageError):
        world.log()
    world.fake.heal()
    assert world.fake.exists(f"{ROOT}/t-0/{0:020d}.log")


def test_a_link_to_a_disk_that_is_missing_stays_where_no_log_can_be_made(tmp_path: Path) -> None:
    """Renamed to what the next start deletes, it would lead that start to the records behind it, once the disk is back."""
    world = World(RealFileSystem(), directories=[str(tmp_path / "data")])
    world.start()
    link, disk = tmp_path / "data" / "t-0", tmp_path / "disk"
    link.symlink_to(disk / "t-0")
    with pytest.raises(KafkaStorageError):
        world.log()
    assert link.is_symlink()
    world.stop()


def test_a_file_with_a_partitions_name_is_no_partition() -> None:
    """Somebody's copy or notes; a start failed on them."""
    world = World()
    world.start()
    append(world.log(), "a")
    world.stop()
    world.fake.put(f"{ROOT}/backup-2026", b"mine")
    assert world.start().recovery_stats.segments_recovered == 0
    assert values_of(read_records(world.log(), 0)) == [b"a"]
    world.stop()
    assert world.fake.exists(f"{ROOT}/backup-2026")


def test_a_link_whose_disk_is_missing_ends_a_start(tmp_path: Path) -> None:
    """Passed over, its partition would begin anew, empty."""
    world = World(RealFileSystem(), directories=[str(tmp_path / "data")])
    world.start()
    world.stop()
    (tmp_path / "data" / "t-0").symlink_to(tmp_path / "disk" / "t-0")
    with pytest.raises(DataDirectoryError):
        world.start()


def test_a_directory_that_is_named_twice_by_a_link_is_told_as_such(tmp_path: Path) -> None:
    """It was told that another process had it open."""
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    world = World(RealFileSystem(), directories=[str(tmp_path / "data"), str(tmp_path / "link")])
    with pytest.raises(DataDirectoryError, match=r"/link: is the same directory as .*/data; name it once in log.dirs"):
        world.start()
