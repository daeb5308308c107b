"""Random records in every format and codec: built, appended, recovered and read; converted; and held against other readers.

The oracle is the list of records that went in, reduced by what a format cannot hold; kafka-python and aiokafka are two
more readers and writers of formats 0 and 1.
"""

from __future__ import annotations

import random
import zlib
from typing import Any, NamedTuple

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatch as AiokafkaBatch
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords
from support.logs import World
from support.mock_time import START_MS
from tidelog.config.log_config import LogConfig
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.conversion import convert_batch, down_convert
from tidelog.protocol.records.exceptions import RecordError, UnsupportedCompressionError
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.memory_records import is_intact, iterate_batches, iterate_records
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.log.unified_log import UnifiedLog

SETTINGS = settings(max_examples=60, deadline=None)
FORMATS = ["0.9.0", "0.10.2", "3.0-IV1"]
CODECS = {"none": "uncompressed", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}

TIMES = st.one_of(st.just(-1), st.integers(START_MS - 1000, START_MS + 1000))
DATA = st.none() | st.binary(max_size=40) | st.sampled_from([b"", b"x" * 200, bytes(9000)])
HEADERS = st.lists(st.tuples(st.binary(max_size=4), st.none() | st.binary(max_size=4)), max_size=2).map(tuple)


@st.composite
def contents(draw: st.DrawFn) -> list[Record]:
    count = draw(st.integers(1, 6))
    return [Record(0, draw(TIMES), draw(DATA), draw(DATA), draw(HEADERS)) for _ in range(count)]


class Append(NamedTuple):
    records: list[Record]
    magic: int
    codec: Compression


@st.composite
def appends(draw: st.DrawFn) -> Append:
    magic = draw(st.integers(0, 2))
    codec = draw(st.sampled_from(list(Compression)[: 5 if magic == 2 else 4]))
    return Append(draw(contents()), magic, codec)


def reduced(record: Record, offset: int, *magics: int) -> Record:
    """What is left of it once it has gone through these formats."""
    return Record(
        offset,
        -1 if 0 in magics else record.timestamp,
        record.key,
        record.value,
        record.headers if min(magics) == 2 else (),
    )


def stored_records(log: UnifiedLog) -> tuple[list[Record], list[tuple[int, int]]]:
    """(records, (format, codec) of each batch) of all segments, every checksum looked at."""
    records: list[Record] = []
    kinds: list[tuple[int, int]] = []
    for segment in log.segments:
        file = segment.lease_file()
        data = file.pread(segment.size, 0)
        file.release()
        for header in iterate_batches(data):
            assert is_intact(data, header)
            inside = list(iterate_records(data, header.position))
            assert header.last_offset == inside[-1].offset
            assert header.max_timestamp == max(record.timestamp for record in inside)
            records += inside
            kinds.append((header.magic, header.compression))
    return records, kinds


def append(log: UnifiedLog, what: Append) -> tuple[int, int]:
    if what.magic == 2:
        data = bytearray(build_batch(what.records, compression=what.codec))
        info = log.append_as_leader(data, 0, len(data))
    else:
        message_set = b"..." + build_legacy_set(what.records, magic=what.magic, compression=what.codec) + b"."
        info = log.append_message_set(message_set, 3, len(message_set) - 1)
    assert info.record_count == len(what.records)
    return info.first_offset, info.last_offset


@SETTINGS
@given(
    st.lists(appends().filter(lambda what: what.magic < 2), min_size=1, max_size=6),
    st.sampled_from(FORMATS),
    st.sampled_from(["producer", "uncompressed", "gzip", "lz4"]),
    st.booleans(),
)
def test_what_was_prepared_early_is_what_an_append_makes(
    batches: list[Append], version: str, codec: str, append_time: bool
) -> None:
    """All are made ready for an empty log, and appended one after the other; beside it a log that is appended to at once."""
    worlds = World(), World()
    for world in worlds:
        world.start(
            message_format_version=version,
            compression_type=codec,
            message_timestamp_type="LogAppendTime" if append_time else "CreateTime",
        )
    early, late = (world.log() for world in worlds)
    sets = [build_legacy_set(what.records, magic=what.magic, compression=what.codec) for what in batches]
    prepared = [early.prepare(data, 0, len(data)) for data in sets]
    for world in worlds:
        world.time.advance(5)
    for index, (ready, data) in enumerate(zip(prepared, sets, strict=True)):
        if index == 1:  # its time is later than that of what was prepared
            early.append_message_set(data, 0, len(data))
            late.append_message_set(data, 0, len(data))
        info = early.append_prepared(ready)
        if info is None:
            assert version == "0.9.0", "only a wrapper of format 0 can't be moved"
            assert early.log_end_offset > 0
            info = early.append_message_set(data, 0, len(data))
        assert info._replace(log_append_time=0) == late.append_message_set(data, 0, len(data))._replace(
            log_append_time=0
        )
    got, kinds = stored_records(early)
    wanted, wanted_kinds = stored_records(late)
    assert kinds == wanted_kinds
    if not append_time:
        assert whole_log(early) == whole_log(late)
        assert early.max_timestamp_offset() == late.max_timestamp_offset()
    assert [record._replace(timestamp=0) for record in got] == [record._replace(timestamp=0) for record in wanted]
    if append_time and version != "0.9.0":
        times = [record.timestamp for record in got]
        assert times == sorted(times)
        assert {START_MS, START_MS + 5} >= set(times)
    for world in worlds:
        world.stop()


