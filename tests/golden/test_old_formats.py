"""Logs of formats 0, 1 and 2 that Kafka's own classes wrote: read as Kafka reads them, and written as Kafka wrote them."""

from __future__ import annotations

import pytest
from support.logs import ROOT, World
from support.old_formats import OldLog, old_logs
from tidelog.cleaner.kernel._kernel import OffsetMap, RecordFilter, Transactions
from tidelog.cleaner.kernel.mixed_formats import MixedFilter
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.memory_records import is_intact, iterate_batches, iterate_records
from tidelog.protocol.records.record_batch import Record

LOGS = old_logs()


def test_every_format_codec_and_timestamp_type_is_there() -> None:
    kinds = {(batch.magic, batch.codec, batch.timestamp_type) for log in LOGS.values() for batch in log.batches}
    codecs = ["none", "gzip", "snappy", "lz4"]
    assert kinds == (
        {(0, codec, "NoTimestampType") for codec in codecs}
        | {(1, codec, kind) for codec in codecs for kind in ("CreateTime", "LogAppendTime")}
        | {(2, codec, kind) for codec in [*codecs, "zstd"] for kind in ("CreateTime", "LogAppendTime")}
    )
    assert len(LOGS["raised"].records) == 90
    assert all(len(log.records) >= 70 for log in LOGS.values())


@pytest.mark.parametrize("name", LOGS)
def test_we_read_what_kafka_reads(name: str) -> None:
    log = LOGS[name]
    headers = list(iterate_batches(log.data))
    assert len(headers) == len(log.batches)
    assert headers[-1].position + headers[-1].size == len(log.data)
    for header, dumped in zip(headers, log.batches, strict=True):
        assert (header.position, header.size, header.magic, header.crc) == (
            dumped.position,
            dumped.size,
            dumped.magic,
            dumped.crc,
        )
        assert Compression(header.compression).name.lower() == dumped.codec
        assert (header.last_offset, header.max_timestamp) == (dumped.last_offset, dumped.max_timestamp)
        assert header.is_append_time == (dumped.timestamp_type == "LogAppendTime")
        assert is_intact(log.data, header)
        records = list(iterate_records(log.data, header.position, header.position + header.size))
        assert [(r.offset, r.timestamp, r.key, r.value) for r in records] == [record[:4] for record in dumped.records]
        assert [tuple(key.decode() for key, _ in r.headers) for r in records] == [r.header_keys for r in dumped.records]


def _built(log: OldLog) -> bytes:
    """The log once more, built from what the dump says."""
    out = b""
    for batch in log.batches:
        records = [Record(*record[:4]) for record in batch.records]
        append_time = batch.max_timestamp if batch.timestamp_type == "LogAppendTime" else -1
        out += build_legacy_set(
            records,
            magic=batch.magic,
            base_offset=records[0].offset,
            offsets=[record.offset for record in records],
            compression=Compression[batch.codec.upper()],
            timestamp_type=TimestampType.LOG_APPEND_TIME if append_time >= 0 else TimestampType.CREATE_TIME,
            append_time=append_time,
        )
    return out


@pytest.mark.parametrize("name", [f"{v}-{codec}" for v in ("v0", "v1", "v1-append") for codec in ("none", "lz4")])
def test_we_write_what_kafka_writes(name: str) -> None:
    """Byte for byte where the codec leaves no choice: none, and lz4 as both sides use the same library."""
    version, _, rest = name.partition("-")
    kind, _, codec = rest.rpartition("-")
    log = LOGS["-".join(part for part in (version, codec, kind) if part)]
    assert _built(log) == log.data


def test_we_write_the_batches_that_kafka_writes() -> None:
    """Format 2 in the same way, but for headers, of which the dump says only the keys: the two that Kafka was given."""
    values = {"h": b"v", "null": None}
    for name in ("v2-none", "v2-lz4"):
        log = LOGS[name]
        out = b""
        for batch in log.batches:
            records = [
                Record(*r[:4], tuple((key.encode(), values[key]) for key in r.header_keys)) for r in batch.records
            ]
            out += build_batch(records, base_offset=records[0].offset, compression=Compression[batch.codec.upper()])
        assert out == log.data


