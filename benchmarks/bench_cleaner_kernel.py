"""The cleaner's two passes by the compiled kernel against its pure-Python twin, in memory, without a log around them.

    .venv/bin/python benchmarks/bench_cleaner_kernel.py [--markdown]

One thread, chunks of 4 MiB, a map of 128 MiB. Each figure is the best of several rounds; the twin gets a small part of the
same batches, since its speed does not depend on how many there are. The output of both over that part is compared, byte for
byte. MB/s are bytes on disk, 10⁶; records are what came in.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from bench_kernel import machine, text

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support import cleaner_reference as reference
from tidelog.cleaner.kernel import _kernel as kernel
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record, iterate_batches

NOW = 1_700_000_000_000
DAY = 86_400_000
CHUNK_BYTES = 4 << 20
MAP_BYTES = 128 << 20
ROUNDS = 5
TWIN_BYTES = 1 << 20


class Case(NamedTuple):
    """Attributes: `records`: how many; `size`: bytes of each before compression; `keys`: how many to choose from."""

    name: str
    records: int
    size: int
    keys: int
    compression: Compression
    batch: int


CASES = [
    Case("100 B, none, 1 M keys", 2_000_000, 100, 1_000_000, Compression.NONE, 500),
    Case("100 B, none, 100 k keys", 1_000_000, 100, 100_000, Compression.NONE, 500),
    Case("100 B, none, one record a batch", 300_000, 100, 100_000, Compression.NONE, 1),
    Case("1 KiB, lz4, 20 k keys", 100_000, 1024, 20_000, Compression.LZ4, 16),
    Case("1 KiB, lz4, few keys repeat", 100_000, 1024, 1_000_000, Compression.LZ4, 16),
    Case("1 KiB, zstd, 20 k keys", 50_000, 1024, 20_000, Compression.ZSTD, 16),
    Case("1 KiB, snappy, 20 k keys", 50_000, 1024, 20_000, Compression.SNAPPY, 16),
    Case("1 KiB, gzip, 20 k keys", 20_000, 1024, 20_000, Compression.GZIP, 16),
]


def log_of(case: Case) -> bytes:
    """The batches, end to end."""
    chance = random.Random(case.name)
    values = [
        text(chance, case.size - 28) if case.compression else chance.randbytes(case.size - 28) for _ in range(256)
    ]
    out = bytearray()
    for offset in range(0, case.records, case.batch):
        records = [
            Record(0, NOW + offset // 100, b"key-%012d" % chance.randrange(case.keys), chance.choice(values))
            for _ in range(case.batch)
        ]
        out += build_batch(records, base_offset=offset, compression=case.compression)
    return bytes(out)


def passes(module: ModuleType, data: bytes, end_offset: int, map_: object) -> tuple[float, float, int, int, bytes]:
    """(seconds of pass 1, of pass 2, records in, records kept, the last chunk's survivors)."""
    assert isinstance(map_, kernel.OffsetMap | reference.OffsetMap)
    map_.reset(random.randbytes(16))
    transactions = module.Transactions()
    output = bytearray(2 * CHUNK_BYTES)
    begin = time.perf_counter()
    position = 0
    while position < len(data):
        step = map_.build(data, position, min(len(data), position + CHUNK_BYTES), 0, end_offset, transactions)
        position += step.consumed
    middle = time.perf_counter()
    record_filter = module.RecordFilter(map_, end_offset, transactions, NOW, DAY)
    position = 0
    while position < len(data):
        step = record_filter.filter(data, position, min(len(data), position + CHUNK_BYTES), output)
        position += step.consumed
    end = time.perf_counter()
    counts = record_filter.counts()
    return middle - begin, end - middle, counts.records_read, counts.records_kept, bytes(output[: step.produced])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    markdown = parser.parse_args().markdown
    print(machine())
    print(f"codecs without the GIL: {', '.join(sorted(Compression(n).name.lower() for n in kernel.native_codecs()))}\n")
    if markdown:
        print("| what | kept | build MB/s (M rec/s) | filter MB/s (M rec/s) | both MB/s | twin MB/s | ratio |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    ours_map, twins_map = kernel.OffsetMap(MAP_BYTES), reference.OffsetMap(MAP_BYTES)
    for case in CASES:
        data = log_of(case)
        part = data[: next(h.position for h in iterate_batches(data) if h.position >= min(len(data) // 2, TWIN_BYTES))]
        build_s = filter_s = float("inf")
        for _ in range(ROUNDS):
            build_now, filter_now, came, kept, _ = passes(kernel, data, case.records, ours_map)
            build_s, filter_s = min(build_s, build_now), min(filter_s, filter_now)
        twin_build, twin_filter, _, _, twin_bytes = passes(reference, part, case.records, twins_map)
        assert passes(kernel, part, case.records, ours_map)[4] == twin_bytes, "kernel and twin differ"
        assert came == case.records
        size = len(data) / 1e6
        both, twin = size / (build_s + filter_s), len(part) / 1e6 / (twin_build + twin_filter)
        cells = [
            case.name,
            f"{kept / came:.0%}",
            f"{size / build_s:,.0f} ({came / build_s / 1e6:.2f})",
            f"{size / filter_s:,.0f} ({came / filter_s / 1e6:.2f})",
            f"{both:,.0f}",
            f"{twin:,.1f}",
            f"{both / twin:,.0f}",
        ]
        if markdown:
            print("| " + " | ".join(cells) + " |", flush=True)
        else:
            name, *figures = cells
            print(f"{name:36}" + "".join(f"{cell:>16}" for cell in figures), flush=True)


if __name__ == "__main__":
    main()
