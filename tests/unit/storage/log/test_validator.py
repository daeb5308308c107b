from __future__ import annotations

import pytest
from crc32c import crc32c
from tidelog.config.log_config import LogConfig
from tidelog.protocol.records._kernel import validate_and_assign
from tidelog.protocol.records.attributes import TimestampType
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.compression import Compression, compress
from tidelog.protocol.records.exceptions import (
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)
from tidelog.protocol.records.legacy_record import (
    append_legacy_record,
    assign_timestamp,
    build_legacy_set,
    read_legacy_record,
)
from tidelog.protocol.records.memory_records import is_intact, iterate_batches, read_header
from tidelog.protocol.records.memory_records import iterate_records as iterate_any_records
from tidelog.protocol.records.record_batch import Record, iterate_records, read_batch_header
from tidelog.storage.log import validator as log_validator
from tidelog.storage.log.validator import (
    LEAST_MESSAGE_BYTES,
    AppendRules,
    TargetCompression,
    TargetFormat,
    ValidatedRecords,
    validate_message_set,
)

RECORDS = [Record(n, 1000 + n, b"k%d" % n, b"value " * 20, ((b"h", None),)) for n in range(50)]


def test_producer_means_as_it_came() -> None:
    assert TargetCompression.of(LogConfig(compression_type="producer")) is None


@pytest.mark.parametrize("append_time", [-1, 77_000])
@pytest.mark.parametrize("source", Compression)
@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topics_codec(name: str, source: Compression, append_time: int) -> None:
    target = TargetCompression.of(LogConfig(compression_type=name))
    assert target is not None
    sent = build_batch(RECORDS, compression=source, producer_id=5, producer_epoch=1, base_sequence=7)
    batch = bytearray(b"request" + sent + b"more")
    validate_and_assign(batch, 7, 7 + len(sent), 900, 3, append_time, False)
    stored = target.recompressed(batch, 7)
    before, after = read_batch_header(batch, 7), read_batch_header(stored)
    assert after.compression == target.codec
    assert target.differs(before.compression) == (source != target.codec)
    assert list(iterate_records(stored)) == list(iterate_records(batch, 7))
    assert crc32c(stored[21:]) == after.crc
    same = ["base_offset", "last_offset", "partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence"]
    for field in [*same, "base_timestamp", "max_timestamp", "is_append_time", "record_count"]:
        assert getattr(after, field) == getattr(before, field), field


# --- message sets ---

NO_LIMIT = 1 << 60


def rules(
    base_offset: int = 0, *, append_time_ms: int = -1, require_keys: bool = False, latest: int = NO_LIMIT
) -> AppendRules:
    return AppendRules(base_offset, 3, append_time_ms, require_keys, 0, latest, 1 << 20)


def target(magic: int, codec: Compression | None = None) -> TargetFormat:
    return TargetFormat(magic, None if codec is None else TargetCompression(codec, None))


def validated(data: bytes, wanted: TargetFormat, with_rules: AppendRules) -> ValidatedRecords:
    framed = b"head" + data + b"tail"
    return validate_message_set(framed, 4, 4 + len(data), wanted, with_rules)


PLAIN = [record._replace(headers=()) for record in RECORDS[:5]]


@pytest.mark.parametrize("append_time", [-1, 77_000])
@pytest.mark.parametrize("magic", [0, 1])
def test_plain_messages_get_offset_and_time_in_place(magic: int, append_time: int) -> None:
    sent = build_legacy_set(PLAIN, magic=magic)
    stored = validated(sent, target(magic), rules(900, append_time_ms=append_time))
    data = bytes(stored.data)
    kind = TimestampType.LOG_APPEND_TIME if append_time >= 0 else TimestampType.CREATE_TIME
    assert data == build_legacy_set(PLAIN, magic=magic, base_offset=900, timestamp_type=kind, append_time=append_time)
    assert (stored.base_offset, stored.last_offset, stored.record_count, stored.magic) == (900, 904, 5, magic)
    if magic == 0:
        assert (stored.max_timestamp, stored.offset_of_max_timestamp) == (-1, -1)
    elif append_time >= 0:
        assert (stored.max_timestamp, stored.offset_of_max_timestamp) == (77_000, 900)
    else:
        assert (stored.max_timestamp, stored.offset_of_max_timestamp) == (1004, 904)