@pytest.mark.parametrize("name", [name for name in LOGS if name[:2] in ("v0", "v1")])
def test_what_stays_after_compaction_keeps_format_codec_and_offsets(name: str) -> None:
    """Every second key is superseded by something far behind: of each message set stays what it must, as Kafka wrote it."""
    data = LOGS[name].data
    records = [record for header in iterate_batches(data) for record in iterate_records(data, header.position)]
    keys = sorted({record.key for record in records if record.key is not None})
    dead = set(keys[::2])
    stays = [record for record in records if record.key is not None and record.key not in dead]
    assert 0 < len(stays) < len(records)
    map_, end = OffsetMap(24 * 1000, 1.0), 1 << 40
    map_.reset(bytes(16))
    for key in dead:
        map_.put(key, end - 1)
    cleaned = MixedFilter(RecordFilter(map_, end, Transactions(), 0, 0), map_, end)
    room = bytearray(2 * len(data))
    step = cleaned.filter(data, 0, len(data), room)
    assert step.consumed == len(data)
    rebuilt = bytes(room[: step.produced])
    assert [
        record for header in iterate_batches(rebuilt) for record in iterate_records(rebuilt, header.position)
    ] == stays
    offsets = {record.offset for record in stays}
    before = [
        (header, [record for record in iterate_records(data, header.position) if record.offset in offsets])
        for header in iterate_batches(data)
    ]
    kept = [(header, left) for header, left in before if left]
    for (old, left), new in zip(kept, iterate_batches(rebuilt), strict=True):
        assert (new.magic, new.attributes, new.last_offset) == (old.magic, old.attributes, left[-1].offset)
        assert is_intact(rebuilt, new)
        assert new.max_timestamp == max(record.timestamp for record in left)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.damaged("the samples begin where a broker of old had compacted")
def test_a_directory_of_old_logs_is_opened_recovered_and_searched(clean: bool) -> None:
    """Logs alone, as if their indexes were lost: rebuilt after a clean stop, in recovery after another."""
    world = World()
    world.start(index_interval_bytes=500)
    for name in LOGS:
        world.log(name)
    world.stop()
    for name, log in LOGS.items():
        path = f"{ROOT}/{name}-0/{0:020d}"
        for suffix in (".index", ".timeindex"):
            world.fake.unlink(path + suffix, missing_ok=True)
        file = world.fake.open(path + ".log", create=True)
        file.truncate(0)
        file.append(log.data if clean else log.data + log.data[:20])
        file.close()
    world.fake.unlink(f"{ROOT}/recovery-point-offset-checkpoint")  # it says where other logs ended
    if not clean:
        world.fake.unlink(f"{ROOT}/.kafka_cleanshutdown")
    world.start(index_interval_bytes=500)
    for name, old in LOGS.items():
        log = world.log(name)
        records = old.records
        assert (log.log_start_offset, log.log_end_offset, log.size) == (0, records[-1].offset + 1, len(old.data))
        assert log.producers.is_empty
        segment = log.segments[0]
        files = segment.acquire()
        files.offset_index.verify(log_size=segment.size)
        files.time_index.verify()
        assert files.offset_index.entries >= 3
        assert (files.time_index.entries > 0) == (records[-1].timestamp >= 0)
        starts = {batch.last_offset: batch.position for batch in old.batches}
        assert all(starts[offset] == position for offset, position in files.offset_index)
        files.release()
        for record in records:
            info = log.read(record.offset, 1)
            assert info.file is not None
            batch = info.file.pread(info.size, info.position)
            info.release()
            assert record[:4] in [found[:4] for found in iterate_records(batch)]
        latest = max(records, key=lambda record: (record.timestamp, -record.offset))
        found = log.max_timestamp_offset()
        assert found is not None
        assert found[:2] == (latest.timestamp, latest.offset)
        for target in sorted({record.timestamp for record in records if record.timestamp >= 0}):
            wanted = next(record for record in records if record.timestamp >= target)
            at = log.lookup_by_timestamp(target)
            assert at is not None
            assert at[:2] == (wanted.timestamp, wanted.offset)
    world.stop()
