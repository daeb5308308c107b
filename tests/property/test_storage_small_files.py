"""What is written is read back, and what was not written by us is read or refused cleanly."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fake_filesystem import FakeFileSystem
from tidelog.storage.exceptions import CorruptCheckpointError, CorruptSnapshotError, DataDirectoryError
from tidelog.storage.io.checkpoint import CleanShutdownFile, OffsetCheckpointFile
from tidelog.storage.log.leader_epoch import LeaderEpochCache
from tidelog.storage.log.partition_metadata import decode_uuid, encode_uuid, read_partition_metadata
from tidelog.storage.manager.meta_properties import read_meta_properties
from tidelog.storage.producers.entry import BatchMetadata, ProducerStateEntry
from tidelog.storage.producers.snapshot import decode_snapshot, encode_snapshot

int16, int32, int64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (15, 31, 63))
offsets = st.integers(0, 2**63 - 1)
topics = st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True)


@given(st.dictionaries(st.tuples(topics, st.integers(0, 2**31 - 1)), offsets, max_size=20))
def test_offset_checkpoints(values: dict[tuple[str, int], int]) -> None:
    file = OffsetCheckpointFile(FakeFileSystem(), "/c")
    file.write(values)
    assert file.read() == values


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), offsets), max_size=12))
def test_leader_epochs(assignments: list[tuple[int, int]]) -> None:
    system = FakeFileSystem()
    cache = LeaderEpochCache(system, "/e")
    for epoch, offset in assignments:
        cache.assign(epoch, offset)
        entries = cache.entries
        assert entries[-1].epoch == epoch
        assert list(entries) == sorted(entries)
        assert len({e.epoch for e in entries}) == len({e.start_offset for e in entries}) == len(entries)
    cache.flush()
    assert LeaderEpochCache.load(system, "/e").entries == cache.entries


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 20)), max_size=8), st.integers(0, 100), st.integers(0, 100))
def test_cut_epochs_agree_with_a_list_of_records(steps: list[tuple[int, int]], start: int, end: int) -> None:
    """The oracle is the epoch of each offset, one by one."""
    cache = LeaderEpochCache(FakeFileSystem(), "/e")
    epoch, offset, records = 0, 0, {}
    for more_epoch, count in steps:
        epoch += more_epoch
        cache.assign(epoch, offset)
        for number in range(offset, offset + count):
            records[number] = epoch
        offset += count
    end = min(end, offset)
    start = min(start, end)
    cache.truncate_from_end(end)
    cache.truncate_from_start(start)
    for number in range(start, end):
        assert cache.epoch_for_offset(number) == records[number]
    if start:
        assert cache.epoch_for_offset(start - 1) is None


entries = st.builds(
    ProducerStateEntry,
    offsets,
    st.integers(0, 2**15 - 1),
    int32,
    st.integers(-1, 2**62),
    st.none() | offsets,
)


@given(st.lists(entries, max_size=10), st.tuples(int32, offsets, st.integers(0, 2**31 - 1)))
def test_snapshots(values: list[ProducerStateEntry], last: tuple[int, int, int]) -> None:
    for entry in values[::2]:
        entry.batches = [BatchMetadata(*last, entry.last_timestamp)]
    assert decode_snapshot(encode_snapshot(values)) == values


@given(st.uuids())
def test_uuids(value: UUID) -> None:
    assert decode_uuid(encode_uuid(value)) == value


@settings(max_examples=300)
@given(st.binary(max_size=200) | st.text(alphabet="0123456789 \nabc-=:.version\\", max_size=80).map(str.encode))
def test_anything_is_read_or_refused(data: bytes) -> None:
    system = FakeFileSystem()
    system.put("/d/partition.metadata", data)
    system.put("/d/meta.properties", data)
    system.put("/d/.kafka_cleanshutdown", data)
    for read, refusal in [
        (lambda: OffsetCheckpointFile(system, "/d/meta.properties").read(), CorruptCheckpointError),
        (lambda: LeaderEpochCache.load(system, "/d/meta.properties"), CorruptCheckpointError),
        (lambda: read_partition_metadata(system, "/d"), CorruptCheckpointError),
        (lambda: read_meta_properties(system, "/d"), DataDirectoryError),
        (lambda: CleanShutdownFile(system, "/d").read(), NotImplementedError),
    ]:
        with suppress(refusal):
            read()
    if data[:2] != b"\0\1":
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(data)