def whole_log(log: UnifiedLog) -> bytes:
    data = b""
    for segment in log.segments:
        file = segment.lease_file()
        data += file.pread(segment.size, 0)
        file.release()
    return data


@SETTINGS
@given(
    st.lists(appends(), min_size=1, max_size=6),
    st.sampled_from(FORMATS),
    st.sampled_from(["producer", *CODECS.values()]),
    st.sampled_from([300, 1 << 20]),
    st.booleans(),
    st.booleans(),
)
def test_append_recover_read(
    batches: list[Append], version: str, codec: str, segment_bytes: int, append_time: bool, clean: bool
) -> None:
    configured: dict[str, Any] = {
        "message_format_version": version,
        "compression_type": codec,
        "segment_bytes": segment_bytes,
        "index_interval_bytes": 0,
        "message_timestamp_type": "LogAppendTime" if append_time else "CreateTime",
    }
    target = FORMATS.index(version)
    world = World()
    world.start(**configured)
    log = world.log()
    wanted: list[Record] = []
    kinds: set[tuple[int, int]] = set()
    for batch in batches:
        world.time.advance(7)
        wanted_codec = batch.codec.name.lower() if codec == "producer" else codec
        if target < 2 and wanted_codec == "zstd":
            before = log.size
            with pytest.raises(UnsupportedCompressionError):
                append(log, batch)
            assert log.size == before
            continue
        base = len(wanted)
        assert append(log, batch) == (base, base + len(batch.records) - 1)
        for index, record in enumerate(batch.records):
            kept = reduced(record, base + index, batch.magic, target)
            if append_time:
                kept = kept._replace(timestamp=world.time.milliseconds() if target else -1)
            wanted.append(kept)
        kinds.add((target, list(CODECS).index(wanted_codec.replace("uncompressed", "none"))))
    records, found_kinds = stored_records(log)
    assert records == wanted
    assert set(found_kinds) == kinds
    check_look_ups(log, wanted)
    check_indexes(log)
    indexes = [segment.read_next_offset() for segment in log.segments]
    if clean:
        world.stop()
    else:
        world.kill()
    world.start(**configured)
    log = world.log()
    assert stored_records(log) == (wanted, found_kinds)
    assert log.log_end_offset == len(wanted)
    assert [segment.read_next_offset() for segment in log.segments] == indexes
    check_look_ups(log, wanted)
    check_indexes(log)
    world.stop()


def check_indexes(log: UnifiedLog) -> None:
    """As DumpLogSegments looks at them: an entry names the last offset of the batch that begins there, and a time that of
    the batch which brought it.
    """
    for segment in log.segments:
        files = segment.acquire()
        data = files.file.pread(segment.size, 0)
        headers = list(iterate_batches(data))
        ends = {header.position: header.last_offset for header in headers}
        assert all(ends[position] == offset for offset, position in files.offset_index)
        times = {header.last_offset: header.max_timestamp for header in headers}
        entries = list(files.time_index)
        files.release()
        assert all(times[entry.offset] == entry.timestamp for entry in entries)
        assert [entry.timestamp for entry in entries] == sorted({entry.timestamp for entry in entries})


def check_look_ups(log: UnifiedLog, records: list[Record]) -> None:
    """By offset, by time and by maximum, against scans of the list."""
    for record in records:
        info = log.read(record.offset, 1)
        assert info.file is not None
        data = info.file.pread(info.size, info.position)
        info.release()
        first = next(iterate_batches(data))
        assert record in list(iterate_records(data, 0, first.size))
    for target in {0} | {time for record in records for time in (record.timestamp, record.timestamp + 1) if time >= 0}:
        wanted = next((record for record in records if record.timestamp >= target), None)
        found = log.lookup_by_timestamp(target)
        assert (found and found[:2]) == (wanted and (wanted.timestamp, wanted.offset))
    latest = max(records, key=lambda record: (record.timestamp, -record.offset), default=None)
    found = log.max_timestamp_offset()
    assert (found and found[:2]) == (latest and (latest.timestamp, latest.offset))


