"""Appends in two steps: what was made ready for one end of the log is appended at another."""

from __future__ import annotations

import pytest
from support.logs import SMALL_INDEX, World, append, batch, read_records, values_of
from support.mock_time import START_MS
from tidelog.config.log_config import LogConfig
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.exceptions import CorruptRecordError, FormatLacksFeatureError, RecordTooLargeError
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.values import LogAppendInfo


def message_set(*values: str, magic: int = 1, codec: Compression = Compression.NONE) -> bytes:
    return build_legacy_set(
        [Record(0, START_MS, b"k", value.encode()) for value in values], magic=magic, compression=codec
    )


def values(log: UnifiedLog) -> list[bytes]:
    return values_of(read_records(log, 0))


def in_two_steps(log: UnifiedLog, data: bytes | bytearray) -> LogAppendInfo | None:
    """With an append in between, a millisecond later."""
    prepared = log.prepare(data, 0, len(data))
    append(log, "between")
    return log.append_prepared(prepared)


@pytest.mark.parametrize(("version", "magic"), [("0.9.0", 0), ("0.10.2", 1), ("4.0", 2)])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_offsets_are_those_of_the_append(world: World, version: str, magic: int, codec: Compression) -> None:
    world.start(message_format_version=version)
    log = world.log()
    info = in_two_steps(log, message_set("a", "b", codec=codec))
    if magic == 0 and codec is not Compression.NONE:  # offsets in there are absolute: it has to be made anew
        assert info is None
        assert values(log) == [b"between"]
        return
    assert info is not None
    assert (info.first_offset, info.last_offset, info.record_count) == (1, 2, 2)
    assert values(log) == [b"between", b"a", b"b"]
    found = log.max_timestamp_offset()
    assert magic == 0 or (found is not None and found.timestamp == START_MS)


def test_append_times_do_not_go_back(world: World) -> None:
    world.start(message_timestamp_type="LogAppendTime", message_format_version="0.10.2")
    log = world.log()
    data = message_set("a", "b")
    early = log.prepare(data, 0, len(data))
    world.time.advance(50)
    append(log, "between")
    info = log.append_prepared(early)
    assert info is not None
    assert info.log_append_time == START_MS + 50
    assert [record.timestamp for record in read_records(log, 0)] == [START_MS + 50] * 3


def test_settings_that_have_changed_are_heeded(world: World) -> None:
    log = world.log()
    data = message_set("a")
    prepared = log.prepare(data, 0, len(data))
    log.update_config(LogConfig(message_format_version="0.10.2", segment_index_bytes=4096))
    assert log.append_prepared(prepared) is None
    assert log.size == 0


@pytest.mark.parametrize("way", ["prepare", "check"])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_what_was_made_ready_while_changed_settings_waited_for_a_slow_append_is_made_ready_anew(
    world: World, way: str, compression: str
) -> None:
    """It was by the rules before: a batch above the new max.message.bytes would get into the log, however late it comes."""
    log = world.log()
    data = message_set("a" * 200) if way == "prepare" else bytes(batch("a" * 200))
    with log.local.lock:  # an append that hangs in its disk
        log.update_config(
            LogConfig(max_message_bytes=100, compression_type=compression, segment_index_bytes=SMALL_INDEX)
        )
        if way == "prepare":
            prepared = log.prepare(data, 0, len(data))
        else:
            checked = log.check_batch(data, 0, len(data))
    world.time.advance(0)
    with pytest.raises(RecordTooLargeError):
        append(log, "a" * 200)
    info = log.append_prepared(prepared) if way == "prepare" else log.append_checked(checked)
    assert info is None
    assert log.size == 0
    with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes is 100"):
        _ = log.prepare(data, 0, len(data)) if way == "prepare" else log.check_batch(data, 0, len(data))


def test_a_batch_for_a_topic_of_an_older_format(world: World) -> None:
    world.start(message_format_version="0.10.2")
    log = world.log()
    assert log.converts_batches
    info = in_two_steps(log, batch("a", "b"))
    assert info is not None
    assert (info.first_offset, values(log)) == (1, [b"between", b"a", b"b"])
    idempotent = batch("a", producer_id=5, producer_epoch=0, base_sequence=0)
    with pytest.raises(FormatLacksFeatureError):
        log.prepare(idempotent, 0, len(idempotent))


def test_faults_are_told_where_they_are_found(world: World) -> None:
    log = world.log()
    data = bytearray(message_set("a"))
    data[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        log.prepare(data, 0, len(data))
    with pytest.raises(CorruptRecordError):
        log.append_message_set(data, 0, len(data))
    assert log.size == 0
