"""A log, or a whole LogManager, on the fake file system: what the tests of the storage core stand on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any
from uuid import UUID, uuid5

from support.fake_filesystem import FakeFileSystem
from support.left_behind import LEFT_BEHIND
from support.mock_time import START_MS, MockScheduler, MockTime
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.loader import load_config
from tidelog.config.log_config import LogConfig
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.memory_records import iterate_batches, iterate_records
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.io.filesystem import FileSystem
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.segment.names import SNAPSHOT_SUFFIX, parse_file_name

TOPIC_ID = UUID("6f1ed002-ab59-40d5-8c0e-5e2f0d3c2b01")
ROOT = "/data"
SMALL_INDEX = 4096  # 10 MiB of zeros per index would be most of a test's time


def snapshots_in(file_system: FileSystem, directory: str) -> list[int]:
    """Offsets of the producer snapshots in a partition's directory."""
    parsed = map(parse_file_name, file_system.list_directory(directory))
    return [name.base_offset for name in parsed if name and name.suffix == SNAPSHOT_SUFFIX and not name.stage]


def batch(*values: bytes | str, timestamp: int = START_MS, step: int = 1, **arguments: Any) -> bytearray:
    """A client's batch with one record per value; timestamps rise by `step`."""
    records = [
        Record(index, timestamp + index * step, b"k%d" % index, value.encode() if isinstance(value, str) else value)
        for index, value in enumerate(values)
    ]
    return bytearray(build_batch(records, **arguments))


def append(log: UnifiedLog, *values: bytes | str, **arguments: Any) -> int:
    """Appends one batch; returns its first offset."""
    data = batch(*values, **arguments)
    return log.append_as_leader(data, 0, len(data)).first_offset


def read_records(
    log: UnifiedLog, offset: int, limit_offset: int | None = None, max_bytes: int = 1 << 20
) -> list[Record]:
    """Everything readable from `offset` on, as a consumer reads it: fetch by fetch, whole batches only."""
    records: list[Record] = []
    while True:
        info = log.read(offset, max_bytes, limit_offset=limit_offset)
        if info.file is None:
            return records
        data = info.file.pread(info.size, info.position)
        info.release()
        assert len(data) == info.size
        advanced = False
        for header in iterate_batches(data):
            records += [r for r in iterate_records(data, header.position) if r.offset >= offset]
            offset = header.last_offset + 1
            advanced = True
        assert advanced, "a fetch without one whole batch"


def values_of(records: Sequence[Record]) -> list[bytes]:
    return [record.value or b"" for record in records]


@cache
def _config(assignments: tuple[str, ...]) -> BrokerConfig:
    return load_config(None, {}, assignments)


class World:
    """One data directory on one machine: start, stop, kill and cut the power as often as you like."""

    def __init__(
        self,
        file_system: FileSystem | None = None,
        *,
        directories: Sequence[str] = (ROOT,),
        damaged: str = "",
        **settings: str,
    ) -> None:
        """`damaged` says why `tidelog log verify` may find faults in what it leaves (support/left_behind.py)."""
        self.damaged = damaged
        self.directories = tuple(directories)
        self.is_recovered = False
        """A start has seen to what is on the disk, and no power cut came since."""
        self.time = MockTime()
        self.file_system = file_system if file_system is not None else FakeFileSystem(time=self.time)
        names = {name.replace("_", "."): value for name, value in settings.items()}
        names = {"log.dirs": ",".join(directories), "num.recovery.threads.per.data.dir": "1"} | names
        self.config = _config(tuple(f"{name}={value}" for name, value in names.items()))
        self.log_config = LogConfig(segment_index_bytes=SMALL_INDEX)
        self.running = False
        self.manager = self.make_manager()
        LEFT_BEHIND.world(self)

    is_in_use = False

    def left(self) -> tuple[FileSystem, tuple[str, ...]] | None:
        """Its data directories, once they were recovered."""
        return (self.file_system, self.directories) if self.is_recovered else None

    def make_manager(self) -> LogManager:
        self.scheduler = MockScheduler(self.time)
        return LogManager(
            self.config, self.file_system, self.time, self.scheduler, randomness=random.Random(len(self.time.waiting()))
        )

    def start(self, **settings: Any) -> LogManager:
        """Loads, after a clean stop if it runs; `settings` are every topic's."""
        if self.running:
            self.stop()
        if settings:
            self.log_config = LogConfig(**({"segment_index_bytes": SMALL_INDEX} | settings))
        self.manager = self.make_manager()
        self.manager.load(lambda _topic: self.log_config)
        self.running = self.is_recovered = True
        return self.manager

    def log(self, topic: str = "t", partition: int = 0) -> UnifiedLog:
        """Log of a partition, made if need be."""
        topic_id = TOPIC_ID if topic == "t" else uuid5(TOPIC_ID, topic)
        return self.manager.get_or_create(topic, partition, topic_id, self.log_config)

    def stop(self) -> None:
        self.running = False
        self.manager.shutdown()
        self.scheduler.shutdown()

    def kill(self) -> None:
        """`kill -9`, then a new process on the same files."""
        assert isinstance(self.file_system, FakeFileSystem)
        self.running = False
        self.file_system = self.file_system.kill()
        self.scheduler.shutdown()

    def cut_power(self, seed: int) -> None:
        assert isinstance(self.file_system, FakeFileSystem)
        self.running = self.is_recovered = False
        self.file_system = self.file_system.power_cut(seed)
        self.scheduler.shutdown()

    @property
    def fake(self) -> FakeFileSystem:
        assert isinstance(self.file_system, FakeFileSystem)
        return self.file_system


def three_segments() -> World:
    """A log with segments at 0, 3 and 6, eight records of about 150 bytes, stopped cleanly."""
    world = World()
    world.start(segment_bytes=500, index_interval_bytes=100)
    log = world.log()
    for value in "abcdefgh":
        append(log, value * 80, timestamp=START_MS + ord(value))
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    world.stop()
    return world
