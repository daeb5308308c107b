"""The whole backlog of a stopped daemon: what is cleaned, what is refused, and that a running daemon is left alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import pytest
from support.cleaning import data_records, put
from support.mock_time import START_MS, MockScheduler, MockTime
from tidelog.broker.cleaning.offline import CleanedLog, compact_backlog
from tidelog.broker.metadata.store import MetadataStore, TopicRecord
from tidelog.config.exceptions import ConfigError
from tidelog.config.loader import load_config
from tidelog.config.log_config import LogConfig
from tidelog.storage.exceptions import DirectoryLockedError
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.manager.log_manager import LogManager

FILES = RealFileSystem()


def manager(data: Path, time: MockTime) -> LogManager:
    logs = LogManager(load_config(None, {}, [f"log.dirs={data}"]), FILES, time, MockScheduler(time))
    logs.load(lambda _topic: LogConfig(segment_bytes=2000, segment_index_bytes=4096))
    return logs


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Compacted topics of two partitions and of one, and one that is not; 200 records of 10 keys each."""
    directory = tmp_path / "data"
    logs = manager(directory, MockTime())
    ids = [UUID(int=number) for number in (1, 2, 3)]
    for topic, partition in (("t", 0), ("t", 1), ("u", 0), ("kept", 0)):
        log = logs.get_or_create(topic, partition, ids[("t", "u", "kept").index(topic)])
        for number in range(200):
            put(log, f"k{number % 10}", f"{number}")
    logs.shutdown()

    async def store() -> None:
        metadata = MetadataStore(str(directory))
        for number, topic in enumerate(("t", "u", "kept"), 1):
            policy = {} if topic == "kept" else {"cleanup.policy": "compact"}
            await metadata.add_topic(TopicRecord(topic, ids[number - 1], 2, policy, START_MS))
        metadata.close()

    asyncio.run(store())
    return directory


def clean(data: Path, *topics: str, workers: int = 2) -> tuple[list[CleanedLog], list[int]]:
    """What was cleaned, and [total, done] of the progress."""
    told = [0, 0]

    def progress(total: int, done: int) -> None:
        told[0] += total
        told[1] += done

    config = load_config(None, {}, ["log.cleaner.dedupe.buffer.size=240000", f"log.dirs={data}"])
    cleaned = compact_backlog(
        config,
        FILES,
        MockTime(),
        frozenset(topics),
        workers=workers,
        secret=lambda: bytes(16),
        progress=progress,
    )
    return cleaned, told


def left(data: Path, topic: str, partition: int) -> list[str]:
    logs = manager(data, MockTime())
    try:
        log = logs.get(topic, partition)
        assert log is not None
        return [str(record.value) for record in data_records(log)]
    finally:
        logs.shutdown()


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_every_compacted_log_is_cleaned(data: Path, workers: int) -> None:
    cleaned, told = clean(data, workers=workers)
    assert sorted(one.name for one in cleaned) == ["t-0", "t-1", "u-0"]
    assert [one.removed.records for one in cleaned] == [190] * 3
    assert all(one.error is None and one.bytes_after < one.bytes_before / 5 for one in cleaned)
    assert told[0] == told[1] == sum(one.bytes_before for one in cleaned)
    assert [len(left(data, *place)) for place in (("t", 0), ("t", 1), ("u", 0), ("kept", 0))] == [10, 10, 10, 200]
    again, _ = clean(data)
    assert [one.removed.records for one in again] == [0] * 3
    assert not list(data.rglob("*.deleted"))
    assert not list(data.rglob("*.swap"))


def test_topics_can_be_named(data: Path) -> None:
    cleaned, _ = clean(data, "u")
    assert [one.name for one in cleaned] == ["u-0"]
    with pytest.raises(ConfigError, match="no compacted topic kept, nothing here; there are t, u"):
        clean(data, "kept", "nothing")


def test_a_running_daemon_is_left_alone(data: Path) -> None:
    logs = manager(data, MockTime())
    try:
        with pytest.raises(DirectoryLockedError):
            clean(data)
    finally:
        logs.shutdown()
    assert clean(data)[0]
