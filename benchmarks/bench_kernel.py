"""The compiled kernel against its pure-Python twin, alone, without a broker around it.

    .venv/bin/python benchmarks/bench_kernel.py [--markdown]

One thread, data in cache. Each figure is the best of several rounds in which kernel and twin take turns, so that a busy
machine disturbs both alike. Every validation starts from the batch as a client sent it; every scan is a whole segment.
"""

from __future__ import annotations

import argparse
import platform
import random
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support import records_reference as reference
from tidelog.protocol.records import _kernel as kernel
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.crc import crc32c
from tidelog.protocol.records.record_batch import Record, iterate_records

NOW = 1_700_000_000_000
BATCH_BYTES = 64 * 1024
SEGMENT_BYTES = 8 << 20
CHUNK_BYTES = 1 << 20
ROUNDS = 5
ROUND_SECONDS = 0.15
WORDS = b"flight tail carrier origin dest delay hour minute weather log offset batch".split()


class Case(NamedTuple):
    """One line of the table: the same work by the kernel and by its twin."""

    name: str
    size: int  # bytes that one call works through
    unit: str  # "us" for time a call, "GB/s" for throughput
    kernel: Callable[[], Any]
    twin: Callable[[], Any]


def text(chance: random.Random, size: int) -> bytes:
    """`size` bytes that compress about as well as JSON events do."""
    out = b""
    while len(out) < size:
        out += chance.choice(WORDS) + b":%d " % chance.randrange(10_000)
    return out[:size]


def batch_of(record_size: int, compression: Compression = Compression.NONE, size: int = BATCH_BYTES) -> bytes:
    """One batch of records that take `record_size` bytes each, uncompressed about `size` in all."""
    chance = random.Random(record_size)
    count = max(1, size // record_size)
    records = [Record(n, NOW + n // 3, b"key%05d" % n, text(chance, record_size - 17)) for n in range(count)]
    return build_batch(records, compression=compression)


def validating(name: str, batch: bytes, unit: str) -> Case:
    end = len(batch)

    def by(function: Callable[..., Any]) -> Callable[[], Any]:
        buffer = bytearray(batch)
        fresh = bytes(batch[:8])

        def call() -> Any:
            buffer[0:8] = fresh  # the last call assigned an offset
            return function(buffer, 0, end, 1000, 0, -1, False)

        return call

    return Case(name, end, unit, by(kernel.validate_and_assign), by(reference.validate_and_assign))


def scanning(name: str, batch: bytes) -> Case:
    count = kernel.read_header(batch, 0, len(batch)).record_count
    segment = bytearray()
    offset = 0
    while len(segment) < SEGMENT_BYTES:
        segment += batch
        struct.pack_into(">q", segment, len(segment) - len(batch), offset)
        offset += count
    size = len(segment)

    def by(scanner_class: Callable[..., Any], limit: int) -> Callable[[], Any]:
        def call() -> Any:
            scanner = scanner_class(4096, 0)
            position = 0
            while position < limit:
                taken = scanner.feed(segment, position, min(limit, position + CHUNK_BYTES), position)
                scanner.stateful_batches.clear()
                position += taken
                if not taken:
                    break
            assert scanner.stopped is None
            assert limit - position < len(batch)

        return call

    # The twin is given a 64th of it: its speed does not depend on the length.
    return Case(name, size, "GB/s", by(kernel.BatchScanner, size), by(reference.BatchScanner, size // 64))


def cases() -> list[Case]:
    one = build_batch([Record(0, NOW, b"key00001", text(random.Random(1), 83))])
    idempotent = build_batch(
        [Record(0, NOW, b"key00001", text(random.Random(1), 83))], producer_id=1, producer_epoch=0, base_sequence=0
    )
    noise = random.Random(2).randbytes(1 << 20)
    hundred, thousand = batch_of(100), batch_of(1024)
    return [
        validating("validate, one 100-byte record", one, "us"),
        validating("validate, 64 KiB of 100-byte records", hundred, "GB/s"),
        validating("validate, 64 KiB of 1 KiB records", thousand, "GB/s"),
        *(
            validating(f"validate, {codec.name.lower()}, 64 KiB of 100-byte records", batch_of(100, codec), "us")
            for codec in (Compression.LZ4, Compression.ZSTD, Compression.SNAPPY, Compression.GZIP)
        ),
        scanning("scan, 64 KiB batches", hundred),
        scanning("scan, batches of one 100-byte record", one),
        scanning("scan, the same from an idempotent producer", idempotent),
        Case(
            "read a batch header",
            61,
            "us",
            lambda: kernel.read_header(one, 0, len(one)),
            lambda: reference.read_header(one, 0, len(one)),
        ),
        Case(
            "find a record by time, 64 KiB of 100-byte records",
            len(hundred),
            "us",
            lambda: kernel.find_timestamp(hundred, 0, len(hundred), NOW + 200),
            lambda: reference.find_timestamp(hundred, 0, len(hundred), NOW + 200),
        ),
        Case(
            "decode 64 KiB of 100-byte records",
            len(hundred),
            "us",
            lambda: kernel.decode_records(hundred, 0, len(hundred)),
            lambda: list(iterate_records(hundred, 0, len(hundred))),
        ),
        Case("CRC-32C, 100 bytes", 100, "us", lambda: kernel.crc32c(one[:100]), lambda: crc32c(one[:100])),
        Case("CRC-32C, 64 KiB", BATCH_BYTES, "GB/s", by_crc(kernel.crc32c, noise), by_crc(crc32c, noise)),
    ]


def by_crc(function: Callable[[bytes], int], noise: bytes) -> Callable[[], int]:
    data = noise[:BATCH_BYTES]
    return lambda: function(data)


def seconds_a_call(function: Callable[[], Any], seconds: float) -> float:
    """Mean over as many calls as fit `seconds`, at least one."""
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            function()
        passed = time.perf_counter() - start
        if passed >= seconds / 4:
            return passed / calls
        calls *= 4


def measure(case: Case) -> tuple[float, float]:
    """Best seconds a call of (kernel, twin), in turns."""
    case.kernel()
    case.twin()
    best = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for index, function in enumerate((case.kernel, case.twin)):
            best[index] = min(best[index], seconds_a_call(function, ROUND_SECONDS))
    return best[0], best[1]


def shown(case: Case, seconds: float, size: int) -> str:
    return f"{seconds * 1e6:,.2f} µs" if case.unit == "us" else f"{size / seconds / 1e9:,.3g} GB/s"


def machine() -> str:
    """Processor and software, as far as they matter here."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    root = Path(__file__).resolve().parent.parent
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True, check=False
    )
    version = commit.stdout.strip() or "unknown"
    return f"{model}, {platform.system()} {platform.machine()}, Python {platform.python_version()}, commit {version}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    markdown = parser.parse_args().markdown
    print(machine())
    if markdown:
        print("\n| what | pure Python | kernel | ratio |\n| --- | ---: | ---: | ---: |")
    for case in cases():
        ours, twins = measure(case)
        twin_size = case.size // 64 if case.name.startswith("scan") else case.size
        ratio = (twins / twin_size) / (ours / case.size)
        ours_shown, twins_shown = shown(case, ours, case.size), shown(case, twins, twin_size)
        if case.name.startswith("CRC"):
            twins_shown += " (crc32c package)"
        if markdown:
            print(f"| {case.name} | {twins_shown} | {ours_shown} | {ratio:,.3g} |", flush=True)
        else:
            print(f"{case.name:50}  {twins_shown:>28}  {ours_shown:>14}  x {ratio:,.3g}", flush=True)


if __name__ == "__main__":
    main()
