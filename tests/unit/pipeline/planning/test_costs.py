"""What planning asks of a disk, counted: a plan costs what it has splits, a trigger what has changed. Times would swing."""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.segment_dirs import write_checkpoint, write_log
from tidelog.pipeline.options import parse_options
from tidelog.pipeline.planning.batch_plan import plan_batch
from tidelog.pipeline.planning.log_directory import LogDirectories
from tidelog.pipeline.planning.splits import LOOK_UP, Split, SplitSize, plan
from tidelog.pipeline.planning.stream_plan import Position, StreamPlan
from tidelog.pipeline.reading.segment_files import SegmentFile, list_segments
from tidelog.pipeline.reading.segment_reader import read_split
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import RECORD_BATCH_OVERHEAD, Record

PARTITIONS = 40
MIB = 1 << 20


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Calls of the operating system, by name; with opens by file name, and the bytes of preads."""
    counts: Counter[str] = Counter()
    with monkeypatch.context() as patch:
        for name in ("open", "pread", "preadv", "stat", "scandir"):
            real = getattr(os, name)

            def call(*arguments: Any, _real: Any = real, _name: str = name, **named: Any) -> Any:
                counts[_name] += 1
                if _name == "open":
                    counts[f"open {Path(os.fspath(arguments[0])).name}"] += 1
                result = _real(*arguments, **named)
                if _name == "pread":
                    counts["bytes"] += len(result)
                elif _name == "preadv":
                    counts["bytes"] += result
                return result

            patch.setattr(os, name, call)
        yield counts


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """40 partitions with three segments of ten batches, in directories that have not changed for a minute."""
    batches = [build_batch([Record(0, 1, b"k", bytes(200))], base_offset=offset) for offset in range(30)]
    for number in range(PARTITIONS):
        directory = tmp_path / f"t-{number}"
        write_log(directory, [batches[:10], batches[10:20], batches[20:]])
        settle(directory)
    write_checkpoint(tmp_path / "replication-offset-checkpoint", {("t", number): 30 for number in range(PARTITIONS)})
    write_checkpoint(tmp_path / "log-start-offset-checkpoint", {("t", 0): 1})
    return tmp_path


def settle(directory: Path) -> None:
    then = directory.stat().st_mtime - 60
    os.utime(directory, (then, then))


def options(home: Path, **more: str) -> Any:
    return parse_options({"path": str(home), "subscribe": "t", **more})


def test_each_checkpoint_is_read_once_for_all_partitions(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with counted(monkeypatch) as counts:
        plan_batch(options(home))
    assert counts["open replication-offset-checkpoint"] == 1
    assert counts["open log-start-offset-checkpoint"] == 1


def test_whole_partitions_are_planned_without_opening_a_segment_or_an_index(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counted(monkeypatch) as counts:
        assert len(plan_batch(options(home))) == PARTITIONS
    assert not [name for name in counts if name.endswith((".log", ".index"))]
    assert counts["scandir"] <= 2 * PARTITIONS + 2, "two looks at each partition, which is what a swap takes to be seen"


def test_a_trigger_looks_at_what_has_changed_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = StreamPlan(options(home), place=LogDirectories([str(home)]))
    start = plan.available()
    offsets = dict.fromkeys(start.offsets, 25)
    plan.splits(Position(offsets, {}), plan.next(Position(offsets, {})))
    with counted(monkeypatch) as counts:
        splits = plan.splits(Position(offsets, {}), plan.next(Position(offsets, {})))
    assert [(split.first_offset, split.end_offset) for split in splits] == [(25, 30)] * PARTITIONS
    opened = {name for name in counts if name.startswith("open ")}
    assert opened == {"open meta.properties"}, "checkpoints are known, and the splits' places are looked up by tasks"
    assert counts["scandir"] == 2, "the data directory, for new partitions and for those that are gone"
    # Of each partition its directory and its last segment, thrice, and twice a topic's id that is not there; two checkpoints.
    assert counts["stat"] <= (3 * 2 + 2) * PARTITIONS + 10
    batch = build_batch([Record(0, 1, b"k", b"v")], base_offset=30)
    write_log(home / "t-7", [[batch]])
    write_checkpoint(home / "replication-offset-checkpoint", {("t", number): 31 for number in range(PARTITIONS)})
    with counted(monkeypatch) as counts:
        plan.next(Position(offsets, {}))
    assert counts["open replication-offset-checkpoint"] == 1
    assert counts["scandir"] == 3, "and the directory that has changed, twice"


def large(directory: Path, base: int, count: int, interval: int = 4096) -> SegmentFile:
    """A segment of holes: an index entry each `interval` bytes, every one right, and no record."""
    directory.mkdir(exist_ok=True)
    header = bytearray(build_batch([Record(0, 1, None, b"v")], base_offset=0)[:RECORD_BATCH_OVERHEAD])
    struct.pack_into(">i", header, 8, interval - 12)
    path = directory / f"{base:020d}.log"
    with path.open("wb") as file:
        file.truncate(count * interval)
        for at in range(count):
            struct.pack_into(">q", header, 0, base + at)
            file.seek(at * interval)
            file.write(header)
    entries = b"".join(struct.pack(">ii", at, at * interval) for at in range(1, count))
    (directory / f"{base:020d}.index").write_bytes(entries + bytes(len(entries)))
    return next(segment for segment in list_segments(directory) if segment.base_offset == base)


def test_an_index_is_searched_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten splits in a segment of 20,000 entries, whose index has as much room reserved behind them."""
    segment = large(tmp_path / "t-0", 0, 20_000, interval=256)
    index_bytes = 2 * 8 * 19_999
    with counted(monkeypatch) as counts:
        splits = plan("t", 0, [segment], 0, 20_000, segment.size // 10)
    assert [split.first_offset for split in splits] == [2000 * part for part in range(10)]
    assert [split.position for split in splits] == [2000 * 256 * part for part in range(10)]
    assert counts["pread"] <= 10 * 12, "some pages and a header for each"
    assert counts["bytes"] < index_bytes
    with counted(monkeypatch) as counts:
        assert len(plan("t", 0, [segment], 19_000, 20_000, segment.size // 10)) == 1
    assert counts["bytes"] <= 2 * 8 * 4096, "what lies below the range is passed over"


def test_a_segments_start_serves_as_a_boundary_without_its_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = [large(tmp_path / "t-0", 100 * number, 100, interval=256) for number in range(6)]
    with counted(monkeypatch) as counts:
        splits = plan("t", 0, segments, 0, 600, segments[0].size * 2)
    assert [split.first_offset for split in splits] == [0, 200, 400]
    assert counts["open"] <= 1, "that of the end, whose index says where it lies"


def test_a_task_reads_its_part_of_a_segment_and_not_what_lies_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream's trigger has the last records of the active segment, and once read the segment from its start for them."""
    batches = [build_batch([Record(0, 1, b"k", bytes(1000))], base_offset=offset) for offset in range(12_000)]
    write_log(tmp_path / "t-0", [batches], index_interval=4096)
    (segment,) = list_segments(tmp_path / "t-0")
    (split,) = plan("t", 0, [segment], 11_990, 12_000)
    assert isinstance(split, Split)
    assert split.position == LOOK_UP
    with counted(monkeypatch) as counts:
        assert sum(columns.rows for columns in read_split(split)) == 10
    assert counts["bytes"] < segment.size // 100


@pytest.mark.parametrize(
    ("size", "total", "expected"),
    [
        (SplitSize(fixed=5), 10_000, 5),
        (SplitSize(fixed=5, cores=64), 10_000, 5),
        (SplitSize(), 1000 * MIB, 64 * MIB),
        (SplitSize(), 10_000 * 1024 * MIB, 1024 * MIB),
        (SplitSize(cores=5000), 20_000 * 64 * MIB, 64 * MIB),
        (SplitSize(cores=4), 160 * MIB, 20 * MIB),
        (SplitSize(cores=4), 8 * MIB, 4 * MIB),
        (SplitSize(least_tasks=100), 1000 * MIB, 10 * MIB),
        (SplitSize(least_tasks=100), 10, 1),
        (SplitSize(least_tasks=2), 1000 * MIB, 64 * MIB),
    ],
    ids=["the user's", "whatever the cluster", "by default", "ten terabytes", "many cores, many tasks", "all cores work",
         "but not for crumbs", "minPartitions", "a byte at least", "enough as it is"],
)  # fmt: skip
def test_splits_suit_data_and_cluster(size: SplitSize, total: int, expected: int) -> None:
    assert size.bytes_for(total) == expected