# --- conversion ---


@SETTINGS
@given(appends(), st.integers(0, 2), st.sampled_from(TimestampType), st.integers(0, 2**40))
def test_every_pair_of_formats(what: Append, to: int, kind: TimestampType, base: int) -> None:
    arguments: dict[str, Any] = {
        "base_offset": base,
        "offsets": [base + 3 * index for index in range(len(what.records))],  # gaps, as compaction leaves them
        "compression": what.codec,
        "timestamp_type": kind,
        "append_time": START_MS,
    }
    if what.magic == 2:
        data = build_batch(what.records, **arguments)
    else:
        data = build_legacy_set(what.records, magic=what.magic, **arguments)
    wanted = [
        reduced(record, offset, what.magic, to)
        for record, offset in zip(what.records, arguments["offsets"], strict=True)
    ]
    if kind is TimestampType.LOG_APPEND_TIME:
        wanted = [record._replace(timestamp=START_MS if min(what.magic, to) else -1) for record in wanted]
    out = b""
    for header in iterate_batches(data):
        if what.codec is Compression.ZSTD and to < 2:
            with pytest.raises(UnsupportedCompressionError):
                convert_batch(data, header, to)
            with pytest.raises(UnsupportedCompressionError):
                down_convert(data, to)
            return
        out += convert_batch(data, header, to)
    assert [record for h in iterate_batches(out) for record in iterate_records(out, h.position)] == wanted
    for header in iterate_batches(out):
        assert is_intact(out, header)
        assert (header.magic, header.compression) == (to, what.codec)
        if min(what.magic, to):
            assert header.timestamp_type is kind
    for first in (0, base + 1, base + 100):
        down = down_convert(data, to, first)
        kept = [record for h in iterate_batches(down.data) for record in iterate_records(down.data, h.position)]
        if what.magic > to and what.codec is Compression.NONE:
            assert kept == [record for record in wanted if record.offset >= first]
        else:
            # A wrapper comes whole, unless nothing in it was asked for.
            comes = what.magic <= to or wanted[-1].offset >= first
            assert [record.offset for record in kept] == [record.offset for record in wanted if comes]
        assert down.next_offset == wanted[-1].offset + 1
        assert down.record_count == (len(kept) if what.magic > to else 0)


# --- second oracles ---


def other_codecs(magic: int) -> list[Compression]:
    """Neither of them has format 0's lz4; the logs by Kafka's own classes do."""
    return list(Compression)[: 4 if magic else 3]


def no_headers(record: Record) -> Record:
    return record._replace(headers=())