def test_a_wrapper_of_format_1_is_not_compressed_again() -> None:
    sent = build_legacy_set(PLAIN, magic=1, compression=Compression.GZIP)
    for append_time in (-1, 77_000):
        stored = validated(sent, target(1), rules(900, append_time_ms=append_time))
        data = bytes(stored.data)
        assert data[34:] == sent[34:], "the compressed messages stay as they came"
        assert data[:8] == (904).to_bytes(8, "big")
        header = read_header(data)
        assert is_intact(data, header)
        assert header.max_timestamp == stored.max_timestamp == (1004 if append_time < 0 else append_time)
        assert stored.offset_of_max_timestamp == 904
        assert [record.offset for record in iterate_any_records(data)] == [900, 901, 902, 903, 904]


def test_a_wrapper_of_which_the_client_did_not_say_the_largest_time() -> None:
    sent = bytearray(build_legacy_set(PLAIN, magic=1, compression=Compression.GZIP))
    assign_timestamp(sent, read_legacy_record(sent), TimestampType.CREATE_TIME, 5)
    stored = validated(bytes(sent), target(1), rules())
    header = read_header(bytes(stored.data))
    assert (header.max_timestamp, is_intact(bytes(stored.data), header)) == (1004, True)


@pytest.mark.parametrize("offsets", [[0, 0, 0, 0, 0], [1, 2, 3, 4, 5], [9, 8, 7, 6, 5]])
def test_clients_that_number_inner_messages_in_their_own_way(offsets: list[int]) -> None:
    inner = bytearray()
    for offset, record in zip(offsets, PLAIN, strict=True):
        append_legacy_record(inner, 1, offset, record.timestamp, record.key, record.value)
    sent = bytearray()
    append_legacy_record(sent, 1, 0, 1004, None, compress(Compression.GZIP, inner), int(Compression.GZIP))
    stored = validated(bytes(sent), target(1), rules(40))
    assert list(iterate_any_records(bytes(stored.data))) == [r._replace(offset=40 + i) for i, r in enumerate(PLAIN)]


@pytest.mark.parametrize("codec", [None, *Compression])
@pytest.mark.parametrize("source", list(Compression)[:4])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("to", [0, 1, 2])
def test_any_set_in_any_topic(magic: int, source: Compression, to: int, codec: Compression | None) -> None:
    sent = build_legacy_set(PLAIN, magic=magic, compression=source)
    if codec is Compression.ZSTD and to < 2:
        with pytest.raises(UnsupportedCompressionError):
            validated(sent, target(to, codec), rules())
        return
    stored = validated(sent, target(to, codec), rules(900))
    data = bytes(stored.data)
    headers = list(iterate_batches(data))
    assert {(h.magic, h.compression) for h in headers} == {(to, source if codec is None else codec)}
    assert all(is_intact(data, h) for h in headers)
    found = [record for h in headers for record in iterate_any_records(data, h.position)]
    assert found == [
        r._replace(offset=900 + i, timestamp=r.timestamp if magic and to else -1) for i, r in enumerate(PLAIN)
    ]
    assert stored.max_timestamp == max(record.timestamp for record in found)
    if to == 2:
        assert (headers[0].partition_leader_epoch, headers[0].base_offset) == (3, 900)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_every_record_at_fault_is_named(codec: Compression) -> None:
    keyless = [record._replace(key=None) if at in (1, 3) else record for at, record in enumerate(PLAIN)]
    with pytest.raises(InvalidRecordError) as refused:
        validated(build_legacy_set(keyless, magic=1, compression=codec), target(1), rules(require_keys=True))
    assert (refused.value.record_index, [fault.record_index for fault in refused.value.faults]) == (1, [1, 3])
    with pytest.raises(InvalidTimestampError) as late:
        validated(
            build_legacy_set(keyless, magic=1, compression=codec), target(1), rules(require_keys=True, latest=1001)
        )
    assert (late.value.record_index, [fault.record_index for fault in late.value.faults]) == (2, [1, 2, 3, 4])


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_a_producer_may_not_say_append_time(codec: Compression) -> None:
    """As in Kafka: refused where the topic's type is LogAppendTime, and where the record has no time."""
    kind = TimestampType.LOG_APPEND_TIME
    sent = build_legacy_set(PLAIN, magic=1, compression=codec, timestamp_type=kind, append_time=500)
    with pytest.raises(InvalidTimestampError):
        validated(sent, target(1), rules(append_time_ms=77_000))
    stored = bytes(validated(sent, target(1), rules()).data)
    assert {(h.is_append_time, h.max_timestamp) for h in iterate_batches(stored)} == {(False, 500)}
    timeless = build_legacy_set(PLAIN, magic=1, compression=codec, timestamp_type=kind, append_time=-1)
    with pytest.raises(InvalidTimestampError):
        validated(timeless, target(1), rules())


