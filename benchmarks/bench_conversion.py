"""Message formats converted by the kernel and by its twin in plain Python, alone, without a broker around them.

    PYTHONPATH=tests .venv/bin/python benchmarks/bench_conversion.py [--markdown]

Microseconds of CPU a record, of the thread and of both sides in turn, best of several rounds: sets of 100-byte values with a
10-byte key, as a producer sends them (up) or a log holds them (down). The codec alone is measured beside them: its time is in
both. Then the longest time for which another thread could not run while one megabyte was converted.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

from bench_kernel import machine, text
from support import conversion_reference as twin
from tidelog.protocol.records import conversion
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.compression import compress, decompress
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.log import validator
from tidelog.storage.log.validator import AppendRules, TargetFormat

NOW = 1_700_000_000_000
RECORDS = 2000
LARGE = 10_000
VALUE_BYTES = 100
ROUNDS = 7
CODECS = (Compression.NONE, Compression.GZIP, Compression.LZ4)
RULES = AppendRules(0, 0, -1, False, 0, 1 << 62, 64 << 20)


class Case(NamedTuple):
    """One line: the same work by the kernel, by the twin, and what of it is the codec's."""

    name: str
    records: int
    kernel: Callable[[], Any]
    twin: Callable[[], Any]
    codec: Callable[[], Any] | None


def content(count: int) -> list[Record]:
    chance = random.Random(count)
    return [Record(n, NOW + n // 3, b"key%07d" % n, text(chance, VALUE_BYTES)) for n in range(count)]


def codec_work(codec: Compression, before: bytes, after: bytes | None) -> Callable[[], Any] | None:
    """What came is decompressed, what goes is compressed unless it goes as it came."""
    if codec is Compression.NONE:
        return None
    stream = compress(codec, before)
    if after is None:
        return lambda: decompress(codec, stream)
    return lambda: (decompress(codec, stream), compress(codec, after))


def plain(magic: int, records: list[Record]) -> bytes:
    """The records' bytes in a batch or a set, uncompressed."""
    return build_batch(records)[61:] if magic == 2 else build_legacy_set(records, magic=magic)


def cases(count: int = RECORDS) -> list[Case]:
    records = content(count)
    found = []
    for came, wanted in ((0, 2), (1, 2), (2, 1), (2, 0), (1, 1), (1, 0)):
        for codec in CODECS:
            if came <= wanted:
                data = build_legacy_set(records, magic=came, compression=codec)
                arguments: Any = (data, 0, len(data), TargetFormat(wanted, None), RULES)
                ours: Any = validator.validate_message_set
                twins: Any = twin.validate_message_set
                name = f"append of {came} to a topic of {wanted}"
            else:
                data = build_batch(records, compression=codec) if came == 2 else build_legacy_set(
                    records, magic=came, compression=codec
                )  # fmt: skip
                arguments = (data, wanted)
                ours, twins = conversion.down_convert, twin.down_convert
                name = f"fetch of {came} as {wanted}"
            work = codec_work(codec, plain(came, records), None if came == wanted else plain(wanted, records))
            found.append(
                Case(
                    f"{name}, {codec.name.lower()}",
                    count,
                    lambda call=ours, given=arguments: call(*given),
                    lambda call=twins, given=arguments: call(*given),
                    work,
                )
            )
    return found


def cpu_us(call: Callable[[], Any] | None, records: int) -> float:
    """CPU of one call by this thread, a record."""
    if call is None:
        return 0.0
    start = time.thread_time()
    call()
    return (time.thread_time() - start) * 1e6 / records


def longest_wait_us(call: Callable[[], Any]) -> float:
    """Longest time between two steps of a thread that counts while `call` runs, with the conversion thread's switch interval."""
    stop, counting = threading.Event(), threading.Event()
    longest = 0.0

    def count() -> None:
        nonlocal longest
        last = time.perf_counter()
        counting.set()
        while not stop.is_set():
            now = time.perf_counter()
            longest = max(longest, now - last)
            last = now

    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    watcher = threading.Thread(target=count)
    watcher.start()
    counting.wait()
    try:
        call()
    finally:
        stop.set()
        watcher.join()
        sys.setswitchinterval(before)
    return longest * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="a table for docs/benchmarks/conversion.md")
    options = parser.parse_args()
    line = "| {} | {} | {} | {} | {} |" if options.markdown else "{:<40} {:>8} {:>8} {:>8} {:>6}"
    print(f"{machine()}; {RECORDS} records, values of {VALUE_BYTES} bytes, us of CPU a record, best of {ROUNDS}\n")
    print(line.format("what", "kernel", "twin", "codec", "ratio"))
    if options.markdown:
        print("| --- | --- | --- | --- | --- |")
    for case in cases():
        assert case.kernel() == case.twin(), case.name
        best = [float("inf")] * 3
        for _ in range(ROUNDS):
            for side, call in enumerate((case.kernel, case.twin, case.codec)):
                best[side] = min(best[side], cpu_us(call, case.records))
        ratio = best[1] / best[0]
        print(line.format(case.name, f"{best[0]:.3f}", f"{best[1]:.2f}", f"{best[2]:.2f}", f"{ratio:.0f} x"))
    print(f"\n{LARGE} records at once, plain: longest wait of another thread, median of {ROUNDS}\n")
    for case in cases(LARGE):
        if case.name.endswith("none"):
            waits = [median(longest_wait_us(call) for _ in range(ROUNDS)) for call in (case.kernel, case.twin)]
            print(f"    {case.name:<40} kernel {waits[0]:>7.0f} us, twin {waits[1]:>7.0f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
