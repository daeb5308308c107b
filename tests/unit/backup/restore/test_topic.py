"""One topic of a cut: what a read_committed consumer would have been handed at that moment, and nothing else."""

from __future__ import annotations

import pytest
from support.backups import RESTORED, BackedUpWorld, RestoredWorld
from support.cleaning import Producer, committed_records, put
from support.logs import batch
from tidelog.backup.restore.catalog import Catalog, NoSuchCutError
from tidelog.backup.restore.topic import restored_topic, topic_of
from tidelog.backup.store.memory import MemoryStore
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.record_batch import Record


def restored(world: BackedUpWorld, number: int, topic: str = "plain") -> tuple[list[Record], int, int]:
    """Records of the topic's partition 0, how many partitions it had, and its codec."""
    cut = topic_of(Catalog(world.store).cut(number), topic)
    new = RestoredWorld(world.time)
    with restored_topic(world.store, cut, RESTORED, new.file_system, new.config, time=world.time) as found:
        records = [record for part in found.slices() for record in part.records]
        return records, found.partitions, found.codec


@pytest.mark.parametrize("seed", range(6))
def test_committed_records_of_a_random_log(seed: int) -> None:
    world = BackedUpWorld(MemoryStore(), seed)
    expected: dict[int, list[Record]] = {}
    for _ in range(4):
        for _ in range(25):
            world.step()
        log = world.log("plain")
        number = world.cut()
        expected[number] = [
            record
            for record in committed_records(log)
            if log.log_start_offset <= record.offset < log.last_stable_offset
        ]
    for number, records in expected.items():
        assert restored(world, number)[0] == records
    world.damaged = "looked at by another test"
    world.stop()


def test_what_is_aborted_or_open_is_left_out() -> None:
    world = BackedUpWorld(MemoryStore(), 1)
    log, now = world.log("plain"), world.time.milliseconds()
    put(log, "before", "v", timestamp=now)
    one, two = Producer(1), Producer(2)
    one.send(log, (b"aborted", b"v"), timestamp=now)
    two.send(log, (b"committed", b"v"), timestamp=now)
    put(log, "between", "v", timestamp=now)
    one.end(log, commit=False, timestamp=now)
    two.end(log, commit=True, timestamp=now)
    log.roll()
    one.send(log, (b"open", b"v"), timestamp=now)
    put(log, "behind", "v", timestamp=now)
    number = world.cut()
    records, partitions, codec = restored(world, number)
    assert [record.key for record in records] == [b"before", b"committed", b"between"]
    assert [record.offset for record in records] == [0, 2, 3]
    assert (partitions, codec) == (1, 0)
    world.stop()


def test_records_below_the_log_start_stay_away_and_the_codec_is_known() -> None:
    world = BackedUpWorld(MemoryStore(), 1)
    log = world.log("plain")
    data = batch("a", "b", "c", compression=Compression.LZ4, timestamp=world.time.milliseconds())
    log.append_as_leader(data, 0, len(data))
    log.increment_log_start_offset(1)
    number = world.cut()
    records, _, codec = restored(world, number)
    assert [record.value for record in records] == [b"b", b"c"]
    assert codec == Compression.LZ4
    world.stop()


def test_a_topic_that_the_cut_has_not() -> None:
    world = BackedUpWorld(MemoryStore(), 1)
    number = world.cut()
    with pytest.raises(NoSuchCutError, match="has no topic orders; it has busy, kept, plain"):
        topic_of(Catalog(world.store).cut(number), "orders")
    world.stop()