def test_batches_are_no_message_sets() -> None:
    with pytest.raises(InvalidRecordError):
        validated(build_batch(RECORDS), target(2), rules())


@pytest.mark.parametrize("version", ["0.9.0", "0.10.2", "3.0-IV1"])
def test_a_topics_level_counts_in_every_format(version: str) -> None:
    """Plain messages packed by the topic: a higher level packs no worse, and the records are the same."""
    noise = [Record(0, 1000, b"k", bytes((n * n * 31 + i * 7) % 251 for i in range(300))) for n in range(40)]
    sent = build_legacy_set(noise, magic=1)
    sizes = []
    for level in (1, 9):
        wanted = TargetFormat.of(
            LogConfig(message_format_version=version, compression_type="gzip", compression_gzip_level=level)
        )
        data = bytes(validated(sent, wanted, rules()).data)
        assert {(h.magic, h.compression) for h in iterate_batches(data)} == {(wanted.magic, Compression.GZIP)}
        assert [record.value for record in iterate_any_records(data)] == [record.value for record in noise]
        sizes.append(len(data))
    assert sizes[1] < sizes[0]


def test_the_defaults_leave_batches_alone() -> None:
    assert TargetFormat.of(LogConfig()).is_as_it_came
    assert not TargetFormat.of(LogConfig(compression_type="lz4")).is_as_it_came
    assert not TargetFormat.of(LogConfig(message_format_version="0.10.2")).is_as_it_came


def test_what_grows_too_large_is_refused_before_it_is_in_memory() -> None:
    """Thirty-three MiB of zeros in some thirty KiB; where messages may be that large anyway, they are taken."""
    inner = bytearray()
    append_legacy_record(inner, 1, 0, 1000, b"k", bytes(33 << 20))
    sent = bytearray()
    append_legacy_record(sent, 1, 0, 1000, None, compress(Compression.GZIP, inner), int(Compression.GZIP))
    with pytest.raises(RecordTooLargeError):
        validated(bytes(sent), target(1), rules())
    assert validated(bytes(sent), target(1), rules()._replace(max_message_bytes=40 << 20)).record_count == 1


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_holds_so_many_messages_and_a_set_as_many_as_it_has_room_for(
    magic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrapper of a hundred kilobytes may hold a million: none beyond the bound is looked at."""
    monkeypatch.setattr(log_validator, "MOST_WRAPPED", 100)
    records = [Record(n, -1 if not magic else 1_700_000_000_000, None, b"") for n in range(101)]
    wrapped = bytes(build_legacy_set(records, magic=magic, compression=Compression.GZIP))
    small = rules()._replace(max_message_bytes=len(wrapped))
    with pytest.raises(RecordTooLargeError, match="more than 100 messages"):
        validated(wrapped, target(magic), small)
    fewer = bytes(build_legacy_set(records[:100], magic=magic, compression=Compression.GZIP))
    assert validated(fewer, target(magic), small).record_count == 100
    assert len(plain := bytes(build_legacy_set(records, magic=magic))) >= LEAST_MESSAGE_BYTES * 101
    assert validated(plain, target(magic), rules()._replace(max_message_bytes=len(plain))).record_count == 101
