"""The log against a list of records: whatever is done to it, it holds what the list says.

One machine drives two things: a `UnifiedLog` on the fake file system, and a list with a start and an end. Reads, look-ups by
time and by maximum, truncation, retention, restarts and kills are compared with scans of the list.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.logs import World, read_records
from support.mock_time import START_MS
from tidelog.config.log_config import LogConfig
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.memory_records import iterate_batches, iterate_records
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.exceptions import OffsetOutOfRangeError
from tidelog.storage.log.unified_log import UnifiedLog

TIMES = st.one_of(st.just(-1), st.integers(START_MS - 50, START_MS + 50), st.integers(START_MS - 50, START_MS + 50))
VALUES = st.sampled_from([b"", b"v", b"x" * 60, b"y" * 700])
CODECS = st.sampled_from([Compression.NONE, Compression.NONE, Compression.GZIP, Compression.LZ4, Compression.ZSTD])


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.records: list[Record] = []  # by offset, from 0
        self.start = 0
        self.counter = itertools.count()

    @initialize(
        segment_bytes=st.sampled_from([300, 1200, 1 << 20]),
        interval=st.sampled_from([0, 150, 4096]),
        index_bytes=st.sampled_from([24, 96, 4096]),
        retention_bytes=st.sampled_from([-1, 0, 900]),
        segment_ms=st.sampled_from([10, 10**9]),
    )
    def begin(self, segment_bytes: int, interval: int, index_bytes: int, retention_bytes: int, segment_ms: int) -> None:
        self.world.start(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            segment_index_bytes=index_bytes,
            retention_bytes=retention_bytes,
            retention_ms=60_000,
            segment_ms=segment_ms,
            file_delete_delay_ms=1000,
        )
        self.world.log()

    @property
    def log(self) -> UnifiedLog:
        log = self.world.manager.get("t", 0)
        assert log is not None
        return log

    @property
    def readable(self) -> list[Record]:
        return self.records[self.start :]

    # --- what is done ---

    @rule(batch=st.lists(st.tuples(TIMES, VALUES), min_size=1, max_size=5), codec=CODECS)
    def append(self, batch: list[tuple[int, bytes]], codec: Compression) -> None:
        base = len(self.records)
        records = [
            Record(base + index, timestamp, b"%d" % next(self.counter), value)
            for index, (timestamp, value) in enumerate(batch)
        ]
        data = bytearray(build_batch(records, compression=codec))
        info = self.log.append_as_leader(data, 0, len(data))
        assert (info.first_offset, info.last_offset) == (base, base + len(batch) - 1)
        self.records += records

    @rule(
        batch=st.lists(st.tuples(TIMES, VALUES), min_size=1, max_size=5),
        codec=st.sampled_from(list(Compression)[:4]),
        magic=st.integers(0, 1),
        to=st.integers(0, 2),
    )
    def append_message_set(self, batch: list[tuple[int, bytes]], codec: Compression, magic: int, to: int) -> None:
        """Formats 0 and 1, in a topic that is of the format `to` just now."""
        base = len(self.records)
        records = [Record(0, timestamp, b"%d" % next(self.counter), value) for timestamp, value in batch]
        data = build_legacy_set(records, magic=magic, compression=codec)
        settings = {name: getattr(self.world.log_config, name) for name in _CONFIGURED}
        self.log.update_config(LogConfig(message_format_version=str(to), **settings))
        info = self.log.append_message_set(data, 0, len(data))
        self.log.update_config(LogConfig(**settings))
        assert (info.first_offset, info.last_offset) == (base, base + len(batch) - 1)
        self.records += [
            record._replace(offset=base + index, timestamp=record.timestamp if magic and to else -1)
            for index, record in enumerate(records)
        ]

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        assert self.log.flush() == len(self.records) == self.log.recovery_point

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """To a batch's border: what truncation in the middle of a batch removes is the whole batch."""
        log = self.log
        borders = [len(self.records)]
        offset = self.start
        while offset < len(self.records):
            info = log.read(offset, 1)
            assert info.file is not None
            whole = info.file.pread(info.size, info.position)
            info.release()
            header = next(iterate_batches(whole))
            borders.append(next(iterate_records(whole, 0, header.size)).offset)
            offset = header.last_offset + 1
        border = data.draw(st.sampled_from(borders))
        assert log.truncate_to(border) == (border < len(self.records))
        del self.records[border:]
        self.start = min(self.start, border)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, len(self.records)))
        assert self.log.increment_log_start_offset(offset) == (offset > self.start)
        self.start = offset

    @rule(later_ms=st.sampled_from([0, 70_000]))
    def retention(self, later_ms: int) -> None:
        self.world.time.advance(later_ms)
        log = self.log
        views = list(log.local.segment_views())
        deletions = log.delete_old_segments()
        assert log.delete_old_segments() == []  # one call does all
        assert [d.base_offset for d in deletions] == [view.base_offset for view in views[: len(deletions)]]
        if deletions:
            self.start = max(self.start, deletions[-1].next_base_offset)

    @rule(clean=st.booleans(), synced=st.booleans())
    def restart(self, clean: bool, synced: bool) -> None:
        self.world.manager.checkpoint_log_start_offsets()
        if synced:
            self.world.manager.checkpoint_recovery_points()
        if clean:
            self.world.stop()
        else:
            self.world.kill()
        self.world.start(**{name: getattr(self.world.log_config, name) for name in _CONFIGURED})

    @rule()
    def background(self) -> None:
        self.world.time.advance(2000)
        names = [path for path in self.world.fake.paths() if path.endswith(".deleted")]
        assert names == []

    # --- what must hold ---

    @invariant()
    def offsets_agree(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, len(self.records))
        assert log.high_watermark == log.log_end_offset
        assert log.recovery_point <= log.log_end_offset

    @invariant()
    def files_are_those_of_the_segments(self) -> None:
        names = {path.rpartition("/")[2] for path in self.world.fake.paths() if "/t-0/" in path}
        logs = {name for name in names if name.endswith(".log")}
        assert logs == {f"{segment.base_offset:020d}.log" for segment in self.log.segments}

    @rule(data=st.data(), max_bytes=st.sampled_from([1, 100, 1 << 20]))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(self.start, len(self.records)))
        assert read_records(self.log, offset, max_bytes=max_bytes) == self.records[offset:]

    @rule()
    def read_out_of_range(self) -> None:
        for offset in (self.start - 1, len(self.records) + 1):
            with pytest.raises(OffsetOutOfRangeError):
                self.log.read(offset, 100)

    @rule(timestamp=st.integers(START_MS - 60, START_MS + 60))
    def find_by_time(self, timestamp: int) -> None:
        wanted = next((r for r in self.readable if r.timestamp >= timestamp), None)
        found = self.log.lookup_by_timestamp(timestamp)
        assert (found and (found.offset, found.timestamp)) == (wanted and (wanted.offset, wanted.timestamp))

    @rule()
    def find_latest(self) -> None:
        found = self.log.max_timestamp_offset()
        wanted = max(self.readable, key=lambda record: (record.timestamp, -record.offset), default=None)
        assert (found and (found.offset, found.timestamp)) == (wanted and (wanted.offset, wanted.timestamp))

    @precondition(lambda self: len(self.readable) > 1)
    @rule(data=st.data())
    def find_below_a_limit(self, data: st.DataObject) -> None:
        limit = data.draw(st.integers(self.start, len(self.records)))
        below = self.records[self.start : limit]
        found = self.log.max_timestamp_offset(limit_offset=limit)
        wanted = max(below, key=lambda record: (record.timestamp, -record.offset), default=None)
        assert (found and found.offset) == (wanted and wanted.offset)
        got = read_records(self.log, self.start, limit_offset=limit)
        assert got == self.records[self.start : self.start + len(got)]
        assert not got or got[-1].offset < limit

    def teardown(self) -> None:
        log = self.world.manager.get("t", 0)
        if log is not None:
            assert read_records(log, self.start) == self.readable
            self.world.stop()
            assert not self.world.fake.open_files, "a file was left open"
            assert not self.world.fake.maps, "a map was left open"


_CONFIGURED = (
    "segment_bytes",
    "index_interval_bytes",
    "segment_index_bytes",
    "retention_bytes",
    "retention_ms",
    "segment_ms",
    "file_delete_delay_ms",
)


class TestLogModel(LogMachine.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(
        max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
    )


def test_the_model_sees_a_lost_record(monkeypatch: Any) -> None:
    """The oracle is no ornament: a log that forgets one append fails it."""
    machine = LogMachine()
    machine.begin(300, 0, 96, -1, 10**9)
    machine.append([(START_MS, b"v")], Compression.NONE)
    machine.records.append(machine.records[0])
    with pytest.raises(AssertionError):
        machine.offsets_agree()
    machine.world.manager.shutdown()
