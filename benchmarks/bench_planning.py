"""CPU and memory of planning: a batch of many segments, the look of a stream's trigger, ten terabytes. No Spark, no daemon.

    .venv/bin/python benchmarks/bench_planning.py                 # 10,000 segments of 1 GiB in 1,000 partitions
    .venv/bin/python benchmarks/bench_planning.py --segments 1000 --partitions 100 --segment-mib 64
    OTHER/.venv/bin/python benchmarks/bench_planning.py --headers-mib 16 --segments 200 --partitions 20 --segment-mib 256

Logs are holes with headers where a split of 64 MiB begins (`--headers-mib 16`: where planning before ADR 75 looked, too); all
segments share one index file by hard links, as large as a real one (an entry each 4 KiB). So 10 TB of log take some hundred MB of
disk. CPU is this process's, its system time included, the least of the rounds. A trigger is what a stream asks for one: how far
to go, and the splits of the last hundredth of each partition.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tidelog.pipeline.options import parse_options
from tidelog.pipeline.planning.batch_plan import plan_batch
from tidelog.pipeline.planning.places import open_place
from tidelog.pipeline.planning.stream_plan import Position, StreamPlan
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import RECORD_BATCH_OVERHEAD, Record

INTERVAL = 4096
PER_BATCH = 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=10_000, help="of all partitions together")
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--segment-mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--headers-mib", type=int, default=64, help="a header in each so many MiB")
    parser.add_argument("--split-bytes", type=int, help="splitBytes; without it as the source chooses")
    parser.add_argument("--directory", type=Path, help="where the sparse files go")
    given = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="bench-planning-", dir=given.directory))
    try:
        each = given.segments // given.partitions
        offsets = make(home, given.partitions, each, given.segment_mib << 20, given.headers_mib << 20)
        measure(home, given, offsets)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return 0


def make(home: Path, partitions: int, segments: int, size: int, headers: int) -> int:
    """The directory; returns the number of offsets of each segment."""
    count = size // INTERVAL
    index = home / "index"
    index.write_bytes(
        b"".join(struct.pack(">ii", at * PER_BATCH + PER_BATCH - 1, at * INTERVAL) for at in range(1, count))
    )
    offsets = count * PER_BATCH
    records = [Record(at, 1, None, b"v") for at in range(PER_BATCH)]
    header = bytearray(build_batch(records, base_offset=0)[:RECORD_BATCH_OVERHEAD])
    struct.pack_into(">i", header, 8, INTERVAL - 12)
    then = time.time() - 60  # settled: a directory that changed just now is looked at again
    for partition in range(partitions):
        directory = home / f"t-{partition}"
        directory.mkdir()
        for number in range(segments):
            base = number * offsets
            file = os.open(directory / f"{base:020d}.log", os.O_CREAT | os.O_WRONLY)
            os.ftruncate(file, size)
            for position in range(0, size, headers):
                struct.pack_into(">q", header, 0, base + position // INTERVAL * PER_BATCH)
                os.pwrite(file, header, position)
            os.close(file)
            os.link(index, directory / f"{base:020d}.index")
            for suffix in ("timeindex", "snapshot"):
                (directory / f"{base:020d}.{suffix}").touch()
        os.utime(directory, (then, then))
    lines = [f"t {partition} {segments * offsets}" for partition in range(partitions)]
    (home / "replication-offset-checkpoint").write_text("\n".join(["0", str(partitions), *lines, ""]))
    return offsets


def measure(home: Path, given: argparse.Namespace, offsets: int) -> None:
    said = {} if given.split_bytes is None else {"splitBytes": str(given.split_bytes)}
    options = parse_options({"path": str(home), "subscribe": "t", **said})
    splits: list[object] = []

    def batch() -> None:
        splits[:] = plan_batch(options)

    total = given.segments * given.segment_mib / 1024
    print(f"{given.segments:,} segments, {given.partitions:,} partitions, {total:,.0f} GiB; {given.rounds} rounds")
    print(f"batch: {least(batch, given.rounds):.3f} s of CPU, {len(splits):,} splits")
    with open_place(options) as place:
        plan = StreamPlan(options, place=place)
        end = plan.available()
        start = Position({where: offset - offsets // 100 for where, offset in end.offsets.items()}, end.topic_ids)

        def trigger() -> None:
            splits[:] = plan.splits(start, plan.next(start))

        trigger()
        print(f"trigger: {least(trigger, given.rounds):.3f} s of CPU, {len(splits):,} splits")
    print(f"largest memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


def least(work: Callable[[], None], rounds: int) -> float:
    found = []
    for _ in range(rounds):
        before = time.process_time()
        work()
        found.append(time.process_time() - before)
    return min(found)


if __name__ == "__main__":
    sys.exit(main())
