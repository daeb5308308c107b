"""Counted in files that Apache Kafka wrote and cleaned, against its own dump of them."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from support.fake_filesystem import FakeFileSystem
from support.old_formats import old_logs
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.exceptions import StorageError
from tidelog.storage.inspect.anatomy import LogAnatomy, Section, examine, log_size, partitions_in
from tidelog.storage.io.filesystem import RealFileSystem

KAFKA = Path(__file__).parents[3] / "golden" / "kafka-data"
DUMP = gzip.decompress((KAFKA / "dump.txt.gz").read_bytes()).decode()
RECORD = re.compile(
    r"\| offset: \d+ \w+: -?\d+ keySize: (-?\d+) valueSize: (-?\d+) sequence: -?\d+ headerKeys: \[.*?\](.*)"
)


def kafkas_word(name: str) -> tuple[int, int, int, int]:
    """(records, tombstones, keys, largest timestamp) of a segment as DumpLogSegments shows it."""
    section = DUMP.partition(f"Dumping data/{name}.log\n")[2].partition("\nDumping ")[0]
    records = tombstones = 0
    keys = set()
    for line in section.split("\n"):
        if (match := RECORD.match(line)) and "endTxnMarker" not in match[3]:
            records += 1
            if match[1] != "-1":
                keys.add(match[3].partition(" payload: ")[0])
                tombstones += match[2] == "-1"
    times = [int(time) for time in re.findall(r"position: \d+ \w+Time: (-?\d+) ", section)]
    return records, tombstones, len(keys), max(times, default=-1)


def examined(partition: str) -> LogAnatomy:
    return examine(RealFileSystem(), str(KAFKA / "data" / partition))


@pytest.mark.parametrize("partition", ["compact-tiny-retention-0", "compact-txn-0", "mixed-0", "txn-0"])
def test_segments(partition: str) -> None:
    log = examined(partition)
    assert log.unreadable == 0
    for segment in log.segments:
        totals = segment.totals
        shown = (totals.records, totals.tombstones, totals.keys, totals.largest_timestamp)
        assert shown == kafkas_word(f"{partition}/{segment.base_offset:020d}"), segment
        assert totals.size == (KAFKA / "data" / partition / f"{segment.base_offset:020d}.log").stat().st_size
        assert totals.keys_exact


def test_sections() -> None:
    log = examined("compact-txn-0")
    assert (log.first_dirty_offset, log.log_start_offset, log.log_end_offset) == (805, 0, 930)
    assert [segment.section for segment in log.segments[-2:]] == [Section.CLEAN, Section.ACTIVE]
    assert log.sections[Section.DIRTY].size == 0
    assert log.ratio == 0.0
    never = examined("txn-0")
    assert never.first_dirty_offset is None
    assert never.sections[Section.CLEAN].size == 0
    assert never.ratio == 1.0
    assert sum(totals.size for totals in never.sections.values()) == log_size(RealFileSystem(), never.directory)
    assert examined("deleted-records-0").log_start_offset == 333


def small(dirty: int) -> FakeFileSystem:
    """Two segments of three batches each; cleaned below `dirty`."""
    system = FakeFileSystem()
    for base in (0, 3):
        data = b"".join(
            build_batch(
                [Record(0, 1_700_000_000_000 + n, b"k%d" % (n % 2), None if n % 2 else b"v")], base_offset=base + n
            )
            for n in range(3)
        )
        system.put(f"/data/t-0/{base:020d}.log", data)
    system.put("/data/cleaner-offset-checkpoint", b"0\n1\nt 0 %d\n" % dirty)
    return system


def test_a_pass_that_ended_in_the_middle_of_a_segment() -> None:
    log = examine(small(2), "/data/t-0")
    first, active = log.segments
    assert first.section is Section.CLEAN
    assert 0 < first.clean_size < first.totals.size
    assert log.sections[Section.CLEAN].records == 2
    assert log.sections[Section.DIRTY].records == 1
    assert log.ratio == pytest.approx((first.totals.size - first.clean_size) / first.totals.size)
    assert active.section is Section.ACTIVE
    assert (log.keys, log.keys_exact) == (2, True)
    assert first.totals.tombstones == 1


def test_a_broken_checkpoint_is_as_good_as_none() -> None:
    system = small(2)
    system.put("/data/cleaner-offset-checkpoint", b"what?")
    assert examine(system, "/data/t-0").first_dirty_offset is None


def test_damage_is_counted() -> None:
    system = small(0)
    path = f"/data/t-0/{3:020d}.log"
    whole = system.contents()[path]
    system.put(path, whole + b"\xff" * 33 + whole[:20])
    assert examine(system, "/data/t-0").unreadable == 53
    system.put(path, whole + bytes(1000))  # preallocated
    assert examine(system, "/data/t-0").unreadable == 0
    system.put(path, whole[:60] + b"\xff" + whole[61:])  # the record count
    assert examine(system, "/data/t-0").unreadable > 0


def test_old_formats() -> None:
    for name, log in old_logs().items():
        system = FakeFileSystem()
        system.put(f"/{name}-0/{0:020d}.log", log.data)
        anatomy = examine(system, f"/{name}-0")
        assert anatomy.sections[Section.ACTIVE].records == len(log.records), name
        assert anatomy.keys == len({record.key for record in log.records if record.key is not None})
        assert anatomy.unreadable == 0


def test_which_directories() -> None:
    system = small(0)
    system.put("/data/u-1.0123456789abcdef-delete/x", b"")
    system.put("/data/photos/x", b"")
    system.put("/data/__cluster_metadata-0/00000000000000000064-0000000001.checkpoint", b"")
    assert partitions_in(system, "/data/") == ["/data/t-0"]
    assert partitions_in(system, "/data/t-0") == ["/data/t-0"]
    for nothing in ("/data/photos", "/data/photos/x", "/nowhere"):
        with pytest.raises(StorageError, match=nothing):
            partitions_in(system, nothing)
    with pytest.raises(StorageError, match="not a partition's directory"):
        examine(system, "/data/photos")