@SETTINGS
@given(contents(), st.integers(0, 1), st.data(), st.integers(0, 2**40))
def test_other_readers_read_what_we_write(content: list[Record], magic: int, draws: st.DataObject, base: int) -> None:
    codec = draws.draw(st.sampled_from(other_codecs(magic)))
    data = build_legacy_set(content, magic=magic, base_offset=base, compression=codec)
    wanted = [no_headers(reduced(record, base + index, magic)) for index, record in enumerate(content)]
    theirs = []
    records = KafkaPythonRecords(data)
    while records.has_next():
        batch = records.next_batch()
        assert batch is not None
        assert batch.validate_crc()
        theirs += [(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in batch]
    assert theirs == [tuple(record[:4]) for record in wanted]
    theirs = []
    for header in iterate_batches(data):
        aio = AiokafkaBatch(data[header.position : header.position + header.size], magic)
        assert aio.validate_crc()
        theirs += [(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value) for r in aio]
    assert theirs == [tuple(record[:4]) for record in wanted]


@SETTINGS
@given(contents(), st.integers(0, 1), st.data())
def test_we_take_what_other_writers_write(content: list[Record], magic: int, draws: st.DataObject) -> None:
    codec = draws.draw(st.sampled_from(other_codecs(magic)))
    content = [record._replace(timestamp=max(0, record.timestamp)) for record in content]
    builder = AiokafkaBuilder(magic, int(codec), 1 << 24)
    for index, record in enumerate(content):
        assert builder.append(index, record.timestamp, record.key, record.value) is not None
    data = bytes(builder.build())
    world = World()
    world.start(message_format_version=str(magic), message_timestamp_before_max_ms=1 << 62)
    log = world.log()
    for _ in range(2):
        log.append_message_set(data, 0, len(data))
    wanted = [reduced(record, index, magic) for index, record in enumerate(content * 2)]
    assert stored_records(log) == (wanted, [(magic, codec)] * (2 if codec else len(wanted)))
    world.stop()


# --- look-ups by time over whole logs ---


@pytest.mark.parametrize("seed", range(25))
def test_look_ups_by_time_agree_with_a_scan(seed: int) -> None:
    """Forty small random logs a seed, a thousand in all: every format and codec, several in one log; rolls, restarts,
    kills, a start that DeleteRecords moved, and timestamps out of order.
    """
    chance = random.Random(seed)
    world = World()
    configured: dict[str, Any] = {
        "segment_bytes": chance.choice([150, 400, 1 << 20]),
        "index_interval_bytes": chance.choice([0, 60, 300]),
        "message_timestamp_before_max_ms": 1 << 62,
    }
    world.start(**configured)
    wanted: dict[str, list[Record]] = {}
    for number in range(40):
        name = f"t{number}"
        log = world.log(name)
        records = wanted[name] = []
        version = ""
        for _ in range(chance.randint(1, 6)):
            if not version or chance.random() < 0.3:
                version = chance.choice(FORMATS)
                log.update_config(LogConfig(segment_index_bytes=4096, message_format_version=version, **configured))
            magic = chance.randint(0, 2)
            newest = 2 if FORMATS.index(version) < 2 or magic < 2 else 4
            codec = Compression(chance.choice([0, 0, *range(newest + 1)]))
            content = [
                Record(
                    0,
                    chance.choice([-1, *[START_MS + chance.randint(-30, 30)] * 5]),
                    b"k",
                    b"v" * chance.randint(0, 60),
                )
                for _ in range(chance.randint(1, 5))
            ]
            append(log, Append(content, magic, codec))
            stored_in = FORMATS.index(version)
            records += [reduced(r, len(records) + at, magic, stored_in) for at, r in enumerate(content)]
    if seed % 3:
        if seed % 3 == 1:
            world.stop()
        else:
            world.kill()
        world.start(**configured)
    for name, records in wanted.items():
        log = world.log(name)
        check_look_ups(log, records)
        start = chance.randint(0, len(records) - 1)
        log.increment_log_start_offset(start)
        check_look_ups(log, records[start:])
        check_indexes(log)
    world.stop()


# --- what is not as it should be ---


def resealed(data: bytearray) -> None:
    """The outer checksum made right again, if the sizes allow it."""
    size = int.from_bytes(data[8:12], "big", signed=True)
    if 14 <= size <= len(data) - 12:
        data[12:16] = zlib.crc32(memoryview(data)[16 : 12 + size]).to_bytes(4, "big")


@pytest.mark.parametrize("seed", range(20))
def test_fuzzed_message_sets_raise_record_errors_or_nothing(seed: int) -> None:
    chance = random.Random(seed)
    world = World()
    world.start(message_format_version=chance.choice(FORMATS))
    log = world.log()
    content = [Record(0, START_MS + index, b"key", b"value" * index) for index in range(4)]
    inner = build_legacy_set(content, magic=seed % 2)
    seeds = [
        *(build_legacy_set(content, magic=seed % 2, compression=codec) for codec in list(Compression)[:4]),
        build_legacy_set([Record(0, START_MS, None, inner)], magic=seed % 2),  # may become a wrapper of anything
    ]
    for _ in range(300):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.choice([1, 1, 2, 5])):
            at = chance.randrange(len(data))
            action = chance.randrange(4)
            if action == 0:
                data[at] ^= 1 << chance.randrange(8)
            elif action == 1:
                data[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
            elif action == 2:
                del data[at : at + chance.randint(1, 9)]
            else:
                data[at:at] = chance.randbytes(chance.randint(1, 9))
            if not data:
                data += b"\0"
        if chance.random() < 0.8:
            resealed(data)
        before = (log.log_end_offset, log.size)
        try:
            log.append_message_set(bytes(data), 0, len(data))
        except RecordError:
            assert (log.log_end_offset, log.size) == before
        try:
            for header in iterate_batches(data):
                list(iterate_records(data, header.position, max_decompressed=1 << 20))
                convert_batch(data, header, chance.randint(0, 2), max_decompressed=1 << 20)
        except RecordError:
            pass
    assert 3 <= log.log_end_offset < 1000, "some are taken, most are not"
    stored_records(log)  # what was taken is sound
    world.stop()
