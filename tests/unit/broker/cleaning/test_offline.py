from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from uuid import UUID

import pytest
from support.cleaning import DAY_MS, data_records, put, state_of
from support.logs import TOPIC_ID
from support.mock_time import START_MS, MockScheduler, MockTime
from tidelog.broker.cleaning.offline import OfflineResult, Place, compact_log, place_of
from tidelog.broker.metadata.store import MetadataStore, TopicRecord
from tidelog.config.loader import load_config
from tidelog.config.log_config import LogConfig
from tidelog.storage.exceptions import DataDirectoryError, DirectoryLockedError
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.manager.log_manager import LogManager

FILES = RealFileSystem()


def manager(data: Path, time: MockTime) -> LogManager:
    logs = LogManager(load_config(None, {}, [f"log.dirs={data}"]), FILES, time, MockScheduler(time))
    logs.load(lambda _topic: LogConfig(segment_bytes=2000, segment_index_bytes=4096))
    return logs


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with two partitions of 200 records and 10 keys each, and one deletion mark."""
    directory = tmp_path / "data"
    logs = manager(directory, MockTime())
    for partition in (0, 1):
        log = logs.get_or_create("t", partition, TOPIC_ID)
        for number in range(200):
            put(log, f"k{number % 10}", f"{number}")
        put(log, "k0", None)
    logs.shutdown()
    return directory


def store_topic(data: Path, **settings: str) -> None:
    async def store() -> None:
        metadata = MetadataStore(str(data))
        overrides = {name.replace("_", "."): value for name, value in settings.items()}
        await metadata.add_topic(TopicRecord("t", TOPIC_ID, 2, overrides, START_MS))
        metadata.close()

    asyncio.run(store())


def compact(data: Path, *, time: MockTime | None = None, settings: tuple[str, ...] = (), **topic: str) -> OfflineResult:
    return compact_log(
        Place(str(data), "t", 0),
        load_config(None, {}, ["log.cleaner.dedupe.buffer.size=240000", *settings, f"log.dirs={data}"]),
        FILES,
        time or MockTime(),
        secret=lambda: bytes(16),
        overrides={name.replace("_", "."): value for name, value in topic.items()},
    )


def table(data: Path, partition: int) -> tuple[int, dict[bytes, bytes]]:
    """Records that are there and what they come to; a start after a clean stop."""
    logs = manager(data, MockTime())
    log = logs.get("t", partition)
    assert log is not None
    records = data_records(log)
    assert logs.had_clean_shutdown
    logs.shutdown()
    return len(records), state_of(records)


def test_one_partition_is_cleaned_and_everything_closed_cleanly(data: Path) -> None:
    _, before = table(data, 0)
    result = compact(data)
    assert (result.topic, result.partition, result.passes) == ("t", 0, 1)
    assert {cause: count for cause, count in result.removed.by_cause().items() if count} == {"superseded": 191}
    assert result.bytes_after < result.bytes_before
    assert table(data, 0) == (10, before)
    assert table(data, 1) == (201, before)
    assert not [path for path in (data / "t-0").iterdir() if path.suffix in (".deleted", ".cleaned", ".swap")]
    again = compact(data)
    assert (again.passes, again.removed.records) == (0, 0)


def test_deletion_marks_go_when_their_time_has_come(data: Path) -> None:
    compact(data)
    late = MockTime(START_MS + DAY_MS)
    assert compact(data, time=late).removed.tombstone == 1
    assert table(data, 0)[0] == 9


def test_a_small_map_takes_several_passes(data: Path) -> None:
    assert compact(data, settings=("log.cleaner.dedupe.buffer.size=100",)).passes > 1
    assert table(data, 0)[0] == 10


def test_stored_settings_hold_and_may_be_overridden(data: Path) -> None:
    store_topic(data, cleanup_policy="delete")
    with pytest.raises(
        DataDirectoryError, match=r"t-0: its topic is not compacted \(cleanup.policy=delete\); add --topic"
    ):
        compact(data)
    assert table(data, 0)[0] == 201  # and it was given back in order
    assert compact(data, cleanup_policy="compact", min_compaction_lag_ms="60000").removed.records == 0
    assert compact(data, cleanup_policy="compact").removed.superseded == 191


def test_what_can_not_be_cleaned_is_told_and_stays(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    path = data / "t-0" / "00000000000000000000.log"
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(DataDirectoryError, match="t-0: can't be cleaned: CorruptRecordError"):
        compact(data)
    assert path.read_bytes() == damaged


def test_a_directory_that_a_daemon_has(data: Path) -> None:
    lock = FILES.lock(str(data / ".lock"))
    with pytest.raises(DirectoryLockedError):
        compact(data)
    lock.release()


def test_places(tmp_path: Path) -> None:
    (tmp_path / "a-b-7").mkdir()
    assert place_of(f"{tmp_path}/a-b-7/", FILES) == (str(tmp_path), "a-b", 7)
    for name in ("a-b-8", "a-b", f"a-7.{UUID(int=1).hex}-delete"):
        with pytest.raises(DataDirectoryError, match="is not the directory of a partition"):
            place_of(str(tmp_path / name), FILES)
