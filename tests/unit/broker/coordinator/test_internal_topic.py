"""Coordinator records through a real log and back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.logs import TOPIC_ID
from tidelog.broker.coordinator import internal_topic as coordinator_log
from tidelog.broker.coordinator.internal_topic import (
    BatchReader,
    CoordinatorRecord,
    PartitionCoordinatorLog,
    coordinator_batch,
    replay_log,
)
from tidelog.broker.partitions.append_offload import AppendOffload
from tidelog.broker.partitions.disk_workers import DiskWorkers
from tidelog.broker.partitions.partition import Partition
from tidelog.config.log_config import LogConfig
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch, seal
from tidelog.protocol.records.exceptions import CorruptRecordError
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record, iterate_batches, iterate_records
from tidelog.storage.values import AppendOrigin

TOPIC = "__consumer_offsets"


def make_log(machine, **settings):
    config = LogConfig(cleanup_policy=frozenset({"compact"}), **settings)
    return machine.manager.get_or_create(TOPIC, 0, TOPIC_ID, config)


def append(log, *records, **arguments):
    batch = bytearray(build_batch([Record(0, 5, key, value) for key, value in records], **arguments))
    log.append_as_leader(batch, 0, len(batch), origin=AppendOrigin.COORDINATOR)


def replayed(log):
    return [(batch.base_offset, list(batch.records)) for batch in replay_log(log)]


def test_a_log_is_replayed_whole(machine):
    log = make_log(machine)
    assert replayed(log) == []
    append(log, (b"a", b"1"), (b"b", None))
    append(log, (b"c", b"3"))
    assert replayed(log) == [(0, [(0, b"a", b"1"), (1, b"b", None)]), (2, [(2, b"c", b"3")])]


def test_a_log_longer_than_a_chunk_and_than_a_segment(machine, monkeypatch):
    monkeypatch.setattr(coordinator_log, "READ_BYTES", 1000)
    log = make_log(machine, segment_bytes=4096)
    value = bytes(300)
    for number in range(100):
        append(log, (b"%d" % number, value), (b"x", value))
    append(log, (b"large", bytes(3000)))  # larger than a chunk
    append(log, (b"last", b""))
    assert len(log.segments) > 5
    records = [record for _, batch in replayed(log) for record in batch]
    assert [offset for offset, _, _ in records] == list(range(202))
    assert [key for _, key, _ in records[::2]] == [*(b"%d" % n for n in range(100)), b"large"]


@pytest.mark.parametrize("codec", Compression)
def test_compressed_batches(machine, codec):
    log = make_log(machine)
    append(log, (b"a", b"1" * 1000), (b"b", None), compression=codec)
    assert replayed(log) == [(0, [(0, b"a", b"1" * 1000), (1, b"b", None)])]


def test_what_a_batch_says_of_itself():
    records = [Record(0, 5, b"\x00\x00\x00\x01", b"")]
    data = build_batch(records, producer_id=9, producer_epoch=1, is_transactional=True, is_control=True)
    (batch,) = BatchReader("test", data)
    assert (batch.producer_id, batch.is_transactional, batch.is_control) == (9, True, True)


def test_compaction_leaves_gaps_and_empty_batches():
    data = build_batch([Record(0, 5, b"a", b"1")], base_offset=10, offsets=[13], last_offset=19)
    data += build_batch([], base_offset=20, last_offset=25)
    first, second = BatchReader("test", data)
    assert first.records == [(13, b"a", b"1")]
    assert list(second.records) == []


FIELD = st.none() | st.binary(max_size=300)
RECORDS = st.lists(st.tuples(FIELD, FIELD, st.integers(0, 2**40)), min_size=1, max_size=20)


@given(RECORDS, st.integers(0, 2**62), st.lists(st.tuples(st.binary(max_size=5), FIELD), max_size=3))
def test_the_short_way_reads_what_the_long_way_reads(records, base_offset, headers):
    data = build_batch(
        [Record(0, timestamp, key, value, tuple(headers)) for key, value, timestamp in records],
        base_offset=base_offset,
    )
    (batch,) = BatchReader("test", data)
    assert batch.records == [(r.offset, r.key, r.value) for r in iterate_records(data)]


@given(RECORDS, st.data())
def test_damage_is_passed_over(records, data):
    """Behind the size and the magic, any flipped bit: the batch is missed, its neighbour is not."""
    good = build_batch([Record(0, 1, b"good", b"value")], base_offset=50)
    bad = bytearray(build_batch([Record(0, timestamp, key, value) for key, value, timestamp in records]))
    position = data.draw(st.integers(21, len(bad) - 1))
    bad[position] ^= 1 << data.draw(st.integers(0, 7))
    batches = list(BatchReader("test", bytes(bad) + good))
    assert [batch.base_offset for batch in batches] == [50]


@given(RECORDS, st.data())
def test_lies_under_a_right_checksum_are_passed_over(records, data):
    """As above, with the checksum made right again: read as something, or passed over, and nothing else happens."""
    bad = bytearray(build_batch([Record(0, timestamp, key, value) for key, value, timestamp in records]))
    bad[data.draw(st.integers(61, len(bad) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    seal(bad)
    good = build_batch([Record(0, 1, b"good", b"value")], base_offset=50)
    assert list(BatchReader("test", bytes(bad) + good))[-1].base_offset == 50


def test_the_batch_of_a_coordinator():
    data = coordinator_batch([CoordinatorRecord(b"k", b"v"), CoordinatorRecord(b"l", None)], 77)
    (header,) = iterate_batches(data)
    assert (header.base_sequence, header.producer_id, header.max_timestamp) == (0, -1, 77)
    assert [(r.key, r.value, r.timestamp) for r in iterate_records(data)] == [(b"k", b"v", 77), (b"l", None, 77)]


class Topics:
    """As much of the registry as there is need for."""

    def __init__(self, log):
        self._log = log
        self.ensured = []

    def get(self, name):
        return SimpleNamespace(partition_count=1) if self._log is not None else None

    def log(self, name, partition):
        return self._log if partition == 0 else None

    async def ensure(self, name):
        self.ensured.append(name)


@pytest.fixture
async def syncer():
    made = DiskWorkers(asyncio.get_running_loop(), "test", 1)
    yield made
    made.close()


def coordinator_on(log, syncer):
    loop = asyncio.get_running_loop()
    partition = Partition(log, loop, syncer, AppendOffload(log.log_directory.pace, syncer, loop), None)
    partitions = SimpleNamespace(get=lambda topic, index: partition if index == 0 else None)
    return PartitionCoordinatorLog(TOPIC, partitions, Topics(log))


async def test_the_real_one(machine, syncer):
    log = make_log(machine)
    coordinator = coordinator_on(log, syncer)
    assert coordinator.partition_count == 1
    assert coordinator.is_empty(0)
    assert coordinator.is_empty(5)
    assert coordinator.append(0, [CoordinatorRecord(b"k", b"v")], 77)[1] is None
    assert not coordinator.is_empty(0)
    assert [list(batch.records) for batch in coordinator.replay(0)] == [[(0, b"k", b"v")]]
    assert list(coordinator.replay(5)) == []
    with pytest.raises(ProtocolError) as caught:
        coordinator.append(5, [CoordinatorRecord(b"k", b"v")], 77)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_it_waits_for_the_sync_that_the_topic_asks_for(machine, syncer):
    log = make_log(machine, flush_messages=1)
    coordinator = coordinator_on(log, syncer)
    _, unsynced = coordinator.append(0, [CoordinatorRecord(b"k", b"v")], 77)
    assert unsynced is not None
    assert log.high_watermark == 0
    await unsynced
    assert log.high_watermark == 1


async def test_the_topic_is_made_by_the_registry():
    topics = Topics(None)
    coordinator = PartitionCoordinatorLog(TOPIC, SimpleNamespace(), topics)
    assert coordinator.partition_count == 0
    await coordinator.ensure_topic()
    assert topics.ensured == [TOPIC]


def test_a_log_whose_end_cannot_be_reached_is_an_error():
    """Rather than going round for ever."""
    file = SimpleNamespace(pread=lambda size, position: bytes(size), release=lambda: None)
    data = SimpleNamespace(file=file, size=5, position=0, release=lambda: None)
    log = SimpleNamespace(name="t-0", log_start_offset=0, log_end_offset=9, read=lambda offset, size: data)
    with pytest.raises(CorruptRecordError, match="no whole batch at offset 0"):
        list(replay_log(log))


OLD_FORMATS = [(magic, codec) for magic in (0, 1) for codec in list(Compression)[:4]]


@pytest.mark.parametrize(("magic", "codec"), OLD_FORMATS)
def test_what_kafka_before_0_11_left(magic, codec):
    """Messages of formats 0 and 1 between batches, also as the last thing in the log, where they are short."""
    records = [Record(0, 5, b"a", b"1"), Record(0, 6, b"b", None)]
    old = build_legacy_set(records, magic=magic, base_offset=3, compression=codec)
    new = build_batch(records, base_offset=5)
    for data, count in ((old + new, 4), (new[:0] + old, 2)):
        batches = list(BatchReader("test", data))
        found = [record for batch in batches for record in batch.records]
        assert found == [(3, b"a", b"1"), (4, b"b", None), (5, b"a", b"1"), (6, b"b", None)][:count]
        assert {(batch.producer_id, batch.is_control) for batch in batches} == {(-1, False)}
    reader = BatchReader("test", old[:-1])
    assert len(list(reader)) == (1 if codec is Compression.NONE else 0)
    bad = bytearray(old)
    bad[-1] ^= 1
    assert [batch.base_offset for batch in BatchReader("test", bytes(bad) + new)][-1] == 5


def test_a_log_in_several_formats_is_replayed(machine):
    log = make_log(machine)
    for version in ("0.9.0", "0.10.2", "3.0-IV1"):
        log.update_config(LogConfig(message_format_version=version, segment_index_bytes=4096))
        data = build_legacy_set([Record(0, 5, b"k", version.encode())], magic=0)
        log.append_message_set(data, 0, len(data))
    append(log, (b"k", b"new"))  # in format 2 whatever the topic says
    assert [record[2] for _, batch in replayed(log) for record in batch] == [b"0.9.0", b"0.10.2", b"3.0-IV1", b"new"]
